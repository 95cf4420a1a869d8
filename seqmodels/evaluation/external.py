"""Score the translations of other systems by BLEU and chrF, by source length. No torch.

Every file holds one sentence per line. Translations are scored as they are: subword marks or tokens
must be joined beforehand. The scores, and the test between systems, are sacreBLEU's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest, Result

from seqmodels.data.scripts import count_words, unit_of
from seqmodels.data.text import read_lines, sha256
from seqmodels.evaluation import intervals, metrics
from seqmodels.utils.terminal import printable


class Text(NamedTuple):
    """A text file."""

    path: Path
    lines: list[str]

    def facts(self) -> dict[str, str | int]:
        """Return the file's path and checksum, and the number of its blank lines."""
        about = {"file": printable(str(self.path)), "sha256": sha256(self.lines)}
        return {**about, "n_blank": sum(not line.strip() for line in self.lines)}


def read_files(paths: Sequence[Path]) -> list[Text]:
    """Return the text of each file.

    Raises ValueError for a file that is not text, and if the numbers of lines differ.
    """
    first, *others = [Text(path, read_lines(path)) for path in paths]
    for text in others:
        if len(text.lines) != len(first.lines):
            raise ValueError(
                f"{first.path} has {len(first.lines):,} lines and {text.path} has "
                f"{len(text.lines):,}; line n of one must belong to line n of the other"
            )
    return [first, *others]


def name_systems(paths: Sequence[Path]) -> list[str]:
    """Name systems by their files, with folders and endings if two would have the same name."""
    names = [path.stem for path in paths]
    return [*map(printable, names if len(set(names)) == len(names) else map(str, paths))]


def score_translations(
    src: Text,
    refs: Sequence[Text],
    systems: Sequence[Text],
    tokenize: str,
    is_lowercase: bool,
    ends: Sequence[int],
) -> dict[str, Any]:
    """Score all systems against all references, overall and by source words.

    A bucket ends at each of `ends`; another one has all longer sources. Differences are from the
    first system. Raises ValueError for a source without words, and for a tokenizer that sacreBLEU
    does not have here.
    """
    if not any(lengths := [*map(count_words, src.lines)]):
        raise ValueError(f"{src.path} has no words; scores are by the number of source words")
    metrics.check_tokenizer(tokenize, "--tokenize")
    scorers = metrics.sacrebleu_metrics(tokenize, is_lowercase)
    references = [ref.lines for ref in refs]
    longer = [max(lengths)] if max(lengths) > ends[-1] else []
    buckets = [(low + 1, high) for low, high in pairwise([0, *ends, *longer])]
    all_counts, entries = [], []
    for text, name in zip(systems, name_systems([text.path for text in systems]), strict=True):
        counts = {
            key: metrics.sacrebleu_counts(scorer, text.lines, references)
            for key, scorer in scorers.items()
        }
        all_counts.append(counts)
        n_tokenized = sum(line.endswith(" .") for line in text.lines)
        about = {"name": name, **text.facts(), "n_tokenized": n_tokenized}
        entries.append(about | score_counts(counts, lengths, buckets))
    paired = dict[str, str]()
    if len(systems) > 1:
        paired, differences = compare_with_first(scorers, systems, references, all_counts)
        for entry, difference in zip(entries[1:], differences, strict=True):
            entry["against_first"] = difference
    return {
        "schema": "seqmodels.score/3",
        "n": len(lengths),
        "unit": unit_of(src.lines),
        "src": src.facts(),
        "refs": [ref.facts() for ref in refs],
        "n_bootstrap": intervals.N_BOOTSTRAP,
        "signatures": {key: str(scorer.get_signature()) for key, scorer in scorers.items()},
        "paired_signatures": paired,
        "systems": entries,
    }


def score_counts(
    counts: Mapping[str, np.ndarray], lengths: Sequence[int], buckets: Sequence[tuple[int, int]]
) -> dict[str, object]:
    """Return the scores of a system's lines, by their counts, overall and by bucket."""

    def score(indices: np.ndarray) -> dict[str, intervals.Interval | float]:
        scores = {key: metrics.METRICS[key].score(each[indices]) for key, each in counts.items()}
        n_hyp, n_ref = counts["bleu"][indices, :2].sum(0)
        return {**scores, "length_ratio": float(n_hyp / n_ref) if n_ref else 0.0}

    return {
        "overall": {"n": len(lengths), **score(np.arange(len(lengths)))},
        "buckets": metrics.map_buckets(lengths, buckets, score),
    }


def compare_with_first(
    scorers: Mapping[str, BLEU | CHRF],
    systems: Sequence[Text],
    references: Sequence[Sequence[str]],
    counts_by_system: Sequence[Mapping[str, np.ndarray]],
) -> tuple[dict[str, str], list[dict[str, dict[str, float | None]]]]:
    """Return the signatures of sacreBLEU's paired bootstrap, and each other system's differences.

    Each has a p, which is None if all counts are equal: the test would call that significant.
    """
    named = [(str(i), text.lines) for i, text in enumerate(systems)]
    test = PairedTest([*named], {**scorers}, references, "bs", intervals.N_BOOTSTRAP)
    signatures, columns = test()
    entries = [dict[str, dict[str, float | None]]() for _ in systems[1:]]
    for key, name in zip(scorers, signatures, strict=True):
        first, *others = (result for result in columns[name] if isinstance(result, Result))
        for entry, counts, other in zip(entries, counts_by_system[1:], others, strict=True):
            is_same = np.array_equal(counts[key], counts_by_system[0][key])
            difference = float(other.score - first.score)
            entry[key] = {"difference": difference, "p": None if is_same else other.p_value}
    return dict(zip(scorers, map(str, signatures.values()), strict=True)), entries

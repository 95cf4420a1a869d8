"""Score translations of other systems: BLEU and chrF, overall and by source length, and compare.

Every file holds one sentence per line and is scored as is: subword marks or tokens must be joined
beforehand. All scores, and the significance test between systems, are sacreBLEU's. No torch.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from sacrebleu.significance import PairedTest

from seqmodels.data import readers
from seqmodels.evaluation import intervals
from seqmodels.evaluation.metrics import (
    METRICS,
    by_bucket,
    check_tokenizer,
    sacrebleu_counts,
    sacrebleu_metrics,
)
from seqmodels.utils.terminal import printable

SCHEMA = "seqmodels.score/2"

MAX_LINES = 20_000
"""Most lines on which systems are compared: the test holds all resamples, 80 kB per line."""

Result = dict[str, Any]
"""What is written as JSON."""


# ------------------------------------------------------------------------------------- Reading


class Text(NamedTuple):
    """One file."""

    path: Path
    lines: list[str]

    def facts(self) -> dict[str, Any]:
        """Return the file's path and checksum, and the number of its blank lines."""
        n_blank = sum(not line.strip() for line in self.lines)
        sha256 = readers.sha256(self.lines)
        return {"file": printable(str(self.path)), "sha256": sha256, "n_blank": n_blank}

    def lengths(self) -> list[int]:
        """Return the number of words of each line."""
        return [len(line.split()) for line in self.lines]


def read(src: Path, ref: Path, hyps: Sequence[Path]) -> list[Text]:
    """Return the source, the reference and each system's text.

    Raises ValueError for a file that cannot be read or is given twice, and if the numbers of lines
    differ.
    """
    src_text, ref_text, *systems = read_files((src, ref, *hyps))
    for text in (src_text, *systems):
        check_lines(ref_text, text, "must translate")
    if not any(src_text.lengths()):
        raise ValueError(f"{src} has no words; scores are grouped by the number of source words")
    if len(hyps) > 1 and (n := len(ref_text.lines)) > MAX_LINES:
        raise ValueError(
            f"{ref} has {n:,} lines; systems are compared on at most {MAX_LINES:,}: "
            "score one system at a time"
        )
    return [src_text, ref_text, *systems]


def read_files(paths: Sequence[Path]) -> list[Text]:
    """Return the text of each file. A pipe is read once.

    Raises ValueError for a file that is not text, and for a file given twice.
    """
    for one, other in combinations(paths, 2):
        with suppress(OSError):  # files that cannot be read are named below
            if one.samefile(other):
                raise ValueError(f"{one} and {other} are the same file; give each file once")
    return [Text(path, readers.read_lines(path, takes_pipe=True)) for path in paths]


def check_lines(one: Text, other: Text, verb: str) -> None:
    """Raise ValueError unless two texts have the same number of lines."""
    if len(other.lines) != len(one.lines):
        raise ValueError(
            f"{one.path} has {len(one.lines):,} lines and {other.path} has {len(other.lines):,}; "
            f"line n of one {verb} line n of the other"
        )


def names_of(paths: Sequence[Path]) -> list[str]:
    """Name systems by their files, without a common ending.

    If two files have the same name, their folders distinguish them.
    """
    names = [path.name for path in paths]
    if len(set(names)) < len(names):
        absolute = [os.path.abspath(path) for path in paths]
        names = [os.path.relpath(path, os.path.commonpath(absolute)) for path in absolute]
    for dot in re.finditer(r"[./]", names[0]) if len(names) > 1 else ():
        ending = names[0][dot.start() :]
        if all(name.endswith(ending) and name != ending for name in names):
            names = [name.removesuffix(ending) for name in names]
            break
    return [printable(name) for name in names]


# ------------------------------------------------------------------------------------- Scoring


def score(texts: Sequence[Text], tokenize: str, is_lowercase: bool, ends: Sequence[int]) -> Result:
    """Score all systems in `texts` (see read), in buckets of source words with these ends.

    Differences are from the first system. Raises ValueError for a tokenizer that sacreBLEU does not
    have, or that does not work here.
    """
    src, ref, *systems = texts
    check_tokenizer(tokenize, "--tokenize")
    metrics = sacrebleu_metrics(tokenize, is_lowercase, [ref.lines])
    lengths = src.lengths()
    counted, entries = [], []
    for text, name in zip(systems, names_of([text.path for text in systems]), strict=True):
        counts = {k: sacrebleu_counts(metric, text.lines, None) for k, metric in metrics.items()}
        n_tokenized = sum(line.endswith(" .") for line in text.lines)
        parts = scores_of(counts, lengths, ends)
        counted.append(counts)
        entries.append({"name": name, **text.facts(), "n_tokenized": n_tokenized, **parts})
    paired = {}
    for key, metric in metrics.items() if len(systems) > 1 else ():
        paired[key], differences = against_first(metric, [counts[key] for counts in counted])
        for entry, difference in zip(entries[1:], differences, strict=True):
            entry.setdefault("against_first", {})[key] = difference
    return {
        "schema": SCHEMA,
        "n": len(lengths),
        "src": src.facts(),
        "ref": ref.facts(),
        "n_bootstrap": intervals.N_BOOTSTRAP,
        "signatures": {key: str(metric.get_signature()) for key, metric in metrics.items()},
        "paired_signatures": paired,
        "systems": entries,
    }


def scores_of(
    counts: Mapping[str, np.ndarray], lengths: Sequence[int], ends: Sequence[int]
) -> dict[str, Any]:
    """Return one system's scores and length ratios, overall and by bucket."""

    def score_part(places: np.ndarray) -> dict[str, Any]:
        scores = {key: METRICS[key].score(of_system[places]) for key, of_system in counts.items()}
        n_hyp, n_ref = counts["bleu"][places, :2].sum(0)
        return {**scores, "length_ratio": float(n_hyp / n_ref) if n_ref else 0.0}

    overall = {"n": len(lengths), **score_part(np.arange(len(lengths)))}
    return {
        "overall": overall,
        "buckets": by_bucket(lengths, buckets_of(lengths, ends), score_part),
    }


def buckets_of(lengths: Sequence[int], ends: Sequence[int]) -> list[tuple[int, int]]:
    """Return the buckets with these ends, starting at 1, and one for all longer sources."""
    longer = [max(lengths)] if max(lengths) > ends[-1] else []
    return [(low + 1, high) for low, high in pairwise([0, *ends, *longer])]


def against_first(
    metric: Any, counted: Sequence[np.ndarray]
) -> tuple[str, list[dict[str, float | None]]]:
    """Return the signature of sacreBLEU's paired bootstrap, and each system's difference and p.

    p is None if all counts are equal, which the test would call significant.
    """
    of_counts: Any = copy.copy(metric)
    of_counts._extract_corpus_statistics = lambda counts, refs: counts
    named: Any = [(str(i), counts) for i, counts in enumerate(counted)]
    signatures, tested = PairedTest(named, {"": of_counts}, None, "bs", intervals.N_BOOTSTRAP)()
    ((name, signature),) = signatures.items()
    first, *others = cast("list[Any]", tested[name])
    return str(signature), [
        {
            "difference": float(other.score - first.score),
            "p": None if np.array_equal(counts, counted[0]) else other.p_value,
        }
        for other, counts in zip(others, counted[1:], strict=True)
    ]

"""Score other systems: translations by BLEU and chrF, word alignments by error rate. No torch.

Every file holds one sentence per line. Translations are scored as they are: subword marks or tokens
must be joined beforehand. Their scores, and the test between systems, are sacreBLEU's.

Alignments are in Pharaoh format: `i-j` links source word i to target word j, counted from 0. A gold
standard marks as possible, `i?j` or `ipj`, the links on which annotators disagreed; the others are
sure. Some gold standards count words from 1, and nothing in the file says so: with the wrong base,
an alignment with an error rate of 4 % appears to have one of 44 %.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from sacrebleu.significance import PairedTest

from seqmodels.data import readers
from seqmodels.data.scripts import count_words, unit_of
from seqmodels.evaluation import intervals
from seqmodels.evaluation.intervals import Interval
from seqmodels.evaluation.metrics import (
    METRICS,
    check_tokenizer,
    map_buckets,
    sacrebleu_counts,
    sacrebleu_metrics,
)
from seqmodels.utils.files import open_regular_or_pipe
from seqmodels.utils.terminal import printable

MAX_LINES = 20_000
"""Most lines on which systems are compared: the test holds all resamples, 80 kB per line."""
LINK = re.compile(r"([0-9]{1,6})([-?p])([0-9]{1,6})")
LINE_NUMBER = re.compile(r"^[0-9]+\t")
"""Some files of alignments begin each line with its number."""

Link = tuple[int, int]
Result = dict[str, Any]
"""Scores of all systems, written as JSON."""

# ------------------------------------------------------------------------------------- Reading


class Text(NamedTuple):
    """A text file."""

    path: Path
    lines: list[str]

    def facts(self) -> dict[str, Any]:
        """Return the file's path and checksum, and the number of its blank lines."""
        n_blank = sum(not line.strip() for line in self.lines)
        sha256 = readers.sha256(self.lines)
        return {"file": printable(str(self.path)), "sha256": sha256, "n_blank": n_blank}

    def lengths(self) -> list[int]:
        """Return the number of words of each line."""
        return [*map(count_words, self.lines)]


def read_files(paths: Sequence[Path]) -> list[Text]:
    """Return the text of each file; a pipe is read once.

    Raises ValueError for a file that is not text, for a file given twice, and if the numbers of
    lines differ.
    """
    for one, other in combinations(paths, 2):
        with suppress(OSError):  # files that cannot be read are named below
            if one.samefile(other):
                raise ValueError(f"{one} and {other} are the same file; give each file once")
    first, *others = [Text(path, readers.read_lines(path, open_regular_or_pipe)) for path in paths]
    for text in others:
        if len(text.lines) != len(first.lines):
            raise ValueError(
                f"{first.path} has {len(first.lines):,} lines and {text.path} has "
                f"{len(text.lines):,}; line n of one must belong to line n of the other"
            )
    return [first, *others]


def name_systems(paths: Sequence[Path]) -> list[str]:
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


def score_by_length(
    n: int,
    lengths: Sequence[int] | None,
    ends: Sequence[int],
    score: Callable[[np.ndarray], dict[str, Any]],
) -> dict[str, Any]:
    """Return scores overall and, if lengths are given, in buckets with these ends.

    The first bucket starts at 1; another one is for all longer sources.
    """
    buckets: list[tuple[int, int]] = []
    if lengths:
        longer = [max(lengths)] if max(lengths) > ends[-1] else []
        buckets = [(low + 1, high) for low, high in pairwise([0, *ends, *longer])]
    overall = {"n": n, **score(np.arange(n))}
    return {"overall": overall, "buckets": map_buckets(lengths or [], buckets, score)}


# --------------------------------------------------------------------------------- Translations


class Translations(NamedTuple):
    """A source, one or more references for each of its sentences, and each system's text."""

    src: Text
    refs: list[Text]
    systems: list[Text]


def read_translations(src: Path, refs: Sequence[Path], hyps: Sequence[Path]) -> Translations:
    """Return the source, the references and each system's text.

    Raises ValueError as `read_files` does, for a source without words and for more lines than
    systems can be compared on.
    """
    src_text, *others = read_files((src, *refs, *hyps))
    if not any(src_text.lengths()):
        raise ValueError(f"{src} has no words; scores are grouped by the number of source words")
    if len(hyps) > 1 and (n := len(src_text.lines)) > MAX_LINES:
        raise ValueError(
            f"{src} has {n:,} lines; systems are compared on at most {MAX_LINES:,}: "
            "score one system at a time"
        )
    return Translations(src_text, others[: len(refs)], others[len(refs) :])


def score_translations(
    texts: Translations, tokenize: str, is_lowercase: bool, ends: Sequence[int]
) -> Result:
    """Score all systems against all references, in buckets of source words.

    Differences are from the first system. Raises ValueError for a tokenizer that sacreBLEU does not
    have, or that does not work here.
    """
    src, refs, systems = texts
    check_tokenizer(tokenize, "--tokenize")
    metrics = sacrebleu_metrics(tokenize, is_lowercase, [ref.lines for ref in refs])
    lengths = src.lengths()
    counts_by_system, entries = [], []
    for text, name in zip(systems, name_systems([text.path for text in systems]), strict=True):
        counts = {k: sacrebleu_counts(metric, text.lines, None) for k, metric in metrics.items()}

        def score(indices: np.ndarray, counts: dict[str, np.ndarray] = counts) -> dict[str, Any]:
            scores = {key: METRICS[key].score(each[indices]) for key, each in counts.items()}
            n_hyp, n_ref = counts["bleu"][indices, :2].sum(0)
            return {**scores, "length_ratio": float(n_hyp / n_ref) if n_ref else 0.0}

        n_tokenized = sum(line.endswith(" .") for line in text.lines)
        parts = score_by_length(len(lengths), lengths, ends, score)
        counts_by_system.append(counts)
        entries.append({"name": name, **text.facts(), "n_tokenized": n_tokenized, **parts})
    paired = {}
    for key, metric in metrics.items() if len(systems) > 1 else ():
        paired[key], differences = compare_with_first(
            metric, [counts[key] for counts in counts_by_system]
        )
        for entry, difference in zip(entries[1:], differences, strict=True):
            entry.setdefault("against_first", {})[key] = difference
    return {
        "schema": "seqmodels.score/3",
        "n": len(lengths),
        "unit": unit_of(src.lines),
        "src": src.facts(),
        "refs": [ref.facts() for ref in refs],
        "n_bootstrap": intervals.N_BOOTSTRAP,
        "signatures": {key: str(metric.get_signature()) for key, metric in metrics.items()},
        "paired_signatures": paired,
        "systems": entries,
    }


def compare_with_first(
    metric: Any, counts_by_system: Sequence[np.ndarray]
) -> tuple[str, list[dict[str, float | None]]]:
    """Return the signature of sacreBLEU's paired bootstrap, and each system's difference and p.

    p is None if all counts are equal, which the test would call significant.
    """
    counts_metric: Any = copy.copy(metric)
    counts_metric._extract_corpus_statistics = lambda counts, refs: counts
    named: Any = [(str(i), counts) for i, counts in enumerate(counts_by_system)]
    signatures, results = PairedTest(
        named, {"": counts_metric}, None, "bs", intervals.N_BOOTSTRAP
    )()
    ((name, signature),) = signatures.items()
    first, *others = cast("list[Any]", results[name])
    return str(signature), [
        {
            "difference": float(other.score - first.score),
            "p": None if np.array_equal(counts, counts_by_system[0]) else other.p_value,
        }
        for other, counts in zip(others, counts_by_system[1:], strict=True)
    ]


# ----------------------------------------------------------------------------------- Alignments


class Links(NamedTuple):
    """The links of one sentence pair, words counted from 0."""

    sure: frozenset[Link]
    possible: frozenset[Link]
    """All links, including the sure ones."""


class Alignment(NamedTuple):
    """The links of one file, one item per line."""

    text: Text
    links: list[Links]

    def facts(self) -> dict[str, Any]:
        """Return the file's facts, its number of links and the lowest number of a word."""
        numbers = [i for pair in self.links for link in pair.possible for i in link]
        facts = {**self.text.facts(), "lowest_word": min(numbers, default=None)}
        return {**facts, "n_links": sum(len(pair.possible) for pair in self.links)}


def parse_links(
    text: Text, first: int = 0, is_gold: bool = True, sides: Sequence[Text | None] = ()
) -> Alignment:
    """Parse the links of a file in which words are counted from `first`: 0 or 1.

    `sides` are the source and the target. Raises ValueError that names file and line for a link
    that cannot be parsed, one to a word that its sentence does not have and, unless the file is
    gold, one that is only possible.
    """
    lengths = [side.lengths() if side else None for side in sides]
    parsed = []
    for n, line in enumerate(text.lines):
        sure, possible = set(), set()
        for word in LINE_NUMBER.sub("", line).split():
            location = f"{text.path}, line {n + 1}: {word[:30]!r}"
            if (match := LINK.fullmatch(word)) is None:
                raise ValueError(
                    f"{location} is not a link such as 3-4, or 3?4 or 3p4 where it is only possible"
                )
            if match[2] != "-" and not is_gold:
                raise ValueError(f"{location} is only possible; only --gold has such links")
            link = int(match[1]) - first, int(match[3]) - first
            if min(link) < 0:
                raise ValueError(
                    f"{location} links word 0; with --gold-one-based, words begin at 1"
                )
            for i, side, n_words in zip(link, sides, lengths, strict=False):
                if side and n_words and i >= n_words[n]:
                    hint = "; if --gold counts them from 1, give --gold-one-based" * (not first)
                    raise ValueError(
                        f"{location} links word {i + first}; {side.path} has {n_words[n]} words "
                        f"there, counted from {first}{hint if is_gold else ''}"
                    )
            possible.add(link)
            if match[2] == "-":
                sure.add(link)
        parsed.append(Links(frozenset(sure), frozenset(possible)))
    return Alignment(text, parsed)


def read_alignments(
    gold: Path,
    alignments: Sequence[Path],
    src: Path | None = None,
    tgt: Path | None = None,
    is_one_based: bool = False,
) -> tuple[Alignment, list[Alignment], Text | None]:
    """Read a gold standard, alignments and, if given, the source; check links against the texts.

    Raises ValueError as `read_files` and `parse_links` do, and for a gold standard without sure
    links.
    """
    gold_text, *texts = read_files([gold, *alignments, *(path for path in (src, tgt) if path)])
    given = iter(texts[len(alignments) :])
    sides = [next(given) if path else None for path in (src, tgt)]
    gold_links = parse_links(gold_text, int(is_one_based), True, sides)
    if not any(pair.sure for pair in gold_links.links):
        raise ValueError(f"{gold} has no sure links (such as 3-4), over which recall is computed")
    systems = [parse_links(text, 0, False, sides) for text in texts[: len(alignments)]]
    return gold_links, systems, sides[0]


def link_counts(links: Sequence[Links], gold: Sequence[Links]) -> np.ndarray:
    """Return a row per sentence pair: |A ∩ S|, |A ∩ P|, |A| and |S|.

    A are all links of the system, S the sure gold links, P all gold links. Raises ValueError
    for unequal lengths.
    """
    if len(links) != len(gold):
        raise ValueError(f"{len(links):,} and {len(gold):,} alignments cannot be compared")
    rows = []
    for ours, true in zip(links, gold, strict=True):
        a, s, p = ours.possible, true.sure, true.possible
        rows.append((len(a & s), len(a & p), len(a), len(s)))
    return np.array(rows, dtype=np.float64)


class Rate(NamedTuple):
    """A percentage: some columns of `link_counts` over others."""

    above: list[int]
    below: list[int]
    is_error: bool = False
    """Whether the rate is 100 % minus the share."""

    def of(self, sums: np.ndarray) -> np.ndarray:
        """Compute the rate from sums over sentences, (..., 4) -> (...); 0 / 0 counts as 0."""
        above, below = (sums[..., columns].sum(-1) for columns in (self.above, self.below))
        share = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
        return 100 * (1 - share if self.is_error else share)

    def interval(self, columns: np.ndarray) -> Interval:
        """Return the rate with its 95 % interval; None if its denominator is 0."""
        if not columns[:, self.below].any():
            return {"value": None, "low": None, "high": None}
        return intervals.compute_interval(columns, self.of, is_percent=True)


RATES = {
    "aer": Rate([0, 1], [2, 3], is_error=True),
    "precision": Rate([1], [2]),
    "recall": Rate([0], [3]),
}
"""As defined by Och and Ney (2003): AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)."""


def score_alignments(
    gold: Alignment, systems: Sequence[Alignment], src: Text | None, ends: Sequence[int]
) -> Result:
    """Score all alignments, in buckets of source words with these ends if the source is given.

    Differences are from the first alignment.
    """
    lengths = src.lengths() if src else None
    counts_by_system, entries = [], []
    names = name_systems([system.text.path for system in systems])
    for name, system in zip(names, systems, strict=True):
        counts = link_counts(system.links, gold.links)

        def score(indices: np.ndarray, counts: np.ndarray = counts) -> dict[str, Any]:
            return {key: rate.interval(counts[indices]) for key, rate in RATES.items()}

        counts_by_system.append(counts)
        parts = score_by_length(len(counts), lengths, ends, score)
        entries.append({"name": name, **system.facts(), **parts})
    aer = RATES["aer"].of
    for entry, counts in zip(entries[1:], counts_by_system[1:], strict=True):
        both = np.hstack([counts, counts_by_system[0]])
        entry["against_first"] = {
            "aer": intervals.compute_interval(both, lambda n: aer(n[..., :4]) - aer(n[..., 4:]))
        }
    return {
        "schema": "seqmodels.alignments/2",
        "n": len(gold.links),
        "gold": {**gold.facts(), "n_sure": sum(len(pair.sure) for pair in gold.links)},
        "unit": unit_of(src.lines) if src else "words",
        "src": src.facts() if src else None,
        "n_bootstrap": intervals.N_BOOTSTRAP,
        "systems": entries,
    }

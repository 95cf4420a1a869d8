"""Word alignments in Pharaoh format, and their error rate against a gold standard. No torch.

A line holds the links of one sentence pair: `i-j` links source word i to target word j, counted
from 0. A gold standard marks as possible, `i?j` or `ipj`, the links on which annotators disagreed;
the others are sure. Some gold standards count words from 1, and nothing in the file says so: with
the wrong base, an alignment with an error rate of 4 % appears to have one of 44 %.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqmodels.evaluation import external, intervals
from seqmodels.evaluation.external import Result, Text
from seqmodels.evaluation.intervals import Interval
from seqmodels.evaluation.metrics import by_bucket

SCHEMA = "seqmodels.alignments/1"

Link = tuple[int, int]
LINK = re.compile(r"([0-9]{1,6})([-?p])([0-9]{1,6})")
LINE_NUMBER = re.compile(r"^[0-9]+\t")
"""Some files begin each line with its number."""
SIDES = ("source", "target")
COUNTED_FROM_1 = "; if --gold counts them from 1, give --gold-one-based"

# ------------------------------------------------------------------------------------- Reading


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
        """Return which file it is, how many links it has and the lowest number of a word."""
        numbers = [i for pair in self.links for link in pair.possible for i in link]
        facts = {**self.text.facts(), "lowest_word": min(numbers, default=None)}
        return {**facts, "n_links": sum(len(pair.possible) for pair in self.links)}


def parse(text: Text, first: int = 0) -> Alignment:
    """Parse the links of a file in which words are counted from `first`: 0 or 1.

    Raises ValueError that names file and line for a link that cannot be parsed.
    """
    parsed = []
    for n, line in enumerate(text.lines, start=1):
        sure, possible = set(), set()
        for word in LINE_NUMBER.sub("", line).split():
            if (match := LINK.fullmatch(word)) is None:
                raise ValueError(
                    f"{text.path}, line {n}: {word[:30]!r} is not a link such as 3-4, or 3?4 or "
                    "3p4 where it is only possible"
                )
            link = int(match[1]) - first, int(match[3]) - first
            if min(link) < 0:
                raise ValueError(f"{text.path}, line {n}: {word} links word 0; words begin at 1")
            possible.add(link)
            if match[2] == "-":
                sure.add(link)
        parsed.append(Links(frozenset(sure), frozenset(possible)))
    return Alignment(text, parsed)


def check_words(
    alignment: Alignment, words: Text, side: int, first: int = 0, hint: str = ""
) -> None:
    """Raise ValueError for a link to a word that a sentence does not have: 0 source, 1 target."""
    for n, (pair, n_words) in enumerate(zip(alignment.links, words.lengths(), strict=True), 1):
        for link in sorted(pair.possible):
            if link[side] >= n_words:
                raise ValueError(
                    f"{alignment.text.path}, line {n}: a link to {SIDES[side]} word "
                    f"{link[side] + first}; {words.path} has {n_words} words there, counted from "
                    f"{first}{hint}"
                )


class Files(NamedTuple):
    """A gold standard, the alignments to score and, if given, the source."""

    gold: Alignment
    systems: list[Alignment]
    src: Text | None


def read(
    gold: Path,
    alignments: Sequence[Path],
    src: Path | None = None,
    tgt: Path | None = None,
    is_one_based: bool = False,
) -> Files:
    """Read a gold standard and alignments, and check their links against the texts, if given.

    Raises ValueError for a file that cannot be read or is given twice, for lines that do not pair,
    for a link that no sentence can have, and for a gold standard without sure links.
    """
    sides = [path for path in (src, tgt) if path]
    gold_text, *texts = external.read_files([gold, *alignments, *sides])
    for text in texts:
        external.check_lines(gold_text, text, "must be the sentence pair of")
    first = int(is_one_based)
    gold_links, *systems = parse(gold_text, first), *map(parse, texts[: len(alignments)])
    if not any(pair.sure for pair in gold_links.links):
        raise ValueError(f"{gold} has no sure links (such as 3-4), over which recall is computed")
    for text, links in systems:
        for n, pair in enumerate(links, start=1):
            if pair.sure != pair.possible:
                raise ValueError(
                    f"{text.path}, line {n}: a link that is only possible; only --gold has those"
                )
    given = dict(zip(sides, texts[len(alignments) :], strict=True))
    for side, path in enumerate((src, tgt)):
        if path:
            check_words(gold_links, given[path], side, first, "" if first else COUNTED_FROM_1)
            for system in systems:
                check_words(system, given[path], side)
    return Files(gold_links, systems, given[src] if src else None)


# ------------------------------------------------------------------------------------- Scoring


def counts(found: Sequence[Links], gold: Sequence[Links]) -> np.ndarray:
    """Return a row per sentence pair: |A ∩ S|, |A ∩ P|, |A| and |S|.

    A are all links found, S the sure gold links, P all gold links. Raises ValueError for unequal
    lengths.
    """
    if len(found) != len(gold):
        raise ValueError(f"{len(found):,} and {len(gold):,} alignments cannot be compared")
    rows = []
    for ours, true in zip(found, gold, strict=True):
        a, s, p = ours.possible, true.sure, true.possible
        rows.append((len(a & s), len(a & p), len(a), len(s)))
    return np.array(rows, dtype=np.float64)


class Rate(NamedTuple):
    """A percentage: some columns of `counts` over others."""

    above: list[int]
    below: list[int]
    is_error: bool = False
    """It is what is missing to 100 %."""

    def of(self, sums: np.ndarray) -> np.ndarray:
        """Compute it from sums over sentences, (..., 4) -> (...); a share of nothing is 0."""
        above, below = (sums[..., columns].sum(-1) for columns in (self.above, self.below))
        share = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
        return 100 * (1 - share if self.is_error else share)

    def interval(self, columns: np.ndarray) -> Interval:
        """Return it with its 95 % interval; None where there are no links to divide by."""
        if not columns[:, self.below].any():
            return {"value": None, "low": None, "high": None}
        return intervals.interval(columns, self.of, is_percent=True)


RATES = {
    "aer": Rate([0, 1], [2, 3], is_error=True),
    "precision": Rate([1], [2]),
    "recall": Rate([0], [3]),
}
"""As defined by Och and Ney (2003): AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)."""


def difference(first: np.ndarray, other: np.ndarray) -> Interval:
    """Return the second AER minus the first, with its interval: the same draws for both."""
    n = first.shape[1]

    def score(sums: np.ndarray) -> np.ndarray:
        aer = RATES["aer"].of
        return aer(sums[..., n:]) - aer(sums[..., :n])

    return intervals.interval(np.hstack([first, other]), score)


def rates_of(
    columns: np.ndarray, lengths: Sequence[int] | None, ends: Sequence[int]
) -> dict[str, Any]:
    """Return one system's rates, overall and, where lengths are given, by bucket."""

    def rate_part(places: np.ndarray) -> dict[str, Any]:
        return {key: rate.interval(columns[places]) for key, rate in RATES.items()}

    overall = {"n": len(columns), **rate_part(np.arange(len(columns)))}
    buckets = external.buckets_of(lengths, ends) if lengths else []
    return {"overall": overall, "buckets": by_bucket(lengths or [], buckets, rate_part)}


def score(given: Files, ends: Sequence[int]) -> Result:
    """Score all alignments, by words of the source up to each of the ends if it is given.

    Differences are to the first alignment.
    """
    gold, systems, src = given
    lengths = src.lengths() if src else None
    counted = [counts(system.links, gold.links) for system in systems]
    entries = []
    names = external.names_of([system.text.path for system in systems])
    for name, system, columns in zip(names, systems, counted, strict=True):
        entries.append({"name": name, **system.facts(), **rates_of(columns, lengths, ends)})
    for entry, columns in zip(entries[1:], counted[1:], strict=True):
        entry["against_first"] = {"aer": difference(counted[0], columns)}
    return {
        "schema": SCHEMA,
        "n": len(gold.links),
        "gold": {**gold.facts(), "n_sure": sum(len(pair.sure) for pair in gold.links)},
        "src": src.facts() if src else None,
        "n_bootstrap": intervals.N_BOOTSTRAP,
        "systems": entries,
    }

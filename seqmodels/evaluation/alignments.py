"""Word alignments in Pharaoh format, and their error rate against a gold standard. No torch.

A line holds the links of one sentence pair: `i-j` links source word i to target word j, counted
from 0. A gold standard marks as possible, `i?j` or `ipj`, the links on which annotators disagreed;
the others are sure. Some gold standards count words from 1, and nothing in the file says so: with
the wrong base, an alignment with an error rate of 4 % appears to have one of 44 %.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqmodels.evaluation import external, intervals
from seqmodels.evaluation.external import Text
from seqmodels.evaluation.intervals import Interval, Row
from seqmodels.evaluation.table import by_bucket, metric_of
from seqmodels.report import tables
from seqmodels.report.findings import THIN, bucket_name
from seqmodels.utils import files

SCHEMA = "seqmodels.alignments/1"

Link = tuple[int, int]
LINK = re.compile(r"([0-9]{1,6})([-?p])([0-9]{1,6})")
LINE_NUMBER = re.compile(r"^[0-9]+\t")
"""Some files begin each line with its number."""
SIDES = ("source", "target")
COUNTED_FROM_1 = "; if --gold counts them from 1, give --gold-one-based"

Result = dict[str, Any]

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
            if (found := LINK.fullmatch(word)) is None:
                raise ValueError(
                    f"{text.path}, line {n}: {word[:30]!r} is not a link such as 3-4, or 3?4 or "
                    "3p4 where it is only possible"
                )
            link = int(found[1]) - first, int(found[3]) - first
            if min(link) < 0:
                raise ValueError(f"{text.path}, line {n}: {word} links word 0; words begin at 1")
            possible.add(link)
            if found[2] == "-":
                sure.add(link)
        parsed.append(Links(frozenset(sure), frozenset(possible)))
    return Alignment(text, parsed)


def check_words(
    alignment: Alignment, words: Text, side: int, first: int = 0, hint: str = ""
) -> None:
    """Raise ValueError for a link to a word that a sentence does not have: 0 source, 1 target."""
    text = alignment.text
    for n, (pair, line) in enumerate(zip(alignment.links, words.lines, strict=True), start=1):
        n_words = len(line.split())
        for link in sorted(pair.possible):
            if link[side] >= n_words:
                raise ValueError(
                    f"{text.path}, line {n}: a link to {SIDES[side]} word {link[side] + first}; "
                    f"{words.path} has {n_words} words there, counted from {first}{hint}"
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


def parts_of(
    columns: np.ndarray, lengths: Sequence[int] | None, ends: Sequence[int]
) -> dict[str, Any]:
    """Return one system's rates, overall and, where lengths are given, by bucket."""

    def part(rows: Sequence[Row]) -> dict[str, Any]:
        here = np.stack([row["counts"] for row in rows])
        return {key: rate.interval(here) for key, rate in RATES.items()}

    rows = [{"counts": row} for row in columns]
    parts: dict[str, Any] = {"overall": {"n": len(rows), **part(rows)}, "buckets": []}
    if lengths is not None:
        rows = [{"counts": row, "x": x} for row, x in zip(columns, lengths, strict=True)]
        parts["buckets"] = by_bucket(rows, external.buckets_of(lengths, ends), part)
    return parts


def score(given: Files, ends: Sequence[int]) -> Result:
    """Score all alignments, by words of the source up to each of the ends if it is given.

    Returns what is written as JSON. Differences are to the first alignment.
    """
    gold, systems, src = given
    lengths = [len(line.split()) for line in src.lines] if src else None
    counted = [counts(system.links, gold.links) for system in systems]
    entries = []
    names = external.names_of([system.text.path for system in systems])
    for name, system, columns in zip(names, systems, counted, strict=True):
        entries.append({"name": name, **system.facts(), **parts_of(columns, lengths, ends)})
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


# -------------------------------------------------------------------------------------- Showing


def table(result: Result) -> str:
    """Return a Markdown table of all rates, one by source length, and what their cells mean."""
    systems, gold = result["systems"], result["gold"]
    parts = ["### Word alignment", tables.markdown(overall_rows(systems))]
    if systems[0]["buckets"]:
        parts += ["### AER (%) by source length", tables.markdown(length_rows(systems))]
    note = "[95 % interval (BCa bootstrap over sentences)]"
    n_thin = sum(part["n"] < THIN for part in (systems[0]["overall"], *systems[0]["buckets"]))
    note += f"; * fewer than {THIN} sentences." if n_thin else "."
    n, n_sure, n_more = result["n"], gold["n_sure"], gold["n_links"] - gold["n_sure"]
    parts.append(
        f"{note}\n"
        "AER = 1 - (|A∩S| + |A∩P|) / (|A| + |S|), precision = |A∩P| / |A|, recall = |A∩S| / |S|\n"
        "A: links found, S: sure gold links, P: sure and possible gold links (Och and Ney 2003)\n"
        f"Gold: {gold['file']}, {n:,} sentences, {n_sure:,} sure links, {n_more:,} possible ones"
    )
    return "\n\n".join([*parts, *filter(None, ["\n".join(notes_on(result))])])


def overall_rows(systems: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the rows of the table of all sentences: a system each."""
    heads = ["alignment", *(metric_of(key).name for key in RATES), "links"]
    rows = [heads + [f"AER against {systems[0]['name']}"] * (len(systems) > 1)]
    for system in systems:
        n = system["overall"]["n"]
        cells = [external.cell(system["overall"][key], key, n) for key in RATES]
        rows.append([system["name"], *cells, f"{system['n_links']:,}"])
        if len(systems) > 1:
            found = system.get("against_first")
            rows[-1].append(signed(found["aer"]) if found else "")
    return rows


def length_rows(systems: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the rows of the table by source length: a bucket each, and all sentences."""
    rows = [["source words", "n", *(system["name"] for system in systems)]]
    for parts in zip(*([*system["buckets"], system["overall"]] for system in systems), strict=True):
        n, name = parts[0]["n"], bucket_name(parts[0]) if "low" in parts[0] else "all"
        rows.append([name, f"{n:,}", *(external.cell(part["aer"], "aer", n) for part in parts)])
    return rows


def signed(found: Interval) -> str:
    """Write a difference with its interval."""
    interval = "[–]" if found["low"] is None else "[{low:+.1f}, {high:+.1f}]".format(**found)
    return f"{found['value']:+.1f} {interval}"


def notes_on(result: Result) -> list[str]:
    """Return a line for each file that may not be what was meant."""
    notes = []
    for facts in (result["gold"], *result["systems"]):
        if facts["lowest_word"] is not None and facts["lowest_word"] > 0:
            notes.append(f"{facts['file']}: no link to word 0; are its words counted from 1?")
    if result["src"] and (n := result["src"]["n_blank"]):
        notes.append(f"{result['src']['file']}: {n:,} blank lines; they are in no bucket.")
    return notes


def write(result: Result, out: Path) -> list[Path]:
    """Write alignments.json to a folder; return its path."""
    text = json.dumps(result, ensure_ascii=False, indent=1) + "\n"
    return [files.write(out / "alignments.json", text)]

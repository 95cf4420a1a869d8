"""Differences between the models of a folder, beside its records; validated when read. No torch.

They are computed from the sums of the runs (see sums.py), which older folders lack. The file holds
a checksum of each record that it was made from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import combinations, compress
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import Field

from seqmodels.evaluation import significance
from seqmodels.records import sums
from seqmodels.records.schema import Checksum, Count, Name, Strict, TwoNumbers, check
from seqmodels.records.sums import Rows
from seqmodels.utils import files

SCHEMA: Final = "seqmodels.significance/1"
FILE = "significance.json"
"""Name of the file in a folder of records."""

Number = Annotated[float, Field(allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1)]
Records = Mapping[str, dict[str, Any]]
"""Records by the names of their files, in the order of the models."""


class Difference(Strict):
    """A difference with its 95 % interval; without one for fewer than ten groups of rows."""

    value: Number
    low: Number | None
    high: Number | None
    p: Probability | None
    p_holm: Probability | None
    """Corrected for all differences of the test set; None: one seed, or too few rows."""

    @property
    def is_significant(self) -> bool:
        """Return whether the models differ."""
        return self.p_holm is not None and self.p_holm <= significance.ALPHA


class Pair(Strict):
    """The score of one model, the row, minus that of another, the column."""

    row: Name
    column: Name
    n_seeds: TwoNumbers
    """Of the row and of the column. If one has one seed, test examples alone are drawn."""
    overall: Difference
    buckets: list[Difference]


class Comparison(Strict):
    """All pairs of models on one test set, by its primary metric."""

    test: Name
    metric: Name
    n_corrected: Count
    """For how many differences p_holm is corrected."""
    buckets: list[TwoNumbers]
    pairs: Annotated[list[Pair], Field(min_length=1)]


class Significance(Strict):
    """All comparisons of a folder."""

    version: Annotated[Literal["seqmodels.significance/1"], Field(alias="schema")]
    records: dict[Name, Checksum]
    """The records by the names of their files."""
    comparisons: Annotated[list[Comparison], Field(min_length=1)]

    def on(self, test: str) -> Comparison | None:
        """Return the comparison on a test set."""
        return next((c for c in self.comparisons if c.test == test), None)

    def text(self) -> str:
        """Return the content of the file."""
        return json.dumps(self.model_dump(by_alias=True), ensure_ascii=False, indent=1) + "\n"


def find(folder: Path, records: Records) -> Significance | None:
    """Return what the folder holds, made anew from the sums if it is missing or out of date.

    If runs in the file have lost their sums, models added later are left out. None if there is
    nothing to compare, or neither a file nor all the sums. Raises ValueError for an invalid file,
    one that cannot be made anew, and sums that are not those of their records.
    """
    path = folder / FILE
    stored = load(path) if path.exists() else None
    checksums = {name: hashlib.sha256(files.read(folder / name)).hexdigest() for name in records}
    paths = (sums.path_of(folder, record) for record in records.values())
    missing = [path.name for path in paths if not path.exists()]
    if stored and is_up_to_date(stored, checksums, records, bool(missing)):
        compared = {name: records[name] for name in stored.records}
        if not all(fits(comparison, compared) for comparison in stored.comparisons):
            raise ValueError(
                f"{path} does not hold the pairs and buckets of its records; delete it"
            )
        return stored
    if missing and stored:
        raise ValueError(
            f"{path} was made from other records; it cannot be made anew without {missing[0]}, "
            "so restore the records, or delete it"
        )
    if missing or not (comparisons := compare(folder, records)):
        return None
    made = {"schema": SCHEMA, "records": checksums, "comparisons": comparisons}
    return Significance.model_validate(made)


def is_up_to_date(
    stored: Significance, checksums: Mapping[str, str], records: Records, has_lost_sums: bool
) -> bool:
    """Return whether a comparison is of these records, or of some models if sums are missing."""
    if stored.records == checksums:
        return True
    same = {name for name, checksum in stored.records.items() if checksums.get(name) == checksum}
    compared = {records[name]["model"] for name in same}
    later = {record["model"] for name, record in records.items() if name not in same}
    return has_lost_sums and same == {*stored.records} and not compared & later


def load(path: Path) -> Significance:
    """Read a file; raise ValueError if it is invalid."""
    value = files.read_json(path)
    try:
        found: Significance = check(Significance, value)
    except ValueError as error:
        raise ValueError(f"{path} is not a comparison of models ({SCHEMA}): {error}") from None
    return found


def fits(comparison: Comparison, records: Records) -> bool:
    """Return whether a comparison has the pairs of models and the buckets of the records."""
    models: dict[str, list[dict[str, Any]]] = {}
    for record in records.values():
        for test in record["tests"]:
            if test["name"] == comparison.test:
                models.setdefault(record["model"], []).append(test)
    if not models:
        return False
    first = next(iter(models.values()))[0]
    ends = [[b["low"], b["high"]] for b in first["buckets"]]
    pairs = [
        (row, column, [len(models[row]), len(models[column])], len(ends))
        for column, row in combinations(models, 2)
    ]
    found = [(p.row, p.column, p.n_seeds, len(p.buckets)) for p in comparison.pairs]
    return (first["primary_metric"], ends, pairs) == (comparison.metric, comparison.buckets, found)


def compare(folder: Path, records: Records) -> list[Comparison]:
    """Compare all pairs of models on each test set whose primary metric is one of sums."""
    found: dict[str, dict[str, list[Rows]]] = {}
    for record in records.values():
        path = sums.path_of(folder, record)
        for test, rows in sums.load(path, record).items():
            models = found.setdefault(test, {})
            models.setdefault(record["model"], []).append(rows)
            if rows.examples != next(iter(models.values()))[0].examples:
                raise ValueError(f"{path}: its test examples are not those of the other runs")
    return [pairs_of(test, models) for test, models in found.items() if len(models) > 1]


def pairs_of(name: str, models: Mapping[str, Sequence[Rows]]) -> Comparison:
    """Compare all pairs of models on one test set, overall and by bucket."""
    first = next(iter(models.values()))[0]
    buckets = [(b["low"], b["high"]) for b in first.test["buckets"]]
    parts = []
    for low, high in [(-np.inf, np.inf), *buckets]:
        inside = (low <= first.x) & (first.x <= high)
        columns = {m: [run.sums.columns[inside] for run in runs] for m, runs in models.items()}
        groups = None if first.groups is None else list(compress(first.groups, inside))
        parts.append(
            significance.differences(columns, first.sums.score, groups, first.sums.is_percent)
        )
    n_seeds = {pair: [len(models[model]) for model in pair] for pair in parts[0]}
    p = {
        (pair, i): difference.p
        for i, part in enumerate(parts)
        for pair, difference in part.items()
        if difference.p is not None and min(n_seeds[pair]) > 1
    }
    p_holm = dict(zip(p, significance.holm([*p.values()]), strict=True))
    pairs = []
    for pair in parts[0]:
        overall, *inside = (
            Difference(**part[pair]._asdict(), p_holm=p_holm.get((pair, i)))
            for i, part in enumerate(parts)
        )
        row, column = pair
        pairs.append(
            Pair(row=row, column=column, n_seeds=n_seeds[pair], overall=overall, buckets=inside)
        )
    primary, ends = first.test["primary_metric"], [[low, high] for low, high in buckets]
    return Comparison(test=name, metric=primary, n_corrected=len(p), buckets=ends, pairs=pairs)

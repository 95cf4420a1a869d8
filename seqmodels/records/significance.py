"""The file significance.json: differences between the models of a folder. No torch.

They are computed from the sums of the runs (see sums.py), which older folders lack. The file holds
a checksum of each record that it was made from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from seqmodels.evaluation import significance
from seqmodels.evaluation.significance import Pair
from seqmodels.records import sums
from seqmodels.records.schema import Checksum, Count, Name, Strict, TwoNumbers, check
from seqmodels.records.sums import Rows
from seqmodels.utils import files

SCHEMA: Final = "seqmodels.significance/1"
FILE = "significance.json"
"""Name of the file in a folder of records."""

Records = Mapping[str, dict[str, Any]]
"""Records by the names of their files, in the order of the models."""


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


def load(path: Path) -> Significance:
    """Read a file; raise ValueError if it is invalid."""
    value = files.read_json(path)
    try:
        stored: Significance = check(Significance, value)
    except ValueError as error:
        raise ValueError(f"{path} is not a comparison of models ({SCHEMA}): {error}") from None
    return stored


def find(folder: Path, records: Records) -> Significance | None:
    """Return what the folder holds, made anew from the sums if it is missing or out of date.

    If runs in the file have lost their sums, models added later are left out. None if there is
    nothing to compare, or neither a file nor all the sums. Raises ValueError for an invalid file,
    one that cannot be made anew, and sums that are not those of their records.
    """
    path = folder / FILE
    stored = load(path) if path.exists() else None
    checksums = {name: hashlib.sha256(files.read(folder / name)).hexdigest() for name in records}
    missing = [p.name for r in records.values() if not (p := sums.path_of(folder, r)).exists()]
    if stored and (
        stored.records == checksums or (missing and lacks_models(stored, checksums, records))
    ):
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


def lacks_models(stored: Significance, checksums: Mapping[str, str], records: Records) -> bool:
    """Return whether a file has all records of these models but those of models added later."""
    if not stored.records.items() <= checksums.items():
        return False
    compared = {records[name]["model"] for name in stored.records}
    return compared.isdisjoint(
        r["model"] for name, r in records.items() if name not in stored.records
    )


def compare(folder: Path, records: Records) -> list[Comparison]:
    """Compare all pairs of models on each test set whose primary metric is one of sums."""
    tests: dict[str, dict[str, list[Rows]]] = {}
    for record in records.values():
        path = sums.path_of(folder, record)
        for test, rows in sums.load(path, record).items():
            models = tests.setdefault(test, {})
            models.setdefault(record["model"], []).append(rows)
            if rows.examples != next(iter(models.values()))[0].examples:
                raise ValueError(f"{path}: its test examples are not those of the other runs")
    return [compare_on(test, models) for test, models in tests.items() if len(models) > 1]


def compare_on(name: str, models: Mapping[str, list[Rows]]) -> Comparison:
    """Compare all pairs of models on one test set, overall and by bucket."""
    first = next(iter(models.values()))[0]
    buckets = [(b["low"], b["high"]) for b in first.test["buckets"]]
    pairs = significance.compare(
        {model: [run.terms for run in runs] for model, runs in models.items()},
        first.metric.of_sums, first.x, buckets, first.groups, first.metric.is_percent,
    )  # fmt: skip
    parts = [part for pair in pairs for part in (pair.overall, *pair.buckets)]
    return Comparison(
        test=name, metric=first.test["primary_metric"], pairs=pairs,
        n_corrected=sum(part.p_holm is not None for part in parts),
        buckets=[[low, high] for low, high in buckets],
    )  # fmt: skip

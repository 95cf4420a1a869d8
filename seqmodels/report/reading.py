"""Read the records of a folder and group them: by model, by test set, by bucket. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqmodels.models import papers
from seqmodels.records import schema
from seqmodels.utils import files

Record = dict[str, Any]
MIN_EXAMPLES = 30
"""Buckets with fewer examples are hollow in figures, starred in tables and not compared."""


class Folder(NamedTuple):
    """The records of a folder."""

    path: Path
    records: dict[str, Record]
    """Records by the names of their files, in order of history, then by seed."""
    unknown: list[str]
    """One sentence per record of an unknown version."""


def read_folder(path: Path) -> Folder:
    """Read each JSON file of a folder once; those that are not records are ignored.

    Raises ValueError for a file that is not JSON, a record that `schema.parse` rejects, two records
    of the same (model, seed), and more than one task.
    """
    by_run: dict[tuple[str, int], tuple[str, Record]] = {}
    unknown = []
    for file in sorted(Path(path).glob("*.json")):
        value = files.read_json(file)
        if not schema.is_record(value):
            continue
        if why := schema.unknown_version(file, value):
            unknown.append(why)
            continue
        record = schema.parse(file, value)
        if (run := (record["model"], record["seed"])) in by_run:
            raise ValueError(f"{file}: a second record of {run[0]}, seed {run[1]}; keep one")
        by_run[run] = file.name, record
    if len(tasks := sorted({r["task"] for _, r in by_run.values()})) > 1:
        raise ValueError(f"{path} mixes the tasks {', '.join(tasks)}; give each its own folder")
    groups = by_model(record for _, record in by_run.values())
    runs = [(r["model"], r["seed"]) for group in groups.values() for r in group]
    return Folder(Path(path), dict(by_run[run] for run in runs), unknown)


def load_folder(path: Path) -> Folder:
    """Read the records of a folder like `read_folder`; raise ValueError if there is none."""
    folder = read_folder(path)
    if not folder.records:
        why = "; ".join(folder.unknown) or f"*.json with schema {schema.SCHEMA!r}"
        raise ValueError(f"{path} holds no record that can be drawn ({why})")
    return folder


def load_by_file(path: Path) -> dict[str, Record]:
    """Read all records of a folder by the names of their files (see load_folder)."""
    return load_folder(path).records


def load_records(path: Path) -> list[Record]:
    """Read all records of a folder, in order of history, then by seed (see load_folder)."""
    return list(load_folder(path).records.values())


def by_model(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Group records by model, in order of history, then by name; within a model, by seed."""
    rank = {model: i for i, model in enumerate(papers())}
    groups: dict[str, list[Record]] = {}
    for r in sorted(records, key=lambda r: (rank.get(r["model"], 99), r["model"], r["seed"])):
        groups.setdefault(r["model"], []).append(r)
    return groups


def tests(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """Return all test sets by name; raise ValueError if the buckets of the records differ."""
    found: dict[str, dict[str, Any]] = {}
    for r in records:
        for test in r["tests"]:
            first = found.setdefault(test["name"], test)
            here, there = (
                [(b["low"], b["high"], b["n"]) for b in t["buckets"]] for t in (test, first)
            )
            if not here or here != there:
                raise ValueError(
                    f"{r['model']}, seed {r['seed']}: test {test['name']!r} has no buckets, or "
                    "other buckets than the other records; evaluate all models on the same examples"
                )
    return found


def scores(group: Sequence[Record], name: str, metric: str) -> np.ndarray:
    """Return (seeds, 1 + buckets, 3): value, low, high; overall first; nan if not recorded."""
    tests = [t for r in group for t in r["tests"] if t["name"] == name]
    parts = [[part.get(metric) or {} for part in (t["overall"], *t["buckets"])] for t in tests]
    return np.array(
        [[[c.get(k) for k in ("value", "low", "high")] for c in p] for p in parts], float
    )


def is_beyond(test: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    """Return whether a whole bucket is longer than all training examples."""
    return test["max_train_length"] is not None and part["low"] > test["max_train_length"]


def longest_trained_bucket(test: Mapping[str, Any]) -> int | None:
    """Return the index of the longest bucket that was trained on, if the first is another.

    If the trained lengths are not known, it is the last bucket. Only buckets with at least
    MIN_EXAMPLES count.
    """
    trained, buckets = test["max_train_length"], test["buckets"]
    able = [b["n"] >= MIN_EXAMPLES and (trained is None or b["high"] <= trained) for b in buckets]
    last = max((i for i, is_able in enumerate(able) if is_able), default=0)
    return last if last and able[0] else None

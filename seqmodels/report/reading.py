"""Read the records of a folder and group them: by model, by test set, by bucket. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqmodels.models import papers
from seqmodels.records import schema
from seqmodels.utils import files

Record = dict[str, Any]


def find(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the paths of a folder's records, and one sentence per record of an unknown version.

    Other JSON files are ignored. Raises ValueError for a file that is not JSON.
    """
    read = {path: files.read_json(path) for path in sorted(Path(folder).glob("*.json"))}
    whys = {
        path: schema.unknown_version(path, v) for path, v in read.items() if schema.is_record(v)
    }
    return [path for path, why in whys.items() if not why], [why for why in whys.values() if why]


def load_records(folder: Path) -> list[Record]:
    """Read all records of a folder, in order of history, then by seed (see load_by_file)."""
    return list(load_by_file(folder).values())


def load_by_file(folder: Path) -> dict[str, Record]:
    """Read all records of a folder by the names of their files, in order of history, then by seed.

    Raises ValueError for a file that is not JSON, a record that `schema.load` rejects, two records
    of the same (model, seed), more than one task, or no record at all.
    """
    found: dict[tuple[str, int], tuple[Path, Record]] = {}
    paths, unknown = find(folder)
    for path in paths:
        record = schema.load(path)
        if (key := (record["model"], record["seed"])) in found:
            raise ValueError(f"{path}: a second record of {key[0]}, seed {key[1]}; keep one")
        found[key] = path, record
    if not found:
        why = "; ".join(unknown) or f"*.json with schema {schema.SCHEMA!r}"
        raise ValueError(f"{folder} holds no record that can be drawn ({why})")
    if len(tasks := sorted({r["task"] for _, r in found.values()})) > 1:
        raise ValueError(f"{folder} mixes the tasks {', '.join(tasks)}; give each its own folder")
    groups = by_model(record for _, record in found.values())
    keys = [(r["model"], r["seed"]) for group in groups.values() for r in group]
    return {found[key][0].name: found[key][1] for key in keys}


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

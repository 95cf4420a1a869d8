"""The terms of a run's scores: for each test example, the numbers that are summed. No torch.

They are kept beside the record as gzipped JSON, which holds no text of the corpus. Differences
between models are computed from them (see significance.py), also for models and seeds added later.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from seqmodels.evaluation.intervals import Row, groups_of
from seqmodels.evaluation.metrics import Metric, metric_of
from seqmodels.records.schema import Checksum, Name, Strict, check
from seqmodels.utils import files

SUFFIX = ".sums.json.gz"
MAX_BYTES = 2**26
"""Size limit of a file, unzipped."""

Numbers = list[Annotated[int | float, Field(allow_inf_nan=False)]]


class Measured(Strict):
    """The terms of the primary metric on one test set."""

    columns: Annotated[list[Numbers], Field(min_length=1, max_length=32)]
    """Their sums give the score: each has a number per example."""
    x: Numbers
    groups: list[int] | None
    """Examples with the same number share a text."""
    examples: Checksum
    """Checksum of the test examples: runs that share it are compared example by example."""


class File(Strict):
    """The test sets of a run whose primary metric is a score of sums."""

    version: Annotated[Literal["seqmodels.sums/1"], Field(alias="schema")]
    tests: dict[Name, Measured]


class Rows(NamedTuple):
    """The same, as arrays."""

    metric: Metric
    terms: np.ndarray
    """(rows, terms): their sums give the score."""
    x: np.ndarray
    groups: list[int] | None
    examples: str
    test: Mapping[str, Any]
    """The entry of the record."""


def path_of(folder: Path, record: Mapping[str, Any]) -> Path:
    """Return the path of a run's sums, named like its hypotheses."""
    return (folder / record["hypotheses"]).with_suffix(SUFFIX)


def save(path: Path, record: Mapping[str, Any], rows: Iterable[Row]) -> None:
    """Write the sums of a run's rows."""
    sets: dict[str, list[Row]] = {}
    for row in rows:
        sets.setdefault(row["set"], []).append(row)
    tests = {}
    for test in record["tests"]:
        tested, tokenize = sets[test["name"]], record["data"].get("bleu_tokenize", "13a")
        if (terms := metric_of(test["primary_metric"]).terms(tested, tokenize)) is None:
            continue
        examples = json.dumps([(row["x"], row["ref"], row.get("group")) for row in tested])
        numbers: dict[Any, int] = {}
        groups = groups_of(tested)
        tests[test["name"]] = {
            "columns": [[short(number) for number in column] for column in terms.T.tolist()],
            "x": [row["x"] for row in tested],
            "groups": groups and [numbers.setdefault(group, len(numbers)) for group in groups],
            "examples": hashlib.sha256(examples.encode()).hexdigest(),
        }
    text = json.dumps({"schema": "seqmodels.sums/1", "tests": tests}, separators=(",", ":"))
    files.write(path, gzip.compress(text.encode(), mtime=0))


def short(number: float) -> int | float:
    """Return a whole number as an int, which is shorter when it is written."""
    return int(number) if number.is_integer() else number


def load(path: Path, record: Mapping[str, Any]) -> dict[str, Rows]:
    """Return the sums of a run by test set; raise ValueError if they do not give its scores."""
    rows = {}
    try:
        unzip = zlib.decompressobj(16 + zlib.MAX_WBITS)
        text = unzip.decompress(files.read(path), MAX_BYTES)
        if not unzip.eof:
            raise ValueError(f"cut short, or longer than {MAX_BYTES:,} bytes")
        measured = check(File, json.loads(text)).tests
        for test in record["tests"]:
            if (own := measured.get(test["name"])) is None:
                continue
            key = test["primary_metric"]
            metric, terms = metric_of(key), np.array(own.columns, float).T
            if len({len(terms), len(own.x), len(own.groups or own.x)}) > 1:
                raise ValueError("columns, x and groups differ in length")
            score, recorded = metric.of_sums(terms.sum(axis=0)), test["overall"][key]["value"]
            if not np.isclose(score, recorded, rtol=1e-6, atol=1e-9):
                raise ValueError(f"{key} is {score:.6g}, not {recorded:.6g}")
            rows[test["name"]] = Rows(
                metric, terms, np.array(own.x), own.groups, own.examples, test
            )
    except (KeyError, TypeError, ValueError, IndexError, RecursionError, zlib.error) as error:
        why = f"no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{path} does not hold the sums of its record ({why})") from None
    return rows

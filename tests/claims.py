"""Read records, and write numbers and names of models, for the findings of test_claims.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from seqmodels.evaluation.significance import Difference
from seqmodels.models import PAPERS
from seqmodels.records import schema, significance
from seqmodels.report import findings

ROOT = Path(__file__).parents[1]
README, PAGE = (
    (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/results.md")
)
ONE_VECTOR, ATTENDING = findings.kinds().values()
MODELS = [name for name in PAPERS if name in (*ONE_VECTOR, *ATTENDING)]
"""The models of the five papers."""

FINDINGS: dict[str, list[Callable[[], str]]] = {}
"""Folder of records -> what makes the sentences about it."""


def about(folder: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    """Name the folder whose records a sentence is made from."""

    def keep(sentence: Callable[[], str]) -> Callable[[], str]:
        FINDINGS.setdefault(folder, []).append(sentence)
        return sentence

    return keep


# -------------------------------------------------------------------------------- The records


@cache
def records(folder: str, model: str) -> list[dict[str, Any]]:
    """Return the records of a model, one for each seed."""
    paths = sorted((ROOT / "results" / folder).glob(f"{model}-seed*.json"))
    return [schema.load(path) for path in paths]


def cells(folder: str, model: str, test: str, low: int | None) -> list[dict[str, Any]]:
    """Return the scores of every seed: of the bin that begins at `low`, or of all the test set."""
    found = []
    for record in records(folder, model):
        (entry,) = [t for t in record["tests"] if t["name"] == test]
        parts = {b["low"]: b for b in entry["buckets"]} | {None: entry["overall"]}
        found.append(parts[low])
    return found


def each(folder: str, model: str, test: str, metric: str, low: int | None = None) -> list[float]:
    """Return a score of every seed."""
    return [cell[metric]["value"] for cell in cells(folder, model, test, low)]


def bound(folder: str, model: str, test: str, metric: str, low: int | None = None) -> float:
    """Return the lower end of a score's interval, the mean over the seeds."""
    return mean(cell[metric]["low"] for cell in cells(folder, model, test, low))


def score(folder: str, model: str, test: str, metric: str, low: int | None = None) -> float:
    """Return the mean of a score over the seeds."""
    return mean(each(folder, model, test, metric, low))


def kept(folder: str, model: str, first: int, low: int) -> float:
    """Return the percentage of its BLEU in the first bin that a model keeps in another."""
    a, b = (score(folder, model, "length", "bleu", at) for at in (first, low))
    return 100 * b / a


def gain(folder: str, row: str, column: str, test: str, low: int | None = None) -> Difference:
    """Return how much higher a model scores than another, with an interval of both levels."""
    compared = significance.load(ROOT / "results" / folder / significance.FILE).on(test)
    assert compared is not None
    (pair,) = [p for p in compared.pairs if {p.row, p.column} == {row, column}]
    lows = [bucket[0] for bucket in compared.buckets]
    found = pair.overall if low is None else pair.buckets[lows.index(low)]
    if pair.row == row:
        return found
    assert found.low is not None
    assert found.high is not None
    turned = {"value": -found.value, "low": -found.high, "high": -found.low}
    return found.model_copy(update=turned)


def still_falls(folder: str, model: str) -> float:
    """Return by how many per cent the validation loss fell in the last tenth of the budget."""
    curves = [[p["valid_nats"] for p in r["curve"]] for r in records(folder, model)]
    return mean(100 * (curve[-2] - curve[-1]) / curve[-2] for curve in curves)


def falls(folder: str, models: list[str]) -> str:
    """Write the least and the most by which a model's validation loss still fell."""
    fell = [still_falls(folder, m) for m in models]
    assert min(fell) > 0
    return f"{min(fell):.1f} to {max(fell):.1f} %"


def join(values: list[str]) -> str:
    """Write a list in words."""
    return f"{', '.join(values[:-1])} and {values[-1]}"


def labels(models: list[str]) -> str:
    """Write what the models are called."""
    return join([PAPERS[m].label for m in models])


def numbers(models: list[str], values: dict[str, float], digits: int = 0) -> str:
    """Write the models' values in their order."""
    return join([f"{values[m]:.{digits}f}".replace("-0.00", "0.00") for m in models])

"""Compare models at equal budgets: parameters, target tokens, compute, time. No torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from seqmodels.report import reading, style, tables, wording
from seqmodels.report.reading import Record


def points(r: Record, key: str) -> np.ndarray:
    """Return a field of all points of the learning curve."""
    return np.array([point[key] for point in r["curve"]], float)


def seconds(r: Record) -> np.ndarray:
    """Return the seconds of training at each point of the curve."""
    return points(r, "seconds")


def tokens(r: Record) -> np.ndarray:
    """Return the target tokens at each point of the curve."""
    return points(r, "tokens")


def operations(r: Record) -> np.ndarray:
    """Return the floating-point operations at each point of the curve; nan if not counted."""
    return tokens(r) * (r.get("flops_per_token") or np.nan)


def loss_at(r: Record, spent: np.ndarray, budget: float) -> float:
    """Return the lowest validation loss up to a budget, interpolated between the curve's points."""
    return float(np.interp(budget, spent, np.minimum.accumulate(points(r, "valid_nats"))))


def is_one_machine(records: Sequence[Record]) -> bool:
    """Return whether all runs were timed on the same kind of machine with the same software."""
    keys = ("system", "device", "threads", "versions")
    return all(
        r["provenance"][key] == records[0]["provenance"][key] for r in records for key in keys
    )


SPENT: dict[str, tuple[Callable[[Record], np.ndarray], str]] = {
    "target tokens": (tokens, ""),
    "compute": (operations, "FLOP"),
    "time": (seconds, "s"),
}
"""Kind of budget -> what was spent at each point of the curve, and its unit."""


def table(records: Sequence[Record]) -> str:
    """Return a Markdown table: validation loss at equal target tokens, equal compute, equal time.

    Each budget is the largest that all runs have spent. Empty for a single model.
    """
    groups = reading.by_model(records)
    columns = []
    for kind, (spent, unit) in SPENT.items():
        budget = np.min([spent(r)[-1] for r in records])  # nan if one is unknown
        if math.isfinite(budget) and (kind != "time" or is_one_machine(records)):
            losses = ([loss_at(r, spent(r), budget) for r in g] for g in groups.values())
            head = f"equal {kind}: {wording.short(budget, unit=unit)}"
            columns.append([head, *(tables.mean_and_spread(seeds) for seeds in losses)])
    if len(groups) < 2:
        return ""
    labels = [look.label for look in style.looks(groups).values()]
    sizes = [wording.parameters(group) for group in groups.values()]
    rows = list(zip(["model", *labels], ["parameters", *sizes], *columns, strict=True))
    note = (
        "Read off the learning curves, at the largest budget that all runs have spent; the mean "
        "over the seeds ± half their range. Before the end of a run, its learning rate has not "
        "fallen to zero yet. Compute: matrix products, forward and backward."
    )
    title = "### Validation loss (nats per token) at equal budgets"
    return f"{title}\n\n{tables.markdown(rows)}\n\n{note}\n"

"""95 % confidence intervals of scores. No torch.

A row holds the measurements of one test example, and a score is a function of sums over rows. Its
variance is found by leaving out each group of rows that share a text once (the jackknife, Efron and
Stein 1981). The interval of a share, as of BLEU, is Wilson's (1927), that of another score is
symmetric on a logarithmic scale, so that neither leaves its scale.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

MIN_ROWS = 10
"""Fewest groups for which an interval is computed."""
PSEUDO_GROUPS = 4
"""Groups, all right or all wrong, that are added to the variance of a share."""

Row = dict[str, Any]
Interval = dict[str, float | None]
"""A `value` and the ends of its 95 % interval, `low` and `high`: None where it has none."""
Score = Callable[[np.ndarray], np.ndarray]
"""Computes a score from sums of columns: (..., columns) -> (...)."""


def compute_interval(
    columns: np.ndarray,
    score: Score,
    groups: Sequence[Hashable] | None = None,
    is_percent: bool = False,
) -> Interval:
    """Return the score of the column sums with its interval: None below MIN_ROWS groups."""
    sums = sum_by_group(columns, groups)
    value, n = score(sums.sum(axis=0, keepdims=True)).item(), len(sums)
    if n < MIN_ROWS:
        return {"value": value, "low": None, "high": None}
    variance = float(leave_one_out(sums, score).var() * (n - 1))
    if is_percent:
        low, high = share_ends(value, variance * (n - 1) / n, n, student_quantile(np.inf))
    else:
        half = student_quantile(n - 1) * np.sqrt(variance) / (value or 1)
        low, high = value * np.exp(-half), value * np.exp(half)
    return {"value": value, "low": float(low), "high": float(high)}


def leave_one_out(sums: np.ndarray, score: Score) -> np.ndarray:
    """Return the scores of (..., groups, columns) without each of the groups, (..., groups)."""
    return score(sums.sum(axis=-2, keepdims=True) - sums)


def share_ends(percent: Any, variance: Any, n: int, quantile: Any) -> tuple[Any, Any]:
    """Return the ends of Wilson's interval of a percentage, between 0 and 100.

    It is that of as many single trials as have this variance (Korn and Graubard 1998). Near 0 and
    100, where few of the n groups tell the variance, there are n of them: as in Agresti and Coull
    (1998), PSEUDO_GROUPS are added, so that a better score does not have a worse end.
    """
    p = percent / 100
    per_trial = (variance / 1e4 + PSEUDO_GROUPS / n**2) / (p * (1 - p) + PSEUDO_GROUPS / n)
    k = quantile**2 * per_trial
    low, high = ((q + k / 2 - np.sqrt(k * p * (1 - p) + k**2 / 4)) / (1 + k) for q in (p, 1 - p))
    return 100 * low, 100 - 100 * high


def sum_by_group(columns: np.ndarray, groups: Sequence[Hashable] | None) -> np.ndarray:
    """Sum the rows of each group; without groups, each row is its own group."""
    if groups is None:
        return columns
    numbers = number_groups(groups)
    sums = np.zeros((max(numbers) + 1, columns.shape[1]))
    np.add.at(sums, numbers, columns)
    return sums


def number_groups(groups: Sequence[Hashable]) -> list[int]:
    """Return the number of each row's group, counted in order of first occurrence."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(group, len(numbers)) for group in groups]


def groups_of(rows: Sequence[Row]) -> list[Hashable] | None:
    """Return the group of each row; None if the rows have no groups."""
    return [row["group"] for row in rows] if "group" in rows[0] else None


def student_quantile(df: Any, alpha: Any = 0.05) -> Any:
    """Return the value beyond which Student's t lies with probability alpha, on either side."""
    from scipy.special import stdtrit  # takes as long to import as torch

    return -stdtrit(df, alpha / 2)

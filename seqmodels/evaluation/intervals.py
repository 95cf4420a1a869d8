"""95 % confidence intervals of scores. No torch.

A row holds the measurements of one test example, and a score is a function of sums over rows. Its
interval is from a BCa bootstrap (Efron 1987) over groups of rows that share a text; that of a
proportion of rows that are right or wrong is Wilson's (1927).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

N_BOOTSTRAP = 4000
MIN_ROWS = 10
"""Fewest groups for which an interval is computed."""

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
    is_binary: bool = False,
) -> Interval:
    """Return the score of the column sums with its interval: None below MIN_ROWS groups.

    Wilson's interval is that of `is_binary` rows without groups, and of a percentage that is the
    same in all resamples, such as 100 %: a proportion of n groups.
    """
    sums = sum_by_group(columns, groups)
    value, n = score(sums.sum(0, keepdims=True)).item(), len(sums)
    if n < MIN_ROWS:
        return {"value": value, "low": None, "high": None}
    is_proportion = is_binary and n == len(columns)
    low, high = (np.nan, np.nan) if is_proportion else bootstrap_ends(sums, score)
    if np.isnan(low):  # all resamples are equal
        low, high = wilson_ends(value, n) if is_percent else (value, value)
    return {"value": value, "low": float(low), "high": float(high)}


def bootstrap_ends(sums: np.ndarray, score: Score) -> tuple[float, float]:
    """Return the ends of a score's BCa interval over the rows; nan if all resamples are equal."""
    from scipy.stats import bootstrap  # takes as long to import as torch

    n = len(sums)

    def score_draws(draws: np.ndarray, axis: int) -> np.ndarray:
        lines = draws.reshape(-1, draws.shape[-1])
        cells = lines + n * np.arange(len(lines))[:, None]
        counts = np.bincount(cells.ravel(), minlength=n * len(lines)).reshape(-1, n)
        return score(counts @ sums).reshape(draws.shape[:-1])

    with warnings.catch_warnings(action="ignore"):  # of the result without ends
        ends = bootstrap(
            (np.arange(n),), score_draws, n_resamples=N_BOOTSTRAP, batch=max(1, 2**22 // n), rng=1
        ).confidence_interval
    return ends.low, ends.high


def wilson_ends(percent: float, n: int) -> tuple[float, float]:
    """Return the ends of Wilson's interval of a percentage of n rows."""
    from scipy.stats import binomtest

    ends = binomtest(round(percent / 100 * n), n).proportion_ci(method="wilson")
    return 100 * ends.low, 100 * ends.high


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


def student_quantile(df: float, alpha: float = 0.05) -> float:
    """Return the value beyond which Student's t lies with probability alpha, on either side."""
    from scipy.special import stdtrit  # takes as long to import as torch

    return float(-stdtrit(df, alpha / 2))

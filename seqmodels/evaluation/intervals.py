"""95 % confidence intervals of scores. No torch.

A row holds the measurements of one test example. Rows with the same `group` share a text and are
resampled together. A score is a function of sums over rows; its interval comes from a BCa bootstrap
(Efron 1987) over groups, with levels widened where there are few groups (Hesterberg 2015). A
proportion of independent rows that are right or wrong gets a Wilson interval (1927).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

N_BOOTSTRAP = 4000
MIN_ROWS = 10
"""Fewest groups for which an interval is computed."""
NORMAL = NormalDist()
Z = NORMAL.inv_cdf(0.975)

Row = dict[str, Any]
Interval = dict[str, float | None]
"""A `value` and the ends of its 95 % interval, `low` and `high`: None where it has none."""
Score = Callable[[np.ndarray], np.ndarray]
"""Computes a score from sums of columns: (..., columns) -> (...)."""


def resample_sums(columns: np.ndarray) -> np.ndarray:
    """Return the column sums of N_BOOTSTRAP resamples of the rows, the same for every score."""
    rng, n = np.random.default_rng(1), len(columns)
    chunk = max(1, 2**22 // n)  # resamples at a time, to bound memory
    sums = []
    for start in range(0, N_BOOTSTRAP, chunk):
        draws = np.arange(min(chunk, N_BOOTSTRAP - start))
        rows = rng.integers(n, size=(len(draws), n)) + n * draws[:, None]
        weights = np.bincount(rows.ravel(), minlength=n * len(draws)).reshape(len(draws), n)
        sums.append(weights @ columns)
    return np.concatenate(sums)


def wilson_interval(share: float, n: float) -> tuple[float, float]:
    """Return Wilson's interval of a share of n rows."""
    middle, half = share + Z**2 / (2 * n), Z * math.sqrt(share * (1 - share) / n + (Z / n) ** 2 / 4)
    low, high = ((middle + side * half) / (1 + Z**2 / n) for side in (-1, 1))
    return max(low, 0.0), min(high, 1.0)


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


def compute_interval(
    columns: np.ndarray,
    score: Score,
    groups: Sequence[Hashable] | None = None,
    is_percent: bool = False,
    is_binary: bool = False,
) -> Interval:
    """Return the score of the column sums with its interval: None below MIN_ROWS groups.

    A percentage that is the same in all resamples, such as 100 %, would get an interval of zero
    width; it gets the Wilson interval of a proportion of n groups. `is_binary`: each row is right
    or wrong; if each is its own group, its interval is Wilson's.
    """
    sums = sum_by_group(columns, groups)
    total = sums.sum(0, keepdims=True)
    value, n = score(total).item(), len(sums)
    if n < MIN_ROWS:
        return {"value": value, "low": None, "high": None}
    is_proportion = is_binary and n == len(columns)
    if not is_proportion:
        resampled = score(resample_sums(sums))
        is_proportion = is_percent and np.ptp(resampled) == 0
    if is_proportion:
        low, high = (100 * end for end in wilson_interval(value / 100, n))
        return {"value": value, "low": low, "high": high}
    leave_one_out = score(total - sums)
    below = float(np.mean(resampled < value) + np.mean(resampled == value) / 2)
    bias = NORMAL.inv_cdf(min(max(below, 0.5 / N_BOOTSTRAP), 1 - 0.5 / N_BOOTSTRAP))
    influence = leave_one_out.mean() - leave_one_out
    acceleration = (influence**3).sum() / (6 * (influence**2).sum() ** 1.5 or 1.0)
    widened = student_quantile(n - 1) * math.sqrt(n / (n - 1))
    shifted = [bias + side * widened for side in (-1, 1)]
    levels = [NORMAL.cdf(bias + z / (1 - acceleration * z)) for z in shifted]
    low, high = np.quantile(resampled, levels)
    return {"value": value, "low": float(low), "high": float(high)}


def quotient(sums: np.ndarray) -> np.ndarray:
    """Return the first sum divided by the second."""
    return np.asarray(sums[..., 0] / sums[..., 1])


def groups_of(rows: Sequence[Row]) -> list[Hashable] | None:
    """Return the group of each row; None if the rows have no groups."""
    return [row["group"] for row in rows] if "group" in rows[0] else None


# ---------------------------------------------------------------------------- Student's t


def student_quantile(df: float, alpha: float = 0.05) -> float:
    """Return the value beyond which Student's t lies with probability alpha, on either side."""
    from scipy.special import stdtrit  # takes as long to import as torch

    return float(-stdtrit(df, alpha / 2))

"""Significance of differences between models, over seeds and test examples. No torch.

Another seed would give another score, and so would other test examples. The Multi-Bootstrap
(Sellam et al. 2021, arXiv:2106.16163) therefore draws both with replacement: seeds within each
model, and the same examples for all models. Its percentiles do not suit three seeds: they ignore
that three values hardly show their spread, and no p-value is below one over the number of draws,
where Holm's correction needs 0.0005. So the draws give the variance of a difference between two
means over seeds, and Student's t the rest:

    V = Var(mean of the row's seeds − mean of the column's)  over draws of the examples
      + s²_row / n_row + s²_column / n_column                over draws of the seeds

The second line needs no draws; s² has n − 1 in its denominator. The degrees of freedom are Welch's
and Satterthwaite's. What the examples add to a single seed is in both lines, so that the test is
conservative where seeds hardly differ; without this, far too many tests of a family were passed by
pairs whose seeds agreed by chance. For a model with one seed only the first line is known, which
says nothing about its architecture.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from seqmodels.evaluation import student
from seqmodels.evaluation.intervals import MIN_ROWS, Score, by_group, resample

ALPHA = 0.05
"""Largest p-value, after Holm's correction, of a significant difference."""


class Difference(NamedTuple):
    """A difference with its 95 % interval and its p-value; None below MIN_ROWS groups."""

    value: float
    low: float | None = None
    high: float | None = None
    p: float | None = None


class Mean(NamedTuple):
    """The mean score of a model's seeds."""

    value: float
    drawn: np.ndarray
    """The mean in each draw of the examples."""
    variance: float
    """Its variance over draws of the seeds; nan for one seed."""
    n_seeds: int


def differences(
    models: Mapping[str, Sequence[np.ndarray]],
    score: Score,
    groups: Sequence[Hashable] | None = None,
    is_percent: bool = False,
) -> dict[tuple[str, str], Difference]:
    """Return (row, column) -> score of row minus score of column, for each pair of models.

    `models` has the columns of each seed, (rows, columns), for the same test examples in the same
    order. The later model of a pair is its row. `groups` and `is_percent`: see intervals.interval.
    """
    seeds = [by_group(columns, groups) for runs in models.values() for columns in runs]
    n_groups, width = seeds[0].shape
    values = score(np.stack([sums.sum(axis=0) for sums in seeds]))
    drawn = score(resample(np.concatenate(seeds, axis=1)).reshape(-1, len(seeds), width))
    means, start = {}, 0
    for model, runs in models.items():
        own = slice(start, start := start + len(runs))
        n = len(runs)
        variance = float(values[own].var(ddof=1)) / n if n > 1 else math.nan
        means[model] = Mean(float(values[own].mean()), drawn[:, own].mean(axis=1), variance, n)
    return {
        (row, column): difference(means[row], means[column], n_groups, is_percent)
        for column, row in combinations(models, 2)
    }


def difference(row: Mean, column: Mean, n_groups: int, is_percent: bool = False) -> Difference:
    """Return the difference of two means over the same draws of n_groups groups of examples."""
    value = row.value - column.value
    if n_groups < MIN_ROWS:
        return Difference(value)
    drawn = row.drawn - column.drawn
    by_examples = float(drawn.var()) * n_groups / (n_groups - 1)
    if np.ptp(drawn) == 0:  # all right against all wrong: as if one more group contradicted it
        by_examples = ((100 if is_percent else value) / (n_groups + 1)) ** 2
    parts = [(by_examples, n_groups - 1)]
    if min(row.n_seeds, column.n_seeds) > 1:
        parts += [(mean.variance, mean.n_seeds - 1) for mean in (row, column)]
    variance = sum(part for part, _ in parts)
    if variance == 0:
        return Difference(0.0, 0.0, 0.0, 1.0)
    df = variance**2 / sum(part**2 / n for part, n in parts)
    half = student.quantile(df) * math.sqrt(variance)
    p = student.p_value(value / math.sqrt(variance), df)
    return Difference(value, value - half, value + half, p)


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number (Holm 1979), in the same order.

    The chance that any difference that does not exist is called significant is then at most ALPHA.
    """
    corrected, least = [1.0] * len(p), 0.0
    for n_before, i in enumerate(np.argsort(p, kind="stable")):
        least = max(least, min(1.0, (len(p) - n_before) * p[i]))
        corrected[i] = least
    return corrected

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
from itertools import combinations, compress
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from seqmodels.evaluation import student
from seqmodels.evaluation.intervals import MIN_ROWS, Score, by_group, resample

ALPHA = 0.05
"""Largest p-value, after Holm's correction, of a significant difference."""

Number = Annotated[float, Field(allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1)]


class Difference(BaseModel):
    """A difference with its 95 % interval and its p-value; None below MIN_ROWS groups."""

    model_config = ConfigDict(extra="forbid", strict=True)

    value: Number
    low: Number | None = None
    high: Number | None = None
    p: Probability | None = None
    p_holm: Probability | None = None
    """Corrected for all differences of the test set; None: one seed, or too few rows."""

    @property
    def is_significant(self) -> bool:
        """Return whether the models differ."""
        return self.p_holm is not None and self.p_holm <= ALPHA


class Pair(BaseModel):
    """The score of one model, the row, minus that of another, the column."""

    model_config = ConfigDict(extra="forbid", strict=True)

    row: str
    column: str
    n_seeds: list[int]
    """Seeds of (row, column). With one seed, only test examples are resampled."""
    overall: Difference
    buckets: list[Difference]


class Mean(NamedTuple):
    """The mean score of a model's seeds."""

    value: float
    drawn: np.ndarray
    """The mean in each draw of the examples."""
    variance: float
    """Its variance over draws of the seeds; nan for one seed."""
    n_seeds: int


def compare(
    models: Mapping[str, Sequence[np.ndarray]],
    score: Score,
    x: np.ndarray,
    buckets: Sequence[tuple[int, int]],
    groups: Sequence[Hashable] | None = None,
    is_percent: bool = False,
) -> list[Pair]:
    """Compare all pairs of models, overall and in each bucket of x, corrected together (holm).

    Models with one seed are left out of the correction (see `differences` for the rest).
    """
    parts = []
    for low, high in [(-np.inf, np.inf), *buckets]:
        inside = (low <= x) & (x <= high)
        columns = {model: [run[inside] for run in runs] for model, runs in models.items()}
        own = None if groups is None else list(compress(groups, inside))
        parts.append(differences(columns, score, own, is_percent))
    pairs = []
    for row, column in parts[0]:
        overall, *in_buckets = (part[row, column] for part in parts)
        n_seeds = [len(models[row]), len(models[column])]
        pairs.append(
            Pair(row=row, column=column, n_seeds=n_seeds, overall=overall, buckets=in_buckets)
        )
    several_seeds = [pair for pair in pairs if min(pair.n_seeds) > 1]
    tested = [part for pair in several_seeds for part in (pair.overall, *pair.buckets)]
    tested = [part for part in tested if part.p is not None]
    for part, p_holm in zip(tested, holm([part.p or 0.0 for part in tested]), strict=True):
        part.p_holm = p_holm
    return pairs


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
        return Difference(value=value)
    drawn = row.drawn - column.drawn
    by_examples = float(drawn.var()) * n_groups / (n_groups - 1)
    if np.ptp(drawn) == 0:  # all right against all wrong: as if one more group contradicted it
        by_examples = ((100 if is_percent else value) / (n_groups + 1)) ** 2
    parts = [(by_examples, n_groups - 1)]
    if min(row.n_seeds, column.n_seeds) > 1:
        parts += [(mean.variance, mean.n_seeds - 1) for mean in (row, column)]
    variance = sum(part for part, _ in parts)
    if variance == 0:
        return Difference(value=0.0, low=0.0, high=0.0, p=1.0)
    df = variance**2 / sum(part**2 / n for part, n in parts)
    half = student.quantile(df) * math.sqrt(variance)
    p = student.p_value(value / math.sqrt(variance), df)
    return Difference(value=value, low=value - half, high=value + half, p=p)


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number (Holm 1979), in the same order.

    The chance that any difference that does not exist is called significant is then at most ALPHA.
    """
    corrected, least = [1.0] * len(p), 0.0
    for n_before, i in enumerate(np.argsort(p, kind="stable")):
        least = max(least, min(1.0, (len(p) - n_before) * p[i]))
        corrected[i] = least
    return corrected

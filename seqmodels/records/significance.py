"""Significance of differences between the models of a folder: its file significance.json. No torch.

Another seed would give another score, and so would other test examples. As in the Multi-Bootstrap
(Sellam et al. 2021, arXiv:2106.16163), the variance of a difference of two means has parts of both:

    V_examples = Var(row − column) over the same n examples     n − 1 degrees of freedom
    V_seeds    = s²_row / n_row + s²_column / n_column          Welch's degrees of freedom (1947)
    interval   = difference ± t √(V_examples + V_seeds)

V_examples is the jackknife's, and t the mean of the two quantiles of Student's t, weighted by their
variances (Cochran and Cox 1957, "Experimental designs"). The interval of a difference of shares is
put together from those of the two means, so that it stays within what both allow (Newcombe 1998);
p is the alpha at which both this interval and difference ± t √V exclude zero.

A family is the contrasts that a task has named, or else all pairs, over all examples of a test set
in one metric; its p-values are corrected together (Holm 1979). Each interval holds 95 % by itself,
and buckets have intervals alone. With fewer than MIN_SEEDS seeds a model is not tested, and its
intervals are over examples alone. How often the test errs: docs/fairness.md.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import combinations, compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqmodels.evaluation.intervals import (
    MIN_ROWS,
    Score,
    leave_one_out,
    share_ends,
    student_quantile,
    sum_by_group,
)
from seqmodels.evaluation.metrics import metric_of
from seqmodels.records.io import load_sums, sums_path
from seqmodels.records.schema import Interval, Record, Strict, Sums, Test

SCHEMA = "seqmodels.significance/3"
FILE = "significance.json"
"""Name of the file in a folder of records."""
ALPHA = 0.05
"""Probability that any of the differences that do not exist is called significant."""
MIN_SEEDS = 3
"""Fewest seeds of a model that is tested."""

TINY = 1e-9
"""A variance that is zero but for rounding."""

Names = tuple[str, str]
"""The models of a contrast, as (column, row)."""
Records = Mapping[str, Record]
"""Records by the names of their files, in the order of the models."""

# --------------------------------------------------------------------------------------- The file


class Pair(Strict):
    """The score of one model, the row, minus that of another, the column."""

    row: str
    column: str
    n_seeds: list[int]
    """Seeds of (row, column). With fewer than MIN_SEEDS, the intervals are over examples alone."""
    is_separated: bool
    """Whether the lowest seed of one is above the highest of the other, of two seeds or more."""
    p: float | None = None
    """p-value of the difference over all examples, corrected for its family; None: not tested."""
    overall: Interval
    buckets: list[Interval]

    @property
    def is_significant(self) -> bool:
        """Return whether the models differ."""
        return self.p is not None and self.p <= ALPHA

    @property
    def largest(self) -> float | None:
        """Return the end of the interval that is farther from zero."""
        low, high = self.overall.low, self.overall.high
        return None if low is None or high is None else max(low, high, key=abs)


class Comparison(Strict):
    """All pairs of models on one test set, by its primary metric or by the loss."""

    test: str
    metric: str
    buckets: list[list[int]]
    pairs: list[Pair]

    @property
    def n_tested(self) -> int:
        """Return the number of tests of the family."""
        return sum(pair.p is not None for pair in self.pairs)


class Significance(Strict):
    """All comparisons of a folder."""

    comparisons: list[Comparison]

    def on(self, test: str) -> Comparison | None:
        """Return the comparison on a test set by its primary metric."""
        return next((c for c in self.comparisons if c.test == test), None)

    def text(self) -> str:
        """Return the content of the file."""
        return (
            json.dumps({"schema": SCHEMA, **self.model_dump()}, ensure_ascii=False, indent=1) + "\n"
        )


def compare_folder(folder: Path, records: Records) -> Significance | None:
    """Return the differences of a folder's models; None if a record lacks sums, or for one model.

    Raises ValueError for sums that are not those of their records.
    """
    models = {record.model for record in records.values()}
    if len(models) < 2 or not all(sums_path(folder, r).exists() for r in records.values()):
        return None
    comparisons = [compare_models(family) for family in score_folder(folder, records)]
    return Significance(comparisons=comparisons) if comparisons else None


# --------------------------------------------------------------------------------- The comparison


class Part(NamedTuple):
    """The scores of all models in a bucket or over all examples, of many draws along first axes."""

    seeds: Mapping[str, np.ndarray]
    """The scores of each model, one for each seed."""
    covariance: np.ndarray
    """Covariance of the models' means over draws of the examples: (models, models)."""
    n_groups: int


class Family(NamedTuple):
    """The scores of a folder's models on one test set, by its primary metric or by the loss."""

    test: str
    buckets: list[list[int]]
    metric: str
    parts: list[Part]
    """Over all examples, and in each bucket."""
    tested: list[Names]
    """The contrasts that are tested together."""


def score_folder(folder: Path, records: Records) -> Iterator[Family]:
    """Yield a family for each test set whose primary metric is one of sums, and of their losses.

    Raises ValueError if the test examples of the runs differ.
    """
    tests: dict[str, Test] = {}
    runs: dict[str, dict[str, list[Sums]]] = {}
    contrasts = {record.model: record.contrasts for record in records.values()}
    for record in records.values():
        path = sums_path(folder, record)
        sums = load_sums(path, record)
        for test in (test for test in record.tests if test.name in sums):
            tests.setdefault(test.name, test)
            models = runs.setdefault(test.name, {})
            models.setdefault(record.model, []).append(run := sums[test.name])
            if run.examples != next(iter(models.values()))[0].examples:
                raise ValueError(f"{path}: its test examples are not those of the other runs")
    for name, models in runs.items():
        if len(models) > 1:
            yield score_test(tests[name], tests[name].primary_metric, models, contrasts)
            if all(run.losses for own in models.values() for run in own):
                yield score_test(tests[name], "nats", models, contrasts)


def score_test(
    test: Test,
    key: str,
    models: Mapping[str, Sequence[Sums]],
    contrasts: Mapping[str, Collection[str] | None],
) -> Family:
    """Score models on one test set, overall and by bucket, in its primary metric or in "nats".

    `contrasts`: the models that each is to be compared with; None: with all.
    """
    metric, first = metric_of(key), next(iter(models.values()))[0]
    is_primary = key == test.primary_metric
    terms = {
        model: [np.array(run.columns if is_primary else run.losses, float).T for run in runs]
        for model, runs in models.items()
    }
    x, parts = np.array(first.x), []
    for low, high in [(-np.inf, np.inf), *((b.low, b.high) for b in test.buckets)]:
        inside = (low <= x) & (x <= high)
        columns = {model: [run[inside] for run in runs] for model, runs in terms.items()}
        groups = first.groups and list(compress(first.groups, inside))
        parts.append(score_models(columns, metric.score_from_stats, groups))
    others = {m: models if (own := contrasts[m]) is None else own for m in models}
    pairs = list(combinations(models, 2))
    named = [(a, b) for a, b in pairs if b in others[a] or a in others[b]] or pairs
    named = named if parts[0].n_groups >= MIN_ROWS else []
    tested = [(a, b) for a, b in named if min(len(models[a]), len(models[b])) >= MIN_SEEDS]
    return Family(test.name, [[b.low, b.high] for b in test.buckets], key, parts, tested)


def score_models(
    models: Mapping[str, Sequence[np.ndarray]],
    score: Score,
    groups: Sequence[Hashable] | None = None,
) -> Part:
    """Return the scores of each model's seeds and the covariance of the models' means.

    `models` has the columns of each seed, (rows, columns), for the same test examples in the same
    order. `groups`: see compute_interval.
    """
    runs = {m: np.stack([sum_by_group(run, groups) for run in own]) for m, own in models.items()}
    seeds = {model: score(own.sum(axis=1)) for model, own in runs.items()}
    n_groups, covariance = next(iter(runs.values())).shape[1], np.zeros((len(runs), len(runs)))
    if n_groups >= MIN_ROWS:
        without = [leave_one_out(own, score).mean(axis=0) for own in runs.values()]
        covariance = np.cov(without) * (n_groups - 1) ** 2 / n_groups
    return Part(seeds, covariance, n_groups)


def compare_models(family: Family) -> Comparison:
    """Compare all pairs of models of a family; the tested ones together."""
    seeds, pairs = family.parts[0].seeds, []
    is_percent = metric_of(family.metric).is_percent
    single = [p_value(family.parts[0], pair, is_percent) for pair in family.tested]
    p_values = dict(zip(family.tested, correct(np.array(single)).tolist(), strict=True))
    for column, row in combinations(seeds, 2):
        differences = []
        for part in family.parts:
            value, low, high = part.seeds[row].mean() - part.seeds[column].mean(), None, None
            if part.n_groups >= MIN_ROWS:
                value, low, high, _ = estimate(part, (column, row), is_percent)
            differences.append(Interval(value=value, low=low, high=high))
        a, b = seeds[row], seeds[column]
        is_separated = min(len(a), len(b)) > 1 and (min(a) > max(b) or min(b) > max(a))
        pairs.append(Pair(row=row, column=column, n_seeds=[len(a), len(b)],
                          is_separated=bool(is_separated), p=p_values.get((column, row)),
                          overall=differences[0], buckets=differences[1:]))  # fmt: skip
    return Comparison(test=family.test, metric=family.metric, buckets=family.buckets, pairs=pairs)


def correct(p_values: np.ndarray) -> np.ndarray:
    """Return p-values that are corrected for all of them by Holm's method."""
    order = np.argsort(p_values)
    multiplied = np.arange(len(order), 0, -1) * p_values[order]
    return np.maximum.accumulate(multiplied).clip(max=1)[np.argsort(order)]


class Estimate(NamedTuple):
    """A difference of two means and its interval."""

    value: Any
    low: Any
    high: Any
    half: Any
    """Half the width of the interval by Student's t alone, which may leave the scale of shares."""


def estimate(part: Part, names: Names, is_percent: bool, alpha: Any = ALPHA) -> Estimate:
    """Estimate the mean of the row minus that of the column; `is_percent`: of shares."""
    i, j = ([*part.seeds].index(name) for name in names)
    seeds, c, n = [part.seeds[name] for name in names], part.covariance, part.n_groups
    means, variances = [own.mean(axis=-1) for own in seeds], [c[..., i, i], c[..., j, j]]
    value, by_examples = means[1] - means[0], variances[0] + variances[1] - 2 * c[..., i, j]
    if is_percent:  # all right against all wrong: as if one more group contradicted it
        by_examples = np.where(by_examples > TINY, by_examples, (100 / (n + 1)) ** 2)
    shared = (variances[0] + variances[1] - by_examples) / 2
    total, quantile = by_examples, student_quantile(n - 1, alpha)
    if (fewest := min(own.shape[-1] for own in seeds)) >= MIN_SEEDS:
        of_seeds = [seed_variance(own, is_percent) / own.shape[-1] for own in seeds]
        squares = [v**2 / (own.shape[-1] - 1) for v, own in zip(of_seeds, seeds, strict=True)]
        by_seeds = of_seeds[0] + of_seeds[1]
        welch = np.maximum(by_seeds**2 / np.maximum(squares[0] + squares[1], TINY**2), fewest - 1)
        total = by_examples + by_seeds
        weight = by_seeds / np.maximum(total, TINY**2)
        quantile = (1 - weight) * quantile + weight * student_quantile(welch, alpha)
        variances = [x + y for x, y in zip(variances, of_seeds, strict=True)]
    half = quantile * np.sqrt(total)
    if not is_percent:
        return Estimate(value, value - half, value + half, half)
    ends = [share_ends(m, v, n, quantile) for m, v in zip(means, variances, strict=True)]
    down, up = ([abs(end[k] - m) for end, m in zip(ends, means, strict=True)] for k in (0, 1))
    r = np.clip(shared / np.sqrt(np.maximum(variances[0] * variances[1], TINY**2)), -1, 1)
    below, above = (
        np.sqrt(x**2 + y**2 - 2 * r * x * y) for x, y in ((down[1], up[0]), (up[1], down[0]))
    )
    return Estimate(value, value - below, value + above, half)


def seed_variance(scores: np.ndarray, is_percent: bool) -> Any:
    """Return the variance between seeds; of shares, from arcsines, where it has no edge."""
    if not is_percent:
        return scores.var(axis=-1, ddof=1)
    angles, mean = np.arcsin(np.sqrt(scores / 100)), scores.mean(axis=-1)
    return 4 * mean * (100 - mean) * angles.var(axis=-1, ddof=1)


def p_value(part: Part, names: Names, is_percent: bool, true: float = 0.0) -> Any:
    """Return, by bisection, the alpha at which both intervals end before the true difference."""
    low, high = np.array(0.0), np.array(1.0)
    for _ in range(50):
        middle = (low + high) / 2
        own = estimate(part, names, is_percent, middle)
        is_inside = (own.low <= true) & (true <= own.high) | (abs(own.value - true) <= own.half)
        low, high = np.where(is_inside, middle, low), np.where(is_inside, high, middle)
    return high

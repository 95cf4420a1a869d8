"""Significance of differences between the models of a folder: its file significance.json. No torch.

Another seed would give another score, and so would other test examples. As in the Multi-Bootstrap
(Sellam et al. 2021, arXiv:2106.16163), the variance of a difference of two means has parts from
both; the first is found by drawing the same examples, of n, for both models:

    V = Var(mean of the row's seeds − mean of the column's)    n − 1 degrees of freedom
      + s²_row / n_row + s²_column / n_column                  moderated variances of the seeds

s², of d degrees of freedom, is moderated by the mean s₀² of all models in the bucket (Smyth 2004,
"Linear models and empirical Bayes methods"), unless the model varies more than they do:

    s²_model = (d₀ s₀² + d s²) / (d₀ + d)    with d₀ + d degrees of freedom, if s² ≤ s₀²
    s²_model = s²                            with d₀ s₀²/s² + d, otherwise

d₀ is estimated from the spread of log s² over all buckets, and is at most the degrees of freedom of
the other models. The interval is difference ± t √V with t = Σ V_i t_i / Σ V_i, where each part of V
has its own quantile t_i of Student's t (Cochran and Cox 1957, "Experimental designs").

All tests of a family are corrected together (Bonferroni): the contrasts that the task has named, or
else all pairs, over all examples and in each bucket. A model with fewer than MIN_SEEDS seeds is not
tested: its intervals are over examples alone. docs/fairness.md has how often the test errs.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, compress
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

import numpy as np
from pydantic import Field
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

from seqmodels.evaluation.intervals import (
    MIN_ROWS,
    N_BOOTSTRAP,
    Score,
    student_quantile,
    sum_by_group,
)
from seqmodels.evaluation.metrics import metric_of
from seqmodels.records.io import load_sums, sums_path
from seqmodels.records.schema import (
    Checksum,
    Count,
    Name,
    Record,
    Strict,
    Sums,
    Test,
    TwoNumbers,
    validate,
)
from seqmodels.utils import files

SCHEMA: Final = "seqmodels.significance/2"
FILE = "significance.json"
"""Name of the file in a folder of records."""
ALPHA = 0.05
"""Probability that any of the differences that do not exist is called significant."""
MIN_SEEDS = 3
"""Fewest seeds of a model that is tested."""
MAX_DF = 1e8
"""Degrees of freedom of a variance that is as good as known."""

Records = Mapping[str, Record]
"""Records by the names of their files, in the order of the models."""

# --------------------------------------------------------------------------------------- The file


class Difference(Strict):
    """A difference with its interval, which is None below MIN_ROWS groups."""

    value: Annotated[float, Field(allow_inf_nan=False)]
    low: float | None = None
    high: float | None = None
    p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Corrected for all differences of the family; None: not one of them."""

    @property
    def is_significant(self) -> bool:
        """Return whether the models differ: whether the simultaneous interval excludes zero."""
        return self.p is not None and self.p <= ALPHA


class Pair(Strict):
    """The score of one model, the row, minus that of another, the column."""

    row: str
    column: str
    n_seeds: list[int]
    """Seeds of (row, column). With fewer than MIN_SEEDS, only test examples are resampled."""
    is_tested: bool
    """Whether it is in the family: named, with MIN_SEEDS seeds each. Its intervals are
    simultaneous; those of other pairs hold 95 % each."""
    overall: Difference
    buckets: list[Difference]


class Comparison(Strict):
    """All pairs of models on one test set, by its primary metric or by the loss."""

    test: Name
    metric: Name
    n_tested: Count
    """Number of differences in the family."""
    buckets: list[TwoNumbers]
    pairs: Annotated[list[Pair], Field(min_length=1)]


class Significance(Strict):
    """All comparisons of a folder, and a checksum of each record that they were made from."""

    version: Annotated[Literal["seqmodels.significance/2"], Field(alias="schema")]
    records: dict[str, Checksum]
    """The records by the names of their files."""
    comparisons: Annotated[list[Comparison], Field(min_length=1)]

    def on(self, test: str) -> Comparison | None:
        """Return the comparison on a test set by its primary metric."""
        return next((c for c in self.comparisons if c.test == test), None)

    def text(self) -> str:
        """Return the content of the file."""
        return json.dumps(self.model_dump(by_alias=True), ensure_ascii=False, indent=1) + "\n"


def load_or_compute(folder: Path, records: Records) -> Significance | None:
    """Return the folder's significance file, recomputed from the sums if it is out of date.

    None if there is nothing to compare, or neither a file nor all the sums. Raises ValueError for
    an invalid file, one that cannot be recomputed, and sums that are not those of their records.
    """
    path, stored = folder / FILE, None
    if path.exists():
        try:
            stored = validate(Significance, files.read_json(path))
        except ValueError as error:
            raise ValueError(f"{path} is not a comparison of models: {error}") from None
    checksums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in records}
    if stored and stored.records == checksums:
        return stored
    missing = [p.name for r in records.values() if not (p := sums_path(folder, r)).exists()]
    if not missing:
        comparisons = [compare_models(family) for family in score_folder(folder, records)]
        value = {"schema": SCHEMA, "records": checksums, "comparisons": comparisons}
        return Significance.model_validate(value) if comparisons else None
    if stored is None:
        return None
    raise ValueError(
        f"{path} was made from other records; it cannot be made anew without {missing[0]}, "
        "so restore the records, or delete it"
    )


# --------------------------------------------------------------------------------- The comparison


@dataclass
class Mean:
    """The mean score of a model's seeds over the examples of a bucket."""

    value: float
    resampled: np.ndarray
    """The mean in each draw of the examples."""
    n_seeds: int
    variance: float
    """Variance of the seeds' scores, later moderated; nan for one seed."""
    df: float
    """Its degrees of freedom."""


class Part(NamedTuple):
    """The mean scores of all models over the examples of a bucket, or over all examples."""

    means: dict[str, Mean]
    n_groups: int


class Family(NamedTuple):
    """The scores of a folder's models on one test set, by its primary metric or by the loss."""

    test: str
    """Its name."""
    buckets: list[list[int]]
    """The ends of its buckets."""
    metric: str
    parts: list[Part]
    """Over all examples, and in each bucket; not moderated yet."""
    tested: list[tuple[str, str]]
    """The contrasts that are tested together, as (column, row)."""

    @property
    def n_tested(self) -> int:
        """Return the number of tests."""
        return len(self.tested) * sum(part.n_groups >= MIN_ROWS for part in self.parts)


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
    tested = [pair for pair in named if min(len(models[name]) for name in pair) >= MIN_SEEDS]
    return Family(test.name, [[b.low, b.high] for b in test.buckets], key, parts, tested)


def score_models(
    models: Mapping[str, Sequence[np.ndarray]],
    score: Score,
    groups: Sequence[Hashable] | None = None,
) -> Part:
    """Return the mean score of each model.

    `models` has the columns of each seed, (rows, columns), for the same test examples in the same
    order. `groups`: see compute_interval.
    """
    seeds = [sum_by_group(columns, groups) for runs in models.values() for columns in runs]
    n_groups, width = seeds[0].shape
    values = score(np.stack([sums.sum(axis=0) for sums in seeds]))
    resampled = score(resample_sums(np.concatenate(seeds, axis=1)).reshape(-1, len(seeds), width))
    means, start = {}, 0
    for model, runs in models.items():
        own, n = slice(start, start := start + len(runs)), len(runs)
        variance = float(values[own].var(ddof=1)) if n > 1 else math.nan
        mean = resampled[:, own].mean(axis=1)
        means[model] = Mean(float(values[own].mean()), mean, n, variance, n - 1)
    return Part(means, n_groups)


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


def compare_models(family: Family) -> Comparison:
    """Compare all pairs of models of a family; the tested ones together."""
    shrink_variances(family.parts)
    is_percent, means = metric_of(family.metric).is_percent, family.parts[0].means
    pairs = []
    for column, row in combinations(means, 2):
        n_tested = family.n_tested if (column, row) in family.tested else 0
        overall, *buckets = (
            compute_difference(part, row, column, n_tested, is_percent) for part in family.parts
        )
        n_seeds = [means[row].n_seeds, means[column].n_seeds]
        pairs.append(Pair(row=row, column=column, n_seeds=n_seeds, is_tested=n_tested > 0,
                          overall=overall, buckets=buckets))  # fmt: skip
    return Comparison(test=family.test, metric=family.metric, n_tested=family.n_tested,
                      buckets=family.buckets, pairs=pairs)  # fmt: skip


def shrink_variances(parts: Sequence[Part]) -> None:
    """Replace the variances of MIN_SEEDS seeds and their degrees of freedom by moderated ones."""
    several = [name for name, mean in parts[0].means.items() if mean.n_seeds >= MIN_SEEDS]
    if len(several) < 2:
        return
    d = np.array([parts[0].means[name].df for name in several])
    variances = np.array([[part.means[name].variance for name in several] for part in parts])
    d_0 = min(estimate_prior_df(variances, d), float(d.sum() - d.max()))
    for part, row in zip(parts, variances, strict=True):
        s_0 = float((d * row).sum() / d.sum())
        for name, own, df in zip(several, row, d, strict=True):
            mean = part.means[name]
            mean.df = df + d_0 * (s_0 / own if own > s_0 else 1)
            mean.variance = max(own, (d_0 * s_0 + df * own) / (d_0 + df))


def estimate_prior_df(variances: np.ndarray, d: np.ndarray) -> float:
    """Return d₀ of variances (buckets, models) with d degrees of freedom (Smyth 2004, 6.2).

    Their logarithms spread by trigamma(d/2) if all models have the same variance; what they spread
    more is trigamma(d₀/2). A variance of zero says nothing.
    """
    is_positive = variances > 0
    is_used = is_positive & (is_positive.sum(axis=1, keepdims=True) > 1)
    if not is_used.any():
        return math.inf
    e = np.ma.log(np.ma.array(variances, mask=~is_used)) - digamma(d / 2) + np.log(d / 2)
    squares = (e - e.mean(axis=1, keepdims=True)) ** 2
    expected = np.ma.array(np.broadcast_to(polygamma(1, d / 2), e.shape), mask=~is_used).mean()
    excess = squares.sum() / (e.count(axis=1) - 1).clip(0).sum() - expected
    if excess <= polygamma(1, MAX_DF):
        return math.inf
    return float(2 * brentq(lambda x: polygamma(1, x) - excess, 1 / MAX_DF, MAX_DF))


def compute_difference(
    part: Part, row: str, column: str, n_tested: int = 0, is_percent: bool = False
) -> Difference:
    """Return the score of the row minus that of the column in a bucket.

    n_tested: number of tests in its family; 0: it is not one of them. `is_percent`: see
    compute_interval.
    """
    a, b, n_groups = part.means[row], part.means[column], part.n_groups
    value = a.value - b.value
    if n_groups < MIN_ROWS:
        return Difference(value=value)
    resampled = a.resampled - b.resampled
    by_examples = float(resampled.var()) * n_groups / (n_groups - 1)
    if np.ptp(resampled) == 0:  # all right against all wrong: as if one more group contradicted it
        by_examples = ((100 if is_percent else value) / (n_groups + 1)) ** 2
    parts = [(by_examples, n_groups - 1.0)]
    if min(a.n_seeds, b.n_seeds) >= MIN_SEEDS:
        parts += [(mean.variance / mean.n_seeds, mean.df) for mean in (a, b)]
    if not any(variance for variance, _ in parts):
        return Difference(value=0.0, low=0.0, high=0.0, p=1.0 if n_tested else None)
    half = half_width(parts, ALPHA / max(n_tested, 1))
    p = min(1.0, n_tested * p_value(abs(value), parts)) if n_tested else None
    return Difference(value=value, low=value - half, high=value + half, p=p)


def half_width(parts: Sequence[tuple[float, float]], alpha: float) -> float:
    """Return half the width of an interval from variances with their degrees of freedom."""
    total = sum(variance for variance, _ in parts)
    quantiles = sum(variance * student_quantile(df, alpha) for variance, df in parts)
    return quantiles / math.sqrt(total)


def p_value(value: float, parts: Sequence[tuple[float, float]]) -> float:
    """Return, by bisection, the alpha whose interval has this half width."""
    low, high = 0.0, 1.0
    for _ in range(53):
        middle = (low + high) / 2
        low, high = (low, middle) if half_width(parts, middle) < value else (middle, high)
    return high

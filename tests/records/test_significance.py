"""Significance of differences: both levels, pairing, direction, correction, and calibration."""

import math

import numpy as np
import pytest
from scipy import stats

from seqmodels.evaluation.intervals import student_quantile
from seqmodels.records.significance import (
    Difference,
    Family,
    Mean,
    Part,
    compare_models,
    compute_difference,
    estimate_prior_df,
    half_width,
    score_models,
    shrink_variances,
)
from tools.significance import draw_parts, simulate

Models = dict[str, list[np.ndarray]]


def ratio(sums: np.ndarray) -> np.ndarray:
    return sums[..., 0] / sums[..., 1]


def columns(values: np.ndarray) -> np.ndarray:
    """Return rows whose score is the mean of the values."""
    return np.stack([values, np.ones_like(values)], 1)


def losses(rng: np.random.Generator, n: int = 60, sd: float = 0.05) -> Models:
    """Draw the losses of two models with three seeds each, which share how hard a sentence is."""
    hard = rng.normal(5, 2, n)
    return {
        model: [columns(hard + rng.normal(0, sd) + rng.normal(0, 0.5, n)) for _ in range(3)]
        for model in ("old", "new")
    }


def difference(models: Models, groups: list[int] | None = None, n_tested: int = 1) -> Difference:
    column, row = models
    return compute_difference(score_models(models, ratio, groups), row, column, n_tested)


def width(found: Difference) -> float:
    return found.high - found.low


def test_a_case_by_hand() -> None:
    """All rows of a run are equal, so that the seeds alone decide.

    s² = 4 and 1, V = 4/3 + 1/3, each with 2 degrees of freedom. In a family of eight, its interval
    is wider.
    """
    models = {
        "old": [columns(np.full(1_000, value)) for value in (1.0, 2.0, 3.0)],
        "new": [columns(np.full(1_000, value)) for value in (10.0, 12.0, 14.0)],
    }
    p = 2 * stats.t.sf(10 / math.sqrt(5 / 3), 2)
    for n_tested, alpha in ((1, 0.05), (8, 0.05 / 8)):
        found = difference(models, n_tested=n_tested)
        half = stats.t.ppf(1 - alpha / 2, 2) * math.sqrt(5 / 3)
        assert found.value == pytest.approx(10)
        assert found.p == pytest.approx(n_tested * p, rel=1e-3)
        assert (found.low, found.high) == pytest.approx((10 - half, 10 + half), rel=1e-3)
        assert found.is_significant == (found.low > 0) == (n_tested == 1)
    assert difference(models, n_tested=0).p is None
    assert not difference(models, n_tested=0).is_significant


def test_each_variance_has_its_own_quantile() -> None:
    row = Mean(3.0, np.array([2.0, 4.0]), 1, math.nan, 0)
    column = Mean(1.0, np.array([1.0, 1.0]), 1, math.nan, 0)
    difference = compute_difference(Part({"r": row, "c": column}, 10), "r", "c", 1)
    assert difference.p == pytest.approx(2 * stats.t.sf(2 / math.sqrt(10 / 9), 9))
    assert width(difference) / 2 == pytest.approx(2.262157 * math.sqrt(10 / 9))
    many = Mean(9.0, np.array([8.0, 10.0]), 6, 1.5, 5)
    few = Mean(1.0, np.array([1.0, 1.0]), 3, 0.7, 2)
    total = 10 / 9 + 1.5 / 6 + 0.7 / 3
    t = (10 / 9 * 2.262157 + 1.5 / 6 * 2.570582 + 0.7 / 3 * 4.302653) / total
    for row, column, sign in (("many", "few", 1), ("few", "many", -1)):
        found = compute_difference(Part({"many": many, "few": few}, 10), row, column, 1)
        assert found.value == 8 * sign
        assert width(found) / 2 == pytest.approx(t * math.sqrt(total))
        at_p = half_width([(10 / 9, 9), (1.5 / 6, 5), (0.7 / 3, 2)], found.p)
        assert at_p == pytest.approx(8)


def part_of(variances: list[float], df: float = 2.0) -> Part:
    """Return models with these variances of three seeds."""
    means = {str(i): Mean(0.0, np.zeros(2), 3, v, df) for i, v in enumerate(variances)}
    return Part(means, 50)


def test_variances_below_the_mean_are_shrunk() -> None:
    parts = [part_of([1.0, 1.1, 0.9, 1.2]), part_of([100.0, 110.0, 90.0, 104.0])]
    shrink_variances(parts)
    (first, _, third, last), (other, *_) = ([*part.means.values()] for part in parts)
    assert first.df == third.df == other.df == 6 + 2  # d₀ is that of the other three models
    assert first.variance == pytest.approx((6 * 1.05 + 2 * 1.0) / 8)
    assert third.variance == pytest.approx((6 * 1.05 + 2 * 0.9) / 8)
    assert other.variance == pytest.approx((6 * 101.0 + 2 * 100.0) / 8)
    assert (last.variance, last.df) == pytest.approx((1.2, 6 * 1.05 / 1.2 + 2))
    unlike = [part_of([1e-4, 1e4, 1.0, 1e2])]
    shrink_variances(unlike)
    assert all(0 < mean.df - 2 < 0.5 for mean in unlike[0].means.values())
    assert unlike[0].means["1"].variance == 1e4


def test_variances_of_two_seeds_are_not_shrunk() -> None:
    means = part_of([1.0, 2.0]).means | {
        "two": Mean(0.0, np.zeros(2), 2, 90.0, 1.0),
        "one": Mean(0.0, np.zeros(2), 1, math.nan, 0.0),
    }
    alone = [Part({name: means[name] for name in ("0", "two", "one")}, 50)]
    shrink_variances(alone)
    assert (means["0"].variance, means["0"].df) == (1.0, 2.0)
    shrink_variances([Part(means, 50)])
    assert means["0"].variance == pytest.approx((2 * 1.5 + 2 * 1.0) / 4)
    assert (means["two"].variance, means["two"].df) == (90.0, 1.0)


def test_three_seeds_are_tested_and_two_are_shown() -> None:
    few = {"a": 3, "b": 3, "c": 2, "d": 1}
    means = {
        name: Mean(10.0 * i, np.array([-1.0, 1.0]) * (i + 1), n, 0.5, n - 1)
        for i, (name, n) in enumerate(few.items())
    }
    parts = [Part(dict(means), 50), Part(dict(means), 9)]
    family = Family("length", [[1, 10]], "nats", parts, [("a", "b")])
    found = compare_models(family)
    assert [(p.row, p.column) for p in found.pairs if p.is_tested] == [("b", "a")]
    assert (found.n_tested, len(found.pairs)) == (1, 6)
    by_name = {p.row + p.column: p for p in found.pairs}
    assert by_name["ba"].overall.is_significant
    assert by_name["ca"].n_seeds == [2, 3]
    for name in ("ca", "da", "dc"):
        assert (by_name[name].overall.p, by_name[name].buckets[0].low) == (None, None)
        assert by_name[name].overall.low is not None


def test_the_priors_degrees_of_freedom_are_estimated() -> None:
    rng = np.random.default_rng(1)
    for d_0 in (3.0, 12.0):
        true = 10.0 ** rng.integers(-2, 3, (400, 1)) * d_0 / rng.chisquare(d_0, (400, 10))
        found = estimate_prior_df(true * rng.chisquare(4, true.shape) / 4, np.full(10, 4.0))
        assert found == pytest.approx(d_0, rel=0.2)
    zeros = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 3.0]])
    assert estimate_prior_df(zeros, np.full(3, 2.0)) == math.inf
    assert estimate_prior_df(np.zeros((2, 3)), np.full(3, 2.0)) == math.inf


def test_the_variance_is_that_of_drawing_both_levels() -> None:
    models = losses(np.random.default_rng(2), 40)
    found = difference(models)
    rng = np.random.default_rng(1)
    old, new = (np.stack([run[:, 0] for run in runs]) for runs in models.values())
    of_new, of_old = (rng.choice(side.mean(1), (2_000, 3)).mean(1) for side in (new, old))
    of_rows = rng.choice(new.mean(0) - old.mean(0), (2_000, 40)).mean(1)
    seeds, rows = np.var(of_new - of_old) * 3 / 2, np.var(of_rows) * 40 / 39
    assert 0.2 < rows / seeds < 5
    t = (seeds * student_quantile(2) + rows * student_quantile(39)) / (seeds + rows)
    assert width(found) / 2 == pytest.approx(t * math.sqrt(seeds + rows), rel=0.05)


def test_all_and_nothing_are_not_certain() -> None:

    def percent(sums: np.ndarray) -> np.ndarray:
        return 100 * ratio(sums)

    models = {"wrong": [columns(np.zeros(20))] * 3, "right": [columns(np.ones(20))] * 3}
    part = score_models(models, percent)
    found = compute_difference(part, "right", "wrong", 1, is_percent=True)
    assert found.value == 100
    assert found.p == pytest.approx(2 * stats.t.sf(21, 19))
    assert found.low == pytest.approx(100 - student_quantile(19) * 100 / 21)
    same = score_models({"one": models["right"], "other": models["right"]}, percent)
    found = compute_difference(same, "other", "one", 1, is_percent=True)
    assert (found.value, found.p) == pytest.approx((0, 1))
    assert width(found) == pytest.approx(2 * student_quantile(19) * 100 / 21)
    found = compute_difference(same, "other", "one", 1)
    assert found == Difference(value=0.0, low=0.0, high=0.0, p=1.0)


def record_family() -> Family:
    """Return a family of three models with unequal seeds, spreads and correlated examples."""
    rng = np.random.default_rng(1)
    hard, parts = rng.normal(0, 1, 2_000), []
    for scale in (1.0, 3.0):
        means = {
            name: Mean(0.0, scale * (hard + rng.normal(0, own, 2_000)), n, scale * spread, n - 1)
            for name, n, own, spread in (("a", 3, 0.3, 0.1), ("b", 5, 0.5, 2.0), ("c", 2, 0.1, 4.0))
        }
        parts.append(Part(means, 40))
    return Family("length", [], "nats", parts, [("a", "b")])


def test_the_simulation_has_the_familys_variances() -> None:
    family = record_family()
    drawn = [draw_parts(np.random.default_rng(i), family)[1].means for i in range(2_000)]
    spread = {name: np.mean([each[name].variance for each in drawn]) for name in "abc"}
    assert spread == pytest.approx({"a": 0.3, "b": 6.0, "c": 12.0}, rel=0.1)
    examples = 3.0**2 * (0.3**2 + 0.5**2) * 40 / 39
    pairs = [each["a"].resampled - each["b"].resampled for each in drawn]
    assert np.mean([pair.var() for pair in pairs]) == pytest.approx(examples * 39 / 40, rel=0.1)
    values = [each["a"].value - each["b"].value for each in drawn]
    assert np.var(values) == pytest.approx(examples + 0.3 / 3 + 6.0 / 5, rel=0.15)


def test_equal_models_differ_no_more_often_than_claimed() -> None:
    error, coverage = simulate(record_family(), 100)
    assert error <= 6
    assert coverage.mean() >= 94

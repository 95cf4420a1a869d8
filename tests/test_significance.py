"""Significance of differences: both levels, pairing, direction, correction, and calibration."""

import math

import numpy as np
import pytest
from scipy import stats

from seqmodels.evaluation.intervals import student_p_value, student_quantile
from seqmodels.records.significance import (
    Difference,
    Mean,
    Part,
    compute_difference,
    estimate_prior_df,
    invert_trigamma,
    moderate,
    score_models,
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
    """Keeps out a spread with n for n − 1, seeds that are not averaged, and a normal for Student.

    All rows of a run are equal, so that the seeds alone decide: s² = 4 and 1, V = 4/3 + 1/3, with
    the 2 degrees of freedom of one of them. In a family of eight, its interval is wider.
    """
    models = {
        "old": [columns(np.full(10_000, value)) for value in (1.0, 2.0, 3.0)],
        "new": [columns(np.full(10_000, value)) for value in (10.0, 12.0, 14.0)],
    }
    p = 2 * stats.t.sf(10 / math.sqrt(5 / 3), 2)
    for n_tested, alpha in ((1, 0.05), (8, 0.05 / 8)):
        found = difference(models, n_tested=n_tested)
        half = stats.t.ppf(1 - alpha / 2, 2) * math.sqrt(5 / 3)
        assert found.value == pytest.approx(10)
        assert found.p == pytest.approx(n_tested * p, rel=1e-4)
        assert (found.low, found.high) == pytest.approx((10 - half, 10 + half), rel=1e-4)
        assert found.is_significant == (found.low > 0) == (n_tested == 1)
    assert difference(models, n_tested=0).p is None
    assert not difference(models, n_tested=0).is_significant


def test_the_variance_of_examples_by_hand() -> None:
    """Keeps out a variance with n for n − 1, and the degrees of the model with more seeds."""
    row = Mean(3.0, np.array([2.0, 4.0]), 1, math.nan, 0)
    column = Mean(1.0, np.array([1.0, 1.0]), 1, math.nan, 0)
    difference = compute_difference(Part({"r": row, "c": column}, 10), "r", "c", 1)
    assert difference.p == pytest.approx(student_p_value(2 / math.sqrt(10 / 9), 9))
    assert width(difference) / 2 == pytest.approx(2.262157 * math.sqrt(10 / 9))
    many, few = (Mean(x, np.full(2, x), n, 1.0, n - 1) for x, n in ((9.0, 6), (1.0, 3)))
    for row, column in (("many", "few"), ("few", "many")):
        found = compute_difference(Part({"many": many, "few": few}, 10**9), row, column, 1)
        assert found.p == pytest.approx(student_p_value(8 / math.sqrt(1 / 6 + 1 / 3), 2), rel=1e-3)


def part_of(variances: list[float], df: float = 2.0) -> Part:
    """Return models with these variances of three seeds."""
    means = {str(i): Mean(0.0, np.zeros(2), 3, v, df) for i, v in enumerate(variances)}
    return Part(means, 50)


def test_variances_are_moderated() -> None:
    """Keeps out a mean over buckets, models that do not weigh, and too many degrees of freedom."""
    parts = [part_of([1.0, 1.1, 0.9, 2.0]), part_of([100.0, 110.0, 90.0, 100.0])]
    moderate(parts)
    (first, *_, last), (other, *_) = ([*part.means.values()] for part in parts)
    assert first.df == last.df == other.df == 6 + 2  # d₀ is that of the other three models
    assert first.variance == pytest.approx((6 * 1.25 + 2 * 1.0) / 8)
    assert last.variance == pytest.approx((6 * 1.25 + 2 * 2.0) / 8)
    assert other.variance == pytest.approx(100.0)
    unlike = [part_of([1e-4, 1e4, 1.0, 1e2])]
    moderate(unlike)
    assert all(0 < mean.df - 2 < 0.5 for mean in unlike[0].means.values())
    alone = [Part({"a": Mean(0.0, np.zeros(2), 3, 4.0, 2.0),
                   "b": Mean(0.0, np.zeros(2), 1, math.nan, 0.0)}, 50)]  # fmt: skip
    moderate(alone)
    assert (alone[0].means["a"].variance, alone[0].means["a"].df) == (4.0, 2.0)


def test_the_prior_is_found_again() -> None:
    """Keeps out wrong functions of the degrees of freedom, and buckets that share a level."""
    rng = np.random.default_rng(1)
    for d_0 in (3.0, 12.0):
        true = 10.0 ** rng.integers(-2, 3, (400, 1)) * d_0 / rng.chisquare(d_0, (400, 10))
        found = estimate_prior_df(true * rng.chisquare(4, true.shape) / 4, np.full(10, 4.0))
        assert found == pytest.approx(d_0, rel=0.2)
        assert invert_trigamma(float(1 / d_0)) == pytest.approx(d_0 + 0.5, rel=0.05)
    zeros = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 3.0]])
    assert estimate_prior_df(zeros, np.full(3, 2.0)) == math.inf
    assert estimate_prior_df(np.zeros((2, 3)), np.full(3, 2.0)) == math.inf


def test_the_variance_is_that_of_drawing_both_levels() -> None:
    """Keeps out a lost level: here each of the two is about half of the variance."""
    models = losses(np.random.default_rng(2), 40)
    found = difference(models)
    rng = np.random.default_rng(1)
    old, new = (np.stack([run[:, 0] for run in runs]) for runs in models.values())
    of_new, of_old = (rng.choice(side.mean(1), (2_000, 3)).mean(1) for side in (new, old))
    of_rows = rng.choice(new.mean(0) - old.mean(0), (2_000, 40)).mean(1)
    seeds, rows = np.var(of_new - of_old) * 3 / 2, np.var(of_rows) * 40 / 39
    assert 0.2 < rows / seeds < 5
    df = (seeds + rows) ** 2 / (seeds**2 / 2 + rows**2 / 39)
    half = student_quantile(df) * math.sqrt(seeds + rows)
    assert width(found) / 2 == pytest.approx(half, rel=0.05)


def test_one_seed_knows_sentences_alone() -> None:
    """Keeps out the spread of one model's seeds as that of a pair of which one has no spread."""
    old, new = losses(np.random.default_rng(1), sd=5.0).values()
    both, mixed, one = (difference({"old": a, "new": b}) for a, b in
                        ((old, new), (old[:1], new), (old[:1], new[:1])))  # fmt: skip
    assert width(one) < 0.6
    assert width(mixed) < width(one)
    assert width(both) > 5


def test_few_rows_are_not_tested() -> None:
    """Keeps out a test of nine sentences, or of ninety that are nine texts ten times."""
    models = losses(np.random.default_rng(1), 90)
    nine = {model: [run[:9] for run in runs] for model, runs in models.items()}
    for found in (difference(nine), difference(models, [i % 9 for i in range(90)])):
        assert found.low is found.high is found.p is None
        assert math.isfinite(found.value)


def test_all_and_nothing_are_not_certain() -> None:
    """Keeps out p = 0 from twenty rows, and an interval without width around no difference."""

    def percent(sums: np.ndarray) -> np.ndarray:
        return 100 * ratio(sums)

    models = {"wrong": [columns(np.zeros(20))] * 3, "right": [columns(np.ones(20))] * 3}
    part = score_models(models, percent)
    found = compute_difference(part, "right", "wrong", 1, is_percent=True)
    assert found.value == 100
    assert found.p == pytest.approx(student_p_value(21, 19))
    assert found.low == pytest.approx(100 - student_quantile(19) * 100 / 21)
    same = score_models({"one": models["right"], "other": models["right"]}, percent)
    found = compute_difference(same, "other", "one", 1, is_percent=True)
    assert (found.value, found.p) == pytest.approx((0, 1))
    assert width(found) == pytest.approx(2 * student_quantile(19) * 100 / 21)
    found = compute_difference(same, "other", "one", 1)
    assert found == Difference(value=0.0, low=0.0, high=0.0, p=1.0)


@pytest.mark.parametrize("ratio_of_variances", [1.0, 5.0])
def test_equal_models_seldom_differ(ratio_of_variances: float) -> None:
    """Keeps out seeds that are ignored, and a family whose tests are not corrected together."""
    assert simulate(60, 3, 2.0, ratio_of_variances)[0] <= 7
    assert simulate(4, 3, 1.0, ratio_of_variances, 10.0)[1] >= 85


def test_the_simulation_draws_what_it_says() -> None:
    """Keeps out a unit other than the standard error of a score, and unequal spreads made equal."""
    rng = np.random.default_rng(3)
    parts = [part for _ in range(300) for part in draw_parts(rng, 3, 2.0, 5.0, False, 0.0)]
    first, second = (np.mean([part.means[name].variance for part in parts]) for name in "01")
    assert first == pytest.approx(4 * 5**0.5 + 0.5, rel=0.05)
    assert second == pytest.approx(4 / 5**0.5 + 0.5, rel=0.05)
    one = [part for _ in range(300) for part in draw_parts(rng, 2, 0.0, 1.0, True, 0.0)]
    assert np.mean([p.means["3"].resampled.var() for p in one]) == pytest.approx(0.75, rel=0.05)
    assert np.var([p.means["3"].value for p in one]) == pytest.approx(0.75, rel=0.05)

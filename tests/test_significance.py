"""Significance of differences: both levels, pairing, direction, correction, and calibration."""

import math

import numpy as np
import pytest

from seqmodels.evaluation.intervals import student_p_value, student_quantile
from seqmodels.records.significance import (
    Difference,
    Mean,
    compute_difference,
    compute_differences,
    holm,
)

Models = dict[str, list[np.ndarray]]


def ratio(sums: np.ndarray) -> np.ndarray:
    """Return Σ above / Σ below."""
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


def difference(models: Models, groups: list[int] | None = None) -> Difference:
    """Return the difference of the only pair."""
    (found,) = compute_differences(models, ratio, groups).values()
    return found


def width(found: Difference) -> float:
    """Return the width of an interval."""
    return found.high - found.low


def test_a_case_by_hand() -> None:
    """Keeps out a spread with n for n − 1, seeds that are not averaged, and a normal for Student.

    All rows of a run are equal, so that the seeds alone decide: s² = 4 and 1, V = 4/3 + 1/3, and
    4/3 has 2 degrees of freedom, 1/3 has 2: df = (5/3)² / ((16/9 + 1/9) / 2) = 2.94.
    """
    models = {
        "old": [columns(np.full(10_000, value)) for value in (1.0, 2.0, 3.0)],
        "new": [columns(np.full(10_000, value)) for value in (10.0, 12.0, 14.0)],
    }
    found = difference(models)
    t, df = 10 / math.sqrt(5 / 3), 50 / 17
    assert found.value == pytest.approx(10)
    assert found.p == pytest.approx(student_p_value(t, df), rel=1e-4)
    assert found.p == pytest.approx(0.0048, abs=1e-4)
    assert found.high == pytest.approx(10 + student_quantile(df) * math.sqrt(5 / 3), rel=1e-4)
    assert found.low == pytest.approx(10 - student_quantile(df) * math.sqrt(5 / 3), rel=1e-4)


def test_the_variance_of_examples_by_hand() -> None:
    """Keeps out a variance with n for n − 1: 1 over the draws of 10 rows is 10/9, 9 degrees."""
    row = Mean(3.0, np.array([2.0, 4.0]), math.nan, 1)
    column = Mean(1.0, np.array([1.0, 1.0]), math.nan, 1)
    difference = compute_difference(row, column, 10)
    assert difference.p == pytest.approx(student_p_value(2 / math.sqrt(10 / 9), 9))
    assert width(difference) / 2 == pytest.approx(2.262157 * math.sqrt(10 / 9))


def draw_both_levels(models: Models, n_draws: int) -> tuple[float, float]:
    """Return the variances over draws of the seeds alone and of the rows alone."""
    rng = np.random.default_rng(1)
    old, new = (np.stack([run[:, 0] for run in runs]) for runs in models.values())
    seeds = [rng.choice(side.mean(1), (n_draws, len(side))).mean(1) for side in (new, old)]
    by_row = new.mean(0) - old.mean(0)
    rows = rng.choice(by_row, (n_draws, len(by_row))).mean(1)
    return float(np.var(seeds[0] - seeds[1])), float(np.var(rows))


def test_the_variance_is_that_of_drawing_both_levels() -> None:
    """Keeps out a lost level: here each of the two is about half of the variance."""
    models = losses(np.random.default_rng(2), 40)
    found = difference(models)
    over_seeds, over_rows = draw_both_levels(models, 2_000)
    seeds, rows = over_seeds * 3 / 2, over_rows * 40 / 39
    assert 0.2 < rows / seeds < 5
    spread = [np.var([run[:, 0].mean() for run in runs], ddof=1) / 3 for runs in models.values()]
    df = (seeds + rows) ** 2 / (sum(v**2 / 2 for v in spread) + rows**2 / 39)
    half = student_quantile(df) * math.sqrt(seeds + rows)
    assert width(found) / 2 == pytest.approx(half, rel=0.05)


def test_one_seed_knows_sentences_alone() -> None:
    """Keeps out the spread of one model's seeds as that of a pair of which one has no spread."""
    models = losses(np.random.default_rng(1), sd=5.0)
    old, new = models.values()
    both = difference(models)
    one = difference({"old": old[:1], "new": new[:1]})
    mixed = difference({"old": old[:1], "new": new})
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
    found = compute_differences(models, percent, is_percent=True)["right", "wrong"]
    assert found.value == 100
    assert found.p == pytest.approx(student_p_value(21, 19))
    assert found.low == pytest.approx(100 - student_quantile(19) * 100 / 21)
    same = {"one": models["right"], "other": models["right"]}
    found = compute_differences(same, percent, is_percent=True)["other", "one"]
    assert (found.value, found.p) == pytest.approx((0, 1))
    assert width(found) == pytest.approx(2 * student_quantile(19) * 100 / 21)
    found = compute_differences(same, percent)["other", "one"]
    assert found == Difference(value=0.0, low=0.0, high=0.0, p=1.0)


def test_holm_by_hand() -> None:
    """Keeps out Bonferroni, a correction in another order, and p-values above 1."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.5, 0.5]) == [1.0, 1.0, 1.0]
    assert holm([]) == []

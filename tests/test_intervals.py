"""95 % intervals: how often they hold the truth, on rows correlated as a comparison's are."""

import math
from collections.abc import Callable
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from seqmodels.evaluation import intervals, metrics
from seqmodels.evaluation.intervals import Interval, Row, student_p_value, student_quantile


def right(n_right: int, n: int, **more: Any) -> list[Row]:
    """Make rows of which the first are right and the others wrong, in all respects."""
    return [
        {
            "nats": 1.0 + i / n, "n_tokens": 4, "n_bytes": 9, "n_correct": 4 * (i < n_right),
            "n_same": 4 * (i < n_right), "n_places": 4, "exact_match": i < n_right,
            **more,
        }
        for i in range(n)
    ]  # fmt: skip


@pytest.mark.parametrize(("n", "coverage"), [(30, 0.978), (50, 0.922), (100, 0.949)])
def test_wilson_has_its_exact_coverage(n: int, coverage: float) -> None:
    """Keeps out a bootstrap for a share of 2 %: at n = 50 that holds the truth in 63 of 100."""
    held = 0.0
    for k in range(16):  # more are one in a billion
        share = metrics.compute_scores(right(k, n))["exact_match"]
        if share["low"] <= 2.0 <= share["high"]:
            held += math.comb(n, k) * 0.02**k * 0.98 ** (n - k)
    assert held == pytest.approx(coverage, abs=1e-3)


@pytest.mark.parametrize("value", [0.0, 100.0])
def test_all_or_nothing_is_not_certain(value: float) -> None:
    """Keeps out "[100, 100]" and "[0, 0]": fifty right answers are not a proof of perfection."""
    text = "ein Hund sieht den Baum"
    rows = right(round(value / 2), 50, ref=text, hyp=text * bool(value))
    grouped = [row | {"group": i // 5} for i, row in enumerate(rows)]  # ten answers, not fifty
    for n, scores in ((50, metrics.compute_scores(rows)), (10, metrics.compute_scores(grouped))):
        for name in ("exact_match", "token_accuracy", "accuracy", "bleu", "chrf"):
            share = scores[name]
            assert share["value"] == pytest.approx(value)
            far = share["low"] if value else share["high"]
            assert abs(value - far) == pytest.approx(100 * 3.8415 / (n + 3.8415), rel=1e-3)
            assert share["high" if value else "low"] == pytest.approx(value)


def test_few_rows_have_no_interval() -> None:
    """Keeps out an interval from nine rows, or from ninety that are nine texts ten times."""
    texts = {"ref": "ein Hund sieht den Baum", "hyp": "ein Hund sieht einen Baum"}
    many = [row | {"group": i % 9} for i, row in enumerate(right(5, 90, **texts))]
    for rows in (right(5, 9, **texts), many):
        for score in metrics.compute_scores(rows).values():
            assert score["value"] is not None
            assert score["low"] is score["high"] is None
    assert None not in metrics.compute_scores(right(5, 10, **texts))["bleu"].values()


@pytest.mark.parametrize(
    ("metric", "score"),
    [(BLEU(), metrics.bleu_of_counts), (CHRF(), metrics.chrf_of_counts)],
    ids=["bleu", "chrf"],
)
def test_many_draws_score_as_sacrebleu_does_one(
    metric: BLEU | CHRF,
    score: Callable[[np.ndarray], np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keeps out a BLEU of our own: no match, none of some order, short, empty."""
    monkeypatch.setattr(intervals, "N_BOOTSTRAP", 200)
    rng = np.random.default_rng(1)
    words = np.array(["der", "Hund", "sieht", "den", "Baum", "nicht"])
    texts = [" ".join(words[rng.integers(6, size=rng.integers(0, 9))]) for _ in range(400)]
    counts = metrics.sacrebleu_counts(metric, texts[:200], [texts[200:]])
    for n in (1, 2, 5, 200):
        sums = intervals.resample_sums(counts[:n])
        theirs = [metric._compute_score_from_stats(list(draw)).score for draw in sums]
        assert score(sums) == pytest.approx(theirs, abs=1e-11)


def test_many_rows_are_resampled_in_parts() -> None:
    """Keeps out draws that are lost, or rows of another draw, where memory bounds the draws."""
    x = np.random.default_rng(2).normal(5, 2, 5_001)  # 838 draws at a time
    sums = intervals.resample_sums(np.stack([np.ones_like(x), x], 1))
    assert sums.shape == (intervals.N_BOOTSTRAP, 2)
    assert (sums[:, 0] == len(x)).all()
    for part in (sums[:838, 1], sums[838:, 1]):
        assert part.mean() == pytest.approx(x.sum(), rel=2e-3)
        assert part.std() == pytest.approx(x.std() * math.sqrt(len(x)), rel=0.15)
    assert len(np.unique(sums[:, 1])) > 990


def test_the_levels_are_efrons() -> None:
    """Keeps out a lost or reversed bias or skewness: a standard deviation of 12 rows has both."""
    x = np.random.default_rng(3).exponential(1, 12)
    columns = np.stack([x, x**2, np.ones(12)], 1)

    def deviation(sums: np.ndarray) -> np.ndarray:
        mean, square = sums[..., 0] / sums[..., 2], sums[..., 1] / sums[..., 2]
        return np.sqrt(square - mean**2)

    normal, n = NormalDist(), len(x)
    draws = sorted(deviation(sums).item() for sums in intervals.resample_sums(columns))
    z0 = normal.inv_cdf(sum(draw < x.std() for draw in draws) / len(draws))
    without = [np.delete(x, i).std() for i in range(n)]
    away = [np.mean(without) - one for one in without]
    a = sum(d**3 for d in away) / (6 * sum(d**2 for d in away) ** 1.5)
    z = 2.20099 * math.sqrt(n / (n - 1))  # Student's with 11 degrees of freedom
    levels = [normal.cdf(z0 + (z0 + w) / (1 - a * (z0 + w))) for w in (-z, z)]
    assert z0 > 0.15
    assert a > 0.05
    score = intervals.compute_interval(columns, deviation)
    assert [score["low"], score["high"]] == pytest.approx([*np.quantile(draws, levels)], rel=1e-4)


def percentage(sums: np.ndarray) -> np.ndarray:
    """Return the percentage of answers that are right."""
    return 100 * sums[..., 0] / sums[..., 1]


def test_groups_are_numbered_as_they_come() -> None:
    """Keeps out sums of other rows than a group's, and numbers that depend on the names' order."""
    assert intervals.number_groups(["b", "a", "b", "c"]) == [0, 1, 0, 2]
    columns = np.array([[1.0, 10], [2, 20], [4, 40], [8, 80]])
    sums = intervals.sum_by_group(columns, ["b", "a", "b", "c"])
    assert sums.tolist() == [[5, 50], [2, 20], [8, 80]]
    assert intervals.sum_by_group(columns, None) is columns


Draw = Callable[[np.random.Generator, int], tuple[Interval, float]]
"""An interval of n drawn rows, or groups, and the true value."""


def mean(rows: list[Row]) -> Interval:
    """Return Σ nats / Σ tokens, as the scores do."""
    terms = np.array([(row["nats"], row["n_tokens"]) for row in rows], float)
    return intervals.compute_interval(terms, intervals.quotient, intervals.groups_of(rows))


def skewed(rng: np.random.Generator, n: int) -> tuple[Interval, float]:
    """Losses of sentences: long ones lose more per token, some far more than the others."""
    lengths = rng.integers(4, 30, n)
    rates = rng.lognormal(-0.125, 0.5, n) * (1 + lengths / 30)
    rows = [
        {"nats": a, "n_tokens": b} for a, b in zip(rng.gamma(lengths, rates), lengths, strict=True)
    ]
    every = np.arange(4, 30)
    return mean(rows), float((every * (1 + every / 30)).sum() / every.sum())


def contexts(rng: np.random.Generator, n: int, is_grouped: bool = True) -> tuple[Interval, float]:
    """Losses of n continuations, each after nine contexts: hard ones are hard after every one."""
    hard, easier = rng.gamma(6, 1 / 3, n), 1 - 0.04 * np.arange(9)
    nats = 32 * np.outer(easier, hard) + rng.normal(0, 8, (9, n))
    rows = [
        {"nats": x, "n_tokens": 32, **({"group": i} if is_grouped else {})}
        for again in nats
        for i, x in enumerate(again)
    ]
    return mean(rows), float(2 * easier.mean())


def coverage(draw: Draw, n: int, n_draws: int, **how: bool) -> float:
    """Return the percentage of intervals that hold the truth."""
    held = 0
    for seed in range(n_draws):
        score, truth = draw(np.random.default_rng([n, seed]), n, **how)
        held += score["low"] <= truth <= score["high"]
    return 100 * held / n_draws


@pytest.mark.slow
@pytest.mark.parametrize("draw", [skewed, contexts], ids=lambda draw: draw.__name__)
def test_intervals_hold_the_truth(draw: Draw) -> None:
    """Keeps out intervals that are narrower or wider than they claim, for 30 rows and for 100."""
    assert 91 <= coverage(draw, 30, 2_000) <= 98
    assert 93 <= coverage(draw, 100, 2_000) <= 97


def test_a_continuation_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out the same continuations once per context: intervals 2.4 times too narrow."""
    monkeypatch.setattr(intervals, "N_BOOTSTRAP", 300)
    assert coverage(contexts, 100, 60) >= 88
    assert coverage(contexts, 100, 60, is_grouped=False) < 80


@pytest.mark.parametrize("t", [0.0, 0.5, 12.0, -60.0])
def test_students_t_is_that_of_the_closed_forms(t: float) -> None:
    """Keeps out a p-value of 0 where seeds are few, and one of a single tail."""
    sine = abs(t) / math.sqrt(4 + t * t)
    expected = {
        1: 2 / math.pi * (math.pi / 2 - math.atan(abs(t))),
        2: 2 / (2 + t * t) / (1 + abs(t) / math.sqrt(2 + t * t)),
        4: (1 - sine) ** 2 * (2 + sine) / 2,
        1e9: math.erfc(abs(t) / math.sqrt(2)),
    }
    for df, p in expected.items():
        assert student_p_value(t, df) == pytest.approx(p, rel=1e-6, abs=1e-30)
        assert student_p_value(student_quantile(df), df) == pytest.approx(0.05, abs=1e-6)


def test_answers_that_share_a_text_get_no_interval_of_wilsons() -> None:
    """Keeps out an interval that takes groups of answers for single ones."""
    answers = np.random.default_rng(1).integers(2, size=(60, 1)).astype(float)
    columns, groups = np.hstack([answers, np.ones_like(answers)]), [i // 3 for i in range(60)]
    share = partial(intervals.compute_interval, columns, percentage, is_percent=True)
    assert share(groups, is_yes_no=True) == share(groups) != share(None, is_yes_no=True)

"""Metrics and their 95 % intervals: sacreBLEU's numbers, and how often intervals hold the truth."""

import itertools
import math
import random
from statistics import NormalDist
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import sacrebleu
from fake_records import fake_rows
from sacrebleu.metrics import BLEU, CHRF
from scipy import stats

from seqmodels.evaluation import intervals, metrics
from seqmodels.evaluation.intervals import Interval, Row, student_quantile


def compute_scores(rows: list[Row], tokenize: str = "13a") -> dict[str, Interval]:
    return metrics.compute_scores_by_bucket(rows, (), tokenize)[0]


def test_nonsense_has_a_score() -> None:
    methods = {"bleu": "BCa bootstrap", "nats": "BCa bootstrap", "exact_match": "Wilson"}
    assert metrics.interval_methods([*methods]) == methods
    rows = [row | {"hyp": "qqq" if i else row["ref"]} for i, row in enumerate(fake_rows(1, 0.7, 4))]
    chrf = compute_scores(rows)["chrf"]
    assert chrf["low"] == 0.0 < chrf["value"] < chrf["high"]
    nothing = compute_scores([row | {"hyp": ""} for row in rows])
    for score in ("bleu", "chrf"):
        assert nothing[score]["value"] == nothing[score]["low"] == 0.0


def test_each_score_has_its_own_denominator() -> None:
    row = {
        "nats": 8 * math.log(2), "n_tokens": 2, "n_bytes": 4, "n_correct": 1, "n_same": 3,
        "n_places": 5, "exact_match": False,
    }  # fmt: skip
    scores = compute_scores([row] * 10)
    assert {key: score["value"] for key, score in scores.items()} == pytest.approx({
        "nats": 4 * math.log(2), "bits_per_byte": 2.0, "perplexity": 16.0, "token_accuracy": 50.0,
        "exact_match": 0.0, "accuracy": 60.0,
    })  # fmt: skip
    for key, value in (("bits_per_byte", 2.0), ("perplexity", 16.0)):
        assert scores[key] == pytest.approx(dict.fromkeys(("value", "low", "high"), value))
    brief = [row | {"hyp": "longer words here", "ref": "a b c d"}] * 3
    assert compute_scores(brief)["length_ratio"]["value"] == 0.75


def test_scores_do_not_depend_on_the_order_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = fake_rows(1, 0.7)
    expected = compute_scores(rows)
    assert {"nats", "perplexity", "bleu", "length_ratio"} <= expected.keys()
    monkeypatch.setattr(metrics, "METRICS", dict(reversed(metrics.METRICS.items())))
    assert compute_scores(rows) == expected


def test_buckets_contain_their_ends() -> None:
    rows = [row | {"group": i // 2} for i, row in enumerate(fake_rows(1, 0.7))]
    _, parts = metrics.compute_scores_by_bucket(rows, [(1, 1), (2, 5), (6, 15), (16, 99)])
    assert [b["low"] for b in parts] == [1, 2, 6]
    for b in parts:
        assert b["n"] == sum(b["low"] <= row["x"] <= b["high"] for row in rows) > 0
    assert sum(b["n"] for b in parts) == len(rows) == 90
    own = [row for row in rows if 2 <= row["x"] <= 5]
    assert {k: parts[1][k] for k in compute_scores(own)} == compute_scores(own)
    without = compute_scores([row | {"group": i} for i, row in enumerate(own)])
    assert without["nats"]["value"] == pytest.approx(parts[1]["nats"]["value"])
    assert without["token_accuracy"] != parts[1]["token_accuracy"]


REFS = ["Die Katze sieht einen Hund, nicht wahr?", "Der Hund sieht den alten Baum am Bach."] * 6
HYPS = ["die katze sieht einen Hund, nicht wahr?", "Der Hund sieht den Baum am BACH."] * 6
CHINESE = ["他在公园里看见了一只小狗。", "昨天晚上我们一起去看电影。"] * 6
GUESSED = ["他在公园里看见一只小狗。", "昨天我们一起去看了电影。"] * 6


@pytest.mark.parametrize(("tokenize", "least"), [("13a", 0), ("zh", 30), ("char", 60)])
@pytest.mark.parametrize(("hyps", "refs"), [(HYPS, REFS), (GUESSED, CHINESE)], ids=["de", "zh"])
def test_bleu_is_that_of_its_signature(
    tokenize: str, least: float, hyps: list[str], refs: list[str]
) -> None:
    fields = dict(p.split(":") for p in metrics.sacrebleu_signatures(tokenize)["bleu"].split("|"))
    how = {"tokenize": fields["tok"], "smooth_method": fields["smooth"]}
    theirs = BLEU(lowercase=fields["case"] == "lc", **how)
    assert (fields["tok"], fields["version"]) == (tokenize, sacrebleu.__version__)
    (row, *_), texts = fake_rows(1, 0.7), zip(hyps, refs, strict=True)
    rows = [row | {"hyp": hyp, "ref": ref} for hyp, ref in texts]
    scores = compute_scores(rows, tokenize)
    ours = scores["bleu"]["value"]
    assert ours == pytest.approx(theirs.corpus_score(hyps, [refs]).score, rel=1e-12)
    assert scores["chrf"]["value"] == pytest.approx(CHRF().corpus_score(hyps, [refs]).score)
    assert least <= ours < 90
    assert refs != CHINESE or (ours < 5) == (tokenize == "13a")


def test_the_tokenizer_follows_language_and_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "check_tokenizer", lambda name: None)
    # a kana among ten Han in a name, one among nine in a sentence; Thai with a Han name
    texts = {"zh": "你敢你敢你敢你敢你の！ OK", "ja-mecab": "私は学生学生学生学"}
    texts |= {"flores200": "ครับ你敢你", "13a": "Ja 你 gut", "ko-mecab": "개가 공을 본다."}
    assert {metrics.tokenizer_for([text]): text for text in texts.values()} == texts
    assert metrics.tokenizer_for([]) == "13a"
    monkeypatch.setattr(metrics, "check_tokenizer", Mock(side_effect=ValueError))
    assert metrics.tokenizer_for([texts["ja-mecab"]]) == "char"


@pytest.mark.parametrize("n", [2, 3, 4, 7, 100])
def test_partners_are_others_of_like_length(n: int) -> None:
    lengths = [random.Random(i).randrange(5, 50) for i in range(n)]
    partners = metrics.pair_by_length(lengths)
    assert sorted(partners) == list(range(n))
    assert all(i != j for i, j in enumerate(partners))
    assert n < 100 or all(abs(lengths[i] - lengths[j]) <= 3 for i, j in enumerate(partners))


def test_two_texts_are_enough_for_chance() -> None:
    text = "ein Hund sieht den Baum"
    rows = [{"ref": text, "hyp": "nichts"}] * 2
    found = [metrics.chance_bleu(metrics.Part(rows[:n], "13a", {}, {})) for n in (1, 2)]
    assert found == [None, {"value": pytest.approx(100), "low": None, "high": None}]


# ---------------------------------------------------------------------------------------- Intervals
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


@pytest.mark.parametrize("n", [30, 50, 100])
def test_shares_have_wilsons_interval(n: int) -> None:
    for k in range(16):
        share = compute_scores(right(k, n))["exact_match"]
        ends = stats.binomtest(k, n).proportion_ci(method="wilson")
        assert [share["low"], share["high"]] == pytest.approx([100 * end for end in ends], abs=1e-3)
    alone, groups = right(n // 3, n), [{"group": i // 3} for i in range(n)]
    grouped = [row | group for row, group in zip(alone, groups, strict=True)]
    alone, grouped = map(compute_scores, (alone, grouped))
    assert alone["exact_match"] != pytest.approx(alone["token_accuracy"])
    assert grouped["exact_match"] == pytest.approx(grouped["token_accuracy"])


@pytest.mark.parametrize("value", [0.0, 100.0])
def test_all_or_nothing_is_not_certain(value: float) -> None:
    text = "ein Hund sieht den Baum"
    rows = right(round(value / 2), 50, ref=text, hyp=text * bool(value))
    grouped = [row | {"group": i // 5} for i, row in enumerate(rows)]  # ten answers, not fifty
    for n, scores in ((50, compute_scores(rows)), (10, compute_scores(grouped))):
        for name in ("exact_match", "token_accuracy", "accuracy", "bleu", "chrf"):
            share = scores[name]
            assert share["value"] == pytest.approx(value)
            far = share["low"] if value else share["high"]
            assert abs(value - far) == pytest.approx(100 * 3.8415 / (n + 3.8415), rel=1e-3)
            assert share["high" if value else "low"] == pytest.approx(value)


def test_few_rows_have_no_interval() -> None:
    texts = {"ref": "ein Hund sieht den Baum", "hyp": "ein Hund sieht einen Baum"}
    many = [row | {"group": i % 9} for i, row in enumerate(right(5, 90, **texts))]
    for rows in (right(5, 9, **texts), many):
        for score in compute_scores(rows).values():
            assert score["value"] is not None
            assert score["low"] is score["high"] is None
    assert None not in compute_scores(right(5, 10, **texts))["bleu"].values()


SUMMED = [(BLEU(), metrics.bleu_of_counts), (CHRF(), metrics.chrf_of_counts)]


@pytest.mark.parametrize(("metric", "score"), SUMMED, ids=["bleu", "chrf"])
def test_many_draws_score_like_sacrebleu(metric: BLEU | CHRF, score: Any, monkeypatch: Any) -> None:
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
    x = np.random.default_rng(2).normal(5, 2, 5_001)  # 838 draws at a time
    sums = intervals.resample_sums(np.stack([np.ones_like(x), x], 1))
    assert sums.shape == (intervals.N_BOOTSTRAP, 2)
    assert (sums[:, 0] == len(x)).all()
    for part in (sums[:838, 1], sums[838:, 1]):
        assert part.mean() == pytest.approx(x.sum(), rel=2e-3)
        assert part.std() == pytest.approx(x.std() * math.sqrt(len(x)), rel=0.15)
    assert len(np.unique(sums[:, 1])) > 990


@pytest.mark.parametrize("is_rounded", [False, True])
def test_the_interval_is_efrons_bca(is_rounded: bool) -> None:
    x = np.random.default_rng(3).exponential(1, 12)
    x = x.round() if is_rounded else x
    columns = np.stack([x, x**2, np.ones(12)], 1)

    def deviation(sums: np.ndarray) -> np.ndarray:
        mean, square = sums[..., 0] / sums[..., 2], sums[..., 1] / sums[..., 2]
        return np.sqrt(square - mean**2)

    normal, n, score = NormalDist(), len(x), intervals.compute_interval(columns, deviation)
    draws = sorted(deviation(sums).item() for sums in intervals.resample_sums(columns))
    below = [(draw < score["value"]) + (draw == score["value"]) / 2 for draw in draws]
    z0 = normal.inv_cdf(sum(below) / len(draws))
    without = [np.delete(x, i).std() for i in range(n)]
    away = [np.mean(without) - one for one in without]
    a = sum(d**3 for d in away) / (6 * sum(d**2 for d in away) ** 1.5)
    z = 2.20099 * math.sqrt(n / (n - 1))  # Student's with 11 degrees of freedom
    levels = [normal.cdf(z0 + (z0 + w) / (1 - a * (z0 + w))) for w in (-z, z)]
    assert (0.5 in below) == is_rounded
    assert z0 > 0.15
    assert a > 0.05
    assert [score["low"], score["high"]] == pytest.approx([*np.quantile(draws, levels)], rel=1e-4)


def mean(rows: list[Row]) -> Interval:
    terms = np.array([(row["nats"], row["n_tokens"]) for row in rows], float)
    return intervals.compute_interval(terms, intervals.quotient, intervals.groups_of(rows))


def contexts(rng: np.random.Generator, n: int, is_grouped: bool) -> tuple[Interval, float]:
    """Draw the losses of n continuations, each after nine contexts, hard or easy after all."""
    hard, easier = rng.gamma(6, 1 / 3, n), 1 - 0.04 * np.arange(9)
    nats = 32 * np.outer(easier, hard) + rng.normal(0, 8, (9, n))
    rows = [
        {"nats": x, "n_tokens": 32, **({"group": i} if is_grouped else {})}
        for again in nats
        for i, x in enumerate(again)
    ]
    return mean(rows), float(2 * easier.mean())


def test_rows_of_a_group_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "N_BOOTSTRAP", 300)
    for is_grouped, low, high in ((True, 53, 60), (False, 0, 47)):
        drawn = [contexts(np.random.default_rng([100, i]), 100, is_grouped) for i in range(60)]
        assert low <= sum(score["low"] <= truth <= score["high"] for score, truth in drawn) <= high


def test_students_t_is_scipys() -> None:
    for alpha, df in itertools.product((1.0, 0.3, 0.05, 1e-20), (1, 2, 4, 1e9)):
        expected = stats.t.isf(alpha / 2, df)
        assert student_quantile(df, alpha) == pytest.approx(expected, 1e-6, 1e-12)
    assert student_quantile(2) == pytest.approx(4.302653)


def skewed(rng: np.random.Generator, n: int) -> tuple[Interval, float]:
    """Losses of sentences: long ones lose more per token, some far more than the others."""
    lengths = rng.integers(4, 30, n)
    rates = rng.lognormal(-0.125, 0.5, n) * (1 + lengths / 30)
    rows = [
        {"nats": a, "n_tokens": b} for a, b in zip(rng.gamma(lengths, rates), lengths, strict=True)
    ]
    every = np.arange(4, 30)
    return mean(rows), float((every * (1 + every / 30)).sum() / every.sum())


@pytest.mark.slow
@pytest.mark.parametrize("draw", [skewed, lambda rng, n: contexts(rng, n, True)])
def test_intervals_hold_the_truth_as_often_as_they_claim(draw: Any) -> None:
    for n, low, high in ((30, 91, 98), (100, 93, 97)):
        drawn = [draw(np.random.default_rng([n, i]), n) for i in range(2_000)]
        held = sum(score["low"] <= truth <= score["high"] for score, truth in drawn)
        assert low <= held / 20 <= high

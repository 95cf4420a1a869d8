"""Metrics and their 95 % intervals: the numbers of sacreBLEU, Wilson and Student."""

import math
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import sacrebleu
from fake_records import fake_rows
from sacrebleu.metrics import BLEU, CHRF
from scipy import stats

from seqmodels.evaluation import intervals, metrics
from seqmodels.evaluation.intervals import Interval, Row


def compute_scores(rows: list[Row], tokenize: str = "13a") -> dict[str, Interval]:
    return metrics.compute_scores_by_bucket(rows, (), tokenize)[0]


def test_each_score_has_its_own_denominator() -> None:
    row = {
        "nats": 8 * math.log(2), "n_tokens": 2, "n_bytes": 4, "n_correct": 1, "n_same": 3,
        "n_places": 5, "exact_match": False, "baseline": 0.125,
    }  # fmt: skip
    scores = compute_scores([row] * 10)
    assert {key: score["value"] for key, score in scores.items()} == pytest.approx({
        "nats": 4 * math.log(2), "bits_per_byte": 2.0, "perplexity": 16.0, "token_accuracy": 50.0,
        "exact_match": 0.0, "accuracy": 60.0, "baseline": 12.5,
    })  # fmt: skip
    for key, value in (("bits_per_byte", 2.0), ("perplexity", 16.0)):
        assert scores[key] == pytest.approx(dict.fromkeys(("value", "low", "high"), value))
    for ref, ratio in (("a b c d", 0.75), ("", 9.0)):  # none of three references has a token
        brief = [row | {"hyp": "longer words here", "ref": ref}] * 3
        assert compute_scores(brief)["length_ratio"]["value"] == ratio
    assert metrics.perplexity(np.array([30.0, 2.0])) == pytest.approx(math.exp(15))


def test_buckets_contain_their_ends() -> None:
    rows = [row | {"group": i // 2} for i, row in enumerate(fake_rows(1, 0.7))]
    _, parts = metrics.compute_scores_by_bucket(rows, [(1, 1), (2, 5), (6, 15), (16, 99)])
    assert [b["low"] for b in parts] == [1, 2, 6]
    for b in parts:
        assert b["n"] == sum(b["low"] <= row["x"] <= b["high"] for row in rows) > 0
    assert sum(b["n"] for b in parts) == len(rows) == 90
    own = [row for row in rows if 2 <= row["x"] <= 5]
    assert {k: parts[1][k] for k in compute_scores(own)} == compute_scores(own)


REFS = ["Die Katze sieht einen Hund, nicht wahr?", "Der Hund sieht den alten Baum am Bach."] * 6
HYPS = ["die katze sieht einen Hund, nicht wahr?", "Der Hund sieht den Baum am BACH."] * 6
CHINESE = ["他在公园里看见了一只小狗。", "昨天晚上我们一起去看电影。"] * 6
GUESSED = ["他在公园里看见一只小狗。", "昨天我们一起去看了电影。"] * 6


@pytest.mark.parametrize("tokenize", ["13a", "zh", "char"])
@pytest.mark.parametrize(("hyps", "refs"), [(HYPS, REFS), (GUESSED, CHINESE)], ids=["de", "zh"])
def test_bleu_is_that_of_its_signature(tokenize: str, hyps: list[str], refs: list[str]) -> None:
    fields = dict(p.split(":") for p in metrics.sacrebleu_signatures(tokenize)["bleu"].split("|"))
    assert (fields["tok"], fields["version"]) == (tokenize, sacrebleu.__version__)
    theirs = BLEU(lowercase=fields["case"] == "lc", tokenize=tokenize)
    (row, *_), texts = fake_rows(1, 0.7), zip(hyps, refs, strict=True)
    scores = compute_scores([row | {"hyp": hyp, "ref": ref} for hyp, ref in texts], tokenize)
    ours = scores["bleu"]["value"]
    assert ours == pytest.approx(theirs.corpus_score(hyps, [refs]).score, rel=1e-12)
    assert scores["chrf"]["value"] == pytest.approx(CHRF().corpus_score(hyps, [refs]).score)
    assert refs != CHINESE or (ours < 5) == (tokenize == "13a")


@pytest.mark.parametrize(("metric", "key"), [(BLEU(force=True), "bleu"), (CHRF(), "chrf")])
def test_summed_counts_score_like_sacrebleu(metric: BLEU | CHRF, key: str) -> None:
    rng = np.random.default_rng(1)
    words = np.array(["der", "Hund", "sieht", "den", "Baum, ja", "nicht"])
    texts = [" ".join(words[rng.integers(6, size=rng.integers(0, 9))]) for _ in range(120)]
    ours = metrics.METRICS[key]
    counts = ours.count(texts[:60], texts[60:], "13a")
    for n in (1, 2, 5, 60):
        draws = rng.integers(n, size=(9, n))
        theirs = [
            metric.corpus_score([texts[i] for i in draw], [[texts[60 + i] for i in draw]]).score
            for draw in draws
        ]
        assert ours.score_from_stats(counts[draws].sum(1)) == pytest.approx(theirs, abs=1e-11)


def test_the_tokenizer_follows_language_and_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "check_tokenizer", lambda name: None)
    # a kana among ten Han in a name, one among nine in a sentence; Thai with a Han name
    texts = {"zh": "你敢你敢你敢你敢你の！ OK", "ja-mecab": "私は学生学生学生学"}
    texts |= {"flores200": "ครับ你敢你", "13a": "Ja 你 gut", "ko-mecab": "개가 공을 본다."}
    assert {metrics.tokenizer_for([text]): text for text in texts.values()} == texts
    assert metrics.tokenizer_for([]) == "13a"
    monkeypatch.setattr(metrics, "check_tokenizer", Mock(side_effect=ValueError))
    assert metrics.tokenizer_for([texts["ja-mecab"]]) == "char"


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


def test_shares_of_single_rows_have_wilsons_interval() -> None:
    for k in (1, 7, 20):
        share = compute_scores(right(k, 30))["exact_match"]
        ends = stats.binomtest(k, 30).proportion_ci(method="wilson")
        assert [share["low"], share["high"]] == pytest.approx([100 * end for end in ends])
    alone, groups = right(10, 30), [{"group": i // 3} for i in range(30)]
    grouped = compute_scores([row | group for row, group in zip(alone, groups, strict=True)])
    assert grouped["exact_match"] == pytest.approx(grouped["token_accuracy"])
    assert compute_scores(alone)["exact_match"] != pytest.approx(grouped["exact_match"])


def test_a_better_score_does_not_have_a_worse_end() -> None:
    """80 sentences are right, or 79 of them and a part of the last."""
    lows = []
    for share in (0.0, 0.4, 0.9, 0.97, 1.0):
        columns = np.stack([np.r_[100 * share, np.full(79, 100.0)], np.ones(80)], 1)
        found = intervals.compute_interval(columns, metrics.quotient, is_percent=True)
        assert 0 < found["low"] < found["value"] <= found["high"] <= 100
        lows.append(found["low"])
    assert lows == sorted(lows)
    wilson = stats.binomtest(80, 80).proportion_ci(method="wilson")
    assert lows[-1] == pytest.approx(100 * wilson.low)


def test_an_interval_of_a_loss_stays_positive() -> None:
    nats = np.random.default_rng(3).gamma(0.3, 2.0, 40)
    halves = np.stack([np.tile(nats / 2, 2), np.full(80, 0.5)], 1)  # two rows of each text
    found = intervals.compute_interval(halves, metrics.quotient, [*range(40)] * 2)
    half = stats.t.ppf(0.975, 39) * nats.std(ddof=1) / np.sqrt(40) / nats.mean()
    assert found["low"] == pytest.approx(nats.mean() * np.exp(-half))
    assert found["high"] == pytest.approx(nats.mean() * np.exp(half))
    found = intervals.compute_interval(halves * [0, 1], metrics.quotient)
    assert found == dict.fromkeys(("value", "low", "high"), 0.0)

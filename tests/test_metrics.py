"""Metrics: sums over rows, buckets, and sacreBLEU's numbers under the right signature."""

import json
import math
import random
from unittest.mock import Mock

import pytest
import sacrebleu
from checks import check_one_line
from conftest import Call
from sacrebleu.metrics import BLEU
from toy_task import scored_rows

from seqmodels.evaluation import metrics
from seqmodels.evaluation.metrics import Metric
from tasks.translation import __main__ as translation


def test_a_ratio_is_one_of_sums() -> None:
    """Keeps out a mean of ratios: (1 + 9) / (1 + 3) = 2.5."""
    rows = [{"nats": 1.0, "n_tokens": 1}, {"nats": 9.0, "n_tokens": 3}]
    for scale in (1.0, 2.0):
        metric = Metric(label="loss", ratio=("nats", "n_tokens", scale))
        terms = metric.terms(rows, "13a")
        assert terms is not None
        assert metric.score(terms)["value"] == 2.5 * scale


@pytest.mark.parametrize("score", ["bleu", "chrf"])
def test_scores_are_sacrebleus(score: str) -> None:
    """Keeps out a BLEU of our own, and an interval around another number or of another name."""
    rows = scored_rows()
    hyps, refs = [row["hyp"] for row in rows], [[row["ref"] for row in rows]]
    theirs = getattr(sacrebleu, f"corpus_{score}")(hyps, refs).score
    ours = metrics.compute_scores(rows)[score]
    assert ours["value"] == pytest.approx(theirs, rel=1e-12)
    assert ours["low"] < theirs < ours["high"]
    assert sacrebleu.__version__ in metrics.sacrebleu_signatures()[score]
    methods = {score: "BCa bootstrap", "nats": "BCa bootstrap", "exact_match": "Wilson"}
    assert metrics.interval_methods([*methods]) == methods


def test_nonsense_has_a_score() -> None:
    """Keeps out an error where some draws of the bootstrap score nothing at all."""
    rows = [row | {"hyp": "qqq" if i else row["ref"]} for i, row in enumerate(scored_rows())]
    chrf = metrics.compute_scores(rows)["chrf"]
    assert chrf["low"] == 0.0 < chrf["value"] < chrf["high"]
    nothing = metrics.compute_scores([row | {"hyp": ""} for row in rows])
    for score in ("bleu", "chrf"):
        assert nothing[score]["value"] == nothing[score]["low"] == 0.0


def test_each_score_has_its_own_denominator() -> None:
    """Keeps out nats for bits, tokens for bytes, and the length of one text for the other's."""
    row = {
        "nats": 8 * math.log(2), "n_tokens": 2, "n_bytes": 4, "n_correct": 1, "n_same": 3,
        "n_places": 5, "exact_match": False,
    }  # fmt: skip
    scores = metrics.compute_scores([row] * 10)
    assert {key: score["value"] for key, score in scores.items()} == pytest.approx({
        "nats": 4 * math.log(2), "bits_per_byte": 2.0, "perplexity": 16.0, "token_accuracy": 50.0,
        "exact_match": 0.0, "accuracy": 60.0,
    })  # fmt: skip
    assert scores["bits_per_byte"] == pytest.approx({"value": 2.0, "low": 2.0, "high": 2.0})
    brief = [row | {"hyp": "longer words here", "ref": "a b c d"}] * 3
    assert metrics.compute_scores(brief)["length_ratio"]["value"] == 0.75


def test_buckets_contain_their_ends() -> None:
    """Keeps out a sentence between two buckets or in both, empty ones, and others' groups."""
    rows = [row | {"group": i // 2} for i, row in enumerate(scored_rows(60))]
    _, parts = metrics.compute_scores_by_bucket(rows, [(1, 3), (4, 5), (6, 8), (9, 99)])
    assert [(b["low"], b["high"], b["n"]) for b in parts] == [(4, 5, 24), (6, 8, 36)]
    own = [row for row in rows if row["x"] in (4, 5)]
    assert {k: parts[0][k] for k in metrics.compute_scores(own)} == metrics.compute_scores(own)
    without = metrics.compute_scores([row | {"group": i} for i, row in enumerate(own)])
    assert without["nats"]["value"] == parts[0]["nats"]["value"]
    assert without["token_accuracy"] != parts[0]["token_accuracy"]


def test_scores_can_be_written() -> None:
    """Keeps out numpy's numbers and nan, which are not JSON."""
    for n in (12, 30):  # too few for intervals, and enough
        _, parts = metrics.compute_scores_by_bucket(scored_rows(n), [(4, 5), (6, 9)])
        assert json.loads(json.dumps(parts, allow_nan=False)) == parts
        cells = [cell for part in parts for cell in part.values() if isinstance(cell, dict)]
        assert {type(x) for cell in cells for x in cell.values()} == {float, type(None)}


REFS = ["Die Katze sieht einen Hund, nicht wahr?", "Der Hund sieht den alten Baum am Bach."] * 6
HYPS = ["die katze sieht einen Hund, nicht wahr?", "Der Hund sieht den Baum am BACH."] * 6
CHINESE = ["他在公园里看见了一只小狗。", "昨天晚上我们一起去看电影。"] * 6
GUESSED = ["他在公园里看见一只小狗。", "昨天我们一起去看了电影。"] * 6


@pytest.mark.parametrize(("tokenize", "least"), [("13a", 0), ("zh", 30), ("char", 60)])
@pytest.mark.parametrize(("hyps", "refs"), [(HYPS, REFS), (GUESSED, CHINESE)], ids=["de", "zh"])
def test_bleu_is_that_of_its_signature(
    tokenize: str, least: float, hyps: list[str], refs: list[str]
) -> None:
    """Keeps out a BLEU of lower-cased text, or of another tokenizer, than its signature says."""
    fields = dict(p.split(":") for p in metrics.sacrebleu_signatures(tokenize)["bleu"].split("|"))
    how = {"tokenize": fields["tok"], "smooth_method": fields["smooth"]}
    theirs = BLEU(lowercase=fields["case"] == "lc", **how)
    assert fields["tok"] == tokenize
    (row, *_), texts = scored_rows(), zip(hyps, refs, strict=True)
    rows = [row | {"hyp": hyp, "ref": ref} for hyp, ref in texts]
    ours = metrics.compute_scores(rows, tokenize)["bleu"]["value"]
    assert ours == pytest.approx(theirs.corpus_score(hyps, [refs]).score, rel=1e-12)
    assert least <= ours < 90
    assert refs != CHINESE or (ours < 5) == (tokenize == "13a")


def test_the_tokenizer_is_the_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out 13a where words are not set apart, and an error where a tokenizer is missing."""
    expected = {"de": "13a", "zh": "zh", "zh-TW": "zh", "zho_Hans": "zh", "": "13a"}
    expected |= {"tha": "flores200", "ja": "ja-mecab", "KO": "ko-mecab"}
    monkeypatch.setattr(metrics, "check_tokenizer", lambda name: None)
    assert {code: metrics.tokenizer_for(code) for code in expected} == expected
    monkeypatch.setattr(metrics, "check_tokenizer", Mock(side_effect=ValueError))
    assert metrics.tokenizer_for("ja") == metrics.tokenizer_for("th") == "char"


def test_an_unknown_tokenizer_is_refused_at_once(call: Call) -> None:
    """Keeps out an error after hours of training."""
    result = call(translation, "--data", "nowhere", "--bleu-tokenize", "thai")
    check_one_line(result, "--bleu-tokenize thai")


@pytest.mark.parametrize("n", [2, 3, 4, 7, 100])
def test_partners_are_others_of_like_length(n: int) -> None:
    """Keeps out a row that is its own partner, and a partner that is far longer."""
    lengths = [random.Random(i).randrange(5, 50) for i in range(n)]
    partners = metrics.pair_by_length(lengths)
    assert sorted(partners) == list(range(n))
    assert all(i != j for i, j in enumerate(partners))
    assert n < 100 or all(abs(lengths[i] - lengths[j]) <= 3 for i, j in enumerate(partners))

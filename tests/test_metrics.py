"""Metrics: sums over rows, bins, and sacreBLEU's numbers."""

from __future__ import annotations

import json
import math

import pytest
import sacrebleu
from toy_task import scored_rows

from seqmodels.evaluation import metrics
from seqmodels.evaluation.metrics import Metric


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
    """Keeps out a BLEU of our own, and an interval around another number."""
    rows = scored_rows()
    hyps, refs = [row["hyp"] for row in rows], [[row["ref"] for row in rows]]
    theirs = getattr(sacrebleu, f"corpus_{score}")(hyps, refs).score
    found = metrics.scores(rows)[score]
    assert found["value"] == pytest.approx(theirs, rel=1e-12)
    assert found["low"] < theirs < found["high"]


def test_nonsense_has_a_score() -> None:
    """Keeps out an error where some draws of the bootstrap score nothing at all."""
    rows = [row | {"hyp": "qqq" if i else row["ref"]} for i, row in enumerate(scored_rows())]
    found = metrics.scores(rows)["chrf"]
    assert found["low"] == 0.0 < found["value"] < found["high"]
    nothing = metrics.scores([row | {"hyp": ""} for row in rows])
    for score in ("bleu", "chrf"):
        assert nothing[score]["value"] == nothing[score]["low"] == 0.0


def test_bits_per_byte() -> None:
    """Keeps out nats for bits and tokens for bytes: 8 ln 2 nats over 4 bytes are 2 bits each."""
    row = {
        "nats": 8 * math.log(2),
        "n_tokens": 2,
        "n_bytes": 4,
        "n_correct": 1,
        "exact_match": False,
    }
    found = metrics.scores([row] * 10)
    assert found["bits_per_byte"] == pytest.approx({"value": 2.0, "low": 2.0, "high": 2.0})
    assert found["nats"]["value"] == pytest.approx(4 * math.log(2))
    assert found["token_accuracy"]["value"] == 50.0
    assert "bleu" not in found


def test_bins_hold_their_ends() -> None:
    """Keeps out a sentence between two bins or in both; empty bins are not bins of zero."""
    rows = scored_rows(30)
    _, parts = metrics.scores_by_bucket(rows, [(1, 3), (4, 5), (6, 8), (9, 99)])
    assert [(b["low"], b["high"], b["n"]) for b in parts] == [(4, 5, 12), (6, 8, 18)]
    own = [row for row in rows if row["x"] in (4, 5)]
    assert {k: parts[0][k] for k in metrics.scores(own)} == metrics.scores(own)


def test_scores_can_be_written() -> None:
    """Keeps out numpy's numbers and nan, which are not JSON."""
    for n in (12, 30):  # too few for intervals, and enough
        _, parts = metrics.scores_by_bucket(scored_rows(n), [(4, 5), (6, 9)])
        assert json.loads(json.dumps(parts, allow_nan=False)) == parts
        cells = [cell for part in parts for cell in part.values() if isinstance(cell, dict)]
        assert {type(x) for cell in cells for x in cell.values()} == {float, type(None)}


def test_signatures_name_the_version() -> None:
    """Keeps out a BLEU that cannot be compared: tokenizer and version are part of the number."""
    found = metrics.signatures()
    assert all(sacrebleu.__version__ in signature for signature in found.values())
    assert "tok:13a" in found["bleu"]

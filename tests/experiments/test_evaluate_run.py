"""The rows and scores of a trained model, and the operations of its training."""

import math
from dataclasses import replace
from typing import Any

import pytest
from conftest import TINY
from toys import toy

from seqmodels import EOS, build
from seqmodels.data import tokenizers
from seqmodels.data.batches import Example
from seqmodels.experiments import evaluate_run
from seqmodels.experiments.evaluate_run import flops_per_token, score_test_set
from seqmodels.training.config import TrainConfig


def test_bytes_are_those_of_the_text() -> None:
    tokenizer = tokenizers.Bytes()
    ids = tokenizer.encode("aä")
    examples = [Example(ids, [*ids, EOS]), Example(ids[:2], ids[:2]), Example(ids, ids[2:])]
    test = replace(toy().tests[0], examples=examples, x=[1] * 3, is_generated=False)
    model = build("gpt", tokenizer.vocab_size, **TINY["gpt"])
    rows, _ = score_test_set(model, toy(tokenizer=tokenizer), test)
    assert [row["n_bytes"] for row in rows] == [4, 2, 1]  # the end of a text counts as a byte


TEXTS = [("Äh, ba", "für a"), ("ba", "b"), ("c", "a ä")]  # which the tokens do not give back


def evaluate(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> tuple[Any, Any, list[int]]:
    """Score three rows of given losses; return them, the record's entry, and the beams used."""
    examples = [
        Example([4, 5], [4, 5, EOS]), Example([6], [5, 6], frozenset({0})), Example([4], [4, EOS]),
    ]  # fmt: skip
    losses = [(6.0, 3, 1), (1.0, 1, 1), (2.0, 2, 2)]
    rows = [dict(zip(("nats", "n_tokens", "n_correct"), row, strict=True)) for row in losses]
    beams: list[int] = []

    def generate(model: Any, examples: Any, beam: int, *_: Any) -> list[list[int]]:
        beams.append(beam)
        return [[4, 5], [6], [5]]

    monkeypatch.setattr(evaluate_run, "score_teacher_forced", lambda *_, **_given: rows)
    monkeypatch.setattr(evaluate_run, "generate_targets", generate)
    fields = {"examples": examples, "x": [2, 1, 1], "buckets": [(1, 1), (2, 3)]}
    test = replace(toy().tests[0], **fields | changes)
    return *score_test_set(build("gpt", 11, **TINY["gpt"]), toy(beam=2), test), beams


def test_a_row_holds_its_own_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, entry, beams = evaluate(monkeypatch, texts=TEXTS, beam=3)
    assert beams == [3] == [entry["beam"]]
    assert [(row["src"], row["ref"]) for row in rows] == TEXTS
    assert [row["hyp"] for row in rows] == ["a b", "c", "b"]
    assert [row["n_bytes"] for row in rows] == [6 + 1, 1, 4 + 1]  # an end counts as a byte
    assert [row["exact_match"] for row in rows] == [True, False, False]
    assert [(b["low"], b["n"]) for b in entry["buckets"]] == [(1, 2), (2, 1)]
    assert entry["overall"]["nats"]["value"] == pytest.approx(9 / 6)
    assert evaluate(monkeypatch)[2] == [2]


def test_a_row_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    about = {"is_generated": False, "primary_metric": "perplexity"}
    rows, entry, beams = evaluate(monkeypatch, **about)
    assert (beams, "beam" in entry) == ([], False)
    assert [row["ref"] for row in rows] == ["a b", "c", "a"]
    assert [row["n_bytes"] for row in rows] == [3 + 1, 1, 1 + 1]
    assert [row["exact_match"] for row in rows] == [False, True, True]
    for part in (entry["overall"], *entry["buckets"]):
        assert part["perplexity"]["value"] == pytest.approx(math.exp(part["nats"]["value"]))


V, D = 11, 8
CFG = TrainConfig(tokens=1, lr=1.0, batch_tokens=64)


def test_the_transformer_by_its_formula() -> None:
    S, T, ff = 6, 5, 16
    sizes = {"d_model": D, "d_ff": ff, "n_heads": 2, "n_layers": 1, "dropout": 0.0}
    model = build("transformer", V, **sizes)
    examples = [Example([4] * S, [5] * T)] * (2 * evaluate_run.N_ROWS)
    attention = 2 * S * S * D + 2 * T * T * D + 2 * T * S * D  # scores and mixtures
    projections = 4 * S * D * D + 4 * T * D * D + (2 * T + 2 * S) * D * D
    macs = attention + projections + 2 * (S + T) * D * ff + T * D * V
    assert flops_per_token(model, examples, CFG) == 3 * 2 * macs / T
    assert all(p.grad is None for p in model.parameters())
    most = [e._replace(unscored=frozenset([0])) for e in examples]  # all but one are scored
    assert flops_per_token(model, most, CFG) == 3 * 2 * macs / (T - 1)
    n_rows: list[int] = []
    model.register_forward_pre_hook(lambda _, given: n_rows.append(len(given[0])))
    flops_per_token(model, [Example([4], [5] * (1 + i % 7)) for i in range(200)], CFG)
    assert max(n_rows) <= evaluate_run.N_ROWS

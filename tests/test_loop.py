"""The loop: the same seed gives the same bits, and the best weights are kept."""

from __future__ import annotations

import math
import random
from typing import Any, get_args

import pytest
import torch
from conftest import DECODER_ONLY, Tiny, V
from torch import Tensor
from toy_task import same
from toy_training import Calling, draw_examples

from seqmodels import EOS, SequenceModel
from seqmodels.data.batches import Example
from seqmodels.evaluation import evaluate
from seqmodels.training import loop
from seqmodels.training.config import Precision, TrainConfig
from seqmodels.training.trainer import Trainer

CFG = TrainConfig(tokens=300, lr=1e-2, batch_tokens=60, n_validations=3)


def weights_after(model: SequenceModel, cfg: TrainConfig) -> tuple[dict[str, Tensor], Any]:
    """Train on a few examples; return the weights, and the curve without its seconds."""
    examples = draw_examples(40, 8)
    curve = loop.train(Trainer(model, cfg), examples[8:], examples[:8])
    points = [{k: v for k, v in point.items() if k != "seconds"} for point in curve]
    return {k: v.clone() for k, v in model.state_dict().items()}, points


def test_the_same_seed_gives_the_same_bits(name: str, fresh: Tiny) -> None:
    """Keeps out chance from elsewhere, dropout's above all; another seed must give other bits."""
    sizes = {"dropout": 0.1} if name in ("transformer", *DECODER_ONLY) else {}
    model = fresh(name, **sizes)
    start = {k: v.clone() for k, v in model.state_dict().items()}
    results = []
    for before, seed in ((3, 1), (4, 1), (3, 2)):
        torch.manual_seed(before)
        model.load_state_dict(start)
        results.append(weights_after(model, TrainConfig(**vars(CFG) | {"seed": seed})))
    (one, curve), (again, same_curve), (other, other_curve) = results
    assert same(one, again)
    assert curve == same_curve
    assert not same(one, other)
    assert curve != other_curve


LIVELY: dict[str, dict[str, Any]] = {
    "lstm_seq2seq": {"n_layers": 1, "init_range": 0.3, "forget_bias": 2.0},
    "gpt": {"init_std": 0.1},
    "linear_attention": {"init_std": 0.1},
}
"""Larger starts for narrow models."""


@pytest.mark.parametrize("precision", get_args(Precision))
def test_both_precisions_learn_the_same(name: str, precision: Precision, fresh: Tiny) -> None:
    """Keeps out a precision in which small steps are lost: both copy as well after 200 steps."""
    rng = random.Random(1)
    texts = [[rng.randrange(4, V) for _ in range(3)] for _ in range(300)]
    examples = [Example(text, [*text, EOS]) for text in texts]
    cfg = TrainConfig(tokens=24_000, lr=1e-2, batch_tokens=120, precision=precision)
    model = fresh(name, d_model=32, **LIVELY.get(name, {}))
    curve = loop.train(Trainer(model, cfg), examples[50:], examples[:50])
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert curve[-1]["valid_nats"] < 0.5


def test_the_budget_is_kept(fresh: Tiny) -> None:
    """Keeps out a model that trains longer than the others, and a curve without its end."""
    _, curve = weights_after(fresh("gpt"), CFG)
    assert CFG.tokens <= curve[-1]["tokens"] < CFG.tokens + CFG.batch_tokens
    assert len(curve) == CFG.n_validations
    assert curve[0]["valid_nats"] > curve[-1]["valid_nats"]


def test_the_best_weights_are_kept(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out the last weights in place of the best, and a copy that goes on changing."""
    model, snapshots = fresh("rnn_encdec"), []
    losses = iter([3.0, 1.0, 2.0])

    def validate(model: SequenceModel, *_: Any) -> dict[str, float]:
        snapshots.append({k: v.clone() for k, v in model.state_dict().items()})
        return {"valid_nats": next(losses), "valid_accuracy": 0.0}

    monkeypatch.setattr(loop, "validate", validate)
    examples = draw_examples(20, 8)
    loop.train(Trainer(model, CFG), examples, examples)
    assert len(snapshots) == 3
    assert same(model.state_dict(), snapshots[1])
    assert not same(snapshots[1], snapshots[2])


def test_a_lost_loss_is_said(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a traceback for a rate that is too high: no weights were ever the best."""
    lost = {"valid_nats": math.nan, "valid_accuracy": 0.0}
    monkeypatch.setattr(loop, "validate", lambda *_: lost)
    with pytest.raises(ValueError, match=r"use an lr below 0\.01"):
        weights_after(fresh("rnn_encdec"), CFG)


def test_validation_is_exact_and_leaves_no_trace(tiny: Tiny) -> None:
    """Keeps out dropout in validation, a mean of means, and a model left in the wrong mode."""
    model, examples = tiny("transformer", dropout=0.5).train(), draw_examples(30, 20)
    found = loop.validate(model, examples, "cpu")
    assert model.training
    rows = evaluate.score_teacher_forced(model, examples)
    n = sum(row["n_tokens"] for row in rows)
    assert found["valid_nats"] == pytest.approx(sum(row["nats"] for row in rows) / n)
    right = sum(row["n_correct"] for row in rows)
    assert found["valid_accuracy"] == pytest.approx(100 * right / n)


def test_subnormals_do_not_slow_training_down(tiny: Tiny) -> None:
    """Keeps out steps eight times as slow once a model has learned, and a mode that is left on."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormal numbers")
    torch.set_flush_denormal(False)

    def smallest() -> float:
        return (torch.full((8,), 1e-38) * 0.1).max().item()

    found: list[float] = []
    examples = draw_examples(10, 8)
    loop.train(
        Trainer(tiny("rnn_encdec"), CFG), examples[2:], examples[:2],
        Calling(save=lambda: found.append(smallest())),
    )  # fmt: skip
    assert found == [0.0]
    assert smallest() > 0

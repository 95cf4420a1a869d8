"""The trainer and its loop: losses, schedule, the best weights, curves for TensorBoard."""

import itertools
import json
import math
import random
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

import pytest
import torch
from conftest import Pairs, Tiny, V
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.testing import assert_close
from toy_task import flags, same, toy
from toy_training import CFG, assert_same, draw_examples, finish, stopped_after

from seqmodels import EOS, Batch
from seqmodels.comparison import compare
from seqmodels.data.batches import Example, collate
from seqmodels.evaluation import evaluate
from seqmodels.training import loop
from seqmodels.training.config import Precision, TrainConfig
from seqmodels.training.loop import loss_of
from seqmodels.training.trainer import Trainer, lr_factor


def test_the_rate_climbs_and_falls() -> None:
    """Keeps out a schedule that starts at its peak, misses it, or does not end at zero."""
    factors = [lr_factor(0.0, 0.0), *(lr_factor(x, 0.2) for x in (0, 0.1, 0.2, 0.4, 1, 1.1))]
    assert factors == pytest.approx([1, 0, 0.5, 1, 0.75, 0, 0])


def test_a_budget_met_to_the_token_has_its_last_point(fresh: Tiny) -> None:
    """Keeps out a curve without its end, whose weights would never be compared."""
    cfg = TrainConfig(tokens=30, lr=0.1, batch_tokens=10, n_validations=3)
    examples = [Example([4, 5], [5, 4, 6, 7, EOS])] * 8
    curve = loop.train(Trainer(fresh("gpt"), cfg), examples, examples[:1])
    assert [point["tokens"] for point in curve] == [10, 20, 30]


def test_a_point_of_the_curve_is_a_mean_since_the_last(
    fresh: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a training loss that is a sum, or one since the beginning; time is summed."""
    trainer, losses = Trainer(fresh("gpt"), CFG), iter([4.0, 2.0, 1.0])
    monkeypatch.setattr(loop, "optimizer_step", lambda *_: next(losses))
    ticks = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(ticks)))
    batch = trainer.prepare(collate(draw_examples(3, 4)))
    for n_steps, valid_nats in ((2, 5.0), (1, 1.25)):
        for _ in range(n_steps):
            loop.training_step(trainer, batch)
        trainer.add_point({"valid_nats": valid_nats, "valid_accuracy": 0.0})
    keys, n = ("train_nats", "seconds", "step", "tokens"), batch.n_targets
    points = [tuple(point[key] for key in keys) for point in trainer.progress.curve]
    assert points == [(3.0, 2.0, 2, 2 * n), (1.0, 3.0, 3, 3 * n)]


def test_a_loss_is_summed_in_float32(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a loss with three digits: bfloat16 is for the products alone."""
    model, (src, src_mask, tgt_in) = tiny("gpt").bfloat16(), pairs
    batch = Batch(src, src_mask, tgt_in, torch.randint(4, V, tgt_in.shape))
    loss = loss_of(model, batch)
    assert loss.dtype == torch.float32
    log_p = model(src, src_mask, tgt_in).float().log_softmax(-1)
    assert_close(loss, -log_p.gather(2, batch.tgt_out.unsqueeze(2)).mean())


def test_the_same_seed_gives_the_same_bits(fresh: Tiny) -> None:
    """Keeps out chance from elsewhere, dropout's above all; another seed must give other bits."""
    model, results = fresh("transformer", dropout=0.1), []
    for before, seed in ((3, 1), (4, 1), (3, 2)):
        torch.manual_seed(before)
        results.append(finish(Trainer(deepcopy(model), replace(CFG, seed=seed))))
    one, again, other = results
    assert_same(one, again)
    assert not same(one["weights"], other["weights"])


LARGER_START: dict[str, dict[str, Any]] = {
    "lstm_seq2seq": {"n_layers": 1, "init_range": 0.3, "forget_bias": 2.0},
    "gpt": {"init_std": 0.1},
    "linear_attention": {"init_std": 0.1},
}
"""Initial weights with which narrow models learn at once."""


@pytest.mark.slow
@pytest.mark.parametrize("precision", get_args(Precision))
def test_both_precisions_learn(name: str, precision: Precision, fresh: Tiny) -> None:
    """Keeps out a precision in which small steps are lost: both copy after 200 steps."""
    rng = random.Random(1)
    texts = [[rng.randrange(4, V) for _ in range(3)] for _ in range(300)]
    examples = [Example(text, [*text, EOS]) for text in texts]
    cfg = TrainConfig(tokens=24_000, lr=1e-2, batch_tokens=120, precision=precision)
    model = fresh(name, d_model=32, **LARGER_START.get(name, {}))
    curve = loop.train(Trainer(model, cfg), examples[50:], examples[:50])
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert curve[-1]["valid_nats"] < 0.5


def test_a_loss_that_is_not_finite_is_reported(fresh: Tiny, monkeypatch: Any) -> None:
    """Keeps out a traceback for a rate that is too high: no weights were ever the best."""
    scores = {"valid_nats": math.nan, "valid_accuracy": 0.0}
    monkeypatch.setattr(loop, "validate", lambda *_: scores)
    with pytest.raises(ValueError, match=r"lr below 0\.01"):
        finish(Trainer(fresh("rnn_encdec"), CFG))


def test_validation_is_exact_and_leaves_no_trace(tiny: Tiny) -> None:
    """Keeps out dropout in validation, a mean of means, and a model left in the wrong mode."""
    model, examples = tiny("transformer", dropout=0.5).train(), draw_examples(30, 20)
    scores = loop.validate(model, examples, "cpu")
    assert model.training
    rows = evaluate.score_teacher_forced(model, examples)
    n = sum(row["n_tokens"] for row in rows)
    assert scores["valid_nats"] == pytest.approx(sum(row["nats"] for row in rows) / n)
    n_correct = sum(row["n_correct"] for row in rows)
    assert scores["valid_accuracy"] == pytest.approx(100 * n_correct / n)


def draw_curves(out: Path, tokens: int = 2_000, **changes: Any) -> None:
    """Run the toy comparison of GPT with curves."""
    training = {"tokens": tokens, "batch_tokens": 100, "n_validations": 4}
    given = {"models": ["gpt"], "tensorboard": True, "checkpoint_every": 1e-6} | changes
    compare.compare(toy(training=training), flags(out, **given))


def read_curves(out: Path) -> dict[str, dict[int, float]]:
    """Return a run's points as TensorBoard shows them, without speed; no step is there twice."""
    events = EventAccumulator(str(out / "tensorboard" / "gpt-seed1"), {"scalars": 0})
    events.Reload()
    curves = {}
    for name in events.Tags()["scalars"]:
        points = [(point.step, point.value) for point in events.Scalars(name)]
        curves[name] = dict(points)
        assert len(curves[name]) == len(points), name
    assert min(curves.pop("training/tokens per second").values()) > 0
    return curves


@pytest.mark.usefixtures("undrawn", "few_draws")
def test_curves_for_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out other losses than those of training, gaps after a stop, and a lost beginning."""
    losses, rates, step = [], [], loop.optimizer_step

    def optimizer_step(trainer: Trainer, batch: Any, factor: float) -> float:
        losses.append(step(trainer, batch, factor))
        rates.append(factor * trainer.cfg.lr)
        return losses[-1]

    with monkeypatch.context() as patch:
        patch.setattr(loop, "optimizer_step", optimizer_step)
        draw_curves(tmp_path)
    record, curves = json.loads((tmp_path / "gpt-seed1.json").read_text()), read_curves(tmp_path)
    for name, key in (("loss/valid (nats per token)", "nats"), ("accuracy/valid (%)", "accuracy")):
        points = {point["step"]: point[f"valid_{key}"] for point in record["curve"]}
        assert curves[name] == pytest.approx(points)
    means = {n: fmean(losses[n - 10 : n]) for n in range(10, len(losses) + 1, 10)}
    assert curves["loss/train (nats per token)"] == pytest.approx(means)
    expected = {n: lr for n, lr in enumerate(rates) if n and n % 10 == 0}
    lr_curve = curves["training/learning rate"]
    assert {n: lr_curve[n] for n in expected} == pytest.approx(expected)
    assert len(expected) >= 2
    for n_steps in (9, 12):
        with stopped_after(n_steps):
            draw_curves(tmp_path / "stopped")
    draw_curves(tmp_path / "stopped")
    assert read_curves(tmp_path / "stopped") == curves
    draw_curves(tmp_path, 3_000)
    continued = read_curves(tmp_path)["loss/valid (nats per token)"]
    assert curves["loss/valid (nats per token)"].items() < continued.items()
    assert len(continued) == 2 * 4
    draw_curves(tmp_path, 3_000, fresh=True)
    assert len(read_curves(tmp_path)["loss/valid (nats per token)"]) == 4


def test_tensorboard_is_optional(recorded_gpt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out files that nobody wants, and a traceback where the package is missing."""
    assert not (recorded_gpt / "tensorboard").exists()
    monkeypatch.setattr(compare, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install tensorboard"):
        draw_curves(recorded_gpt / "out")
    assert not (recorded_gpt / "out").exists()

"""Training: losses, schedule, the best weights, TensorBoard; failures; and prefetching."""

import itertools
import json
import math
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest import mock

import pytest
import torch
from conftest import Pairs, Tiny, V
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.testing import assert_close
from toys import CFG, assert_same, draw_examples, examples, finish, options, stopped_after, toy

from seqmodels import EOS, PAD, Batch
from seqmodels.data.batches import Example, collate
from seqmodels.experiments.launch import compare
from seqmodels.training import checkpoint, config, loop, trainer
from seqmodels.training.loop import loss_of, prefetch
from seqmodels.training.trainer import Trainer


def test_the_rate_climbs_and_falls(fresh: Tiny) -> None:
    factors, model = [], fresh("gpt")
    for warmup, spent in ((0.0, 0), *((0.2, n) for n in (0, 9, 19, 39, 99, 109))):
        one = Trainer(model, replace(CFG, tokens=100, warmup=warmup))
        one.progress.tokens = spent
        factors.append(one.next_lr_factor())
    assert factors == pytest.approx([0.99, 0.05, 0.5, 1, 0.75, 0, 0])


def test_a_budget_met_to_the_token_has_its_last_point(fresh: Tiny) -> None:
    cfg = config.TrainConfig(tokens=30, lr=0.1, batch_tokens=10, n_validations=3)
    examples = [Example([4, 5], [5, 4, 6, 7, EOS])] * 8
    curve = loop.train(Trainer(fresh("gpt"), cfg), examples, examples[:1])
    assert [point["tokens"] for point in curve] == [10, 20, 30]


def test_a_point_of_the_curve_is_a_mean_since_the_last(fresh: Tiny, monkeypatch: Any) -> None:
    trainer, losses = Trainer(fresh("gpt"), replace(CFG, tokens=20)), iter([4.0, 2.0, 1.0])
    monkeypatch.setattr(loop, "backward", lambda *_: torch.tensor(next(losses)).double())
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
    trainer.bar = mock.Mock()
    trainer.show(None)
    trainer.bar.update.assert_called_with("training", 20, 20, "train 2.333, valid 1.250")


def test_a_loss_is_summed_in_float32(tiny: Tiny, pairs: Pairs) -> None:
    model, (src, src_mask, tgt_in) = tiny("gpt").bfloat16(), pairs
    batch = Batch(src, src_mask, tgt_in, torch.randint(4, V, tgt_in.shape))
    loss = loss_of(model, CFG, batch)
    assert loss.dtype == torch.float32
    log_p = model(src, src_mask, tgt_in).float().log_softmax(-1)
    assert_close(loss, -log_p.gather(2, batch.tgt_out.unsqueeze(2)).mean())


@pytest.mark.parametrize("name", ["gpt", "linear_attention"])
def test_a_source_loss_counts_each_source_token(name: str, tiny: Tiny) -> None:
    model = tiny(name)
    batch = collate([Example([5, 6, 7, 9], [8, EOS]), Example([9, 5], [4, 5, 6, 8, EOS])])
    nats, n = torch.zeros(()), 0
    for src, mask, tgt in zip(batch.src, batch.src_mask, batch.tgt_out, strict=True):
        text = src[mask]
        parts = text[None, :1], torch.ones(1, 1, dtype=torch.bool), text[None, 1:]
        logits = model.text_logits(*parts)
        assert_close(logits[:, 1:], model(*parts))
        nats -= logits.log_softmax(-1)[0, :-1].gather(1, text[1:, None]).sum()
        n += int((tgt != PAD).sum())
    smoothed, both = (replace(CFG, label_smoothing=0.1, source_loss=x) for x in (0.0, 0.3))
    assert_close(loss_of(model, both, batch), loss_of(model, smoothed, batch) + 0.3 * nats / n)


def test_the_squared_error_is_that_of_probabilities(tiny: Tiny) -> None:
    batch = collate([Example([5, 6, 7], [8, EOS]), Example([9, 5], [4, 5, 6, 8, EOS])])
    p = (model := tiny("bahdanau"))(batch.src, batch.src_mask, batch.tgt_in).softmax(2)
    rows = zip(p[batch.tgt_out != PAD].tolist(), [8, EOS, 4, 5, 6, 8, EOS], strict=True)
    total = sum((x - (i == token)) ** 2 for row, token in rows for i, x in enumerate(row))
    assert_close(loss_of(model, replace(CFG, loss="squared"), batch), torch.tensor(total / 7))
    with pytest.raises(ValueError, match="label_smoothing"):
        replace(CFG, loss="squared", label_smoothing=0.5)


def draw_curves(out: Path, **changes: Any) -> None:
    training = {"tokens": 2_000, "batch_tokens": 100, "n_validations": 4}
    given = {"models": ["gpt"], "tensorboard": True} | changes
    compare(toy(training=training), options(out, **given))


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
def test_tensorboard_shows_the_losses_of_training_also_after_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses, rates, step = [], [], loop.training_step
    monkeypatch.setattr(checkpoint, "EVERY_S", 0.0)

    def training_step(trainer: Trainer, batch: Any) -> None:
        step(trainer, batch)
        losses.append(trainer.progress.losses[-1])
        rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    with monkeypatch.context() as patch:
        patch.setattr(loop, "training_step", training_step)
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


# ----------------------------------------------------------------------------------------- Failures
def test_a_loss_that_is_not_finite_ends_the_run(fresh: Tiny, monkeypatch: Any) -> None:
    one, saved, scale = Trainer(fresh("gpt"), CFG), [], iter([1.0, 1.0, math.inf])
    monkeypatch.setattr(loop, "loss_of", lambda *given: loss_of(*given) * next(scale))
    with pytest.raises(ValueError, match=r"diverged at step 3: .* use an lr below"):
        finish(one, save=lambda: saved.append(one.progress.step))  # it would be recorded
    assert (one.progress.step, len(one.progress.losses), saved) == (2, 2, [])
    assert all(p.isfinite().all() for p in one.model.parameters())


def test_a_gradient_that_is_not_finite_changes_nothing(fresh: Tiny) -> None:
    one = Trainer(fresh("gpt"), CFG)
    before = {k: v.clone() for k, v in one.model.state_dict().items()}
    one.model.norm.bias.register_hook(lambda grad: grad * math.inf)
    with pytest.raises(ValueError, match="diverged at step 1"):
        loop.training_step(one, one.prepare(collate(examples()[:4])))
    assert (one.progress.step, one.progress.losses) == (0, [])
    assert all(torch.equal(before[k], v) for k, v in one.model.state_dict().items())


# -------------------------------------------------------------------------------------- Prefetching
def prefetch_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "prefetch" in thread.name]


@pytest.fixture
def threaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "prefetch", lambda items, device: prefetch_on_cpu(items))


def prefetch_on_cpu(items: Iterator[Any]) -> Iterator[Any]:
    """Yield items that a thread prepares, as for a GPU."""
    with mock.patch("torch.cuda.set_device"):
        yield from prefetch(items, torch.device("cuda"))


def test_prefetching_changes_no_bit(fresh: Tiny, request: pytest.FixtureRequest) -> None:
    start = {k: v.clone() for k, v in fresh("gpt").state_dict().items()}
    results = []
    for is_ahead in (False, True):
        model = fresh("gpt", dropout=0.2)
        model.load_state_dict(start)
        if is_ahead:
            request.getfixturevalue("threaded")
        results.append(finish(Trainer(model, CFG)))
    assert_same(*results)
    assert not prefetch_threads()


@pytest.mark.usefixtures("threaded")
def test_a_failure_ends_the_thread(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    collate_all, calls = trainer.collate, itertools.count(1)

    def failing(rows: list[Example]) -> Batch:
        if next(calls) == 4:
            raise ValueError("the fourth batch cannot be read")
        return collate_all(rows)

    def stop() -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "collate", failing)
    for how, error, n_steps in (({}, ValueError, 3), ({"is_due": stop}, KeyboardInterrupt, 1)):
        one = Trainer(fresh("gpt"), CFG)
        with pytest.raises(error):
            finish(one, **how)
        assert one.progress.step == n_steps
        assert not prefetch_threads()

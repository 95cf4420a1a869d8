"""The trainer: what one batch changes."""

from __future__ import annotations

import itertools
import random
from typing import get_args

import numpy as np
import pytest
import torch
from conftest import Pairs, Tiny, V
from torch.nn import functional as F
from torch.testing import assert_close
from toy_training import draw_examples

from seqmodels import Batch
from seqmodels.data.batches import collate
from seqmodels.training import loop
from seqmodels.training.config import Precision, TrainConfig
from seqmodels.training.loop import loss_of
from seqmodels.training.trainer import Trainer, lr_factor, seed_all

CFG = TrainConfig(tokens=300, lr=1e-2, batch_tokens=60, n_validations=3)


def test_bfloat16_is_used(fresh: Tiny, pairs: Pairs) -> None:
    """Keeps out a switch without effect."""
    src, src_mask, tgt_in = pairs
    batch = Batch(src, src_mask, tgt_in, tgt_in.roll(-1, 1))
    losses = set()
    for precision in get_args(Precision):
        torch.manual_seed(1)
        trainer = Trainer(fresh("gpt"), TrainConfig(**vars(CFG) | {"precision": precision}))
        losses.add(loop.optimizer_step(trainer, trainer.prepare(batch), 1e-2))
    assert len(losses) == 2


def test_the_rate_climbs_and_falls() -> None:
    """Keeps out a schedule that starts at its peak, misses it, or does not end at zero."""
    rates = [lr_factor(done / 100, 0.1) for done in range(101)]
    assert rates[0] == rates[100] == 0.0
    assert rates[10] == max(rates) == 1.0
    assert rates[:11] == sorted(rates[:11])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert (rates[5], rates[55]) == pytest.approx((0.5, 0.5))
    assert lr_factor(0.0, 0.0) == 1.0


def test_a_point_of_the_curve_is_a_mean_since_the_last(
    fresh: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a training loss that is a sum, or one since the beginning; time is summed."""
    trainer, losses = Trainer(fresh("gpt"), CFG), iter([4.0, 2.0, 1.0])
    monkeypatch.setattr(loop, "optimizer_step", lambda *_: next(losses))
    ticks = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(ticks)))
    batch = trainer.prepare(collate(draw_examples(3, 4)))
    scored = {"valid_nats": 1.0, "valid_accuracy": 0.0}
    for n in (2, 1):
        for _ in range(n):
            loop.training_step(trainer, batch)
        trainer.add_point(scored)
    assert [point["train_nats"] for point in trainer.progress.curve] == [3.0, 1.0]
    assert [point["seconds"] for point in trainer.progress.curve] == [2.0, 3.0]
    assert [point["step"] for point in trainer.progress.curve] == [2, 3]


def test_a_seed_starts_every_generator() -> None:
    """Keeps out seeds that share their dropout."""
    drawn = []
    for seed in (1, 2, 1):
        seed_all(seed)
        drawn.append((random.random(), np.random.random(), torch.rand(1).item()))
    assert drawn[0] == drawn[2]
    assert all(one != other for one, other in zip(*drawn[:2], strict=True))


def test_label_smoothing_spreads_the_target(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a switch that does nothing: (1 - ε) of the loss, ε of the mean over all tokens."""
    model, (src, src_mask, tgt_in) = tiny("gpt"), pairs
    batch = Batch(src, src_mask, tgt_in, torch.randint(4, V, tgt_in.shape))
    log_p = model(src, src_mask, tgt_in).log_softmax(-1)
    hard = -log_p.gather(2, batch.tgt_out.unsqueeze(2)).mean()
    assert_close(loss_of(model, batch), hard)
    assert_close(loss_of(model, batch, 0.1), 0.9 * hard - 0.1 * log_p.mean())


def test_a_loss_is_summed_in_float32(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a loss with three digits: bfloat16 is for the products alone."""
    model, (src, src_mask, tgt_in) = tiny("gpt").bfloat16(), pairs
    batch = Batch(src, src_mask, tgt_in, torch.randint(4, V, tgt_in.shape))
    assert model(src, src_mask, tgt_in).dtype == torch.bfloat16
    loss = loss_of(model, batch)
    assert loss.dtype == torch.float32
    log_p = model(src, src_mask, tgt_in).float().log_softmax(-1)
    assert_close(loss, -log_p.gather(2, batch.tgt_out.unsqueeze(2)).mean())


def test_pads_do_not_change_the_loss(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a loss that is smaller the more pads there are."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    tgt_out = torch.randint(4, V, tgt_in.shape)
    padded = Batch(*(F.pad(t, (0, 3)) for t in (src, src_mask, tgt_in, tgt_out)))
    for smoothing in (0.0, 0.1):
        loss = loss_of(model, Batch(src, src_mask, tgt_in, tgt_out), smoothing)
        assert_close(loss_of(model, padded, smoothing), loss)

"""Training goes wrong: losses that are not finite, memory that is short."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import pytest
import torch
from conftest import Tiny
from toy_training import CFG, examples, finish

from seqmodels import Batch, SequenceModel
from seqmodels.data.batches import collate
from seqmodels.interface import PAD
from seqmodels.training import loop, trainer
from seqmodels.training.trainer import Trainer


def lost(monkeypatch: pytest.MonkeyPatch, steps: set[int]) -> None:
    """Have the loss be infinite at some steps."""
    loss_of, step = loop.loss_of, itertools.count(1)

    def sometimes(*given: Any) -> torch.Tensor:
        return loss_of(*given) * (math.inf if next(step) in steps else 1.0)

    monkeypatch.setattr(loop, "loss_of", sometimes)


def test_a_batch_without_a_finite_loss_is_skipped(
    fresh: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out weights of NaN, and a message that does not say which sentences it was."""
    one, told = Trainer(fresh("gpt"), CFG), []
    one.log = told.append
    lost(monkeypatch, {3})
    finish(one)
    assert one.progress.n_skipped == 1
    (line,) = told
    assert "step 3: batch skipped: no finite loss or gradient; lines " in line
    lines = [int(n) for n in re.findall(r"\d+", line.partition("; lines ")[2])]
    assert 1 <= min(lines) <= max(lines) <= 60
    assert one.progress.events == [{"step": 3, "kind": "skipped", "what": line.partition(": ")[2]}]
    assert all(p.isfinite().all() for p in one.model.parameters())


def test_a_gradient_that_is_not_finite_changes_nothing(fresh: Tiny) -> None:
    """Keeps out a step by infinity: the loss is finite, its gradient is not."""
    one = Trainer(fresh("gpt"), CFG)
    before = {k: v.clone() for k, v in one.model.state_dict().items()}
    one.model.norm.bias.register_hook(lambda grad: grad * math.inf)
    assert math.isnan(loop.optimizer_step(one, one.prepare(collate(examples()[:4])), 1e-2))
    assert all(torch.equal(before[k], v) for k, v in one.model.state_dict().items())


def test_too_many_skips_end_the_run(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a run that skips all of its data and is then recorded."""
    one, saved = Trainer(fresh("gpt"), CFG), []
    one.log = lambda line: None
    lost(monkeypatch, set(range(2, 99)))
    with pytest.raises(
        ValueError, match=r"training diverged at step 12: .*lines .*; use an lr below"
    ):
        finish(one, save=lambda: saved.append(one.progress.step))
    assert one.progress.n_skipped == trainer.MAX_SKIPPED + 1
    assert not saved


class FullError(RuntimeError):
    """What torch says when a processor's memory is full."""


FULL = [
    "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried …",
    "could not create a primitive",
]


@pytest.mark.parametrize("said", FULL)
@pytest.mark.parametrize("n_rows_that_fit", [9, 4, 1])
def test_memory_that_is_short_halves_the_batch(
    said: str, n_rows_that_fit: int, name: str, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out another gradient than the whole batch's: pieces count by their tokens."""
    whole, parted = (Trainer(tiny(name), CFG) for _ in range(2))
    batch = whole.prepare(collate(examples()[:9]))
    parted.model.load_state_dict(whole.model.state_dict())
    told: list[str] = []
    parted.log = told.append
    wanted, loss_of = loop.backward(whole, batch), loop.loss_of

    def short(model: SequenceModel, part: Batch, *rest: Any) -> torch.Tensor:
        if len(part.src) > n_rows_that_fit:
            raise FullError(said)
        return loss_of(model, part, *rest)

    monkeypatch.setattr(loop, "loss_of", short)
    assert loop.backward(parted, batch) == pytest.approx(wanted)
    for p, q in zip(whole.model.parameters(), parted.model.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)
    n_parts = {9: 1, 4: 4, 1: 16}[n_rows_that_fit]
    assert parted.progress.n_parts == n_parts
    assert len(told) == int(math.log2(n_parts))


def test_a_piece_without_targets_counts_nothing(name: str, tiny: Tiny) -> None:
    """Keeps out 0 × NaN: a batch is lost because one half of it has nothing to score."""
    batch = collate(examples()[:8])
    batch.tgt_out[4:] = PAD
    whole, halved = (Trainer(tiny(name), CFG) for _ in range(2))
    halved.model.load_state_dict(whole.model.state_dict())
    halved.progress.n_parts = 2
    losses = [loop.backward(one, one.prepare(batch)) for one in (halved, whole)]
    assert losses[0] == pytest.approx(losses[1])
    for p, q in zip(whole.model.parameters(), halved.model.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)
    batch.tgt_out[:] = PAD
    assert math.isnan(loop.optimizer_step(whole, whole.prepare(batch), 1e-2))


def test_no_memory_at_all_is_said(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out an endless halving."""

    def full(*_: Any) -> torch.Tensor:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(loop, "loss_of", full)
    one = Trainer(fresh("gpt"), CFG)
    one.log = lambda line: None
    with pytest.raises(ValueError, match="out of memory with one sentence at a time"):
        loop.optimizer_step(one, one.prepare(collate(examples()[:5])), 1e-2)


def test_other_errors_are_no_lack_of_memory(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a bug that is tried again with smaller batches."""

    def wrong(*_: Any) -> torch.Tensor:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(loop, "loss_of", wrong)
    one = Trainer(fresh("gpt"), CFG)
    with pytest.raises(RuntimeError, match="mat1"):
        loop.optimizer_step(one, one.prepare(collate(examples()[:5])), 1e-2)

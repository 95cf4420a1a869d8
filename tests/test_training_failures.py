"""Training goes wrong: losses that are not finite, memory that is short."""

import itertools
import math
import re
from copy import deepcopy
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from conftest import Tiny
from toy_training import CFG, examples, finish

from seqmodels import Batch, SequenceModel
from seqmodels.data.batches import collate
from seqmodels.interface import PAD
from seqmodels.training import loop, trainer
from seqmodels.training.trainer import Trainer


def lose(monkeypatch: pytest.MonkeyPatch, steps: set[int]) -> None:
    """Have the loss be infinite at some steps."""
    loss_of, step = loop.loss_of, itertools.count(1)

    def sometimes(*given: Any) -> torch.Tensor:
        return loss_of(*given) * (math.inf if next(step) in steps else 1.0)

    monkeypatch.setattr(loop, "loss_of", sometimes)


def test_a_batch_without_a_finite_loss_is_skipped(
    fresh: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out weights of NaN, and a message that does not say which sentences it was."""
    one, messages = Trainer(fresh("gpt"), CFG), []
    one.log = messages.append
    lose(monkeypatch, {3})
    finish(one)
    assert one.progress.n_skipped == 1
    (line,) = messages
    assert "step 3: batch skipped" in line
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
    lose(monkeypatch, set(range(2, 99)))
    with pytest.raises(ValueError, match=r"diverged at step 12: .*lines .* lr below"):
        finish(one, save=lambda: saved.append(one.progress.step))
    assert one.progress.n_skipped == trainer.MAX_SKIPPED + 1
    assert not saved


def two_trainers(model: SequenceModel) -> tuple[Trainer, Trainer]:
    """Return trainers of a model and of its copy."""
    return Trainer(model, CFG), Trainer(deepcopy(model), CFG)


def assert_same_gradients(one: Trainer, other: Trainer) -> None:
    """Compare the gradients of all parameters."""
    for p, q in zip(one.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


@pytest.mark.parametrize(
    ("message", "n_rows_that_fit", "n_parts"),
    [
        ("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried …", 4, 4),
        ("could not create a primitive", 1, 16),
    ],
)
def test_memory_that_is_short_halves_the_batch(
    message: str, n_rows_that_fit: int, n_parts: int, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out another gradient than the whole batch's: pieces count by their tokens."""
    whole, parted = two_trainers(tiny("bahdanau"))
    batch = whole.prepare(collate(examples()[:9]))
    messages: list[str] = []
    parted.log = messages.append
    expected, loss_of = loop.backward(whole, batch), loop.loss_of

    def short(model: SequenceModel, part: Batch, *rest: Any) -> torch.Tensor:
        if len(part.src) > n_rows_that_fit:
            raise RuntimeError(message)
        return loss_of(model, part, *rest)

    monkeypatch.setattr(loop, "loss_of", short)
    assert loop.backward(parted, batch) == pytest.approx(expected)
    assert_same_gradients(whole, parted)
    assert parted.progress.n_parts == n_parts
    assert len(messages) == math.log2(n_parts)


def test_a_piece_without_targets_counts_nothing(tiny: Tiny) -> None:
    """Keeps out 0 × NaN: a batch is lost because one half of it has nothing to score."""
    batch = collate(examples()[:8])
    batch.tgt_out[4:] = PAD
    whole, halved = two_trainers(tiny("gpt"))
    halved.progress.n_parts = 2
    losses = [loop.backward(one, one.prepare(batch)) for one in (halved, whole)]
    assert losses[0] == pytest.approx(losses[1])
    assert_same_gradients(whole, halved)
    batch.tgt_out[:] = PAD
    assert math.isnan(loop.optimizer_step(whole, whole.prepare(batch), 1e-2))


@pytest.mark.parametrize(
    ("error", "expected", "words"),
    [
        (torch.OutOfMemoryError(), ValueError, "one sentence at a time"),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), RuntimeError, "mat1"),
    ],
)
def test_errors_that_halving_does_not_mend(
    error: Exception, expected: type[Exception], words: str, fresh: Tiny
) -> None:
    """Keeps out an endless halving, and a bug that is tried again with smaller batches."""
    one = Trainer(fresh("gpt"), CFG)
    one.model.forward = Mock(side_effect=error)
    one.log = lambda line: None
    with pytest.raises(expected, match=words):
        loop.optimizer_step(one, one.prepare(collate(examples()[:5])), 1e-2)

"""Prefetching: the next batch is prepared in a thread, with the same bits."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch
from conftest import Tiny
from torch.utils._python_dispatch import TorchDispatchMode
from toy_training import CFG, assert_same, examples, finish

from seqmodels import Batch, SequenceModel
from seqmodels.data.batches import Example, collate
from seqmodels.training import loop, trainer
from seqmodels.training.loop import prefetch
from seqmodels.training.trainer import Trainer


def prefetch_threads() -> list[threading.Thread]:
    """Return the threads that prepare batches."""
    return [thread for thread in threading.enumerate() if "prefetch" in thread.name]


@pytest.fixture
def threaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepare batches in a thread, as for a GPU."""
    monkeypatch.setattr(loop, "prefetch", lambda items, device: prefetch_on_cpu(items))


def prefetch_on_cpu(items: Iterator[Any]) -> Iterator[Any]:
    """Yield items that a thread prepares, as for a GPU."""
    with mock.patch("torch.cuda.set_device"):
        yield from prefetch(items, torch.device("cuda"))


def test_the_same_bits(fresh: Tiny, request: pytest.FixtureRequest) -> None:
    """Keeps out batches in another order, pieces of another batch, and other dropout."""
    start = {k: v.clone() for k, v in fresh("gpt").state_dict().items()}
    results = []
    for is_ahead in (False, True):
        model = fresh("gpt", dropout=0.2)
        model.load_state_dict(start)
        if is_ahead:
            request.getfixturevalue("threaded")
        results.append(finish(Trainer(model, replace(CFG, shards=2))))
    assert_same(*results)
    assert not prefetch_threads()


def test_one_item_is_prefetched() -> None:
    """Keeps out a thread that begins when it is asked, and one that makes all."""
    asked, numbers = threading.Event(), []

    def make() -> Iterator[int]:
        for i in range(1, 5):
            numbers.append(i)
            if i == 2:
                asked.set()
            yield i

    with closing(prefetch_on_cpu(make())) as items:
        assert next(items) == 1
        assert asked.wait(5)
        assert numbers == [1, 2]
        assert prefetch_threads()
        assert [*items] == [2, 3, 4]
    assert not prefetch_threads()


@pytest.mark.usefixtures("threaded")
def test_a_failure_ends_the_thread(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a training that waits for a thread that has failed, and a thread that is left."""
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


def test_pieces_made_before_memory_ran_out_are_not_used(fresh: Tiny, monkeypatch: Any) -> None:
    """Keeps out pieces that are as large as those for which there was no memory."""
    one, sizes, loss_of = Trainer(fresh("gpt"), CFG), [], loop.loss_of
    prepared = one.prepare(collate(examples(8)))

    def watch(model: SequenceModel, piece: Batch, *rest: Any) -> torch.Tensor:
        sizes.append(len(piece.src))
        return loss_of(model, piece, *rest)

    monkeypatch.setattr(loop, "loss_of", watch)
    loop.backward(one, prepared)
    one.progress.n_parts = 4
    loop.backward(one, prepared)
    assert sizes == [8, 2, 2, 2, 2]


class Reads(TorchDispatchMode):
    """Counts the numbers that are read from tensors, for which a GPU is waited for."""

    n = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count, and compute."""
        self.n += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **kwargs or {})


def test_a_gpu_is_not_read_for_each_piece(fresh: Tiny) -> None:
    """Keeps out a read of the device for each piece of a batch."""
    results = []
    for n_parts in (1, 4):
        one = Trainer(fresh("transformer"), CFG)
        one.progress.n_parts = n_parts
        batch = one.prepare(collate(examples(8)))
        with Reads() as reads:
            loop.optimizer_step(one, batch, 1e-2)
        results.append(reads.n)
    assert results[0] == results[1]

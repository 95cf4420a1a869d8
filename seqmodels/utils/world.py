"""The processes that torchrun starts to train one model.

torchrun names its processes in the environment; without it there is one, and everything that
concerns the others returns at once. Collective calls must be made by all in the same order.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

T = TypeVar("T")
TIMEOUT = timedelta(days=1)
"""How long a process may wait for the others: the first one alone records and draws."""

# --------------------------------------------------------------------- The processes of torchrun


class ProcessLostError(ConnectionError):
    """Another process of this training has ended, so that this one must end."""


@contextmanager
def report_lost_process() -> Iterator[None]:
    """Raise ProcessLostError where a message to the other processes fails."""
    try:
        yield
    except RuntimeError as error:
        raise ProcessLostError(
            "another process of this training has ended; the same command resumes from the last "
            "checkpoint"
        ) from error


class World:
    """The processes that train one model, and the rank of this one."""

    def __init__(self, rank: int = 0, size: int = 1):
        self.rank, self.size = rank, size

    @property
    def is_rank0(self) -> bool:
        """Return whether this process writes, draws and prints."""
        return self.rank == 0

    def check_shards(self, n: int) -> None:
        """Raise ValueError if n shards of a batch cannot be divided evenly."""
        if n % self.size:
            raise ValueError(
                f"--shards {n} is not a multiple of the {self.size} processes that torchrun started"
            )

    def my_shard(self, items: Sequence[T]) -> Sequence[T]:
        """Return every size-th item, for this process."""
        return items[self.rank :: self.size]

    def round_robin(self, items: Sequence[T]) -> Sequence[T]:
        """Return every size-th item; the first items are repeated so that all get equally many."""
        n = -len(items) % self.size
        return self.my_shard([*items, *(items[i % len(items)] for i in range(n))])

    def broadcast_from_rank0(self, compute: Callable[[], T]) -> T:
        """Compute a value in the first process; return it in all.

        If that raises, the first process alone says why, and the others exit with 2.
        """
        if self.size == 1:
            return compute()
        message: list[Any] = [False, None]
        try:
            if self.is_rank0:
                message = [True, compute()]
        finally:
            with report_lost_process():
                dist.broadcast_object_list(message, 0)
        is_computed, value = message
        if not is_computed:
            sys.exit(2)
        return value

    def on_rank0(self, compute: Callable[[], T]) -> T | None:
        """Compute a value that stays in the first process, such as a lock; the others get None.

        They wait for it, and exit with 2 if it raises.
        """
        values: list[T] = []
        self.broadcast_from_rank0(lambda: values.append(compute()))
        return values[0] if values else None

    def gather(self, own: dict[int, T]) -> dict[int, T]:
        """Return the entries of all processes in one dictionary."""
        if self.size == 1:
            return own
        parts: list[Any] = [None] * self.size
        with report_lost_process():
            dist.all_gather_object(parts, own)
        return {key: value for part in parts for key, value in part.items()}

    def is_any(self, is_true: bool) -> bool:
        """Return whether something is true in any process."""
        n_true = torch.tensor(float(is_true))
        self.sum_in_place(n_true)
        return bool(n_true)

    def sum_in_place(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all processes."""
        if self.size > 1:
            with report_lost_process():
                dist.all_reduce(tensor)

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace each gradient by its sum over all processes; none counts as zero."""
        if self.size == 1:
            return
        gradients = []
        for p in parameters:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            gradients.append(p.grad)
        flat = parameters_to_vector(gradients)
        self.sum_in_place(flat)
        vector_to_parameters(flat, gradients)


@cache
def world() -> World:
    """Return the processes that torchrun has started, or this one alone.

    Raises ProcessLostError if the others cannot be reached.
    """
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return World()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if size > 1:
        backend = "gloo"
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
            backend = "cpu:gloo,cuda:nccl"
        with report_lost_process():
            store, *place = next(dist.rendezvous("env://"))
            attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
            store = dist.PrefixStore(attempt, store)  # it has the addresses of those that ended
            dist.init_process_group(backend, None, TIMEOUT, place[1], place[0], store)
        atexit.register(dist.destroy_process_group)
    return World(rank, size)

"""One model on several processes: what each takes, and what each must know of the others.

torchrun starts the processes and names them in the environment; without it there is one, and
everything here returns at once. Collective calls must be made by all processes in the same order.
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


LOST = (
    "another process of this training has ended; the same command resumes from the last checkpoint"
)


class ProcessLostError(ConnectionError):
    """A process of this training has ended, or must."""


@contextmanager
def loss_reported() -> Iterator[None]:
    """Raise ProcessLostError where a message to the other processes fails."""
    try:
        yield
    except RuntimeError as error:
        raise ProcessLostError(LOST) from error


class World:
    """The processes that train one model, and this one's place among them."""

    def __init__(self, rank: int = 0, size: int = 1):
        self.rank, self.size = rank, size

    @property
    def is_first(self) -> bool:
        """Return whether this process writes, draws and prints."""
        return self.rank == 0

    def check_shards(self, n: int) -> None:
        """Raise ValueError if n shares of a batch cannot be dealt evenly."""
        if n % self.size:
            raise ValueError(
                f"--shards {n} is not a multiple of the {self.size} processes that torchrun "
                f"started, such as {self.size}; the result depends on the shards, and not on the "
                "processes"
            )

    def my_shard(self, items: Sequence[T]) -> Sequence[T]:
        """Return this process's share of some items: every size-th."""
        return items[self.rank :: self.size]

    def round_robin(self, items: Sequence[T]) -> Sequence[T]:
        """Return this process's share of some items, as many as each: the first ones come twice."""
        n = -len(items) % self.size
        return self.my_shard([*items, *(items[i % len(items)] for i in range(n))])

    def from_first(self, find: Callable[[], T]) -> T:
        """Return what the first process finds.

        If it fails there, the first process alone says why, and the others exit with 2.
        """
        if self.size == 1:
            return find()
        found: list[Any] = [None, None]
        try:
            if self.is_first:
                found = [True, find()]
        finally:
            with loss_reported():
                dist.broadcast_object_list(found, 0)
        if not found[0]:
            sys.exit(2)
        return found[1]

    def gather(self, found: dict[int, T]) -> dict[int, T]:
        """Return what all processes have found together."""
        if self.size == 1:
            return found
        parts: list[Any] = [None] * self.size
        with loss_reported():
            dist.all_gather_object(parts, found)
        return {key: value for part in parts for key, value in part.items()}

    def sums(self, *numbers: float) -> list[float]:
        """Return the sums of numbers over all processes, in float64."""
        if self.size == 1:
            return [*numbers]
        totals = torch.tensor(numbers, dtype=torch.float64)
        self.add_up(totals)
        return totals.tolist()

    def add_up(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all processes."""
        if self.size > 1:
            with loss_reported():
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
        self.add_up(flat)
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
        with loss_reported():
            store, *place = next(dist.rendezvous("env://"))
            attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
            store = dist.PrefixStore(attempt, store)  # it has the addresses of those that ended
            dist.init_process_group(backend, None, TIMEOUT, place[1], place[0], store)
        atexit.register(dist.destroy_process_group)
    return World(rank, size)

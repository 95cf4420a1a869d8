"""What training needs of the machine: random generators, precision, memory, a thread ahead."""

from __future__ import annotations

import ctypes
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

# oneDNN caches kernels for 1,024 shapes; the shapes of batches seldom recur.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

T = TypeVar("T")
Precision = Literal["float32", "bfloat16"]

# -------------------------------------------------------------------------- Random generators


def seed_all(seed: int) -> None:
    """Seed every random generator."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def seed_shard(seed: int, step: int, shard: int) -> None:
    """Seed torch's generators for one share of a batch, in whatever process it is."""
    seeds = np.random.SeedSequence([seed, step, shard])
    torch.manual_seed(int(seeds.generate_state(1, np.uint64)[0]))


def rng_states() -> dict[str, Any]:
    """Return the state of every random generator that training may draw from, in JSON types."""
    version, words, gauss = random.getstate()
    numpy = np.random.get_state(legacy=False)
    return {
        "python": [version, list(words), gauss],
        "numpy": {**numpy, "state": {**numpy["state"], "key": numpy["state"]["key"].tolist()}},
        "torch": torch.get_rng_state().numpy().tobytes().hex(),
        "cuda": [state.numpy().tobytes().hex() for state in _cuda_rng_states()],
    }


def set_rng_states(states: Any) -> None:
    """Restore the random generators.

    Raises ValueError for an invalid state.
    """
    try:
        version, words, gauss = states["python"]
        random.setstate((version, tuple(words), gauss))
        np.random.set_state(states["numpy"])
        cuda = states["cuda"][: torch.cuda.device_count()]
        _set_torch_rng_states(
            _bytes_tensor(states["torch"]), [_bytes_tensor(state) for state in cuda]
        )
    except (TypeError, ValueError, KeyError, RuntimeError, IndexError, OverflowError) as error:
        raise ValueError(f"invalid state of a random generator: {error}") from None


@contextmanager
def rng_restored_on_error() -> Iterator[None]:
    """Restore torch's generators if the body raises: the same dropout is then drawn again."""
    before = torch.get_rng_state(), _cuda_rng_states()
    try:
        yield
    except BaseException:
        _set_torch_rng_states(*before)
        raise


def _cuda_rng_states() -> list[Tensor]:
    """Return the states of the GPUs' generators."""
    return torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []


def _set_torch_rng_states(cpu: Tensor, cuda: list[Tensor]) -> None:
    """Restore torch's generators."""
    torch.set_rng_state(cpu)
    for i, state in enumerate(cuda):
        torch.cuda.set_rng_state(state, i)


def _bytes_tensor(text: str) -> Tensor:
    """Return the bytes that a string of hexadecimal digits encodes."""
    return torch.tensor(list(bytes.fromhex(text)), dtype=torch.uint8)


# ---------------------------------------------------------------------------- Speed and memory


def fastest_precision(device: str) -> Precision:
    """Return bfloat16 if it multiplies matrices at least 1.5 times as fast as float32."""
    if device == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    wide, narrow = torch.ones(512, 512), torch.ones(512, 512, dtype=torch.bfloat16)
    seconds: list[list[float]] = [[], []]
    for _ in range(10):  # in turns: other load affects both
        for a, times in zip((wide, narrow), seconds, strict=True):
            started = time.perf_counter()
            a @ a
            times.append(time.perf_counter() - started)
    return "bfloat16" if 1.5 * min(seconds[1]) < min(seconds[0]) else "float32"


@contextmanager
def subnormals_flushed() -> Iterator[None]:
    """Let numbers below 1e-38 be zero, where the processor can.

    A CPU is many times slower with them, and the gradients of a model that has learned its task are
    full of them.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def trim_heap() -> None:
    """Return free memory to the system: batches of varying sizes fragment glibc's heap.

    Does nothing with another C library.
    """
    with suppress(AttributeError, TypeError):  # no such function; on Windows no such library
        ctypes.CDLL(None).malloc_trim(0)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, on a GPU or according to torch or oneDNN."""
    is_full = isinstance(error, (torch.OutOfMemoryError, MemoryError))
    return is_full or any(text in str(error) for text in OUT_OF_MEMORY_ERRORS)


OUT_OF_MEMORY_ERRORS = (
    "can't allocate memory",
    "could not create a primitive",
    "could not create a memory object",
)
"""Messages of torch and oneDNN when a CPU's memory is full."""


@contextmanager
def prefetch(items: Iterator[T], device: torch.device) -> Iterator[Iterator[T]]:
    """Yield an iterator of the same items; for a GPU, a thread makes the next one in advance.

    What is raised there is raised where the item is asked for. The thread ends with the context.
    """
    if device.type != "cuda":
        yield items
        return
    with ThreadPoolExecutor(1, "prefetch", torch.cuda.set_device, (device,)) as pool:
        yield _made_in_advance(pool, items)


def _made_in_advance(pool: ThreadPoolExecutor, items: Iterator[T]) -> Iterator[T]:
    """Yield what the pool's one thread makes: the next item is begun before one is given."""
    coming = pool.submit(next, items, None)
    while (item := coming.result()) is not None:
        coming = pool.submit(next, items, None)
        yield item

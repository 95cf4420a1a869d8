"""Measure our models' cost against the length of the text, one process per point.

This isolates each point's peak memory; a point that exceeds a limit fails alone, with its reason.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch._dynamo  # the first optimiser would import it; this imports it once for all points

from benchmarks.workloads import RATE, Size, sizes, trainer_of
from seqmodels.interface import Batch, SequenceModel
from seqmodels.models import MODELS, build
from seqmodels.records.record import peak_memory_bytes, reset_peak_memory
from seqmodels.training import loop

VOCAB = 1_000
LIMIT_BYTES, LIMIT_S = 4 * 10**9, 30
WRITTEN, WRITTEN_ROWS = 32, 8

Point = dict[str, Any]


# ---------------------------------------------------------------------------- In the child process
def random_batch(rows: int, n: int) -> Batch:
    """Draw a random batch without padding."""
    src, tgt_in, tgt_out = torch.randint(4, VOCAB, (3, rows, n))
    return Batch(src, torch.ones_like(src, dtype=torch.bool), tgt_in, tgt_out)


def median_time(run: Callable[[], object], seconds: float) -> float:
    """Return the median time over at least two runs."""
    times: list[float] = []
    while len(times) < 2 or sum(times) < seconds:
        since = time.perf_counter()
        run()
        times.append(time.perf_counter() - since)
    return statistics.median(times)


def model_of(name: str, n: int, width: int) -> SequenceModel:
    """Build a model that fits a source and a target of `n` tokens each."""
    return build(name, VOCAB, **sizes(name, width, 3, n_positions=2 * n + 2))


def measure_training(name: str, n: int, width: int, seconds: float) -> Point:
    """Time a training step; measure its peak memory beyond that of an idle process."""
    trainer = trainer_of(model_of("rnn_encdec", 8, 8))  # loads all that training needs
    loop.optimizer_step(trainer, trainer.prepare(random_batch(1, 8)), RATE)
    reset_peak_memory("cpu")
    idle = peak_memory_bytes("cpu")
    trainer = trainer_of(model_of(name, n, width))
    batch = trainer.prepare(random_batch(1, n))
    loop.optimizer_step(trainer, batch, RATE)
    step_s = median_time(lambda: loop.optimizer_step(trainer, batch, RATE), seconds)
    return {"rows": 1, "step_s": step_s, "peak_bytes": peak_memory_bytes("cpu") - idle}


def measure_decoding(name: str, n: int, width: int, seconds: float) -> Point:
    """Time the decoding steps after a source of `n` tokens."""
    model, batch = model_of(name, max(n, WRITTEN), width).eval(), random_batch(WRITTEN_ROWS, n)
    with torch.inference_mode():
        first = model.encode(batch.src, batch.src_mask)

        def write() -> None:
            state = first
            for _ in range(WRITTEN):
                _, state = model.step(batch.src[:, 0], state)

        write()
        return {"rows": WRITTEN_ROWS, "token_s": median_time(write, seconds) / WRITTEN}


AXES = {"length": measure_training, "writing": measure_decoding}


def child(pipe: Connection, axis: str, args: tuple[Any, ...]) -> None:
    """Measure one point within the memory limit; send it, or the reason for its absence."""
    with suppress(ImportError):  # Windows has no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
    torch.manual_seed(1)
    try:
        pipe.send(AXES[axis](*args))
    except Exception as error:  # any failure is reported
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            error = MemoryError(f"needs more than {LIMIT_BYTES / 1e9:.0f} GB")
        pipe.send({"skipped": " ".join(str(error).split())})


# --------------------------------------------------------------------------- In the parent process
@cache
def context() -> Any:
    """Return a context that forks each point from a server that has only imported torch."""
    if "forkserver" not in get_all_start_methods():  # on Windows
        return get_context("spawn")
    found = get_context("forkserver")
    found.set_forkserver_preload(["benchmarks.growth"])
    return found


def measure_in_process(axis: str, *args: Any) -> Point:
    """Measure one point in its own process, within the memory and time limits."""
    parent_end, child_end = context().Pipe()
    process = context().Process(target=child, args=(child_end, axis, args), daemon=True)
    process.start()
    child_end.close()
    try:
        if not parent_end.poll(LIMIT_S):
            return {"skipped": f"takes more than {LIMIT_S} s"}
        with suppress(EOFError):
            return dict(parent_end.recv())
        return {"skipped": "the process died without a message; it may have run out of memory"}
    finally:
        process.kill()
        process.join()


def measure_growth(axis: str, size: Size) -> dict[str, Any]:
    """Measure all models by length; after a point without a result, a model's rest is skipped."""
    points = []
    for name in MODELS:
        found: Point = {}
        for n in size.lengths:
            if "skipped" not in found:
                found = measure_in_process(axis, name, n, size.width, size.seconds / 2)
            points.append({"model": name, "n": n, **found})
    return {"kind": "growth", "axis": axis, "points": points}

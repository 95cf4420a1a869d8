"""Measure our own models' cost against length, batch size and width, one process per point.

This isolates each point's peak memory; a point that exceeds a limit fails alone, with its reason.
"""

from __future__ import annotations

import signal
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

from benchmarks.contests import sizes
from benchmarks.measure import RATE, Effort, Size
from seqmodels.experiments.specs import fit_width, make_spec
from seqmodels.interface import Batch, SequenceModel
from seqmodels.models import MODELS, build
from seqmodels.records.record import peak_memory_bytes, reset_peak_memory
from seqmodels.training import loop
from seqmodels.training.config import TrainConfig
from seqmodels.training.trainer import Trainer
from tasks.recipes import POSITIONED, RECIPES

VOCAB = 1_000
LIMIT_BYTES, LIMIT_S = 4 * 10**9, 20
BATCH_TOKENS = 2048
LENGTH = 32
"""Source and target tokens, unless length is what varies."""
WRITTEN, WRITTEN_ROWS = 32, 8

Point = dict[str, Any]


# ---- In the child process


def random_batch(rows: int, n: int, vocab_size: int = VOCAB) -> Batch:
    """Draw a random batch without padding."""
    src, tgt_in, tgt_out = torch.randint(4, vocab_size, (3, rows, n))
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


def trainer_of(model: SequenceModel) -> Trainer:
    """Return a float32 trainer."""
    return Trainer(model.train(), TrainConfig(tokens=10**9, lr=RATE, precision="float32"))


def train_point(name: str, n: int, rows: int, width: int, seconds: float) -> Point:
    """Time one training step; measure its peak memory, including weights and optimiser state."""
    base = rebase()
    trainer = trainer_of(model_of(name, n, width))
    batch = trainer.prepare(random_batch(rows, n))
    loop.training_step(trainer, batch)
    step_s = median_time(lambda: loop.training_step(trainer, batch), seconds)
    return {"step_s": step_s, "peak_bytes": peak_memory_bytes("cpu") - base}


def write_point(name: str, n: int, rows: int, width: int, seconds: float) -> Point:
    """Time encoding a source of `n` tokens, and the decoding steps after it."""
    model, batch = model_of(name, max(n, WRITTEN), width).eval(), random_batch(rows, n)
    with torch.inference_mode():
        first = model.encode(batch.src, batch.src_mask)

        def write() -> None:
            state = first
            for _ in range(WRITTEN):
                _, state = model.step(batch.src[:, 0], state)

        read_s = median_time(lambda: model.encode(batch.src, batch.src_mask), seconds / 2)
        write()
        return {"read_s": read_s, "token_s": median_time(write, seconds) / WRITTEN}


def default_point(name: str, vocab_size: int, n_updates: int) -> Point:
    """Measure the peak memory of training with the translation task's defaults."""
    more = {"n_positions": 256} if name in POSITIONED else {}
    given = {**RECIPES[name].sizes, "dropout": 0.0, **more}
    fitted = fit_width(make_spec(name), vocab_size, 1_000_000, **given)
    base = rebase()
    trainer = trainer_of(build(name, vocab_size, **fitted))
    for _ in range(n_updates):
        batch = trainer.prepare(random_batch(500 // 20, 20, vocab_size))
        loop.training_step(trainer, batch)
    return {"peak_bytes": peak_memory_bytes("cpu") - base}


def rebase() -> int:
    """Load everything that training needs, reset the peak, and return the memory held already."""
    trainer = trainer_of(model_of("rnn_encdec", 8, 8))
    loop.training_step(trainer, trainer.prepare(random_batch(1, 8)))
    reset_peak_memory("cpu")
    return peak_memory_bytes("cpu")


def child(pipe: Connection, point: Callable[..., Point], args: tuple[Any, ...]) -> None:
    """Measure one point within the memory limit; send it, or the reason for its absence."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
    with suppress(ImportError):  # Windows has no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
    torch.manual_seed(1)
    try:
        pipe.send(point(*args))
    except Exception as error:  # any failure is reported
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            error = MemoryError(f"needs more than {LIMIT_BYTES / 1e9:.0f} GB")
        pipe.send({"skipped": " ".join(str(error).split())})


# ---- In the parent process


@cache
def context() -> Any:
    """Return a context that forks each point from a server that has only imported torch.

    On Windows, which cannot fork, points are spawned.
    """
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    found = get_context("forkserver")
    found.set_forkserver_preload(["benchmarks.growth"])
    return found


def in_own_process(point: Callable[..., Point], *args: Any) -> Point:
    """Measure one point in its own process, within the memory and time limits."""
    parent_end, child_end = context().Pipe()
    process = context().Process(target=child, args=(child_end, point, args), daemon=True)
    process.start()
    child_end.close()
    try:
        if not parent_end.poll(LIMIT_S):
            return {"skipped": f"takes more than {LIMIT_S} s"}
        with suppress(EOFError):
            return parent_end.recv()
        return {"skipped": "the process died without a message; it may have run out of memory"}
    finally:
        process.kill()
        process.join()


def along(size: Size, axis: str) -> tuple[Callable[..., Point], list[tuple[int, int, int]]]:
    """Return the function that measures an axis, and each point's length, rows and width."""
    match axis:
        case "length":
            return train_point, [(n, 1, size.width) for n in size.lengths]
        case "writing":
            return write_point, [(n, WRITTEN_ROWS, size.width) for n in size.lengths]
        case "batch":
            return train_point, [(LENGTH, rows, size.width) for rows in size.rows]
    return train_point, [(LENGTH, BATCH_TOKENS // LENGTH, width) for width in size.widths]


def growth(axis: str, size: Size, effort: Effort) -> dict[str, Any]:
    """Measure all models along one axis; after a point without a result, the rest are skipped.

    A point takes half a turn's seconds and is not repeated in rounds.
    """
    points = []
    for name in MODELS:
        point, places = along(size, axis)
        found: Point = {}
        for place in places:
            if "skipped" not in found:
                found = in_own_process(point, name, *place, effort.seconds / 2)
            n, rows, width = place
            points.append({"model": name, "n": n, "rows": rows, "width": width, **found})
    return {"kind": "growth", "axis": axis, "points": points}

"""Measure our models' cost against the length of the text."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from benchmarks.workloads import Size, sizes, trainer_of
from seqmodels.interface import Batch, SequenceModel
from seqmodels.models import PAPERS, build
from seqmodels.models.cache import tensors_of
from seqmodels.training import loop

MODELS = tuple(PAPERS)
VOCAB = 1_000
LIMIT_BYTES = 4 * 10**9
WRITTEN, WRITTEN_ROWS = 32, 8

Point = dict[str, Any]


@contextmanager
def limited_memory() -> Iterator[None]:
    """Let what needs more than LIMIT_BYTES fail, where the system has such a limit."""
    try:
        import resource
    except ImportError:  # on Windows
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def random_batch(rows: int, n: int) -> Batch:
    """Draw a random batch without padding."""
    src, tgt_in, tgt_out = torch.randint(4, VOCAB, (3, rows, n))
    return Batch(src, torch.ones_like(src, dtype=torch.bool), tgt_in, tgt_out)


def median_time(run: Callable[[], object], seconds: float) -> float:
    """Return the median time over at least two runs, after one that is not counted."""
    run()
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
    """Time a training step on one sequence."""
    trainer = trainer_of(model_of(name, n, width))
    batch = trainer.prepare(random_batch(1, n))
    step_s = median_time(lambda: loop.training_step(trainer, batch), seconds)
    return {"rows": 1, "step_s": step_s}


@torch.inference_mode()
def measure_decoding(name: str, n: int, width: int, seconds: float) -> Point:
    """Time the decoding steps after a source of `n` tokens, and count what is kept of it."""
    model, batch = model_of(name, max(n, WRITTEN), width).eval(), random_batch(WRITTEN_ROWS, n)
    first = model.encode(batch.src, batch.src_mask)

    def write() -> None:
        state = first
        for _ in range(WRITTEN):
            _, state = model.step(batch.src[:, 0], state)

    kept = sum(tensor.nbytes for tensor in tensors_of(first))
    token_s = median_time(write, seconds) / WRITTEN
    return {"rows": WRITTEN_ROWS, "token_s": token_s, "state_bytes": kept}


AXES = {"length": measure_training, "writing": measure_decoding}


def measure_growth(axis: str, size: Size) -> dict[str, Any]:
    """Measure all models by length; after a point that lacks memory, a model's rest is skipped."""
    points = []
    for name in MODELS:
        found: Point = {}
        for n in size.lengths:
            if "skipped" not in found:
                torch.manual_seed(1)
                try:
                    with limited_memory():
                        found = AXES[axis](name, n, size.width, size.seconds / 2)
                except (MemoryError, RuntimeError) as error:
                    if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
                        raise
                    found = {"skipped": f"needs more than {LIMIT_BYTES / 1e9:.0f} GB"}
            points.append({"model": name, "n": n, **found})
    return {"kind": "growth", "axis": axis, "points": points}

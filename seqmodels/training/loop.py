"""One loop, one screen: the same optimiser, data order and budget for every model."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from statistics import fmean
from typing import Any, NamedTuple

import torch

from seqmodels.data.batches import BatchIndices, Example, batch_indices, collate
from seqmodels.evaluation.evaluate import teacher_forced
from seqmodels.interface import Batch, SequenceModel
from seqmodels.training.config import Precision, Progress, TrainConfig
from seqmodels.training.prefetch import ahead
from seqmodels.training.rng import seed_all
from seqmodels.training.trainer import Piece, Trainer
from seqmodels.utils.status import SILENT, TRAINING, VALIDATION, StatusFile
from seqmodels.utils.terminal import defer_signals
from seqmodels.utils.world import ProcessLostError

# oneDNN caches kernels for 1,024 shapes; the shapes of batches seldom recur.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

TRIM_EVERY = 20
"""Batches after which free memory is returned to the system."""


def fastest_precision(device: str) -> Precision:
    """Return bfloat16 if it multiplies matrices at least 1.5 times as fast as float32."""
    if device == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    wide, narrow = torch.ones(512, 512), torch.ones(512, 512, dtype=torch.bfloat16)
    seconds: list[list[float]] = [[], []]
    for _ in range(10):  # in turns: other load affects both
        for a, times in zip((wide, narrow), seconds, strict=True):
            since = time.perf_counter()
            a @ a
            times.append(time.perf_counter() - since)
    return "bfloat16" if 1.5 * min(seconds[1]) < min(seconds[0]) else "float32"


def validate(
    model: SequenceModel, examples: Sequence[Example], device: str, status: StatusFile = SILENT
) -> dict[str, float]:
    """Return teacher-forced nats per token and token accuracy (%) over all examples."""
    rows = teacher_forced(model, examples, device, VALIDATION, status)
    nats, n_correct, n = (
        sum(row[key] for row in rows) for key in ("nats", "n_correct", "n_tokens")
    )
    model.train()
    return {"valid_nats": nats / n, "valid_accuracy": 100 * n_correct / n}


def next_validation(at: Progress, cfg: TrainConfig) -> float:
    """Return the number of tokens at which the curve's next point is due."""
    n_points = sum(point["tokens"] > at.schedule_from for point in at.curve)
    to_train = cfg.tokens - at.schedule_from
    return at.schedule_from + to_train * (n_points + 1) / cfg.n_validations


def validate_if_due(trainer: Trainer, examples: Sequence[Example]) -> None:
    """Add a point to the curve if the next one is due."""
    at = trainer.progress
    is_new = not at.curve or at.curve[-1]["step"] < at.step
    if is_new and at.tokens >= next_validation(at, trainer.cfg):
        device = str(next(trainer.model.parameters()).device)
        scores = validate(trainer.model, examples, device, trainer.status)
        with defer_signals():
            trainer.add_point(scores)


def describe_losses(at: Progress) -> str:
    """Format the latest losses, for a progress bar."""
    known = {"train": at.losses[-20:], "valid": [p["valid_nats"] for p in at.curve[-1:]]}
    return ", ".join(f"{name} {fmean(values):.3f}" for name, values in known.items() if values)


def trim_heap() -> None:
    """Return free memory to the system: batches of varying sizes fragment glibc's heap.

    Does nothing with another C library.
    """
    with suppress(AttributeError, TypeError):  # no such function; on Windows no such library
        ctypes.CDLL(None).malloc_trim(0)


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


@subnormals_flushed()
def train(
    trainer: Trainer,
    examples: Sequence[Example],
    valid: Sequence[Example],
    save: Callable[[], None] = lambda: None,
    is_due: Callable[[], bool] = lambda: False,
    draw: Callable[[], None] = lambda: None,
) -> list[dict[str, Any]]:
    """Train until the budget is spent; leave the model with its best weights, return the curve.

    A trainer restored from a checkpoint continues as if it had never stopped: the same batches, the
    same random numbers, the same bits. `save` writes a checkpoint; it is called whenever one is
    due, when a signal asks to stop, when another process has ended, and at the end. `draw` is
    called after each step, and `trainer.status` says how far the run is.
    """
    cfg, at = trainer.cfg, trainer.progress
    if not at.step:
        seed_all(cfg.seed)
    trainer.model.train()
    try:
        with made_batches(trainer, examples) as batches:
            while True:
                validate_if_due(trainer, valid)
                draw()
                done = min(at.tokens, cfg.tokens)
                trainer.status.update(TRAINING, done, cfg.tokens, describe_losses(at))
                if at.tokens >= cfg.tokens:
                    break
                train_on_batch(trainer, next(batches))
                if at.step % TRIM_EVERY == 0:
                    trim_heap()
                if is_due():
                    save()
    except (KeyboardInterrupt, ProcessLostError):
        save()
        raise
    save()
    trainer.model.load_state_dict(trainer.best)
    return at.curve


class Made(NamedTuple):
    """A batch that is ready to be trained on."""

    indices: BatchIndices
    lines: list[int]
    batch: Batch
    n_parts: int
    pieces: list[Piece]


def made_batches(
    trainer: Trainer, examples: Sequence[Example]
) -> AbstractContextManager[Iterator[Made]]:
    """Return batches without end, beginning with the trainer's next one."""
    cfg, at = trainer.cfg, trainer.progress
    indices = batch_indices(examples, cfg.batch_tokens, cfg.seed, at.epoch, at.batch)
    batches = (make(trainer, examples, one) for one in indices)
    return ahead(batches, trainer.device) if trainer.is_ahead else nullcontext(batches)


def make(trainer: Trainer, examples: Sequence[Example], indices: BatchIndices) -> Made:
    """Collate a batch, and move its pieces to the device."""
    chosen = [examples[i] for i in indices.rows]
    lines = [e.line or i + 1 for e, i in zip(chosen, indices.rows, strict=True)]
    batch, n_parts = collate(chosen), trainer.progress.n_parts
    return Made(indices, lines, batch, n_parts, trainer.pieces(batch))


def train_on_batch(trainer: Trainer, made: Made) -> None:
    """Train on one batch, and note that it is done."""
    at, indices = trainer.progress, made.indices
    trainer.made = made.batch, made.n_parts, made.pieces
    with defer_signals():
        trainer.training_step(made.batch, made.lines)
        at.epoch, at.batch = indices.epoch, indices.batch + 1

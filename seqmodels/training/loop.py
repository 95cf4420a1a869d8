"""The training loop: the same optimiser, data order and budget for every model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch.nn.utils import clip_grad_norm_

from seqmodels.data.batches import BatchIndices, Example, batch_indices, collate
from seqmodels.evaluation.evaluate import teacher_forced
from seqmodels.interface import Batch, SequenceModel
from seqmodels.training.config import Progress, TrainConfig
from seqmodels.training.runtime import (
    prefetch,
    rng_restored_on_error,
    seed_all,
    subnormals_flushed,
    trim_heap,
)
from seqmodels.training.trainer import Piece, Trainer, count_targets
from seqmodels.utils.status import SILENT, TRAINING, VALIDATION, StatusFile
from seqmodels.utils.terminal import defer_signals
from seqmodels.utils.world import ProcessLostError

TRIM_EVERY = 20
"""Steps after which free memory is returned to the system."""


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
    same random numbers, the same bits. `save` writes a checkpoint when one `is_due`, when a signal
    asks to stop, when another process has ended, and at the end. `draw` is called after each
    step, and `trainer.status` says how far the run is.
    """
    cfg, progress = trainer.cfg, trainer.progress
    if not progress.step:
        seed_all(cfg.seed)
    trainer.model.train()
    try:
        with prefetch(prepared_batches(trainer, examples), trainer.device) as batches:
            while True:
                validate_if_due(trainer, valid)
                draw()
                done = min(progress.tokens, cfg.tokens)
                trainer.status.update(TRAINING, done, cfg.tokens, describe_losses(progress))
                if progress.tokens >= cfg.tokens:
                    break
                batch, pieces, lines, place = next(batches)
                with defer_signals():
                    training_step(trainer, batch, lines, pieces)
                    progress.epoch, progress.batch = place.epoch, place.batch + 1
                if progress.step % TRIM_EVERY == 0:
                    trim_heap()
                if is_due():
                    save()
    except (KeyboardInterrupt, ProcessLostError):
        save()
        raise
    save()
    trainer.model.load_state_dict(trainer.best)
    return progress.curve


def training_step(
    trainer: Trainer, batch: Batch, lines: Sequence[int], pieces: list[Piece] | None = None
) -> None:
    """Take the next step of the schedule, and count it.

    If the step raises, progress and random generators are as they were before it. `lines` are the
    examples' in their file, for messages; `pieces` is the batch as `Trainer.split` returns it.
    """
    started, lr = time.perf_counter(), trainer.next_lr()
    with rng_restored_on_error():
        loss = optimizer_step(trainer, batch, lr, pieces)
    seconds = time.perf_counter() - started
    trainer.count_step(count_targets(batch), loss, seconds, lines)


def optimizer_step(
    trainer: Trainer, batch: Batch, lr: float, pieces: list[Piece] | None = None
) -> float:
    """Take one step of AdamW at this learning rate; return the loss before it.

    If the loss or the gradient is not finite, nothing is changed, and NaN is returned.
    """
    for group in trainer.optimizer.param_groups:
        group["lr"] = lr
    loss_sum = trainer.backward(batch, pieces)
    norm_sum = clip_grad_norm_(trainer.model.parameters(), trainer.cfg.max_grad_norm)
    loss, norm = torch.stack([loss_sum, norm_sum.double()]).tolist()  # a GPU is waited for here
    if not math.isfinite(loss + norm):
        return math.nan
    trainer.optimizer.step()
    return loss


# ------------------------------------------------------------------------------------- Batches


class PreparedBatch(NamedTuple):
    """A batch that is ready to be trained on."""

    batch: Batch
    pieces: list[Piece] | None
    """This process's pieces of it; None: to be split when it is trained on."""
    lines: list[int]
    place: BatchIndices


def prepared_batches(trainer: Trainer, examples: Sequence[Example]) -> Iterator[PreparedBatch]:
    """Yield batches without end, beginning with the trainer's next one.

    For a GPU, they are also split and moved to it in advance.
    """
    cfg, progress = trainer.cfg, trainer.progress
    for place in batch_indices(
        examples, cfg.batch_tokens, cfg.seed, progress.epoch, progress.batch
    ):
        rows = [examples[i] for i in place.rows]
        lines = [row.line or i + 1 for row, i in zip(rows, place.rows, strict=True)]
        batch = collate(rows)
        pieces = trainer.split(batch) if trainer.device.type == "cuda" else None
        yield PreparedBatch(batch, pieces, lines, place)


# ---------------------------------------------------------------------------------- Validation


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


def next_validation(progress: Progress, cfg: TrainConfig) -> float:
    """Return the number of tokens at which the curve's next point is due."""
    n_points = sum(point["tokens"] > progress.schedule_from for point in progress.curve)
    to_train = cfg.tokens - progress.schedule_from
    return progress.schedule_from + to_train * (n_points + 1) / cfg.n_validations


def validate_if_due(trainer: Trainer, examples: Sequence[Example]) -> None:
    """Add a point to the curve if the next one is due."""
    progress = trainer.progress
    is_new = not progress.curve or progress.curve[-1]["step"] < progress.step
    if is_new and progress.tokens >= next_validation(progress, trainer.cfg):
        scores = validate(trainer.model, examples, str(trainer.device), trainer.status)
        with defer_signals():
            trainer.add_point(scores)


def describe_losses(progress: Progress) -> str:
    """Format the latest losses, for a progress bar."""
    losses = {
        "train": progress.losses[-20:],
        "valid": [p["valid_nats"] for p in progress.curve[-1:]],
    }
    return ", ".join(f"{name} {fmean(values):.3f}" for name, values in losses.items() if values)

"""Curves of a run while it is trained, for TensorBoard: losses, learning rate and speed by step."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from seqmodels.training.config import Progress

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

EVERY = 10
"""Steps between two points of the training loss; each is the mean of this many losses."""


def open_curves(folder: Path, first_step: int) -> SummaryWriter:
    """Return what writes a run's curves; if it resumes, steps from `first_step` on are replaced."""
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=first_step, flush_secs=20)


def add_points(writer: SummaryWriter, progress: Progress, lr: float) -> None:
    """Write the points of the latest step."""
    points = dict[str, float]()
    if progress.losses and progress.step % EVERY == 0:
        points["loss/train (nats per token)"] = fmean(progress.losses[-EVERY:])
        points["training/learning rate"] = lr
        points["training/tokens per second"] = progress.tokens / progress.seconds
    if progress.curve and progress.curve[-1]["step"] == progress.step:
        points["loss/valid (nats per token)"] = progress.curve[-1]["valid_nats"]
        points["accuracy/valid (%)"] = progress.curve[-1]["valid_accuracy"]
    for name, value in points.items():
        writer.add_scalar(name, value, progress.step)

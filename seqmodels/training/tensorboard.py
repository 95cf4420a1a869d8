"""Curves for TensorBoard, written as a run is trained."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean

from seqmodels.training.trainer import Trainer
from seqmodels.utils.terminal import defer_signals

EVERY = 10
"""Steps between two points of the training loss; each is the mean of this many losses."""
FLUSH_S = 20
"""Seconds until a point is on the disk."""


def folder_of(record: Path) -> Path:
    """Return the folder of a run's curves, by the path of its record."""
    return record.parent / "tensorboard" / record.stem


def remove(record: Path) -> None:
    """Delete a run's curves."""
    shutil.rmtree(folder_of(record), ignore_errors=True)


def check_installed() -> None:
    """Raise ValueError if the package is missing."""
    if find_spec("tensorboard") is None:
        raise ValueError("--tensorboard: tensorboard is not installed; pip install tensorboard")


class Curves:
    """A run's losses, learning rate and speed, by step.

    A run that resumes at `first_step` writes on; TensorBoard drops the steps that are taken again.
    """

    def __init__(self, record: Path, first_step: int):
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(
            str(folder_of(record)), purge_step=first_step, flush_secs=FLUSH_S
        )

    def draw(self, trainer: Trainer) -> None:
        """Draw what the latest step has added."""
        progress, points = trainer.progress, dict[str, float]()
        if progress.losses and progress.step % EVERY == 0:
            points["loss/train (nats per token)"] = fmean(progress.losses[-EVERY:])
            points["training/learning rate"] = trainer.next_lr()
            points["training/tokens per second"] = progress.tokens / progress.seconds
        if progress.curve and progress.curve[-1]["step"] == progress.step:
            points["loss/valid (nats per token)"] = progress.curve[-1]["valid_nats"]
            points["accuracy/valid (%)"] = progress.curve[-1]["valid_accuracy"]
        with defer_signals():
            for name, value in points.items():
                self.writer.add_scalar(name, value, progress.step)

    def close(self) -> None:
        """Write what is left."""
        self.writer.close()

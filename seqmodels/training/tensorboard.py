"""Curves for TensorBoard, written as a run is trained."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from seqmodels.training.trainer import Trainer
from seqmodels.utils.terminal import defer_signals

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

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

    A run that resumes writes on; TensorBoard drops the steps that are taken again.
    """

    def __init__(self, writer: SummaryWriter, trainer: Trainer):
        self.writer, self.trainer = writer, trainer

    def draw(self) -> None:
        """Draw what the latest step has added."""
        at = self.trainer.progress
        found: dict[str, float] = {}
        if at.losses and at.step % EVERY == 0:
            found = {
                "loss/train (nats per token)": fmean(at.losses[-EVERY:]),
                "training/learning rate": self.trainer.next_lr(),
                "training/tokens per second": at.tokens / at.seconds,
            }
        if at.curve and at.curve[-1]["step"] == at.step:
            found["loss/valid (nats per token)"] = at.curve[-1]["valid_nats"]
            found["accuracy/valid (%)"] = at.curve[-1]["valid_accuracy"]
        with defer_signals():
            for name, value in found.items():
                self.writer.add_scalar(name, value, at.step)


@contextmanager
def drawing(record: Path | None, trainer: Trainer) -> Iterator[Callable[[], None]]:
    """Yield what draws a run's curves after each step; without a record, it draws nothing."""
    if record is None:
        yield lambda: None
        return
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(
        str(folder_of(record)), purge_step=trainer.progress.step, flush_secs=FLUSH_S
    )
    try:
        yield Curves(writer, trainer).draw
    finally:
        writer.close()

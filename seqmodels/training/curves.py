"""Curves of a run while it is trained: losses, learning rate and speed by step.

For TensorBoard, and for trackio and wandb, which have the same functions. Each is an extra.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

from seqmodels.training.trainer import Trainer

EVERY = 10
"""Steps between two points of the training loss; each is the mean of this many losses."""


def points_of(trainer: Trainer) -> dict[str, float]:
    """Return the points of the latest step."""
    progress, points = trainer.progress, dict[str, float]()
    if progress.losses and progress.step % EVERY == 0:
        points["loss/train (nats per token)"] = fmean(progress.losses[-EVERY:])
        points["training/learning rate"] = trainer.cfg.lr * trainer.next_lr_factor()
        points["training/tokens per second"] = progress.tokens / progress.seconds
    if progress.curve and progress.curve[-1]["step"] == progress.step:
        points["loss/valid (nats per token)"] = progress.curve[-1]["valid_nats"]
        points["accuracy/valid (%)"] = progress.curve[-1]["valid_accuracy"]
    return points


class TensorBoard:
    """A run's curves; if it resumes, steps from `first_step` on are dropped and drawn again."""

    def __init__(self, folder: Path, first_step: int):
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder), purge_step=first_step, flush_secs=20)

    def add(self, step: int, points: Mapping[str, float]) -> None:
        """Add the points of a step."""
        for name, value in points.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what has not been written yet."""
        self.writer.close()


class Tracker:
    """A run's curves in trackio or wandb; the project is named after the folder of the records."""

    def __init__(self, package: str, record: Path, settings: Mapping[str, Any], first_step: int):
        self.package, project = import_module(package), record.absolute().parent.name
        resume = "allow" if first_step else "never"
        try:
            self.package.init(
                project=project, name=record.stem, config=dict(settings), resume=resume
            )
        except Exception as error:  # each package has its own, such as for a login that is missing
            raise ValueError(f"--track {package}: {error}") from error

    def add(self, step: int, points: Mapping[str, float]) -> None:
        """Add the points of a step."""
        if points:
            self.package.log(dict(points), step=step)

    def close(self) -> None:
        """Send what has not been sent yet."""
        self.package.finish()


class Curves:
    """The viewers of a run's curves, as a context manager."""

    def __init__(self, *shown: TensorBoard | Tracker):
        self.shown = shown

    def __enter__(self) -> Curves:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.shown:
            each.close()

    def add_points(self, trainer: Trainer) -> None:
        """Add the points of the latest step."""
        points = points_of(trainer)
        for each in self.shown:
            each.add(trainer.progress.step, points)

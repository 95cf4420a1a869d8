"""Read the progress of unfinished runs from their checkpoints."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from seqmodels.records.schema import Data, Point, Record, Training
from seqmodels.training.checkpoint import Checkpoints, read


class Unfinished(NamedTuple):
    """An unfinished run."""

    record: Record
    """A part of its record: enough for a learning curve, without scores."""
    tokens: int
    """Target tokens that it has been trained on."""


def find(folder: Path) -> list[Unfinished]:
    """Return the unfinished runs of a folder whose learning curves have a point."""
    matches = [re.match(r"(.+)\.checkpoint-\d", path.name) for path in folder.iterdir()]
    names = sorted({match[1] for match in matches if match})
    runs = [latest(folder / f"{name}.json") for name in names]
    return [run for run in runs if run and run.record.curve]


def latest(path: Path) -> Unfinished | None:
    """Return a run as its latest intact checkpoint describes it; None if the run has a record.

    Checkpoints that are damaged, or replaced while they are read, are skipped.
    """
    for checkpoint_path in [] if path.exists() else Checkpoints(path).paths():
        with suppress(OSError, ValueError, KeyError, TypeError):
            checkpoint = read(checkpoint_path)
            settings, progress = checkpoint.state["settings"], checkpoint.state["progress"]
            weights = [t for key, t in checkpoint.tensors.items() if key.startswith("model/")]
            record = Record.model_construct(
                task="in training",
                model=settings["model"],
                seed=settings["seed"],
                settings={"d_model": settings.get("d_model")},
                train_config=Training.model_validate({k: settings[k] for k in ("tokens", "lr")}),
                data=Data.model_validate({k: settings[f"data.{k}"] for k in ("name", "sha256")}),
                n_parameters=sum(tensor.numel() for tensor in weights),
                curve=[Point(**point) for point in progress["curve"]],
            )
            return Unfinished(record, progress["tokens"])
    return None

"""Read how far the runs of a folder have come that have no record yet, from their checkpoints."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from seqmodels.report.reading import Record
from seqmodels.training.checkpoint import Checkpoints, read


def find(folder: Path) -> list[Record]:
    """Return what is known of each unfinished run that has a point of its curve, like a record.

    A checkpoint that is damaged, or replaced while it is read, is passed over.
    """
    found = [re.match(r"(.+)\.checkpoint-\d", path.name) for path in folder.glob("*.checkpoint-*")]
    names = sorted({match[1] for match in found if match})
    runs = (latest(folder / f"{name}.json") for name in names)
    return [run for run in runs if run and run["curve"]]


def latest(path: Path) -> Record | None:
    """Return what the latest intact checkpoint of a run knows; None if it has a record."""
    if path.exists():
        return None
    for checkpoint in Checkpoints(path).paths():
        with suppress(OSError, ValueError, KeyError, TypeError):
            return partial_record(read(checkpoint))
    return None


def partial_record(checkpoint: Any) -> Record:
    """Return a partial record for an unfinished run, enough for loss curves."""
    state, tensors = checkpoint.state, checkpoint.tensors
    settings, progress = state["settings"], state["progress"]
    n_parameters = sum(t.numel() for key, t in tensors.items() if key.startswith("model/"))
    return {
        "task": "in training",
        "model": settings["model"],
        "seed": settings["seed"],
        "model_config": {"d_model": settings.get("d_model")},
        "train_config": {"tokens": settings["tokens"]},
        "data": {"name": settings["data.name"]},
        "n_parameters": n_parameters,
        "provenance": state["provenance"],
        "curve": progress["curve"],
        "tokens": progress["tokens"],
    }

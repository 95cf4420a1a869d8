"""Read how far the runs of a folder have come that have no record yet, from their checkpoints."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from seqmodels.report.reading import Record
from seqmodels.training.checkpoint import Checkpoints, read


def find(folder: Path) -> list[Record]:
    """Return what is known of each unfinished run that has a point of its curve, like a record."""
    matches = [re.match(r"(.+)\.checkpoint-\d", path.name) for path in folder.iterdir()]
    names = sorted({match[1] for match in matches if match})
    runs = [latest(folder / f"{name}.json") for name in names]
    return [run for run in runs if run and run["curve"]]


def latest(path: Path) -> Record | None:
    """Return what the latest intact checkpoint of a run knows; None if the run has a record.

    That is enough for a learning curve. A checkpoint that is damaged, or replaced while it is
    read, is passed over.
    """
    for checkpoint in [] if path.exists() else Checkpoints(path).paths():
        with suppress(OSError, ValueError, KeyError, TypeError):
            known = read(checkpoint)
            settings, progress = known.state["settings"], known.state["progress"]
            return {
                "task": "in training",
                "model": settings["model"],
                "seed": settings["seed"],
                "model_config": {"d_model": settings.get("d_model")},
                "train_config": {"tokens": settings["tokens"]},
                "data": {"name": settings["data.name"]},
                "n_parameters": sum(
                    t.numel() for key, t in known.tensors.items() if key.startswith("model/")
                ),
                "curve": progress["curve"],
                "tokens": progress["tokens"],
            }
    return None

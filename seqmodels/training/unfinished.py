"""Read the progress of unfinished runs from their checkpoints."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from seqmodels.training.checkpoint import Checkpoints, read


def find(folder: Path) -> list[dict[str, Any]]:
    """Return a partial record of each unfinished run whose learning curve has a point."""
    matches = [re.match(r"(.+)\.checkpoint-\d", path.name) for path in folder.iterdir()]
    names = sorted({match[1] for match in matches if match})
    runs = [latest(folder / f"{name}.json") for name in names]
    return [run for run in runs if run and run["curve"]]


def latest(path: Path) -> dict[str, Any] | None:
    """Return a partial record from the latest intact checkpoint; None if the run has a record.

    It holds enough for a learning curve. Checkpoints that are damaged, or replaced while they are
    read, are skipped.
    """
    for checkpoint_path in [] if path.exists() else Checkpoints(path).paths():
        with suppress(OSError, ValueError, KeyError, TypeError):
            checkpoint = read(checkpoint_path)
            settings, progress = checkpoint.state["settings"], checkpoint.state["progress"]
            return {
                "task": "in training",
                "model": settings["model"],
                "seed": settings["seed"],
                "model_config": {"d_model": settings.get("d_model")},
                "train_config": {"tokens": settings["tokens"]},
                "data": {"name": settings["data.name"]},
                "n_parameters": sum(
                    t.numel() for key, t in checkpoint.tensors.items() if key.startswith("model/")
                ),
                "curve": progress["curve"],
                "tokens": progress["tokens"],
            }
    return None

"""Weights on disk: safetensors, written whole or not at all. No pickle is read or written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from seqmodels.interface import SequenceModel
from seqmodels.models import build


def save(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write weights to PATH."""
    part = path.with_name(path.name + ".part")
    save_file(dict(weights), part)
    os.replace(part, path)


def load(record: Mapping[str, Any], path: Path) -> SequenceModel:
    """Build the record's model and give it the weights at PATH; return it ready to be used.

    Raises ValueError if the weights are not there (results are kept without them), or are others.
    """
    if not path.exists():
        raise ValueError(f"{path}: the weights of this run are not here; train it again")
    try:
        model = build(record["model"], **record["model_config"])
        model.load_state_dict(load_file(path))
    except (SafetensorError, RuntimeError, TypeError) as error:
        raise ValueError(f"{path} does not fit its record, train it again: {error}") from error
    return model.eval()

"""Five papers, five files, one harness."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seqmodels.interface import BOS, EOS, PAD, UNK, Batch, SequenceModel, select_rows, unroll
    from seqmodels.models import MODELS, build

__all__ = [
    "BOS",
    "EOS",
    "MODELS",
    "PAD",
    "UNK",
    "Batch",
    "SequenceModel",
    "build",
    "select_rows",
    "unroll",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: figures are drawn without torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "seqmodels.models" if name in ("MODELS", "build") else "seqmodels.interface"
    return getattr(import_module(home), name)

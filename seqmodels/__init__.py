"""Five papers, five files, one harness."""

from __future__ import annotations

from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

from seqmodels.utils.values import check_arguments

if TYPE_CHECKING:
    from seqmodels.cli.run import Comparison, compare
    from seqmodels.experiments.inference import load
    from seqmodels.interface import BOS, EOS, PAD, UNK, Batch, SequenceModel, reorder
    from seqmodels.models import MODELS, build
    from seqmodels.search import unroll

__all__ = [
    "BOS",
    "EOS",
    "MODELS",
    "PAD",
    "UNK",
    "Batch",
    "Comparison",
    "SequenceModel",
    "build",
    "compare",
    "load",
    "reorder",
    "unroll",
]


def __dir__() -> list[str]:
    """Return the public names, which are not there before they are first used."""
    return [*{*__all__, *globals()}]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: figures are drawn without torch.

    Functions check their arguments, which those that the package itself calls do not.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    homes = {
        "Comparison": "cli.run",
        "MODELS": "models",
        "build": "models",
        "compare": "cli.run",
        "load": "experiments.inference",
        "unroll": "search",
    }
    value = getattr(import_module(f"seqmodels.{homes.get(name, 'interface')}"), name)
    if isinstance(value, FunctionType):
        value = check_arguments(value)
        value.__module__ = __name__  # where pickle finds it
    globals()[name] = value
    return value

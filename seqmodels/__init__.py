"""Five papers, five files, one harness."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what `__getattr__` imports
    from seqmodels.comparison import Comparison, compare  # noqa: F401
    from seqmodels.experiments.task import Task, TestSet  # noqa: F401
    from seqmodels.inference import load  # noqa: F401
    from seqmodels.interface import BOS, EOS, PAD, UNK, Batch, SequenceModel, reorder  # noqa: F401
    from seqmodels.models import MODELS, build  # noqa: F401
    from seqmodels.search import unroll  # noqa: F401

HOMES = {
    "interface": ("BOS", "EOS", "PAD", "UNK", "Batch", "SequenceModel", "reorder"),
    "models": ("MODELS", "build"),
    "search": ("unroll",),
    "inference": ("load",),
    "comparison": ("Comparison", "compare"),
    "experiments.task": ("Task", "TestSet"),
}
"""The public names of each module."""
__all__ = sorted(["__version__", *(name for names in HOMES.values() for name in names)])


def __dir__() -> list[str]:
    """Return the public names, which are not there before they are first used."""
    return __all__


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: figures are drawn without torch."""
    if name == "__version__":
        return version("seqmodels")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next(home for home, names in HOMES.items() if name in names)
    globals()[name] = getattr(import_module(f"seqmodels.{home}"), name)
    return globals()[name]

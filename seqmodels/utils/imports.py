"""Import what is installed beside the package; say how to install what is missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1]
HOME = PACKAGE if (PACKAGE / "results").is_dir() else PACKAGE.parent
"""The folder of results/: a clone or, where a wheel is installed, the package."""
SHIPPED = HOME / "results" / "translation-live"
"""The folder of the small trained runs that come with the package."""
TASKS = PACKAGE.parent / "tasks"
"""The folder of the tasks, in a clone and where a wheel is installed."""


def list_tasks() -> list[str]:
    """Return the names of the tasks that can be run."""
    return sorted(path.parent.name for path in TASKS.glob("*/__main__.py"))


def import_beside(name: str) -> Any:
    """Import a module of the tasks or of the lesson, which are installed beside this package.

    Raises ValueError if another package of that name is found in its place, and does not run it.
    """
    if (spec := find_spec(top := name.partition(".")[0])) is None:
        raise ModuleNotFoundError(name=top)
    places = [
        Path(path).resolve() for path in spec.submodule_search_locations or [str(spec.origin)]
    ]
    if (ours := PACKAGE.parent / top).resolve() not in places:
        raise ValueError(f"{places[0]} hides {ours}; rename it, or work in another folder")
    return import_module(name)


def explain_missing(error: ModuleNotFoundError) -> str | None:
    """Return how to install the package that is missing; None for a module of our own."""
    package = str(error.name).partition(".")[0]
    if package in ("seqmodels", "tasks", "lesson"):
        return None
    return f"{package} is not installed; pip install {package}"

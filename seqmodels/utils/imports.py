"""Import what is named by a text: a task, a class; say how to install what is missing."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

PACKAGE = Path(__file__).parents[1]
HOME = PACKAGE if (PACKAGE / "results").is_dir() else PACKAGE.parent
"""The folder of results/: a clone or, where a wheel is installed, the package."""
SHIPPED = HOME / "results" / "translation-live"
"""The folder of the small trained runs that come with the package."""
TASKS = PACKAGE.parent / "tasks"
"""The folder of the tasks, in a clone and where a wheel is installed."""
EXTRAS = {
    **dict.fromkeys(("tasks", "lesson", "latex2mathml", "pygments"), "site"),
    **dict.fromkeys(("onnx", "onnxruntime", "onnxscript"), "export"),
    **{"ray": "ray", "submitit": "slurm", "tensorboard": "tensorboard"},
}
"""The extra of seqmodels that installs a package; tasks and lesson come with the wheel itself."""


def list_tasks() -> list[str]:
    """Return the names of the tasks that can be run."""
    return sorted(path.parent.name for path in TASKS.glob("*/__main__.py"))


def import_beside(name: str) -> Any:
    """Import a module of the tasks or of the lesson, which are installed beside this package.

    Raises ValueError if another package of that name is found in its place.
    """
    top = import_module(name.partition(".")[0])
    places = [Path(path).resolve() for path in getattr(top, "__path__", ()) or [top.__file__]]
    if (ours := PACKAGE.parent / top.__name__).resolve() not in places:
        raise ValueError(f"{places[0]} hides {ours}; rename it, or work in another folder")
    return import_module(name)


def explain_missing(error: ModuleNotFoundError) -> str | None:
    """Return how to install the package that is missing; None for a module of our own."""
    package, _, module = str(error.name).partition(".")
    if package == "seqmodels" or (module and package in ("tasks", "lesson")):
        return None
    name = f"'seqmodels[{EXTRAS[package]}]'" if package in EXTRAS else package
    return f"{package} is not installed; pip install {name}"


def import_class(home: str) -> type:
    """Import the class of MODULE:CLASS or FILE.py:CLASS, which can import what is beside it.

    Raises ValueError if there is none, or if the file itself raises.
    """
    place, _, name = home.rpartition(":")
    try:
        is_file = place.endswith(".py")
        module = import_file(Path(place).resolve()) if is_file else import_module(place)
    except (ModuleNotFoundError, TypeError, ValueError) as error:
        if place.endswith(".py") or not f"{place}.".startswith(f"{getattr(error, 'name', '')}."):
            raise
        raise ValueError(f"{home}: there is no module {place!r}; give FILE.py:CLASS") from None
    if not isinstance(found := getattr(module, name, None), type):
        raise ValueError(f"{place} has no class {name!r}")
    return found


def import_file(path: Path) -> ModuleType:
    """Import a file of Python once; raise ValueError if it does not exist, or raises."""
    key = f"{path.stem}@{path}"  # no name that an import could mean
    if key in sys.modules:
        return sys.modules[key]
    if not path.is_file():
        raise ValueError(f"{path} does not exist")
    spec = spec_from_file_location(key, path)
    assert spec
    assert spec.loader
    sys.modules[key] = module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(sys.modules[key])
    except (Exception, SystemExit) as error:  # a script can end itself
        del sys.modules[key]
        raise ValueError(f"{path} cannot be imported: {explain(error, path)}") from error
    return sys.modules[key]


def explain(error: BaseException, path: Path) -> str:
    """Return the kind of an error, its text and the line of a file in which it arose."""
    lines = [f.lineno for f in extract_tb(error.__traceback__) if f.filename == str(path)]
    line = getattr(error, "lineno", None) or (lines or [None])[-1]
    return f"{type(error).__name__}: {error}" + (f" (line {line})" if line else "")

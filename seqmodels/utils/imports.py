"""Import what is named by a text: a class, a task; say which extra a missing package is in."""

from __future__ import annotations

import re
import sys
from importlib import import_module, metadata
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from traceback import extract_tb
from typing import Any

PACKAGE = Path(__file__).parents[1]
HOME = PACKAGE if (PACKAGE / "results").is_dir() else PACKAGE.parent
"""The folder of results/: a clone or, where a wheel is installed, the package."""
TASKS = PACKAGE.parent / "tasks"
"""The folder of the tasks, in a clone and where a wheel is installed."""
BESIDE = ("tasks", "lesson")
"""Packages that are installed beside this one, and import it."""
DEVELOPERS = ("dev", "bench")
"""Extras of which no command is in need."""


def list_tasks() -> list[str]:
    """Return the names of the tasks that can be run."""
    return sorted(path.parent.name for path in TASKS.glob("*/__main__.py"))


def import_beside(name: str) -> Any:
    """Import a module of the tasks or of the lesson, which are installed beside this package.

    Raises ValueError if another package of that name is found in its place.
    """
    top = import_module(name.partition(".")[0])
    found = [Path(path).resolve() for path in getattr(top, "__path__", ()) or [top.__file__]]
    if (ours := PACKAGE.parent / top.__name__).resolve() not in found:
        raise ValueError(f"{found[0]} hides {ours}; rename it, or work in another folder")
    return import_module(name)


def explain_missing(package: str) -> str:
    """Return which package is not installed, and how to install it: by the extra that has it."""
    if package in BESIDE:
        return f"{package} is not installed; pip install 'seqmodels[site]'"
    try:
        requirements = metadata.requires("seqmodels") or []
    except metadata.PackageNotFoundError:
        requirements = []
    for line in requirements:
        match = re.match(r"([\w.-]+).*extra == .(\w+)", line)
        if match and match[1].replace("-", "_") == package and match[2] not in DEVELOPERS:
            return f"{package} is not installed; pip install 'seqmodels[{match[2]}]'"
    return f"{package} is not installed; pip install {package}"


def require(package: str) -> None:
    """Import a package of an extra; raise ValueError that names the extra if it is missing."""
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        raise ValueError(explain_missing(str(error.name).partition(".")[0])) from None


def import_class(home: str) -> type[Any]:
    """Import the class of MODULE:CLASS or FILE.py:CLASS, which can import what is beside it.

    Raises ValueError if there is none, or if the file itself raises.
    """
    place, _, name = home.rpartition(":")
    if place.endswith(".py"):
        path = Path(place).resolve()
        if not path.is_file():
            raise ValueError(f"{place} does not exist")
        key = f"{path.stem}@{path}"  # no name that an import could mean
        if key not in sys.modules:
            loader = SourceFileLoader(key, str(path))
            new = module_from_spec(ModuleSpec(key, loader, origin=str(path)))
            sys.modules[key] = new
            if str(path.parent) not in sys.path:
                sys.path.append(str(path.parent))
            try:
                loader.exec_module(new)
            except Exception as error:
                del sys.modules[key]
                raise ValueError(f"{place} cannot be imported: {explain(error, path)}") from error
        module = sys.modules[key]
    else:
        module = import_module(place)
    if not (isinstance(found := getattr(module, name, None), type)):
        raise ValueError(f"{place} has no class {name!r}")
    return found


def explain(error: Exception, path: Path) -> str:
    """Return the kind of an error, its text and the line of a file in which it arose."""
    lines = [
        frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    line = getattr(error, "lineno", None) or (lines or [None])[-1]
    return f"{type(error).__name__}: {error}" + (f" (line {line})" if line else "")

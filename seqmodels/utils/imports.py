"""Import a class from a module or from a file."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from traceback import extract_tb
from typing import Any


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

"""Check what training and search rely on in a model."""

from __future__ import annotations

import argparse
from pathlib import Path

from seqmodels.cli.arguments import Add
from seqmodels.models import PAPERS, Value, find_class, paper_of
from seqmodels.utils.imports import import_beside, import_class


def add_arguments(arg: Add) -> None:
    """Add the arguments of the command."""
    arg("model", metavar="FILE.py:CLASS",
        help="your own model (FILE.py is enough if it has one), the name of a model, or the file "
        "of an exercise")  # fmt: skip


def is_exercise(path: Path) -> bool:
    """Return whether a file has the name of a chapter, and its class."""
    if path.suffix != ".py" or path.stem not in PAPERS or not path.is_file():
        return False
    name = PAPERS[path.stem].class_path.rpartition(":")[2]
    return f"class {name}(" in path.read_text("utf-8", errors="replace")


def run(args: argparse.Namespace) -> None:
    """Check the contract of a model, or an exercise; raise ValueError if something is wrong."""
    if is_exercise(Path(args.model)):
        if fault := import_beside("lesson.exercise").check_exercise(Path(args.model)):
            raise ValueError(f"{args.model}: {fault}")
        print(f"{args.model}: every equation gives what the chapter gives")
        return
    home, sizes, n = find_class(args.model), dict[str, Value](), 0
    if ":" not in home:
        paper = paper_of(home)
        home, sizes = paper.class_path, {**paper.sizes}
    from seqmodels.contract import list_violations

    for name, fault in list_violations(import_class(home), **sizes):
        print(f"{name:24} {fault or 'holds'}", flush=True)
        n += bool(fault)
    if n:
        raise ValueError(f"{home}: {n} {'property does' if n == 1 else 'properties do'} not hold")

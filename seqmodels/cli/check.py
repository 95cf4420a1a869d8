"""Check a model, and write exercises."""

from __future__ import annotations

import argparse
from pathlib import Path

from seqmodels.cli.arguments import Add
from seqmodels.models import PAPERS, Value, find_class, import_class, paper_of
from seqmodels.utils.imports import import_beside


def add_check(arg: Add) -> None:
    """Add the arguments of `seqmodels check`."""
    arg("model", metavar="FILE.py:CLASS",
        help="your own model (FILE.py is enough if it has one), the name of a model, or the file "
        "of an exercise")  # fmt: skip


def is_exercise(path: Path) -> bool:
    """Return whether a file has the name of a chapter, and its class."""
    if path.suffix != ".py" or path.stem not in PAPERS or not path.is_file():
        return False
    name = PAPERS[path.stem].class_path.rpartition(":")[2]
    return f"class {name}(" in path.read_text("utf-8", errors="replace")


def check(args: argparse.Namespace) -> None:
    """Check what training and search rely on in a model."""
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


CHAPTER = "transformer"
"""The chapter that mistakes are made in."""


def add_exercise(arg: Add) -> None:
    """Add the arguments of `seqmodels exercise`."""
    arg("chapter", choices=[*PAPERS], metavar="NAME", nargs="?", default=CHAPTER,
        help=f"one of {', '.join(PAPERS)} (default: {CHAPTER})")  # fmt: skip
    arg("--hide", nargs="+", metavar="TAG",
        help="tags of equations, as at the right margin of the chapter: '(5)'")  # fmt: skip
    arg("--mistake", nargs="?", const="", metavar="MISTAKE",
        help=f"change the {CHAPTER} by one of the mistakes of tasks.mistakes, which the file does "
             "not name; default: any of eight")  # fmt: skip
    arg("--out", type=Path, required=True, metavar="DIR", help="folder for NAME.py")


def exercise(args: argparse.Namespace) -> None:
    """Write a chapter without some of its equations, or with a mistake."""
    if (args.hide is None) == (args.mistake is None):
        raise ValueError("give --hide TAG … or --mistake, one of the two")
    if args.hide is None and args.chapter != CHAPTER:
        raise ValueError(f"--mistake is for the {CHAPTER}; give {args.chapter} with --hide TAG …")
    exercise = import_beside("lesson.exercise")
    if args.hide is None:
        path = exercise.plant_mistake(args.mistake, args.out)
        task = "find the mistake that is in it, correct it"
    else:
        path = exercise.write_exercise(args.chapter, args.hide, args.out)
        task = "write the lines that raise NotImplementedError"
    print(f"{path}: {task}, then: seqmodels check {path}")

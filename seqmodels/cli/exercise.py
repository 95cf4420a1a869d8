"""Write a chapter without some of its equations, or with a mistake."""

from __future__ import annotations

import argparse
from pathlib import Path

from seqmodels.cli.arguments import Add
from seqmodels.models import PAPERS
from seqmodels.utils.imports import import_beside

CHAPTER = "transformer"
"""The chapter that mistakes are made in."""


def add_arguments(arg: Add) -> None:
    """Add the arguments of the command."""
    arg("chapter", choices=[*PAPERS], metavar="NAME", nargs="?", default=CHAPTER,
        help=f"one of {', '.join(PAPERS)} (default: {CHAPTER})")  # fmt: skip
    arg("--hide", nargs="+", metavar="TAG",
        help="tags of equations, as at the right margin of the chapter: '(5)'")  # fmt: skip
    arg("--mistake", nargs="?", const="", metavar="MISTAKE",
        help=f"change the {CHAPTER} by one of the mistakes of tasks.mistakes, which the file does "
             "not name; default: any of eight")  # fmt: skip
    arg("--out", type=Path, required=True, metavar="DIR", help="folder for NAME.py")


def run(args: argparse.Namespace) -> None:
    """Write a chapter without the lines of some equations, or with a mistake."""
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

"""Write a chapter without some of its equations."""

from __future__ import annotations

import argparse
from pathlib import Path

from seqmodels.cli.arguments import Add
from seqmodels.models import PAPERS
from seqmodels.utils.imports import import_beside


def add_arguments(arg: Add) -> None:
    """Add the arguments of the command."""
    arg("chapter", choices=[*PAPERS], metavar="NAME", help=f"one of {', '.join(PAPERS)}")
    arg("--hide", nargs="+", required=True, metavar="TAG",
        help="tags of equations, as at the right margin of the chapter: '(5)'")  # fmt: skip
    arg("--out", type=Path, required=True, metavar="DIR", help="folder for NAME.py")


def run(args: argparse.Namespace) -> None:
    """Write a chapter without the lines of some equations."""
    write_exercise = import_beside("lesson.exercise").write_exercise
    path = write_exercise(args.chapter, args.hide, args.out)
    print(f"{path}: write the lines that raise NotImplementedError, then: seqmodels check {path}")

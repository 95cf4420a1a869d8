"""Write the lesson: papers, equations, code, results."""

from __future__ import annotations

import argparse
from pathlib import Path

from seqmodels.cli.arguments import Add, folder
from seqmodels.utils.imports import import_beside


def add_arguments(arg: Add) -> None:
    """Add the arguments of the command."""
    arg("--out", type=Path, required=True, metavar="DIR", help="folder for the pages")
    arg("--live", type=folder, metavar="FOLDER",
        help="add a page in which the models of this folder run")  # fmt: skip
    arg("--single-file", action="store_true",
        help="keep the models in that page, which then opens from a disk")  # fmt: skip
    arg("--train", action="store_true", help="add a page that trains three models")


def run(args: argparse.Namespace) -> None:
    """Write the lesson, a folder of pages."""
    build = import_beside("lesson.build").build
    print(build(args.out, args.live, args.single_file, args.train)[0])

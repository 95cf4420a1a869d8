"""Write the lesson: papers, equations, code, results."""

from __future__ import annotations

import argparse
from pathlib import Path

from seqmodels.cli.arguments import Add, folder
from seqmodels.utils.imports import HOME, import_beside


def web_address(text: str) -> str:
    """Parse an address on the web."""
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text} is not an address; it begins with https://")
    return text


def add_arguments(arg: Add) -> None:
    """Add the arguments of the command."""
    arg("--out", type=Path, required=True, metavar="DIR", help="folder for the pages")
    arg("--runs", type=folder, default=str(HOME / "results"), metavar="DIR",
        help="folder of records, or of such folders; default: the committed results")  # fmt: skip
    arg("--live", type=folder, metavar="FOLDER",
        help="add a page in which the models of this folder run")  # fmt: skip
    arg("--single-file", action="store_true",
        help="keep the models in that page, which then opens from a disk")  # fmt: skip
    arg("--train", action="store_true", help="add a page that trains three models")
    arg("--url", type=web_address,
        help="where the site will be, for the picture in previews of its links")  # fmt: skip


def run(args: argparse.Namespace) -> None:
    """Write the lesson, a folder of pages."""
    build = import_beside("lesson.build").build
    live, url = args.live, args.url or ""
    print(build(args.out, args.runs, live, args.single_file, args.train, url)[0])

"""Write a page in which trained models run."""

from __future__ import annotations

import argparse

from seqmodels.cli.arguments import Add, add_model, folder, page
from seqmodels.utils.files import claim_file
from seqmodels.utils.imports import import_beside


def add_arguments(arg: Add) -> None:
    """Add the arguments of the command."""
    arg("folder", type=folder, metavar="FOLDER", help="folder of runs, with weights")
    arg("--out", type=page, required=True, metavar="FILE.html", help="the page")
    add_model(arg)


def run(args: argparse.Namespace) -> None:
    """Write a page in which the models of a folder run."""
    claim_file(args.out)
    print(import_beside("lesson.live").write(args.folder, args.out))

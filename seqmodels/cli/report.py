"""Write a page that links scores, sentences, attention."""

from __future__ import annotations

import argparse

from seqmodels.cli.arguments import Add, add_model, folder, page
from seqmodels.utils.files import claim_file
from seqmodels.utils.imports import import_beside
from seqmodels.utils.terminal import non_negative

MAPS = 24
"""Examples that have attention maps, unless another number is given."""


def add_arguments(arg: Add) -> None:
    """Add the arguments of the command."""
    arg("folder", type=folder, metavar="FOLDER", help="folder of records")
    arg("--out", type=page, required=True, metavar="FILE.html", help="write the page to this file")
    add_model(arg)
    arg("--maps", type=non_negative, default=MAPS, metavar="N",
        help=f"examples with attention maps; default: {MAPS}")  # fmt: skip


def run(args: argparse.Namespace) -> None:
    """Write the report on a folder of records."""
    claim_file(args.out)
    print(import_beside("lesson.report").write(args.folder, args.out, args.maps))

"""Write a page that links scores, sentences, attention."""

from __future__ import annotations

import argparse

from seqmodels.cli.arguments import Add, add_model, folder, page, print_paths
from seqmodels.utils.files import claim_file
from seqmodels.utils.imports import import_beside
from seqmodels.utils.terminal import non_negative

MAPS = 24
"""Examples that have attention maps, unless another number is given."""


def port(text: str) -> int:
    """Parse a port; 0 takes any that is free."""
    if (number := non_negative(text)) >= 2**16:
        raise argparse.ArgumentTypeError(f"{text} is not a port; the highest is 65535")
    return number


def add_arguments(arg: Add) -> None:
    """Add the arguments of the command."""
    arg("folders", type=folder, nargs="+", metavar="FOLDER",
        help="folder of records, or of such folders")  # fmt: skip
    arg("--out", type=page, metavar="FILE.html", help="write the page to a file")
    arg("--serve", dest="port", type=port, nargs="?", const=8000, metavar="PORT",
        help="instead, show it at http://127.0.0.1:PORT, and follow runs in training; default: "
        "8000")  # fmt: skip
    add_model(arg)
    arg("--maps", type=non_negative, default=MAPS, metavar="N",
        help=f"examples with attention maps; default: {MAPS}")  # fmt: skip


def run(args: argparse.Namespace) -> None:
    """Write the report on folders of records, or serve it."""
    if (args.port is None) == (args.out is None):
        raise ValueError("report: give --out FILE.html or --serve")
    from seqmodels.records.io import find_folders

    folders = [one for folder in args.folders for one in find_folders(folder)]
    if args.out:
        claim_file(args.out)
        print_paths([import_beside("lesson.report").write(folders, args.out, args.maps)])
    else:
        import_beside("lesson.serve").serve(folders, args.maps, args.port)

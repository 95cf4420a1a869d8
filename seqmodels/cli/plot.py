"""Draw figures and tables from records."""

from __future__ import annotations

import argparse

from seqmodels.cli.arguments import Add, folder


def add_arguments(arg: Add) -> None:
    """Add the arguments of the command."""
    arg("folder", type=folder, metavar="FOLDER", help="folder of records, or of such folders")


def run(args: argparse.Namespace) -> None:
    """Draw the figures and tables of a folder of records, or of the folders in it with an index."""
    from seqmodels.report.figures import plot_results

    print(*plot_results(args.folder), sep="\n")

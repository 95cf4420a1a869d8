"""Train and compare models, and draw what was recorded."""

from __future__ import annotations

import argparse
import runpy
import sys

from seqmodels.cli.arguments import Add, folder
from seqmodels.utils.imports import import_beside, list_tasks


def add_run(arg: Add) -> None:
    """Add the arguments of `seqmodels run`."""
    arg("task", choices=list_tasks(), metavar="TASK", help=f"one of {', '.join(list_tasks())}")
    arg("flags", nargs=argparse.REMAINDER, metavar="…",
        help="flags of the task: seqmodels run TASK --help")  # fmt: skip


def run(args: argparse.Namespace) -> None:
    """Train and compare the models on a task."""
    flags = import_beside("tasks.flags")
    flags.RUN_AS = f"seqmodels run {args.task}"
    sys.argv[1:] = args.flags
    try:
        runpy.run_module(f"tasks.{args.task}", run_name="__main__", alter_sys=True)
    finally:
        flags.RUN_AS = None


def add_plot(arg: Add) -> None:
    """Add the arguments of `seqmodels plot`."""
    arg("folder", type=folder, metavar="FOLDER", help="folder of records, or of such folders")


def plot(args: argparse.Namespace) -> None:
    """Draw figures and tables from records."""
    from seqmodels.report.figures import plot_results

    print(*plot_results(args.folder), sep="\n")

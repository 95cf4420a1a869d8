"""Train and compare models, and draw what was recorded."""

from __future__ import annotations

import argparse

from seqmodels.cli.arguments import Add, folder
from seqmodels.utils.imports import import_beside, list_tasks


def add_run(arg: Add) -> None:
    """Add the arguments of `seqmodels run`."""
    arg("task", metavar="TASK", help=f"one of {', '.join(list_tasks())}, or a FILE.py of your own")
    arg("flags", nargs=argparse.REMAINDER, metavar="…",
        help="flags of the task: seqmodels run TASK --help")  # fmt: skip


def run(args: argparse.Namespace) -> None:
    """Train and compare the models on a task."""
    flags = import_beside("tasks.flags")
    task = flags.find_task(args.task)
    if hasattr(task, "make_task"):
        flags.run(task.PARSER, task.make_task, args.flags)
    else:
        task.main(args.flags)


def add_plot(arg: Add) -> None:
    """Add the arguments of `seqmodels plot`."""
    arg("folder", type=folder, metavar="FOLDER", help="folder of records, or of such folders")


def plot(args: argparse.Namespace) -> None:
    """Draw figures and tables from records."""
    from seqmodels.report.figures import plot_results

    print(*plot_results(args.folder), sep="\n")

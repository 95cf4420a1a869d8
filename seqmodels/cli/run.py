"""Train and compare the models on a task."""

from __future__ import annotations

import argparse
import runpy
import sys

from seqmodels.cli.arguments import Add
from seqmodels.utils.imports import import_beside, list_tasks


def add_arguments(arg: Add) -> None:
    """Add the arguments of the command."""
    arg("task", choices=list_tasks(), metavar="TASK", help=f"one of {', '.join(list_tasks())}")
    arg("flags", nargs=argparse.REMAINDER, metavar="…",
        help="flags of the task: seqmodels run TASK --help")  # fmt: skip


def run(args: argparse.Namespace) -> None:
    """Run a task with its own flags, as `python -m tasks.TASK` does."""
    flags = import_beside("tasks.flags")
    flags.RUN_AS = f"seqmodels run {args.task}"
    sys.argv[1:] = args.flags
    try:
        runpy.run_module(f"tasks.{args.task}", run_name="__main__", alter_sys=True)
    finally:
        flags.RUN_AS = None

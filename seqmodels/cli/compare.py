"""The command of a task: compare, then draw all records and print the table."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

from seqmodels.experiments.compare import FailedRunsError, compare
from seqmodels.experiments.task import Task
from seqmodels.report import load_records, render_folder, tables


def compare_and_report(task: Task, args: argparse.Namespace) -> None:
    """Train every arm and seed without a record; then draw and print all records of the folder.

    Raises ValueError if a run failed, after the others are drawn.
    """
    try:
        out = compare(task, args)
    except FailedRunsError as failed:
        draw_and_print(failed.out, task)
        raise
    if out:
        draw_and_print(out, task)


def draw_and_print(out: Path, task: Task) -> None:
    """Draw and print a folder's records."""
    if not any(out.glob("*-seed*[0-9].json")):
        return
    folder = load_records.load_folder(out)
    paths = render_folder.plot_folder(folder, own=task.figures)
    compared = render_folder.find_significance(out, folder.records)
    print(f"\n{tables.format_summary([*folder.records.values()], compared)}")
    print(f"\nRecords, hypotheses, weights and figures are in {out}:")
    names = ", ".join(sorted(path.name for path in paths))
    print(textwrap.fill(names, tables.WIDTH, initial_indent="  ", subsequent_indent="  "))

"""Run a task from its command line. No torch at import, so that mistakes are answered at once."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from seqmodels.utils.terminal import guard
from tasks import flags

if TYPE_CHECKING:
    from seqmodels.comparison.task import Task


def run(
    name: str,
    doc: str | None,
    make_task: Callable[[argparse.Namespace], Task],
    argv: Sequence[str] | None = None,
) -> None:
    """Parse a task's command line and run its comparison."""
    args = flags.parse_task(name, doc, argv)
    from seqmodels.cli.compare import compare_and_report  # imports torch

    guard(name, lambda: compare_and_report(make_task(args), args))

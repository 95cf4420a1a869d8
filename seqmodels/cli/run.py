"""Run a task by its name: `seqmodels run TASK` and, from Python, `seqmodels.compare(TASK)`."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqmodels.utils.imports import HOME, import_beside, list_tasks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def import_task(name: str) -> Any:
    """Import the program of a task, which names itself as it is run here in its messages."""
    program = import_beside(f"tasks.{name}.__main__")
    program.PARSER.prog = f"seqmodels run {name}"
    return program


def compare(task: str, **flags: Any) -> Comparison | None:
    """Run a task's comparison, as `seqmodels run TASK` does; return it, or None for a dry run.

    The flags are those of the command, with underscores: `models=["gpt", "bahdanau"]`,
    `size="smoke"`, `vary={"n_heads": [1, 2]}`, `fresh=True`. Figures and tables are also written to
    the folder of records. No `__main__` guard is needed in a notebook.

    Raises ValueError for an unknown task or flag, and if a run failed.
    """
    if task not in list_tasks():
        raise ValueError(f"there is no task {task!r}; choose from {', '.join(list_tasks())}")
    program = import_task(task)
    with redirect_stderr(io.StringIO()) as refusal:
        try:
            args = program.PARSER.parse_args(to_arguments(flags))
        except SystemExit:
            raise ValueError(refusal.getvalue().strip()) from None
    from seqmodels.experiments.compare import compare as run_missing  # imports torch
    from seqmodels.report.render_folder import plot_folder

    adapted = import_beside("tasks.flags").adapt(program.make_task(args), program.PARSER, args)
    if (out := run_missing(adapted, args)) is None:
        return None
    plot_folder(out, own=adapted.figures)
    return Comparison(out)


def to_arguments(flags: Mapping[str, Any]) -> list[str]:
    """Return the arguments of a command line for flags given by name."""
    arguments = list[str]()
    for name, value in flags.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, Mapping):
            for key, values in value.items():
                arguments += [flag, f"{key}={','.join(map(str, values))}"]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            arguments += [flag, *map(str, value)]
        elif value is True:
            arguments.append(flag)
        elif value is not None and value is not False:
            arguments += [flag, str(value)]
    return arguments


class Comparison:
    """The records of a folder, or of one of the committed results; a notebook shows their tables.

    Raises ValueError if there are none.
    """

    def __init__(self, out: str | Path):
        from seqmodels.report import load_records, render_folder

        self.out = Path(out) if Path(out).exists() else HOME / "results" / out
        folder = load_records.load_folder(self.out if self.out.exists() else Path(out))
        self.records: list[dict[str, Any]] = [*folder.records.values()]
        self.significance = render_folder.find_significance(self.out, folder.records)

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """Draw the figures, by the names of their files: `score-length`, `curves`, …."""
        from seqmodels.report import render_folder, style

        with style.context():
            drawn = render_folder.draw_all(self.records, self.significance)
        return {name: drawing.figure for name, drawing in drawn.items()}

    def __repr__(self) -> str:
        from seqmodels.report.tables import format_summary

        return format_summary(self.records, self.significance)

    def _repr_html_(self) -> str:
        from seqmodels.report.tables import format_html

        return format_html(self.records, self.significance)

"""Compare models on a task by its name, and show what a comparison has: `seqmodels.compare`."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqmodels.utils.imports import HOME, import_beside, list_tasks
from seqmodels.utils.terminal import did_you_mean, wrap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seqmodels.records.schema import Record


def compare(task: str, **flags: Any) -> Comparison | None:
    """Run a task's comparison, as `seqmodels run TASK` does; return it, or None for a dry run.

    The flags are those of the command, with underscores: `models=["gpt", "bahdanau"]`,
    `size="smoke"`, `vary={"n_heads": [1, 2]}`, `fresh=True`. Figures and tables are also written to
    the folder of records. No `__main__` guard is needed in a notebook.

    Raises ValueError for an unknown task or flag, and if a run failed.
    """
    if task not in list_tasks():
        similar = did_you_mean(task, list_tasks())
        raise ValueError(
            f"there is no task {task!r}{similar}; choose from {', '.join(list_tasks())}"
        )
    program, flags_of_tasks = import_beside(f"tasks.{task}.__main__"), import_beside("tasks.flags")
    if not hasattr(program, "make_task"):
        raise ValueError(f"{task} measures trained runs; give them to: seqmodels run {task} RUN …")
    args = program.PARSER.parse(flags_of_tasks.to_words(flags))
    from seqmodels.experiments import launch  # imports torch
    from seqmodels.report.figures import plot_folder

    adapted, options = flags_of_tasks.read_task(program.make_task, args)
    if (out := launch.compare(adapted, options)) is None:
        return None
    plot_folder(out)
    return Comparison(out)


def draw_and_print(out: Path) -> None:
    """Draw and print a folder's records."""
    from seqmodels.report import figures

    if not any(out.glob("*-seed*[0-9].json")):
        return
    paths = figures.plot_folder(out)
    print(f"\n{Comparison(out)!r}")
    print(f"\n{wrap(f'Records, hypotheses, weights and figures are in {out}:')}")
    names = ", ".join(sorted(path.name for path in paths))
    print(wrap(f"  {names}"))


class Comparison:
    """The records of a folder, or of one of the committed results; a notebook shows their tables.

    Raises ValueError if there are none.
    """

    def __init__(self, out: str | Path):
        from seqmodels.report import figures, load

        self.out = Path(out) if Path(out).exists() else HOME / "results" / out
        folder = load.load_folder(self.out if self.out.exists() else Path(out))
        self.records: list[Record] = [*folder.records.values()]
        self.significance = figures.find_significance(self.out, folder.records)

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """Draw the figures, by the names of their files: `score-length`, `curves`, …."""
        from seqmodels.report import figures, style

        with style.context():
            return figures.draw_all(self.records, self.significance)

    def __repr__(self) -> str:
        from seqmodels.report.tables import format_summary

        return format_summary(self.records, self.significance)

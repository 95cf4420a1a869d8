"""Compare models on a task by its name, and show what a comparison has: `seqmodels.compare`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqmodels.utils.imports import HOME, import_beside

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from seqmodels.models import Value
    from seqmodels.records.schema import Record


def compare(  # noqa: PLR0913
    task: str,
    *,
    models: Sequence[str] | None = None,
    set: Mapping[str, Value] | None = None,
    vary: Mapping[str, Sequence[Value]] | None = None,
    seeds: Sequence[int] | None = None,
    tokens: int | None = None,
    size: str | None = None,
    device: str | None = None,
    out: str | Path | None = None,
    fresh: bool = False,
    dry_run: bool = False,
    **flags: Any,
) -> Comparison | None:
    """Run the comparison of a task, by its name or its FILE.py; return it, or None for a dry run.

    The arguments are the flags of the command: `models=["gpt", "bahdanau"]`, `size="smoke"`,
    `set={"dropout": 0.1}`, `vary={"n_heads": [1, 2]}`; `seqmodels run TASK --help` lists all, to be
    given with underscores. Figures and tables are also written to the folder of records. No
    `__main__` guard is needed in a notebook.

    Raises ValueError for an unknown task or flag, and if a run failed.
    """
    flags |= {
        "models": models, "set": set, "vary": vary, "seeds": seeds, "tokens": tokens, "size": size,
        "device": device, "out": out, "fresh": fresh, "dry_run": dry_run,
    }  # fmt: skip
    flags_of_tasks = import_beside("tasks.flags")
    program = flags_of_tasks.find_task(task)
    if not hasattr(program, "make_task"):
        raise ValueError(f"{task} measures trained runs; give them to: seqmodels run {task} RUN …")
    args = program.PARSER.parse(flags_of_tasks.to_words(flags))
    from seqmodels.experiments import launch  # imports torch
    from seqmodels.report.figures import plot_folder

    adapted, options = flags_of_tasks.read_task(program.make_task, args)
    if (out := launch.compare(adapted, options)) is None:
        return None
    compared = Comparison(out)
    plot_folder(compared.folder, compared.significance)
    return compared


class Comparison:
    """The records of a folder, or of one of the committed results; a notebook shows their scores.

    It is a sequence of its records; `print` shows all tables. Raises ValueError if there are none.
    """

    def __init__(self, out: str | Path):
        from seqmodels.report import figures, load

        self.out = Path(out) if Path(out).exists() else HOME / "results" / out
        self.folder = load.load_folder(self.out if self.out.exists() else Path(out))
        self.records: list[Record] = [*self.folder.records.values()]
        self.significance = figures.find_significance(self.folder)

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """Draw the figures, by the names of their files: `score-length`, `curves`, …."""
        from seqmodels.report import figures, style

        with style.context():
            return figures.draw_all(self.records, self.significance)

    def to_frame(self) -> DataFrame:
        """Return the scores as a table of pandas: a row for each run, test set, bucket and metric.

        A bucket is `low` to `high`, empty over all examples; `ci_low` and `ci_high` are the ends of
        the interval of 95 %.
        """
        from pandas import DataFrame

        from seqmodels.report import load

        rows = []
        for record in self:
            about = {"model": record.model, "label": load.label_of(record), "seed": record.seed}
            for test in record.tests:
                parts = [({"low": None, "high": None, "n": sum(b.n for b in test.buckets)},
                          test.overall)]  # fmt: skip
                parts += [
                    ({"low": b.low, "high": b.high, "n": b.n}, dict(b.items()))
                    for b in test.buckets
                ]
                rows += [
                    {**about, "test": test.name, **bucket, "metric": metric, "value": score.value,
                     "ci_low": score.low, "ci_high": score.high}
                    for bucket, scores in parts for metric, score in scores.items()
                ]  # fmt: skip
        return DataFrame(rows)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        models = ", ".join(dict.fromkeys(record.model for record in self))
        tests = ", ".join(dict.fromkeys(test.name for each in self for test in each.tests))
        about = f"<Comparison {self.out}: {len(self)} records of {self.records[0].task}"
        return f"{about}\n  models: {models}\n  test sets: {tests}>"

    def __str__(self) -> str:
        from seqmodels.report.tables import format_summary

        return format_summary(self.records, self.significance)

    def _repr_html_(self) -> str:
        from pandas import DataFrame

        from seqmodels.report import load, tables

        parts = [f"<p>{escape(load.format_subtitle(self.records))}</p>"]
        for test in load.tests_by_name(self.records).values():
            title, (head, *rows), notes = tables.score_rows(self.records, test, tables.format_mean)
            table = DataFrame(rows, columns=head).to_html(index=False, border=0)
            parts += [f"<p>{escape(title)}</p>", table, f"<p>{escape(notes)}</p>"]
        return "".join(parts)

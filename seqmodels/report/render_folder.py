"""Draw all figures and tables of a folder of records, and the index of a folder of folders.

They are drawn from the JSON records, one per (model, seed), and the significance of their
differences (see records/significance.py), without torch or a model. The same records give the same
bytes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

from matplotlib.figure import Figure

from seqmodels.records import significance
from seqmodels.records.schema import Record
from seqmodels.report import (
    alignment,
    bucket_plots,
    effects,
    ledger,
    load_records,
    style,
    tables,
)
from seqmodels.report.load_records import Folder, format_subtitle
from seqmodels.utils import files
from seqmodels.utils.imports import TASKS, import_beside
from seqmodels.utils.pool import ProcessPool, n_cores
from seqmodels.utils.values import check_arguments

Draw = Callable[[Sequence[Record]], dict[str, Figure]]
"""Returns figures of a folder's records by the names of their files."""
TABLES = "tables.md"
INDEX = """# Results

Made from the records in these folders by `seqmodels plot`. A record holds what is needed to \
repeat its run (task, seed, settings, commit), except for weights that it started from; \
`….sums.json.gz` holds the numbers behind its scores, and `significance.json` the differences \
between the models; few folders hold weights (`….safetensors`) and hypotheses (`….jsonl`). \
`python -m tasks --out FOLDER` repeats the runs; `--corpora` includes those on real text."""
"""The beginning of the index of a folder of folders."""
MAX_IN_MATRIX = 8
"""Models, arms included, up to which all pairs are drawn as well as the effects of changes."""


@check_arguments
def plot_folder(
    folder: Path | Folder, out: Path | None = None, own: Sequence[Draw] | None = None
) -> list[Path]:
    """Write all figures (SVG and PNG) and tables.md to `out` or the folder; return the paths.

    `own` draws the task's own figures; None: those of `task_figures`. If the sums of all records
    exist, significance.json is written as well.
    """
    folder = load_records.load_folder(folder) if isinstance(folder, Path) else folder
    out, records = Path(out or folder.path), list(folder.records.values())
    for unknown in folder.unknown:
        print(f"not drawn: {unknown}", file=sys.stderr)
    compared = find_significance(folder.path, folder.records)
    files.claim_folder(out, "comparison")
    with style.context():
        drawings = draw_all(records, compared, own)
        paths = style.save_own(drawings, out)
    parts = [f"# {folder.path.resolve().name}\n\n{format_subtitle(records)}\n"]
    for name, figure in drawings.items():
        parts.append(f"![{style.texts_of(figure)[0]}]({name}.svg)\n")
    if compared:
        paths.append(files.write(out / significance.FILE, compared.text()))
    parts.append(tables.format_tables(records, compared))
    return [*paths, files.write(out / TABLES, "\n".join(parts))]


def draw_all(
    records: Sequence[Record],
    compared: significance.Significance | None,
    own: Sequence[Draw] | None = None,
) -> dict[str, Figure]:
    """Return all figures of a folder by the names of their files, in the style's context."""
    drawn = {name: draw() for name, draw in shared_figures(records, compared).items()}
    first = {name: drawn[name] for name in ("curves", "state")}
    if own is None:
        return first | draw_task_figures(records) | drawn
    return first | merge_figures(draw(records) for draw in own) | drawn


def shared_figures(
    records: Sequence[Record], compared: significance.Significance | None
) -> dict[str, Callable[[], Figure]]:
    """Return functions that draw the figures of every task, by the names of their files."""
    figures: dict[str, Callable[[], Figure]] = {
        "curves": partial(bucket_plots.draw_curves, records),
        "state": partial(bucket_plots.draw_memory_size, records),
        **effects.sweep_figures(records),
    }
    for name, test in load_records.tests_by_name(records).items():
        key = format_file_name(name)
        figures[f"score-{key}"] = partial(bucket_plots.draw_scores, records, test)
        if compared and (comparison := compared.on(name)):
            given = records, test, comparison
            if has_effects := len(effects.find_effects(records, comparison)) > 1:
                figures[f"effects-{key}"] = partial(effects.draw_effects, *given)
            if not has_effects or len(load_records.group_by_model(records)) <= MAX_IN_MATRIX:
                figures[f"significance-{key}"] = partial(bucket_plots.draw_differences, *given)
    attending = load_records.group_by_model(r for r in records if r.alignment)
    if first := [group[0] for group in attending.values()]:
        looks = style.line_styles_for(attending)
        panels = [(looks[r.model], r.alignment) for r in first if r.alignment]
        figures["alignment"] = partial(alignment.draw_heat_maps, panels, format_subtitle(first))
    return figures


def task_figures(task: str) -> ModuleType | None:
    """Return the module tasks.TASK.figure; None if the task has no figures of its own.

    Its FIGURES draw one folder of records, its ACROSS all folders of the task at once.
    """
    has_figures = task.isidentifier() and (TASKS / task / "figure.py").is_file()
    return import_beside(f"tasks.{task}.figure") if has_figures else None


def draw_task_figures(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the figures of the records' task by the names of their files.

    If the records lack a measurement of the task, a note is printed.
    """
    module = task_figures(task := records[0].task)
    try:
        return merge_figures(draw(records) for draw in module.FIGURES) if module else {}
    except KeyError as error:
        print(f"not drawn: figures of {task}, whose records lack {error}", file=sys.stderr)
        return {}


def draw_across(folders: Iterable[Sequence[Record]]) -> dict[str, Figure]:
    """Return the figures that each task draws across its folders, by the names of their files."""
    by_task: dict[str, list[Sequence[Record]]] = {}
    for records in folders:
        by_task.setdefault(records[0].task, []).append(records)
    return merge_figures(
        draw(its)
        for task, its in by_task.items()
        if (module := task_figures(task))
        for draw in getattr(module, "ACROSS", ())
    )


def merge_figures(parts: Iterable[dict[str, Figure]]) -> dict[str, Figure]:
    """Return all figures in one dictionary."""
    return {name: figure for figures in parts for name, figure in figures.items()}


def find_significance(folder: Path, by_file: dict[str, Record]) -> significance.Significance | None:
    """Return the differences between a folder's models; None, with a note, if they are invalid."""
    try:
        return significance.load_or_compute(folder, by_file)
    except ValueError as error:
        print(f"not drawn: {error}", file=sys.stderr)
        return None


def format_file_name(test: str) -> str:
    """Return the name of a test set as part of the name of a file."""
    return re.sub(r"[^\w.-]+", "-", test)


@check_arguments
def plot_results(root: Path) -> list[Path]:
    """Draw a folder of records, or all folders of records in it with a README.md as their index.

    The README.md also compares the published figures of a ledger in the folder with the records.
    """
    paths = sorted({path.parent for path in root.glob("*/*.json")})
    folders = [load_records.load_folder(path, may_be_empty=True) for path in paths]
    folders = [folder for folder in folders if folder.records or folder.unknown]
    if not folders:
        return plot_folder(root)
    if empty := [folder for folder in folders if not folder.records]:
        raise ValueError("; ".join(empty[0].unknown))
    files.claim_file(index := root / "README.md")
    entries = ledger.load_ledger(root)
    drawn = plot_each([folder.path for folder in folders])
    records = {folder.path.name: [*folder.records.values()] for folder in folders}
    parts = [INDEX]
    for name, figure_paths in zip(records, drawn, strict=True):
        parts += _index_entry(name, records[name], figure_paths)
    paths = [path for figure_paths in drawn for path in figure_paths]
    with style.context():
        for name, figure in draw_across(records.values()).items():
            paths += style.save_own({name: figure}, root)
            parts += [f"## {name}", f"![{name}]({name}.svg)"]
    if entries:
        parts += [ledger.format_published_figures(entries, records)]
    return [*paths, files.write(index, "\n\n".join(parts) + "\n")]


def plot_each(folders: Sequence[Path]) -> list[list[Path]]:
    """Draw each folder, in several processes if there are many."""
    if (n := min(n_cores(), len(folders) // 3)) < 2:
        return [*map(plot_folder, folders)]
    with ProcessPool(n) as pool:
        return [*pool.map(plot_folder, folders)]


def _index_entry(name: str, records: Sequence[Record], paths: Sequence[Path]) -> list[str]:
    """Return the index paragraphs of one folder: summary, scores kept, links and main figure."""
    first = next(iter(load_records.tests_by_name(records).values()))
    figures = [path.stem for path in paths if path.suffix == ".svg"]
    main = next(figure for figure in figures if figure not in ("curves", "state"))
    links = ", ".join(f"[{figure}]({name}/{figure}.svg)" for figure in figures)
    return [
        f"## {name}",
        *filter(None, (f"{format_subtitle(records)}.", tables.format_shares(records, first))),
        f"[Tables]({name}/tables.md) · [records]({name}) · figures: {links}",
        f"![{main}]({name}/{main}.svg)",
    ]

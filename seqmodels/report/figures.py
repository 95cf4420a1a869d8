"""Draw figures and tables from records: score against length, curves, state size, alignments.

The JSON records of a folder are read, one per (model, seed), and the differences between the models
(see records/significance.py): redrawing needs neither torch nor a model. The same records give the
same bytes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from matplotlib.figure import Figure

from seqmodels.records import significance
from seqmodels.report import alignment, drawing, reading, style, tables
from seqmodels.report.reading import Folder, Record, subtitle
from seqmodels.utils import files

Draw = Callable[[Sequence[Record]], dict[str, Figure]]
"""Returns figures of a folder's records by the names of their files."""
TASKS = Path(__file__).parents[2] / "tasks"
"""The folder of the tasks; an installed package without a clone has none."""


def plot_folder(
    folder: Path | Folder, out: Path | None = None, own: Sequence[Draw] | None = None
) -> list[Path]:
    """Write all figures (SVG and PNG) and tables.md to `out` or the folder; return the paths.

    They include what `own` draws; None: the task's own figures (see `task_figures`). If the
    sums of all records are there, significance.json is written as well.
    """
    folder = reading.load_folder(folder) if isinstance(folder, Path) else folder
    out, records = Path(out or folder.path), list(folder.records.values())
    for unknown in folder.unknown:
        print(f"not drawn: {unknown}", file=sys.stderr)
    compared = compare(folder.path, folder.records)
    out.mkdir(parents=True, exist_ok=True)
    with style.context():
        figures = draw_all(records, compared, own)
        paths = [
            style.save(figure, out / f"{name}.{kind}")
            for name, figure in figures.items()
            for kind in ("svg", "png")
        ]
    parts = [f"# {folder.path.resolve().name}\n\n{subtitle(records)}\n"]
    for name, figure in figures.items():
        parts.append(f"![{style.texts(figure)[0]}]({name}.svg)\n\n{figure.get_label()}\n")
    if compared:
        paths.append(files.write(out / significance.FILE, compared.text()))
    parts.append(tables.tables(records, compared))
    return [*paths, files.write(out / "tables.md", "\n".join(parts).encode())]


def draw_all(
    records: Sequence[Record],
    compared: significance.Significance | None,
    own: Sequence[Draw] | None = None,
) -> dict[str, Figure]:
    """Return all figures of a folder by the names of their files, in the style's context."""
    figures = {"curves": drawing.draw_curves(records), "state": drawing.draw_state(records)}
    figures |= draw_own(records) if own is None else merge(draw(records) for draw in own)
    for name, test in reading.tests(records).items():
        figures[f"score-{file_name(name)}"] = drawing.draw_scores(records, test)
        if compared and (comparison := compared.on(name)):
            figures[f"significance-{file_name(name)}"] = drawing.draw_differences(
                records, test, comparison
            )
    attending = reading.by_model(r for r in records if r["alignment"])
    first = [group[0] for group in attending.values()]
    if first:
        alignments = {r["model"]: r["alignment"] for r in first}
        figures["alignment"] = alignment.figure_of(alignments, subtitle(first))
    return figures


@cache
def task_figures(task: str) -> ModuleType | None:
    """Return the module tasks/TASK/figure.py; None if the task has no figures of its own.

    Its FIGURES draw one folder of records, its ACROSS all folders of the task at once. It is found
    by its path, so that no other package named `tasks` is imported.
    """
    path = TASKS / task / "figure.py"
    spec = spec_from_file_location(f"tasks.{task}.figure", path) if path.is_file() else None
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def draw_own(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the figures of the records' task by the names of their files.

    Records that lack what the task measures, such as those of another clone, are said to lack it.
    """
    module = task_figures(task := records[0]["task"])
    try:
        return merge(draw(records) for draw in module.FIGURES) if module else {}
    except KeyError as error:
        print(f"not drawn: figures of {task}, whose records lack {error}", file=sys.stderr)
        return {}


def draw_across(folders: Iterable[Sequence[Record]]) -> dict[str, Figure]:
    """Return the figures that a task draws of all its folders, by the names of their files."""
    by_task: dict[str, list[Sequence[Record]]] = {}
    for records in folders:
        by_task.setdefault(records[0]["task"], []).append(records)
    return merge(
        draw(its)
        for task, its in by_task.items()
        if (module := task_figures(task))
        for draw in getattr(module, "ACROSS", ())
    )


def merge(drawn: Iterable[dict[str, Figure]]) -> dict[str, Figure]:
    """Return all figures in one dictionary."""
    return {name: figure for figures in drawn for name, figure in figures.items()}


def compare(folder: Path, by_file: dict[str, Record]) -> significance.Significance | None:
    """Return the differences between the models of a folder; say why if they cannot be drawn."""
    try:
        return significance.find(folder, by_file)
    except ValueError as error:
        print(f"not drawn: {error}", file=sys.stderr)
        return None


def file_name(test: str) -> str:
    """Return the name of a test set as part of the name of a file."""
    return re.sub(r"[^\w.-]+", "-", test)


def plot_results(root: Path) -> list[Path]:
    """Draw a folder of records, or all folders of records in it with a README.md as their index.

    The README.md also compares the published figures of a ledger in the folder with the records.
    """
    from seqmodels.report import ledger  # a folder of one comparison has none

    read = [reading.read_folder(path) for path in sorted({p.parent for p in root.glob("*/*.json")})]
    folders = [folder for folder in read if folder.records or folder.unknown]
    if not folders:
        return plot_folder(root)
    entries = ledger.load(root)
    paths: list[Path] = []
    parts = [
        "# Results",
        "Made from the records in these folders by `seqmodels plot`. A record holds everything "
        "needed to repeat its run (task, seed, settings, commit), `….sums.json.gz` the numbers "
        "behind its scores, and `significance.json` the differences between the models; few "
        "folders hold weights (`….safetensors`) and hypotheses (`….jsonl`). `python -m tasks --out "
        "FOLDER` repeats the runs; `--corpora` includes those on real text.",
    ]
    records = {folder.path.name: list(folder.records.values()) for folder in folders}
    for folder in folders:
        if not folder.records:
            raise ValueError("; ".join(folder.unknown))
        drawn = plot_folder(folder)
        paths += drawn
        parts += _index_entry(folder.path.name, records[folder.path.name], drawn)
    with style.context():
        for name, figure in draw_across(records.values()).items():
            paths += [style.save(figure, root / f"{name}.{kind}") for kind in ("svg", "png")]
            parts += [f"## {name}", str(figure.get_label()), f"![{name}]({name}.svg)"]
    if entries:
        parts += [ledger.published(entries, records)]
    return [*paths, files.write(root / "README.md", ("\n\n".join(parts) + "\n").encode())]


def _index_entry(name: str, records: Sequence[Record], drawn: Sequence[Path]) -> list[str]:
    """Return the paragraphs of the index on a folder: three lines, and its main figure."""
    first = next(iter(reading.tests(records).values()))
    figures = [path.stem for path in drawn if path.suffix == ".svg"]
    main = next(figure for figure in figures if figure not in ("curves", "state"))
    links = ", ".join(f"[{figure}]({name}/{figure}.svg)" for figure in figures)
    return [
        f"## {name}",
        *(text for text in (f"{subtitle(records)}.", tables.share_kept(records, first)) if text),
        f"[Tables and captions]({name}/tables.md) · [records]({name}) · figures: {links}",
        f"![{main}]({name}/{main}.svg)",
    ]

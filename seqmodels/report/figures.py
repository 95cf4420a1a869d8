"""Draw the figures of every comparison, and write those of a folder with its tables.

Scores by bucket and learning curves are drawn here, from the JSON records alone; what a task
draws besides is in tasks/NAME/figure.py. No torch; the same records give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seqmodels.evaluation.metrics import metric_of
from seqmodels.records import significance
from seqmodels.records.schema import Record, Test
from seqmodels.report import alignment, effects, load, style, tables
from seqmodels.report.style import GREY, INK, PANEL, LineStyle, Look
from seqmodels.utils import files
from seqmodels.utils.imports import TASKS, import_beside
from seqmodels.utils.terminal import is_mistake, print_error

Draw = Callable[[Any], dict[str, Figure]]
"""Returns figures by the names of their files: of a folder's records, or of several folders'."""
TABLES = "tables.md"
COUNTS = 0.4
"""Height of the bars of counts below a panel, in inches."""

# ----------------------------------------------------------------------------------------- Scores


def draw_scores(records: Sequence[Record], test: Test) -> Figure:
    """Draw the primary metric and a teacher-forced score by bucket, and the counts below."""
    primary = metric_of(test.primary_metric)
    is_forced_loss = primary.is_loss and primary.is_teacher_forced
    metrics = (test.primary_metric, "token_accuracy" if is_forced_loss else "nats")
    title = f"{name_score(test, test.primary_metric)} by {test.axis}"
    if test.name not in test.axis and len(load.tests_by_name(records)) > 1:
        title += f": {test.name.replace('_', ' ')}"
    key = style.label_line_styles(records)
    groups = load.group_by_model(r for r in records if r.test(test.name))
    lines = [(key[model], group) for model, group in groups.items()]
    looks = [look for look, _ in lines]
    if test.baseline:
        looks.append(LineStyle(load.name_baseline(test), INK, ":", ""))
    has_counts = len({b.n for b in test.buckets}) > 1
    figure, axes = style.make_figure(
        title, records, looks, (PANEL, COUNTS) if has_counts else (PANEL,), 2,
        style.MARKS, sharex="col",
    )  # fmt: skip
    for column, metric, label in zip(axes.T, metrics, ("longer than trained", ""), strict=True):
        style.mark_trained(column[0], test, label)
        _draw_metric(column[0], lines, test, metric)
        if has_counts:
            style.mark_trained(column[1], test, "")
            _draw_counts(column[1], test)
        _name_buckets(column[-1], test)
    return figure


def draw_headline(records: Sequence[Record], test: Test, title: str) -> Figure:
    """Draw the primary metric by bucket in one panel, with the names of the lines at their ends."""
    groups, name = load.group_by_model(records), test.primary_metric
    figure, ((ax,),) = style.make_figure(title, records, note=style.MARKS)
    style.mark_trained(ax, test)
    lines = [(look, groups[model]) for model, look in style.line_styles_for(groups).items()]
    _draw_metric(ax, lines, test, name)
    _name_buckets(ax, test)
    last = max((i for i, b in enumerate(test.buckets) if b.n >= load.MIN_EXAMPLES), default=-1)
    ends = [load.score_array(group, test.name, name)[:, 1 + last, 0].mean() for _, group in lines]
    style.name_lines(ax, [
        (end, style.label_with_year(group[0]), look.colour)
        for end, (look, group) in zip(ends, lines, strict=True)
    ])  # fmt: skip
    return figure


def name_score(test: Test, name: str) -> str:
    """Return the name of what is drawn of a metric: the score, or what context gains of it."""
    shown = (metric := metric_of(name)).name
    if is_gain(test):
        gain = shown.replace(" (%)", ", gain (points)")
        shown = f"{metric.unit} saved" if metric.is_loss else gain
    return shown[:1].upper() + shown[1:]


def is_gain(test: Test) -> bool:
    """Return whether to draw the gain from context: for losses by context length."""
    return test.kind == "context" and metric_of(test.primary_metric).is_loss


def _draw_metric(
    ax: Axes, lines: Sequence[tuple[LineStyle, Sequence[Record]]], test: Test, name: str
) -> None:
    """Draw one metric by bucket: a line for each model, a band, and whiskers for the seeds."""
    metric, n = metric_of(name), [b.n for b in test.buckets]
    step = min(0.12, 0.72 / max(len(lines), 1))
    for i, (look, group) in enumerate(lines):
        scores = load.score_array(group, test.name, name)[:, 1:]
        if is_gain(test):
            gains = (scores - scores[:, :1, :1]) * (-1 if metric.is_loss else 1)
            scores = np.where([True, False, False], gains, np.nan)
        x = np.arange(len(n)) + step * (i - (len(lines) - 1) / 2)
        style.draw_line(ax, look, dict(zip(x, scores.swapaxes(0, 1), strict=True)), n)
    if name == test.primary_metric and test.baseline:
        baseline = [b["baseline"].value for b in test.buckets]
        ax.plot(baseline, ls=":", lw=1.8, color=INK, zorder=5)
    is_forced = metric.is_teacher_forced or test.beam is None
    search = "teacher-forced" if is_forced else f"free-running{load.format_search(test)}"
    is_lower = metric.is_loss and not is_gain(test)
    ax.set_title(f"{name_score(test, name)} {'↓' if is_lower else '↑'}")
    ax.set_ylabel(search, color=GREY)
    if metric.is_percent and name == test.primary_metric:
        ax.set_ylim(0, None if metric.count and ax.get_ylim()[1] < 50 else 100)
    ax.tick_params(axis="x", length=0)


def _draw_counts(strip: Axes, test: Test) -> None:
    """Draw the number of examples of each bucket."""
    counts = [b.n for b in test.buckets]
    fills = ["white" if n < load.MIN_EXAMPLES else "#BDBDBD" for n in counts]
    bars = strip.bar(range(len(counts)), counts, 0.62, color=fills, edgecolor="#9A9A9A", lw=0.8)
    size = 6 if len(counts) > 10 else 8
    strip.bar_label(bars, [*map(load.format_short, counts)], size=size, color=GREY, padding=1)
    strip.set_ylim(0, 1.9 * max(counts))
    strip.set_ylabel("n", rotation=0, labelpad=10, va="center", color=GREY)
    strip.set_yticks([])
    strip.spines["left"].set_visible(False)


def _name_buckets(ax: Axes, test: Test) -> None:
    """Write the names of the buckets below an axis, slanted if they are long."""
    names = [*map(load.format_bucket, test.buckets)]
    is_crowded = sum(len(name) + 1 for name in names) > 34
    slanted: Look = {"rotation": 38, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(range(len(names)), names, **(slanted if is_crowded else {}))
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel(test.axis)


# ---------------------------------------------------------------------------------------- Curves


def draw_curves(records: Sequence[Record]) -> Figure:
    """Draw validation loss against target tokens, one line per seed."""
    looks, title = style.label_line_styles(records), "Learning curves, a line for each seed"
    figure, ((ax,),) = style.make_figure(title, records, [*looks.values()])
    style.set_log(ax, "y", load.format_short)
    for r in records:
        look = looks[r.model]
        x, y = [p.tokens for p in r.curve], [p.valid_nats for p in r.curve]
        ax.plot(x, y, **look.line, markevery=[-1], lw=1.4)
    ax.set_title("Validation loss: nats per token, teacher-forced, log scale")
    ax.set_xlim(0)
    ax.set_xlabel("target tokens")
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.xaxis.set_major_formatter(load.format_short)
    return figure


# ---------------------------------------------------------------------------------------- Folders


def plot_folder(folder: load.Folder, compared: significance.Significance | None) -> list[Path]:
    """Write all figures (SVG and PNG) and tables.md to the folder; return the paths.

    The differences, if there are any, are written as significance.json. What a person wrote below
    the tables stays. Raises ValueError if a file that would be replaced is not ours.
    """
    out, records = folder.path, list(folder.records.values())
    path = files.claim_file(out / TABLES)
    end = files.TABLES_END.encode()
    below = path.read_bytes().partition(end)[2] if path.exists() else b"\n"
    with style.context():
        paths = style.save_all(draw_all(records, compared), out)
    if compared:
        paths.append(files.write(out / significance.FILE, compared.text()))
    head = f"# {folder.path.resolve().name}\n\n{load.format_subtitle(records)}"
    text = f"{head}\n\n{tables.format_tables(records, compared)}\n".encode()
    return [*paths, files.write(path, text + end + below)]


def draw_all(
    records: Sequence[Record], compared: significance.Significance | None
) -> dict[str, Figure]:
    """Return all figures of a folder by the names of their files, in the style's context."""
    figures = {"curves": draw_curves(records)}
    for draw in drawings_of(records[0].task, "FIGURES"):
        figures |= draw(records)
    figures |= effects.draw_sweeps(records)
    for name, test in load.tests_by_name(records).items():
        key = re.sub(r"[^\w.-]+", "-", name)
        figures[f"score-{key}"] = draw_scores(records, test)
        comparison = compared and compared.on(name)
        if comparison and len(effects.find_effects(records, comparison)) > 1:
            figures[f"effects-{key}"] = effects.draw_effects(records, test, comparison)
    attending = load.group_by_model(r for r in records if r.alignment)
    if first := [group[0] for group in attending.values()]:
        looks = style.line_styles_for(attending)
        panels = [(looks[r.model], r.alignment) for r in first if r.alignment]
        figures["alignment"] = alignment.draw_heat_maps(panels, first)
    return figures


def drawings_of(task: str, kind: str) -> Sequence[Draw]:
    """Return what draws a task's own figures: FIGURES or ACROSS of tasks/TASK/figure.py, if any.

    FIGURES draw one folder of records, ACROSS all folders of the task at once.
    """
    has_figures = task.isidentifier() and (TASKS / task / "figure.py").is_file()
    return getattr(import_beside(f"tasks.{task}.figure"), kind, ()) if has_figures else ()


def draw_across(folders: Iterable[Sequence[Record]]) -> dict[str, Figure]:
    """Return the figures that each task draws across its folders, by the names of their files."""
    by_task: dict[str, list[Sequence[Record]]] = {}
    for records in folders:
        by_task.setdefault(records[0].task, []).append(records)
    figures: dict[str, Figure] = {}
    for task, its in by_task.items():
        for draw in drawings_of(task, "ACROSS"):
            figures |= draw(its)
    return figures


def find_significance(folder: load.Folder) -> significance.Significance | None:
    """Return the differences between a folder's models; None, with a note, if they are invalid."""
    try:
        return significance.compare_folder(*folder)
    except ValueError as error:
        if not is_mistake(error):
            raise
        print_error("no differences", error)
        return None


def plot_results(root: Path) -> list[Path]:
    """Draw a folder of records, or all folders in it and what tasks draw across folders."""
    paths = sorted({path.parent for path in root.glob("*/*.json")})
    folders = [load.load_folder(path, may_be_empty=True) for path in paths]
    folders = [folder for folder in folders if folder.records]
    if not folders:
        folders = [load.load_folder(root)]
        return plot_folder(folders[0], find_significance(folders[0]))
    drawn = [path for each in folders for path in plot_folder(each, find_significance(each))]
    with style.context():
        across = draw_across([*folder.records.values()] for folder in folders)
        return [*drawn, *style.save_all(across, root)]

"""Draw the figures of every comparison, and write those of a folder with its tables.

Scores by bucket, learning curves and sizes are drawn here, from the JSON records alone; what a task
draws besides is in tasks/NAME/figure.py. No torch; the same records give the same bytes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seqmodels.evaluation.intervals import MIN_ROWS
from seqmodels.evaluation.metrics import metric_of
from seqmodels.records import significance
from seqmodels.records.schema import Point, Record, Test
from seqmodels.report import alignment, effects, load, style, tables
from seqmodels.report.load import (
    MIN_EXAMPLES,
    Folder,
    Groups,
    format_bucket,
    format_ends,
    format_interval_methods,
    format_search,
    format_short,
    format_subtitle,
    info_of,
)
from seqmodels.report.style import GREY, INK, LineStyle, Look
from seqmodels.utils import files
from seqmodels.utils.imports import TASKS, import_beside

Line = tuple[LineStyle, Sequence[Record]]
"""The look of one model or system, and its records."""
MEMORIES = {
    "vector": "Dashed: source in one vector.",
    "grows": "Solid: attends to every word.",
    "fixed": "Dash-dotted: reads a memory of fixed size.",
}
"""Memory of a model -> its line style, in a caption."""
SIZES = {
    "source_bytes": "Passed to the decoder in the paper",
    "cache_bytes": "Kept by this implementation",
}
"""Fields of a record with sizes in bytes, and the titles of their panels."""
Draw = Callable[[Sequence[Record]], dict[str, Figure]]
"""Returns figures of a folder's records by the names of their files."""
TABLES = "tables.md"
LEVEL, SLANTED = 0.5, 0.8
"""Inches below a panel with level and with slanted names of buckets."""

# Scores


def draw_scores(records: Sequence[Record], test: Test) -> Figure:
    """Draw the primary metric and a teacher-forced score by bucket, and the counts below."""
    primary = metric_of(test.primary_metric)
    is_loss = primary.is_loss and primary.is_teacher_forced
    metrics = (test.primary_metric, "token_accuracy" if is_loss else "nats")
    title = f"{name_score(test, test.primary_metric)} by {test.axis}"
    if test.name not in test.axis and len(load.tests_by_name(records)) > 1:
        title += f": {test.name.replace('_', ' ')}"
    line_styles = style.line_styles_for(load.group_by_model(records))
    labelled = dict(zip(line_styles, style.label_line_styles(records), strict=True))
    records = [r for r in records if r.test(test.name)]
    groups = load.group_by_model(records)
    key = [labelled[model] for model in groups]
    if _is_gain(test):
        without = [load.score_array(group, test.name, test.primary_metric)[:, 1, 0]
                   for group in groups.values()]  # fmt: skip
        key = [k._replace(label=f"{k.label} · at 0: {x.mean():.2f}")
               for k, x in zip(key, without, strict=True)]  # fmt: skip
    texts = title, format_subtitle(records), _explain_scores(groups, test, metrics)
    has_counts = len({b.n for b in test.buckets}) > 1
    ratios = (5.6, 0.9) if has_counts else (1,)
    figure, axes = style.make_panels(texts, key, ratios, below=room_below(test))
    lines = [(line_styles[model], group) for model, group in groups.items()]
    for column, metric in enumerate(metrics):
        _mark_trained(axes[:, column], test)
        _draw_metric(axes[0, column], lines, test, metric)
        if has_counts:
            _draw_counts(axes[1, column], test)
        _name_buckets(axes[-1, column], test)
    # Invisible areas by which a page can choose a bucket; an id occurs once in a file.
    for ax, letter in zip(axes.ravel(), ("", *"bcd"), strict=False):
        for i in range(len(test.buckets)):
            ax.axvspan(i - 0.5, i + 0.5, fc="none", ec="none", gid=f"bucket-{i}{letter}")
    return figure


def draw_headline(records: Sequence[Record], test: Test, title: str) -> Figure:
    """Draw the primary metric by bucket in one panel, with the names of the lines at their ends."""
    groups, name = load.group_by_model(records), test.primary_metric
    texts = title, format_subtitle(records), _explain_scores(groups, test, (name,))
    figure, ax = style.make_panel(texts, below=room_below(test))
    _mark_trained([ax], test)
    lines = [(look, groups[model]) for model, look in style.line_styles_for(groups).items()]
    _draw_metric(ax, lines, test, name)
    _name_buckets(ax, test)
    last = max((i for i, b in enumerate(test.buckets) if b.n >= MIN_EXAMPLES), default=-1)
    ends = [load.score_array(g, test.name, name)[:, 1 + last, 0].mean() for _, g in lines]
    names = [(style.label_with_year(group[0]), look.colour) for look, group in lines]
    style.name_lines(ax, [(end, *name) for end, name in zip(ends, names, strict=True)])
    return figure


def name_score(test: Test, name: str) -> str:
    """Return the name of what is drawn of a metric: the score, or what context gains of it."""
    metric = metric_of(name)
    if not _is_gain(test):
        return load.capitalise(metric.name)
    gain = metric.name.replace(" (%)", ", gain (points)")
    return load.capitalise(f"{metric.unit} saved" if metric.is_loss else gain)


def _is_gain(test: Test) -> bool:
    """Return whether to draw the gain from context: for losses by context length."""
    return test.kind == "context" and metric_of(test.primary_metric).is_loss


def _explain_scores(groups: Groups, test: Test, metrics: Sequence[str]) -> str:
    """Return the caption: what lines, bands, bars and dashes are."""
    records = [r for group in groups.values() for r in group]
    is_many, units = len(records) > len(groups), test.grouped_by or test.noun
    seeds = "Line: mean of the seeds; whisker: lowest to highest" if is_many else "One seed"
    band = f"95 % interval ({format_interval_methods(records, metrics)}) over {units}"
    caption = f"{seeds}; band: {band}{', its ends averaged over the seeds' * is_many}."
    if _is_gain(test):
        caption = (
            f"The score with context minus that without. {seeds}. Key: parameters · "
            f"{metric_of(metrics[0]).name} at context 0."
        )
    counts = {b.n for b in test.buckets}
    if len(counts) > 1 and len(metrics) > 1:
        caption += f" Bars: number of {test.noun}."
    else:
        caption += f" {format_ends(min(counts), max(counts))} {test.noun} a point."
    if min(counts) < MIN_EXAMPLES:
        caption += f" Hollow: fewer than {MIN_EXAMPLES}; lines end before."
    memories = {info.memory for group in groups.values() if (info := info_of(group[0]))}
    if len(memories) > 1:
        caption += "".join(f" {text}" for kind, text in MEMORIES.items() if kind in memories)
    if test.baseline:
        caption += f" Dotted: {load.name_baseline(test)}."
    return caption


def _mark_trained(axes: Iterable[Axes], test: Test) -> None:
    """Shade the buckets that are longer than all training examples."""
    n_buckets = len(test.buckets)
    beyond = [i for i, b in enumerate(test.buckets) if load.is_beyond(test, b)]
    for ax, label in zip(axes, ("longer than trained", ""), strict=False):
        ax.set_xlim(-0.5, n_buckets - 0.5)
        for edge in beyond[:1]:
            ax.axvspan(edge - 0.5, n_buckets - 0.5, color="#F5F2EA", lw=0, zorder=0)
            ax.axvline(edge - 0.5, color="#999999", lw=0.9, ls=(0, (2, 2)), zorder=1)
            _note(ax, 1, label, ha="right")


def _draw_metric(ax: Axes, lines: Sequence[Line], test: Test, name: str) -> None:
    """Draw one metric by bucket: per model a line, a band and whiskers for the seeds."""
    metric, is_gain, is_primary = metric_of(name), _is_gain(test), name == test.primary_metric
    n, buckets = np.array([b.n for b in test.buckets]), [*map(format_bucket, test.buckets)]
    is_recorded = False
    _title_panel(ax, test, name)
    for i, (line_style, group) in enumerate(lines):
        scores = load.score_array(group, test.name, name)
        seeds = scores[:, 1:]
        if is_gain:
            seeds = seeds - seeds[:, :1, :1]
            seeds = np.where([True, False, False], -seeds if metric.is_loss else seeds, np.nan)
        x = np.arange(len(n)) + min(0.12, 0.72 / len(lines)) * (i - (len(lines) - 1) / 2)
        _draw_line(ax, line_style, x, n, seeds)
        about = {"metric": metric.name, "model": line_style.label, "bucket": [*buckets, "all"]}
        about["n"] = [*n, sum(n)]
        is_recorded |= bool(np.isfinite(seeds[..., 0].mean(axis=0)).any())
    if is_primary and test.baseline:
        without = [b["baseline"].value for b in test.buckets]
        ax.plot(without, ls=":", lw=1.8, color=INK, zorder=5)
        about = {"metric": metric.name, "model": f"baseline: {load.name_baseline(test)}"}
    is_of_texts = metric.sacrebleu is not None
    if metric.is_percent and (is_of_texts or is_primary):
        ax.set_ylim(0, None if is_of_texts and ax.get_ylim()[1] < 50 else 100)
    ax.tick_params(axis="x", length=0)
    text = "" if is_recorded else "not recorded"
    ax.text(0.5, 0.5, text, transform=ax.transAxes, color=GREY, size=9, ha="center")


def _title_panel(ax: Axes, test: Test, name: str) -> None:
    """Write the metric of a panel above it, how it is measured, and which direction is better."""
    metric = metric_of(name)
    is_forced = metric.is_teacher_forced or test.beam is None
    note = ", teacher-forced" if is_forced else f", free-running{format_search(test)}"
    ax.set_title(name_score(test, name) + note, loc="left", pad=24)
    is_lower = metric.is_loss and not _is_gain(test)
    _note(ax, 0, "lower is better ↓" if is_lower else "higher is better ↑")


def _note(ax: Axes, x: float, text: str, **options: Any) -> None:
    """Write a small grey text above the panel and its markers, at x in axes coordinates."""
    options |= {"xycoords": "axes fraction", "color": GREY, "size": 9, "in_layout": False}
    ax.annotate(text, (x, 1), (0, 8), textcoords="offset points", **options)


def _draw_line(
    ax: Axes, line_style: LineStyle, x: np.ndarray, n: np.ndarray, seeds: np.ndarray
) -> None:
    """Draw the scores (seeds, buckets, 3) of one model at x, in buckets with n examples.

    The line ends at the last bucket with MIN_EXAMPLES; beyond it are only hollow markers.
    """
    mean, low, high = seeds.mean(axis=0).T
    enough = np.flatnonzero(np.isfinite(mean) & (n >= MIN_EXAMPLES))
    draw: Look = {"color": line_style.colour, "clip_on": False, "zorder": 4}
    solid = slice(enough[-1] + 1 if enough.size else 0)
    has_band = (n >= MIN_ROWS)[solid]
    ax.fill_between(
        x[solid], low[solid], high[solid], has_band, color=line_style.colour, alpha=0.16, lw=0
    )
    ax.plot(x[solid], mean[solid], ls=line_style.dashes, lw=1.9, **draw)
    by_seed = seeds[:, solid, 0]
    ax.vlines(x[solid], by_seed.min(axis=0), by_seed.max(axis=0), lw=1.1, **draw)
    for is_few, fill in ((False, line_style.colour), (True, "white")):
        look = draw | {"ms": 4.5 + 2 * (line_style.marker == "*"), "mew": 1.1, "zorder": 4.5}
        look |= {"ms": 3.5, "mew": 0.7, "alpha": 0.6} if is_few else {}
        mask = (n < MIN_EXAMPLES) == is_few
        ax.plot(x[mask], mean[mask], line_style.marker, mfc=fill, **look)


def _draw_counts(strip: Axes, test: Test) -> None:
    """Draw the number of examples of each bucket."""
    counts = [b.n for b in test.buckets]
    fills = ["white" if n < MIN_EXAMPLES else "#BDBDBD" for n in counts]
    bars = strip.bar(range(len(counts)), counts, 0.62, color=fills, edgecolor="#9A9A9A", lw=0.8)
    size = 6 if len(counts) >= 11 else 8
    strip.bar_label(bars, [*map(format_short, counts)], size=size, color=GREY, padding=1)
    strip.set_ylim(0, 1.9 * max(counts))
    strip.set_ylabel("n", rotation=0, labelpad=10, va="center", color=GREY)
    strip.set_yticks([])
    strip.spines["left"].set_visible(False)


def room_below(test: Test) -> float:
    """Return the inches for the names of the buckets, which are slanted if long, and of x."""
    return SLANTED if sum(len(format_bucket(b)) + 1 for b in test.buckets) > 34 else LEVEL


def _name_buckets(ax: Axes, test: Test) -> None:
    """Write the names of the buckets below an axis, slanted if they are long."""
    names = [*map(format_bucket, test.buckets)]
    is_crowded = room_below(test) > LEVEL
    rotation: Look = {"rotation": 38, "ha": "right"} if is_crowded else {}
    ax.set_xticks(range(len(names)), names, **rotation)
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel(test.axis)


# Curves and sizes


def draw_curves(records: Sequence[Record]) -> Figure:
    """Draw validation loss against target tokens, one line per seed."""
    is_many = len(records) > len(load.group_by_model(records))
    caption = f"On the validation split. {'Each line is one seed.' if is_many else 'One seed.'}"
    is_zero = any(point.valid_nats == 0 for r in records for point in r.curve)
    caption += " A line that leaves the panel: a loss of 0." * is_zero
    figure, ((ax,),) = style.make_panels(
        ("Learning curves", format_subtitle(records), caption),
        style.label_line_styles(records),
        n_columns=1,
    )
    line_styles = style.line_styles_for(load.group_by_model(records))
    style.set_log(ax, "y", format_short)
    for r in records:
        points = {key: [getattr(p, key) for p in r.curve] for key in Point.model_fields}
        line_style = line_styles[r.model]
        x, y = points["tokens"], points["valid_nats"]
        ax.plot(x, y, color=line_style.colour, ls=line_style.dashes, lw=1.4)
        end: Look = {"ms": 4.5, "clip_on": False, "zorder": 4}
        ax.plot(x[-1:], y[-1:], line_style.marker, color=line_style.colour, **end)
    ax.set_title("Nats per token, teacher-forced, log scale", loc="left")
    ax.set_xlim(0)
    ax.set_xlabel("target tokens")
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.xaxis.set_major_formatter(format_short)
    return figure


def draw_memory_size(records: Sequence[Record]) -> Figure:
    """Draw the bytes that the decoder gets against source length."""
    caption = (
        "For one source, in float32. Left: the vectors that the decoder's equations read. Right: "
        "all tensors that encode returns. Where lines coincide, their markers alternate."
    )
    is_limited = len({n for r in records for n, _ in (r.cache_bytes or ())[-1:]}) > 1
    caption += " A line ends at the longest source that the model takes." * is_limited
    texts = "Bytes for the decoder by source length", format_subtitle(records), caption
    groups = load.group_by_model(records)
    figure, axes = style.make_panels(texts, style.label_line_styles(records))
    axes[0, 1].sharey(axes[0, 0])
    for ax, (field, title) in zip(axes[0], SIZES.items(), strict=True):
        style.set_log(ax, "x", "{x:g}", base=2)
        style.set_log(ax, "y", partial(format_short, unit="B"))
        for i, (model, line_style) in enumerate(style.line_styles_for(groups).items()):
            if sizes := getattr(groups[model][0], field):
                S, size = np.array(sizes, float).T
                ax.plot(S, size, color=line_style.colour, ls=line_style.dashes, lw=1.8)
                marks: Look = {"ms": 5.5, "markevery": (i % 3, 3)}
                ax.plot(S, size, line_style.marker, color=line_style.colour, **marks)
        ax.set_title(title, loc="left")
        ax.set_xlabel("source length S (tokens)")
        ax.grid(True, axis="both")
        ax.tick_params(axis="y", pad=1)
    low, high = ax.get_ylim()
    ax.set_ylim((low, high) if high > 10 * low else (low / 3, 3 * high))  # all may be equal
    return figure


# Folders


def plot_folder(
    folder: Path | Folder, out: Path | None = None, own: Sequence[Draw] | None = None
) -> list[Path]:
    """Write all figures (SVG and PNG) and tables.md to `out` or the folder; return the paths.

    `own` draws the task's own figures; None: those of `task_figures`. If the sums of all records
    exist, significance.json is written as well.
    """
    folder = load.load_folder(folder) if isinstance(folder, Path) else folder
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
        "curves": partial(draw_curves, records),
        "state": partial(draw_memory_size, records),
        **effects.sweep_figures(records),
    }
    for name, test in load.tests_by_name(records).items():
        key = format_file_name(name)
        figures[f"score-{key}"] = partial(draw_scores, records, test)
        if (
            compared
            and (comparison := compared.on(name))
            and len(effects.find_effects(records, comparison)) > 1
        ):
            figures[f"effects-{key}"] = partial(effects.draw_effects, records, test, comparison)
    attending = load.group_by_model(r for r in records if r.alignment)
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


def plot_results(root: Path) -> list[Path]:
    """Draw a folder of records, or all folders in it and what tasks draw across folders."""
    paths = sorted({path.parent for path in root.glob("*/*.json")})
    folders = [load.load_folder(path, may_be_empty=True) for path in paths]
    folders = [folder for folder in folders if folder.records or folder.unknown]
    if not folders:
        return plot_folder(root)
    drawn = [path for folder in folders for path in plot_folder(folder.path)]
    with style.context():
        across = draw_across([*folder.records.values()] for folder in folders)
        return [*drawn, *style.save_own(across, root)]

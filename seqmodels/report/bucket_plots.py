"""Draw the figures of every comparison: scores, their differences, learning curves, sizes."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from seqmodels.evaluation.intervals import MIN_ROWS
from seqmodels.evaluation.metrics import metric_of
from seqmodels.records.schema import Point, Record, Test
from seqmodels.records.significance import Comparison, Difference
from seqmodels.report import load_records, style
from seqmodels.report.load_records import (
    MIN_EXAMPLES,
    Groups,
    format_bucket,
    format_ends,
    format_interval,
    format_interval_methods,
    format_search,
    format_short,
    format_signed,
    format_significance,
    format_subtitle,
    info_of,
)
from seqmodels.report.style import GREY, INK, WIDTH, LineStyle, Look, Texts

Line = tuple[LineStyle, Sequence[Record]]
"""The look of one model or system, and its records."""
MEMORIES = {
    "vector": "Dashed: source in one vector.",
    "grows": "Solid: attends to every word.",
    "fixed": "Dash-dotted: reads a memory of fixed size.",
}
"""Memory of a model -> its line style, in a caption."""
BETTER, WORSE = ("#A9D3EE", "#1B75BC"), ("#F6C9A0", "#E8741C")
"""Fills of cells and squares where the row is significantly better or worse than the column."""
OUTCOMES = {1: "significantly better", -1: "significantly worse", 0: "not significant"}
"""Outcome of a difference -> its name in a table."""
UNTESTED: Look = {"hatch": "////", "fc": "none", "ec": "#D4D4D4", "lw": 0}
"""The look of what is not tested."""
SIZES = {
    "source_bytes": "Passed to the decoder in the paper",
    "cache_bytes": "Kept by this implementation",
}
"""Fields of a record with sizes in bytes, and the titles of their panels."""
LEVEL, SLANTED = 0.5, 0.8
"""Inches below a panel with level and with slanted names of buckets."""

# Scores


def draw_scores(records: Sequence[Record], test: Test) -> Figure:
    """Draw the primary metric and a teacher-forced score by bucket, and the counts below."""
    primary = metric_of(test.primary_metric)
    is_loss = primary.is_loss and primary.is_teacher_forced
    metrics = (test.primary_metric, "token_accuracy" if is_loss else "nats")
    title = f"{name_score(test, test.primary_metric)} by {test.axis}"
    if test.name not in test.axis and len(load_records.tests_by_name(records)) > 1:
        title += f": {test.name.replace('_', ' ')}"
    line_styles = style.line_styles_for(load_records.group_by_model(records))
    labelled = dict(zip(line_styles, style.label_line_styles(records), strict=True))
    records = [r for r in records if r.test(test.name)]
    groups = load_records.group_by_model(records)
    key = [labelled[model] for model in groups]
    if _is_gain(test):
        without = [load_records.score_array(group, test.name, test.primary_metric)[:, 1, 0]
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
    groups, name = load_records.group_by_model(records), test.primary_metric
    texts = title, format_subtitle(records), _explain_scores(groups, test, (name,))
    figure, ax = style.make_panel(texts, below=room_below(test))
    _mark_trained([ax], test)
    lines = [(look, groups[model]) for model, look in style.line_styles_for(groups).items()]
    _draw_metric(ax, lines, test, name)
    _name_buckets(ax, test)
    last = max((i for i, b in enumerate(test.buckets) if b.n >= MIN_EXAMPLES), default=-1)
    ends = [load_records.score_array(g, test.name, name)[:, 1 + last, 0].mean() for _, g in lines]
    names = [(style.label_with_year(group[0]), look.colour) for look, group in lines]
    style.name_lines(ax, [(end, *name) for end, name in zip(ends, names, strict=True)])
    return figure


def name_score(test: Test, name: str) -> str:
    """Return the name of what is drawn of a metric: the score, or what context gains of it."""
    metric = metric_of(name)
    if not _is_gain(test):
        return load_records.capitalise(metric.name)
    gain = metric.name.replace(" (%)", ", gain (points)")
    return load_records.capitalise(f"{metric.unit} saved" if metric.is_loss else gain)


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
        caption += f" Dotted: {load_records.name_baseline(test)}."
    return caption


def _mark_trained(axes: Iterable[Axes], test: Test) -> None:
    """Shade the buckets that are longer than all training examples."""
    n_buckets = len(test.buckets)
    beyond = [i for i, b in enumerate(test.buckets) if load_records.is_beyond(test, b)]
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
        scores = load_records.score_array(group, test.name, name)
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
        about = {"metric": metric.name, "model": f"baseline: {load_records.name_baseline(test)}"}
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


# Differences


def draw_differences(records: Sequence[Record], test: Test, comparison: Comparison) -> Figure:
    """Draw a matrix of differences, row minus column, with a square for each bucket."""
    compared = {model for pair in comparison.pairs for model in (pair.row, pair.column)}
    line_styles = style.line_styles_for(load_records.group_by_model(records))
    line_styles = {model: its for model, its in line_styles.items() if model in compared}
    records = [record for record in records if record.model in compared]
    models, n, metric = [*line_styles], len(line_styles), comparison.metric
    cell_width = min(max((WIDTH - 1.7) / n, 1.12), 1.56)  # inches
    names = [textwrap.fill(look.label, min(16, int(13 * cell_width)), break_long_words=False)
             for look in line_styles.values()]  # fmt: skip
    name_height = 0.15 * (1 + max(1, *(name.count("\n") for name in names)))  # inches
    body = 0.2 + name_height + max(0.74, name_height + 0.1) * n
    texts = _difference_texts(records, test, comparison)
    figure = style.make_figure(body, texts, max(WIDTH, 1.7 + n * cell_width))
    ax = figure.subplots()
    ax.xaxis.tick_top()
    ax.set_xticks(np.arange(n) + 0.5, names, weight="bold")
    ax.set_yticks(np.arange(n) + 0.5, names, weight="bold")
    for labels in (ax.get_xticklabels(), ax.get_yticklabels()):
        for label, line_style in zip(labels, line_styles.values(), strict=True):
            label.set_color(line_style.colour)
    ax.tick_params(length=0)
    ax.grid(False)
    ax.spines[:].set_visible(False)
    outcomes = np.full((n, n), np.nan)
    for pair in comparison.pairs:
        parts = [pair.overall, *(pair.buckets if pair.is_tested else ())]
        for row, column, differences in (
            (pair.row, pair.column, parts),
            (pair.column, pair.row, [-part for part in parts]),
        ):
            y, x = models.index(row), models.index(column)
            if pair.is_tested:
                outcomes[y, x] = outcome(differences[0], metric)
            else:
                ax.add_patch(Rectangle((x, y), 1, 1, **UNTESTED))
            _write_cell(ax, x, y, differences, metric, cell_width)
    colours = ListedColormap([WORSE[0], "white", BETTER[0]])
    ax.pcolormesh(outcomes, cmap=colours, vmin=-1, vmax=1, edgecolors="#CFCFCF", lw=0.8)
    ax.set(xlim=(0, n), ylim=(n, 0))
    return figure


def outcome(difference: Difference, metric: str) -> int:
    """Return 1 if significantly better, -1 if worse, 0 if not significant."""
    if not difference.is_significant:
        return 0
    return 1 if (difference.value < 0) == metric_of(metric).is_loss else -1


def _write_cell(
    ax: Axes, x: int, y: int, parts: Sequence[Difference], metric: str, cell_width: float
) -> None:
    """Write a difference over all examples, above a square for each bucket that is tested."""
    overall, *buckets = parts
    centred: Look = {"ha": "center", "va": "center"}
    strong: Look = {"color": GREY}
    if overall.is_significant:
        strong = {"color": INK, "weight": "bold"}
    ax.text(x + 0.5, y + 0.27, format_signed(overall.value, metric), size=11, **strong, **centred)
    ax.text(x + 0.5, y + 0.55, format_interval(overall, metric), color=GREY, size=8, **centred)
    if not buckets:
        return
    step = min(0.12 / cell_width, 0.9 / len(buckets))
    places = x + 0.5 + step * (np.arange(len(buckets)) - (len(buckets) - 1) / 2)
    fills = [("white", BETTER[1], WORSE[1])[outcome(bucket, metric)] for bucket in buckets]
    size = (0.8 * 72 * step * cell_width) ** 2  # in square points
    ax.scatter(
        places, [y + 0.82] * len(buckets), size, fills, marker="s", edgecolors="#8A8A8A",
        linewidths=0.6, zorder=3,
    )  # fmt: skip


def _difference_texts(records: Sequence[Record], test: Test, comparison: Comparison) -> Texts:
    """Return title, subtitle and caption."""
    metric = metric_of(comparison.metric)
    title = f"Differences in {metric.name}: the model of the row minus that of the column"
    tested = [pair for pair in comparison.pairs if pair.is_tested]
    name = test.name.replace("_", " ")
    caption = f"Over all {test.noun} of the test set “{name}”. Brackets: 95 % interval. "
    cells = {outcome(pair.overall, comparison.metric) for pair in tested}
    cells |= {-value for value in cells}  # below the diagonal
    caption += explain_outcomes(cells, len(tested) < len(comparison.pairs), "plain")
    if tested:
        buckets = " to ".join(format_ends(*comparison.buckets[i]) for i in (0, -1))
        caption += f" Squares: the same by {test.axis}, {buckets}."
    return title, format_subtitle(records), f"{caption} {format_significance(comparison, test)}"


def explain_outcomes(outcomes: Collection[int], has_untested: bool, neither: str) -> str:
    """Explain the colours of these outcomes, and the hatch of what is not tested."""
    colours = {1: "blue", -1: "orange", 0: neither}
    parts = [f"{colours[value]}: {OUTCOMES[value]}" for value in colours if value in outcomes]
    parts += ["hatched: not tested"] * has_untested
    return load_records.capitalise("; ".join(parts)) + "."


# Curves and sizes


def draw_curves(records: Sequence[Record]) -> Figure:
    """Draw validation loss against target tokens, one line per seed."""
    is_many = len(records) > len(load_records.group_by_model(records))
    caption = f"On the validation split. {'Each line is one seed.' if is_many else 'One seed.'}"
    is_zero = any(point.valid_nats == 0 for r in records for point in r.curve)
    caption += " A line that leaves the panel: a loss of 0." * is_zero
    figure, ((ax,),) = style.make_panels(
        ("Learning curves", format_subtitle(records), caption),
        style.label_line_styles(records),
        n_columns=1,
    )
    line_styles = style.line_styles_for(load_records.group_by_model(records))
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
    groups = load_records.group_by_model(records)
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

"""Draw what every comparison has: scores and their differences, learning curves, sizes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from seqmodels.evaluation.intervals import MIN_ROWS
from seqmodels.evaluation.metrics import metric_of
from seqmodels.models import papers
from seqmodels.records.significance import Comparison, Difference
from seqmodels.report import reading, style
from seqmodels.report.reading import (
    MIN_EXAMPLES,
    Record,
    bucket_name,
    format_interval,
    format_significance,
    interval_methods,
    label_of,
    negated,
    noun,
    search_method,
    short,
    signed,
    subtitle,
    topic,
)
from seqmodels.report.style import FURTHER, GREY, INK, LOOKS, MARKERS, WIDTH, Look

Line = tuple[Look, Sequence[Record]]
"""The look of one model or system, and its records."""
DASHES = {
    "vector": "Dashed: source in one vector.",
    "grows": "Solid: attends to every word.",
    "fixed": "Dash-dotted: attends to every word through a memory of fixed size.",
}
"""Memory of a model -> what its line looks like."""


def draw_scores(records: Sequence[Record], test: dict[str, Any]) -> Figure:
    """Draw the primary metric and a teacher-forced score by bucket, and the counts below."""
    name, primary = test["name"], test["primary_metric"]
    title = topic(records, test)
    records = [r for r in records if any(t["name"] == name for t in r["tests"])]
    groups = reading.by_model(records)
    lines = [(look, groups[model]) for model, look in style.looks(groups).items()]
    metric = metric_of(primary)
    second = "token_accuracy" if metric.is_loss and metric.is_teacher_forced else "nats"
    key = style.key_of(records)
    is_gain = _is_gain(test)
    units = test.get("grouped_by") or noun(records)
    how = f"({interval_methods(records, (primary, second))}) over {units}"
    caption = f"{_spread(records, how, is_gain)} {_bars(test, noun(records))}"
    if is_gain:
        without = [reading.scores(group, name, primary)[:, 1, 0].mean() for _, group in lines]
        key = [k._replace(label=f"{k.label} · {x:.2f}") for k, x in zip(key, without, strict=True)]
        caption += f" Key: parameters and, without context, {metric.name}."
    memories = {paper.memory for model, paper in papers().items() if model in groups}
    if len(memories) > 1:
        caption += "".join(f" {text}" for kind, text in DASHES.items() if kind in memories)
    if test.get("baseline"):
        caption += f" Dotted: {test['baseline']}."
    notes = {m: _how(test, m) for m in (primary, second)}
    return _draw_buckets((title, subtitle(records), caption), key, lines, test, notes)


def _is_gain(test: dict[str, Any]) -> bool:
    """Return whether to draw the gain from context, which is that of a loss."""
    return bool(test["kind"] == "context") and metric_of(test["primary_metric"]).is_loss


def _spread(records: Sequence[Record], how: str, is_gain: bool) -> str:
    """Explain lines, bands and whiskers."""
    is_many = len(records) > len(reading.by_model(records))
    seeds = "Line: mean of the seeds; whisker: lowest to highest seed" if is_many else "One seed"
    if is_gain:
        text = "no intervals, because the records hold those of the scores, not of the gains."
        return f"Gain: the score with context minus that without. {seeds}; {text}"
    averaged = ", its ends averaged over the seeds" if is_many else ""
    return f"{seeds}; band: 95 % interval {how}{averaged}."


def _bars(test: dict[str, Any], examples: str) -> str:
    """Explain the bars, and count the buckets with few examples."""
    n_thin = sum(b["n"] < MIN_EXAMPLES for b in test["buckets"])
    text = f"Bars: number n of {examples}."
    if n_thin:
        have = f"{n_thin} of {len(test['buckets'])} buckets {'has' if n_thin == 1 else 'have'}"
        text += f" Hollow: fewer than {MIN_EXAMPLES} ({have}); lines end before."
    return text


def _draw_buckets(
    texts: tuple[str, str, str],
    key: Sequence[Look],
    lines: Sequence[Line],
    test: dict[str, Any],
    metrics: Mapping[str, str],
) -> Figure:
    """Draw two metrics, with the notes on their titles, against the buckets of a test set."""
    figure, axes = style.panels(texts, key, (5.6, 0.9), 0.8 if _is_crowded(test) else 0.45)
    for column, (metric, note) in enumerate(metrics.items()):
        _mark_trained(axes[:, column], test)
        _draw_metric(axes[0, column], lines, test, metric)
        _title_panel(axes[0, column], test, metric, note)
        _draw_counts(axes[1, column], test)
    _mark_buckets(axes.ravel(), len(test["buckets"]))
    return figure


def _mark_buckets(axes: Iterable[Axes], n_buckets: int) -> None:
    """Lay an invisible area over each bucket, by which a page can choose it: bucket-3, bucket-3b.

    An id occurs once in a file, so that those of the further axes end in a letter.
    """
    for ax, letter in zip(axes, ("", *"bcd"), strict=True):
        for i in range(n_buckets):
            ax.axvspan(i - 0.5, i + 0.5, fc="none", ec="none", gid=f"bucket-{i}{letter}")


def draw_systems(systems: Sequence[dict[str, Any]], about: str) -> Figure:
    """Draw BLEU and chrF by source length for external systems: {name, overall, buckets} each.

    Only the first MAX_SYSTEMS systems are drawn; the caption says so.
    """
    colours = [*(colour for colour, _ in LOOKS.values()), *FURTHER]
    fixed: dict[str, Any] = {"name": "length", "kind": "length", "axis": "source length (words)"}
    fixed |= {"unit": "words", "primary_metric": "bleu", "max_train_length": None}
    lines: list[Line] = []
    key = []
    for system, colour, marker in zip(systems, colours, MARKERS, strict=False):
        look = Look(system["name"], colour, "-", marker)
        bleu = system["overall"]["bleu"]["value"]
        test = {"overall": system["overall"], "buckets": system["buckets"], **fixed}
        lines.append((look, [{"tests": [test]}]))
        key.append(look._replace(label=f"{look.label} · {bleu:.1f}"))
    caption = f"Band: 95 % interval (BCa bootstrap) over sentences. {_bars(test, 'sentences')} "
    caption += "Key: overall BLEU."
    if len(systems) > len(lines):
        caption += f" The first {len(lines)} of {len(systems)} systems."
    texts = "BLEU and chrF by source length", about, caption
    return _draw_buckets(texts, key, lines, test, {"bleu": "", "chrf": ""})


def _mark_trained(axes: Iterable[Axes], test: dict[str, Any]) -> None:
    """Shade the buckets that are longer than all training examples."""
    n_buckets = len(test["buckets"])
    beyond = [i for i, b in enumerate(test["buckets"]) if reading.is_beyond(test, b)]
    for ax, label in zip(axes, ("longer than trained", ""), strict=True):
        ax.set_xlim(-0.5, n_buckets - 0.5)
        for edge in beyond[:1]:
            ax.axvspan(edge - 0.5, n_buckets - 0.5, color="#F5F2EA", lw=0, zorder=0)
            ax.axvline(edge - 0.5, color="#999999", lw=0.9, ls=(0, (2, 2)), zorder=1)
            ax.text(1, 1.02, label, transform=ax.transAxes, ha="right", color=GREY, size=9)


def _draw_metric(ax: Axes, lines: Sequence[Line], test: dict[str, Any], metric: str) -> None:
    """Draw one metric by bucket: per model a line, a band and whiskers for the seeds."""
    n = np.array([b["n"] for b in test["buckets"]])
    is_recorded = False
    for i, (look, group) in enumerate(lines):
        x = np.arange(len(n)) + 0.06 * (i - (len(lines) - 1) / 2)
        is_recorded |= _draw_line(ax, look, x, n, _by_bucket(group, test, metric))
    if metric == test["primary_metric"] and test.get("baseline"):
        without = [b["baseline"]["value"] for b in test["buckets"]]
        ax.plot(without, ls=":", lw=1.8, color=INK, zorder=5)
    is_of_texts = metric_of(metric).sacrebleu is not None
    if (top := metric_of(metric).top) and (is_of_texts or metric == test["primary_metric"]):
        ax.set_ylim(0, None if is_of_texts and ax.get_ylim()[1] < 50 else top)
    ax.tick_params(labelbottom=False, length=0)
    ax.text(0.5, 0.5, "" if is_recorded else "not recorded", transform=ax.transAxes, ha="center")


def _by_bucket(group: Sequence[Record], test: dict[str, Any], metric: str) -> np.ndarray:
    """Return (seeds, buckets, 3): score, low, high; or gains from context without intervals."""
    seeds = reading.scores(group, test["name"], metric)[:, 1:]
    if _is_gain(test):
        gains = (seeds[:, :1, 0] - seeds[..., 0]) * (1 if metric_of(metric).is_loss else -1)
        seeds = np.stack([gains, np.full_like(gains, np.nan), np.full_like(gains, np.nan)], -1)
    return seeds


def _draw_line(ax: Axes, look: Look, x: np.ndarray, n: np.ndarray, seeds: np.ndarray) -> bool:
    """Draw (seeds, buckets, 3) of buckets with n examples at x; return whether there is a score.

    A line ends at the last bucket with MIN_EXAMPLES; beyond it are only hollow markers.
    """
    mean, low, high = seeds.mean(axis=0).T
    known = np.flatnonzero(np.isfinite(mean))
    enough = known[n[known] >= MIN_EXAMPLES]
    draw: dict[str, Any] = {"color": look.colour, "clip_on": False, "zorder": 4}
    to = slice(enough[-1] + 1 if enough.size else 0)
    band = (n >= MIN_ROWS)[to]
    ax.fill_between(x[to], low[to], high[to], band, color=look.colour, alpha=0.16, lw=0)
    ax.plot(x[to], mean[to], ls=look.dashes, lw=1.9, **draw)
    ax.vlines(x[to], seeds[:, to, 0].min(axis=0), seeds[:, to, 0].max(axis=0), lw=1.1, **draw)
    for where, fill in ((n >= MIN_EXAMPLES, look.colour), (n < MIN_EXAMPLES, "white")):
        ax.plot(x[where], mean[where], look.marker, ms=4.5, mfc=fill, mew=1.1, **draw)
    return bool(known.size)


def _title_panel(ax: Axes, test: dict[str, Any], metric: str, note: str) -> None:
    """Write the metric of a panel above it, and which direction is better."""
    is_gain, known = _is_gain(test), metric_of(metric)
    title = known.name
    if is_gain:
        title = f"{known.unit} saved" if known.is_loss else title.replace(" (%)", ", gain (points)")
    ax.set_title(title + note, loc="left", size=10.5, pad=19)
    better = "lower is better ↓" if known.is_loss and not is_gain else "higher is better ↑"
    ax.text(0, 1.02, better, transform=ax.transAxes, color=GREY, size=9)


def _how(test: dict[str, Any], metric: str) -> str:
    """Return whether a score is teacher-forced, as a suffix."""
    is_forced = metric_of(metric).is_teacher_forced or test.get("beam") is None
    return ", teacher-forced" if is_forced else f", free-running{search_method(test)}"


def _is_crowded(test: dict[str, Any]) -> bool:
    """Return whether the names of the buckets must be rotated to fit below a panel."""
    return sum(len(bucket_name(b)) + 1 for b in test["buckets"]) > 34


def _draw_counts(strip: Axes, test: dict[str, Any]) -> None:
    """Draw the number of examples of each bucket, and the names of the buckets."""
    counts, names = [b["n"] for b in test["buckets"]], [bucket_name(b) for b in test["buckets"]]
    fills = ["white" if n < MIN_EXAMPLES else "#BDBDBD" for n in counts]
    bars = strip.bar(range(len(counts)), counts, 0.62, color=fills, edgecolor="#9A9A9A", lw=0.8)
    strip.bar_label(bars, [short(n) for n in counts], size=8, color=GREY, padding=1)
    strip.set_ylim(0, 1.9 * max(counts))
    strip.set_ylabel("n", rotation=0, labelpad=10, va="center", color=GREY)
    strip.set_yticks([])
    strip.spines["left"].set_visible(False)
    turn: dict[str, Any] = {"rotation": 38, "ha": "right"} if _is_crowded(test) else {}
    strip.set_xticks(range(len(names)), names, **turn)
    strip.tick_params(axis="x", length=0)
    strip.set_xlabel(test["axis"])


# Differences

BETTER, WORSE = ("#A9D3EE", "#1B75BC"), ("#F6C9A0", "#E8741C")
"""Fills of cells and squares where the row is significantly better or worse than the column."""
LEFT, WIDE, TALL, SQUARE = 1.55, (1.12, 1.56), 0.74, 0.1
"""In inches: names of the rows, least and largest width of a cell, its height, and a square."""

ROW = 16
"""Characters in a line of a model's name."""


def draw_differences(
    records: Sequence[Record], test: dict[str, Any], comparison: Comparison
) -> Figure:
    """Draw a matrix: row minus column over all examples, and a square for each bucket."""
    records = [record for record in records if record["model"] in models_of(comparison)]
    models = [*reading.by_model(records)]
    n = len(models)
    wide = min(max((WIDTH - LEFT - 0.15) / n, WIDE[0]), WIDE[1])
    width = max(WIDTH, LEFT + n * wide + 0.15)
    names = [textwrap.fill(label_of(model), ROW) for model in models]
    above = 0.2 + 0.16 * max(name.count("\n") + 1 for name in names)
    about = _difference_texts(records, test, comparison)
    figure, bottom, _ = style.canvas(above + TALL * n, *about, width)
    height = figure.get_figheight()
    place = LEFT / width, bottom + 0.05 / height, n * wide / width, TALL * n / height
    ax = figure.add_axes(place)
    ax.set(xlim=(0, n), ylim=(n, 0), xticks=[], yticks=[])
    ax.grid(False)
    ax.spines[:].set_visible(False)
    looks = style.looks(models)
    for i, (model, name) in enumerate(zip(models, names, strict=True)):
        font: dict[str, Any] = {"color": looks[model].colour, "weight": "bold", "size": 9}
        font["linespacing"] = 1.05
        ax.text(-0.08 / wide, i + 0.5, name, ha="right", va="center", **font)
        ax.text(i + 0.5, -0.06, name, ha="center", va="bottom", **font)
    for pair in comparison.pairs:
        row, column = models.index(pair.row), models.index(pair.column)
        parts = [pair.overall, *pair.buckets]
        _draw_cell(ax, (row, column), parts, comparison.metric, SQUARE / wide)
        _draw_cell(ax, (column, row), [*map(negated, parts)], comparison.metric, SQUARE / wide)
    return figure


def models_of(comparison: Comparison) -> set[str]:
    """Return the models that are compared."""
    return {model for pair in comparison.pairs for model in (pair.row, pair.column)}


def _draw_cell(
    ax: Axes, place: tuple[int, int], parts: Sequence[Difference], metric: str, wide: float
) -> None:
    """Write a difference over all examples, above a square for each bucket, at (row, column)."""
    (y, x), (overall, *buckets) = place, parts
    colour = fill(overall, metric)
    ax.add_patch(Rectangle((x + 0.02, y + 0.03), 0.96, 0.94, fc=colour, ec="#CFCFCF"))
    centred: dict[str, Any] = {"ha": "center", "va": "center"}
    strong: dict[str, Any] = {"color": GREY}
    if overall.is_significant:
        strong = {"color": INK, "weight": "bold"}
    ax.text(x + 0.5, y + 0.27, signed(overall.value, metric), size=11, **strong, **centred)
    ax.text(x + 0.5, y + 0.55, format_interval(overall, metric), color=GREY, size=8, **centred)
    step = min(1.2 * wide, 0.9 / len(buckets))
    for i, bucket in enumerate(buckets):
        left = x + 0.5 + step * (i - len(buckets) / 2 + 0.08)
        colour = fill(bucket, metric, is_small=True)
        square = Rectangle((left, y + 0.75), 0.84 * step, SQUARE / TALL, fc=colour, ec="#8A8A8A")
        square.set_linewidth(0.6)
        ax.add_patch(square)


def fill(found: Difference, metric: str, is_small: bool = False) -> str:
    """Return the colour of a difference; small areas get stronger ones."""
    if not found.is_significant:
        return "white"
    is_better = (found.value < 0) == metric_of(metric).is_loss
    return (BETTER if is_better else WORSE)[is_small]


def _difference_texts(
    records: Sequence[Record], test: dict[str, Any], comparison: Comparison
) -> tuple[str, str, str]:
    """Return title, subtitle and caption."""
    metric, units = metric_of(comparison.metric), test.get("grouped_by") or noun(records)
    title = f"Differences in {metric.name}: the model of the row minus that of the column"
    names = [bucket_name({"low": low, "high": high}) for low, high in comparison.buckets]
    caption = (
        f"Over all {noun(records)} of the test set {test['name']}. Brackets: 95 % interval, not "
        "corrected. Blue: the row is significantly better; orange: worse; white: not significant "
        f"at 5 %. Squares: the same by {test['axis']}, {names[0]} to {names[-1]}. "
    )
    return title, subtitle(records), caption + format_significance(comparison, units)


# Curves and sizes

FIELDS = {"tokens": "target tokens", "seconds": "seconds of training"}
SIZES = {
    "source_bytes": "Passed to the decoder in the paper",
    "cache_bytes": "Kept by this implementation",
}
"""Fields of a record with sizes in bytes, and the titles of their panels."""
Sizes = Mapping[str, np.ndarray]
"""Model -> (2, lengths): source lengths in tokens, and bytes."""


def draw_curves(records: Sequence[Record]) -> Figure:
    """Draw validation loss against target tokens and against time, one line per seed."""
    title = "Learning curves: validation loss by target tokens and by time"
    caption = "Each line is one seed; teacher-forced loss on the validation split, log scale."
    texts = title, subtitle(records), caption
    figure, axes = style.panels(texts, style.key_of(records), (6,), 0.45)
    looks = style.looks(reading.by_model(records))
    for ax, (field, label) in zip(axes[0], FIELDS.items(), strict=True):
        ax.set_yscale("log")
        for r in (r for r in records if r["curve"]):
            look = looks[r["model"]]
            x, y = ([p[k] for p in r["curve"]] for k in (field, "valid_nats"))
            ax.plot(x, y, color=look.colour, ls=look.dashes, lw=1.4)
            ax.plot(x[-1:], y[-1:], look.marker, color=look.colour, ms=4.5, clip_on=False, zorder=4)
        ax.set_title("nats per token, teacher-forced", loc="left", size=10.5)
        ax.set_xlim(0)
        ax.set_xlabel(label)
        ax.xaxis.set_major_locator(MaxNLocator(5))
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.minorticks_off()
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(FuncFormatter(short))
    return figure


def draw_state(records: Sequence[Record]) -> Figure:
    """Draw bytes against source length; coincident lines alternate their dashes."""
    caption = (
        "For one source, in float32. Left: the vectors that the decoder's equations read. Right: "
        "all tensors that encode returns, such as the keys and values of every layer. Lines that "
        "coincide alternate in colour."
    )
    texts = "Bytes for the decoder by source length", subtitle(records), caption
    groups = reading.by_model(records)
    figure, axes = style.panels(texts, style.key_of(records), (6.5,), 0.5)
    for ax, (key, name) in zip(axes[0], SIZES.items(), strict=True):
        _draw_sizes(ax, {m: np.array(g[0][key], float).T for m, g in groups.items() if g[0][key]})
        ax.set_title(name, loc="left", size=10.5)
    low, high = (pick(ax.get_ylim()[i] for ax in axes[0]) for i, pick in enumerate((min, max)))
    for ax in axes[0]:
        ax.set_ylim(low, high)
    return figure


def _draw_sizes(ax: Axes, sizes: Sizes) -> None:
    """Draw one line per model."""
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    for model, look in style.looks(sizes).items():
        S, size = sizes[model]
        same = [m for m, other in sizes.items()
                if other.shape == sizes[model].shape
                and np.allclose(other, sizes[model], rtol=0.06)]  # fmt: skip
        k, n = same.index(model), len(same)
        dashes = (5 * k, (5, 5 * (n - 1))) if n > 1 else look.dashes
        ax.plot(S, size, color=look.colour, ls=dashes, lw=2.2, dash_capstyle="butt")
        ax.plot(S, size, look.marker, color=look.colour, ms=5.5, markevery=(k, n), zorder=4)
    ax.set_xlabel("source length S (tokens)")
    ax.grid(True, axis="both")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: short(v, unit="B")))
    ax.minorticks_off()
    ax.tick_params(axis="y", pad=1)

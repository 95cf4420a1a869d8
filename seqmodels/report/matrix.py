"""Draw the differences between all pairs of models on one test set, and which are significant."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from seqmodels.evaluation.metrics import metric_of
from seqmodels.evaluation.significance import Difference
from seqmodels.records.significance import Comparison
from seqmodels.report import layout, reading, style
from seqmodels.report.format import (
    bucket_name,
    format_interval,
    format_significance,
    label_of,
    noun,
    signed,
    subtitle,
)
from seqmodels.report.reading import Record
from seqmodels.report.style import GREY, INK, WIDTH

BETTER, WORSE = ("#A9D3EE", "#1B75BC"), ("#F6C9A0", "#E8741C")
"""Fills of cells and squares where the row is significantly better or worse than the column."""
LEFT, WIDE, TALL, SQUARE = 1.55, (1.12, 1.56), 0.74, 0.1
"""In inches: names of the rows, least and largest width of a cell, its height, and a square."""

ROW = 16
"""Characters in a line of a model's name."""


def draw(records: Sequence[Record], test: dict[str, Any], comparison: Comparison) -> Figure:
    """Draw a matrix: row minus column over all examples, and a square for each bucket."""
    records = [record for record in records if record["model"] in models_of(comparison)]
    models = [*reading.by_model(records)]
    n = len(models)
    wide = min(max((WIDTH - LEFT - 0.15) / n, WIDE[0]), WIDE[1])
    width = max(WIDTH, LEFT + n * wide + 0.15)
    names = [textwrap.fill(label_of(model), ROW) for model in models]
    above = 0.2 + 0.16 * max(name.count("\n") + 1 for name in names)
    about = _texts(records, test, comparison)
    figure, bottom, _ = layout.canvas(above + TALL * n, *about, width)
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


def negated(found: Difference) -> Difference:
    """Return column minus row."""
    low, high = (None if end is None else -end for end in (found.high, found.low))
    return found.model_copy(update={"value": -found.value, "low": low, "high": high})


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


def _texts(
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

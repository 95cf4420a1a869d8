"""Draw the differences between all pairs of models on one test set, and which are significant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from seqmodels.metrics.table import metric_of
from seqmodels.records.significance import Comparison, Difference, Pair
from seqmodels.report import layout, reading, style, wording
from seqmodels.report.findings import bucket_name, label_of
from seqmodels.report.reading import Record
from seqmodels.report.style import GREY, INK, WIDTH

BETTER, WORSE = "#A9D3EE", "#F6C9A0"
"""Fills of a row that is significantly better or worse than its column."""
LEFT, CELL = 1.55, 0.74
"""In inches: the width of the names of the rows, and the height of a cell."""


def draw(records: Sequence[Record], test: dict[str, Any], comparison: Comparison) -> Figure:
    """Draw a matrix: row minus column over all examples, and a square for each bucket."""
    models = [model for model in reading.by_model(records) if model in models_of(comparison)]
    n = len(models)
    figure, bottom, _ = layout.canvas(0.45 + CELL * n, *texts(records, test, comparison))
    height = figure.get_figheight()
    place = LEFT / WIDTH, bottom + 0.05 / height, 1 - (LEFT + 0.15) / WIDTH, CELL * n / height
    ax = figure.add_axes(place)
    ax.set(xlim=(0, n), ylim=(n, 0), xticks=[], yticks=[])
    ax.grid(False)
    ax.spines[:].set_visible(False)
    names = layout.brief([label_of(model) for model in models])
    looks = style.looks(models)
    for i, (model, name) in enumerate(zip(models, names, strict=True)):
        font: dict[str, Any] = {"color": looks[model].colour, "weight": "bold", "size": 9.5}
        ax.text(-0.06, i + 0.5, name, ha="right", va="center", **font)
        ax.text(i + 0.5, -0.06, name, ha="center", va="bottom", **font)
    is_loss = metric_of(comparison.metric).is_loss
    cells = {(pair.row, pair.column): (pair, 1) for pair in comparison.pairs}
    cells |= {(pair.column, pair.row): (pair, -1) for pair in comparison.pairs}
    for (row, column), (pair, sign) in cells.items():
        corner = models.index(column), models.index(row)
        draw_cell(ax, corner, pair, sign, comparison.metric, -sign if is_loss else sign)
    return figure


def models_of(comparison: Comparison) -> set[str]:
    """Return the models that are compared."""
    return {model for pair in comparison.pairs for model in (pair.row, pair.column)}


def draw_cell(
    ax: Axes, corner: tuple[int, int], pair: Pair, sign: int, metric: str, better: int
) -> None:
    """Draw sign × the difference of a pair; it is better where better × the difference is > 0."""
    x, y = corner
    found = pair.overall
    ax.add_patch(Rectangle((x + 0.02, y + 0.03), 0.96, 0.94, fc=fill(found, better), ec="#CFCFCF"))
    ink = INK if found.is_significant else GREY
    weight = "bold" if found.is_significant else "normal"
    place: dict[str, Any] = {"ha": "center", "va": "center"}
    ax.text(x + 0.5, y + 0.27, wording.signed(sign * found.value, metric), color=ink, weight=weight,
            size=11, **place)  # fmt: skip
    ax.text(x + 0.5, y + 0.55, wording.between(found, sign, metric), color=GREY, size=8, **place)
    wide = min(0.1, 0.84 / len(pair.buckets))
    start = x + 0.5 - wide * len(pair.buckets) / 2
    for i, bucket in enumerate(pair.buckets):
        square = (start + wide * (i + 0.1), y + 0.75), 0.8 * wide, 0.13
        ax.add_patch(
            Rectangle(*square, fc=fill(bucket, better, is_strong=True), ec="#8A8A8A", lw=0.6)
        )


def fill(found: Difference, better: int, is_strong: bool = False) -> str:
    """Return the colour of a difference."""
    if not found.is_significant:
        return "white"
    is_better = better * found.value > 0
    if is_strong:
        return "#1B75BC" if is_better else "#E8741C"
    return BETTER if is_better else WORSE


def texts(
    records: Sequence[Record], test: dict[str, Any], comparison: Comparison
) -> tuple[str, str, str]:
    """Return title, subtitle and caption."""
    metric, noun = metric_of(comparison.metric), wording.noun(records)
    several = [pair for pair in comparison.pairs if min(pair.n_seeds) > 1]
    n_significant = sum(pair.overall.is_significant for pair in several)
    title = (
        f"{metric.label} differs significantly between {n_significant} of {len(several)} pairs of "
        "models" if several else
        f"{metric.label}: one seed per model does not show whether architectures differ"
    )  # fmt: skip
    which = "" if test["name"] in test["axis"] else f"{test['name']}: "
    subtitle = f"{which}{metric.name} of the row minus that of the column, over all {noun}"
    names = [bucket_name({"low": low, "high": high}) for low, high in comparison.buckets]
    units = test.get("grouped_by") or noun
    caption = (
        "Brackets: 95 % interval. Blue: the row is significantly better; orange: worse; white: not "
        f"significant at 5 %. Squares: the same by {test['axis']}, {names[0]} to {names[-1]}. "
    )
    caption += wording.tested(comparison, units)
    return title, f"{subtitle}\n{wording.subtitle(records)}", caption

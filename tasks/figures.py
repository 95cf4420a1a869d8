"""What the figures of several tasks share. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seqmodels.records.schema import Record, Test
from seqmodels.report import style
from seqmodels.report.load import rows_of
from seqmodels.report.style import GREY, LineStyle

CHANGES = {
    "ending": "#009B77", "choice": "#C98200", "order": "#1B75BC", "omission": "#8A8A8A",
    "addition": "#D5D5D5",
}  # fmt: skip
"""The colour of each kind of changed word."""


def make_grid(
    texts: style.Texts, n: int, n_columns: int, height: float, key: Sequence[LineStyle]
) -> tuple[Figure, list[Axes]]:
    """Return a figure of n panels of this height in inches, beside a legend."""
    n_rows = -(-n // n_columns)
    figure = style.make_figure(height * n_rows, texts)
    axes = figure.subplots(n_rows, n_columns, squeeze=False).flatten()
    for ax in axes[n:]:
        ax.set_axis_off()
    style.add_legend(figure, key, loc="outside right upper")
    return figure, [*axes[:n]]


def average(group: Sequence[Record], analysis: str, *names: str, **columns: Any) -> np.ndarray:
    """Return columns of an analysis, (names, rows), as means over the seeds of a model.

    The rows are those that have these values in `columns`; a value that a row lacks is nan.
    """
    by_seed = [
        [[row.get(name, np.nan) for row in rows_of(r, analysis, **columns)] for name in names]
        for r in group
    ]
    return np.array(
        [[fmean(seeds) for seeds in zip(*rows, strict=True)] for rows in zip(*by_seed, strict=True)]
    )


def draw_with_band(
    ax: Axes, line_style: LineStyle, x: Sequence[float] | np.ndarray, scores: np.ndarray
) -> None:
    """Draw a line of scores (points, 3), value, low and high, with a band of its intervals."""
    value, low, high = scores.T
    ax.fill_between(x, low, high, color=line_style.colour, alpha=0.16, lw=0)
    ax.plot(
        x, value, line_style.marker, color=line_style.colour, ls=line_style.dashes, lw=1.8, ms=4
    )


def mark_trained(ax: Axes, test: Test) -> None:
    """Mark the longest texts of training on an axis that has a place for each bucket."""
    if longest := test.max_train_length:
        n_trained = sum(bucket.high <= longest for bucket in test.buckets)
        ax.axvline(n_trained - 0.5, color=GREY, lw=0.8, ls=":")

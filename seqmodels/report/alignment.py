"""Draw alignments as heat maps side by side, with the tokens at their edges."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from seqmodels.records.schema import Alignment, Record
from seqmodels.report import style
from seqmodels.report.style import GREY, WIDTH, LineStyle

LEAST, MOST, ROOM = 0.15, 0.24, WIDTH - 2
"""Inches: the smallest and largest cell, and the room for cells beside each other."""
Panel = tuple[LineStyle, Alignment]
"""The look of a model, and its alignment."""


def draw_alignment(panel: Panel, path: Path) -> Path:
    """Draw the heat map of one model; write .svg or .png.

    Raises ValueError for other kinds of files.
    """
    with style.context():
        return style.save(draw_heat_maps([panel]), Path(path))


def draw_heat_maps(panels: Sequence[Panel], records: Sequence[Record] = ()) -> Figure:
    """Draw the heat maps in rows, with cells that fit the words, and one colour scale."""
    n_src, n_tgt = (max(len(words) for words in side)
                    for side in zip(*((a.src, a.tgt) for _, a in panels), strict=True))  # fmt: skip
    n_letters = max(len(word) for _, a in panels for word in a.src)
    n_columns = max(1, min(len(panels), int(ROOM / LEAST) // n_src))
    cell = min(MOST, ROOM / (n_columns * n_src))
    heights = [cell * (n_tgt + n_letters / 2)] * -(-len(panels) // n_columns)
    title = "Alignments: the target (rows) attends to the source (columns)"
    note = "Open squares: gold links" if records else ""
    figure, grid = style.make_figure(title, records, (), heights, n_columns, note)
    figure.set_layout_engine("compressed")
    axes = grid.flatten()
    is_same = len({tuple(a.tgt) for _, a in panels}) == 1  # target words written once
    for i, (ax, (look, a)) in enumerate(zip(axes, panels, strict=False)):
        rows = a.tgt if i % n_columns == 0 or not is_same else [""] * len(a.tgt)
        style.draw_map(ax, np.array(a.alpha, float), rows, a.src, top=1, lw=0.4)
        ax.set_aspect("equal")
        for s, t in a.gold or ():
            square = Rectangle((s + 0.06, t + 0.06), 0.88, 0.88, fill=False, ec=style.WORSE, lw=1.5)
            ax.add_patch(square)
        ax.set_title(style.wrap_lines(look.label), color=look.colour, weight="bold", size=10)
    levels = ScalarMappable(cmap=style.HEAT.resampled(16))  # so few are drawn as paths
    scale = figure.colorbar(levels, ax=axes, ticks=[0, 0.5, 1], aspect=12, shrink=0.5)
    scale.ax.set_title("weight", size=8.5, color=GREY)
    scale.ax.grid(False)
    return figure

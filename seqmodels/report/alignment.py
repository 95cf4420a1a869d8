"""Draw alignments as heat maps side by side, with the tokens at their edges."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from seqmodels.records.schema import Alignment
from seqmodels.report import style
from seqmodels.report.style import GREY, WIDTH, LineStyle

CAPTION = (
    "Each row shows the distribution of attention over the source when one token of the target is "
    "generated; a row sums to less than one where a model also attends to the target. Open "
    "squares: gold links."
)
LETTER = 0.08
"""Width of a letter of a word at the edge of a map, in inches."""
SOURCE, TARGET = attrgetter("src"), attrgetter("tgt")
Panel = tuple[LineStyle, Alignment]
"""The look of a model, and its alignment."""


def draw_alignment(panels: Sequence[Panel], path: Path) -> Path:
    """Draw one heat map for each model; write .svg or .png.

    Raises ValueError for other kinds of files, and like `draw_heat_maps`.
    """
    with style.context():
        return style.save(draw_heat_maps(panels, subtitle=""), Path(path))


def draw_heat_maps(panels: Sequence[Panel], subtitle: str) -> Figure:
    """Draw the heat maps in rows, with cells that fit the words, and one colour scale.

    Raises ValueError if there is nothing to draw, and unless `alpha` has one row per target word
    and one column per source word.
    """
    if not panels:
        raise ValueError("no model here attends to the source; there is no alignment to draw")
    for look, a in panels:
        if np.shape(a.alpha) != (shape := (len(a.tgt), len(a.src))):
            raise ValueError(
                f"{look.label}: alpha is {np.shape(a.alpha)}, but the words are {shape}"
            )
    alignments = [a for _, a in panels]
    n_src, n_tgt = (max(len(side(a)) for a in alignments) for side in (SOURCE, TARGET))
    above, beside = (
        LETTER * max(len(word) for a in alignments for word in side(a)) for side in (SOURCE, TARGET)
    )
    n_columns = min(len(panels), max(1, int((WIDTH - 1 - beside) / (0.14 * n_src))))
    n_rows = -(-len(panels) // n_columns)
    cell = min(0.24, max(0.12, (WIDTH - 1 - beside) / n_columns / n_src))
    texts = "Alignments: the target (rows) attends to the source (columns)", subtitle, CAPTION
    width = max(WIDTH, 1 + beside + n_columns * cell * n_src)
    figure = style.make_figure(n_rows * (0.3 + above + cell * n_tgt), texts, width)
    figure.set_layout_engine("compressed")
    axes = figure.subplots(n_rows, n_columns, squeeze=False).flatten()
    for ax in axes[len(panels) :]:
        ax.set_axis_off()
    is_same = len({tuple(a.tgt) for a in alignments}) == 1  # target words written once
    for i, (ax, (look, a)) in enumerate(zip(axes, panels, strict=False)):
        rows = a.tgt if i % n_columns == 0 or not is_same else [""] * len(a.tgt)
        style.draw_map(ax, np.array(a.alpha, float), rows, a.src, top=1, lw=0.4)
        ax.set_aspect("equal")
        for s, t in a.gold or ():
            square = Rectangle((s + 0.06, t + 0.06), 0.88, 0.88, fill=False, ec=style.WORSE, lw=1.5)
            ax.add_patch(square)
        label = textwrap.fill(look.label, max(12, int(11 * cell * n_src)))
        ax.set_title(label, color=look.colour, weight="bold", size=10)
    levels = ScalarMappable(cmap=style.HEAT.resampled(16))  # so few are drawn as paths
    shrink = min(1, 1.6 / figure.get_figheight())
    scale = figure.colorbar(
        levels, ax=[*axes], ticks=[0, 0.5, 1], aspect=12, shrink=shrink, anchor=(0, 1)
    )
    scale.outline.set(edgecolor="#CFCFCF", linewidth=0.6)
    scale.ax.set_title("weight", size=8.5, color=GREY, pad=5)
    scale.ax.grid(False)
    return figure

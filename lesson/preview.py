"""Draw the picture for previews of links: the opening picture at its end."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from lesson.essays import LEVELS

TITLE = "Who loses a long sentence?"
COLOURS = LinearSegmentedColormap.from_list("", ["#9a3412", "#ffffff", "#14527f"])
N_COLUMNS, N_ROWS = 4, 76
"""Numbers beside each other in a strip, and rows of the longest one."""


def draw_preview(opening: Mapping[str, Any]) -> Figure:
    """Draw what the shown sentence leaves in each machine, what it writes, and the share right."""
    row, figure = opening["rows"][opening["shown"]], Figure((12, 6.3))
    figure.text(0.035, 0.87, TITLE, size=30, weight="bold")
    n = len(row["annotations"])
    strips = [row["vectors"][-1:], row["annotations"], row["best"][-1:]]
    for k, (machine, texts) in enumerate(zip(opening["machines"], strips, strict=True)):
        left, marked = 0.035 + 0.33 * k, machine["marked"]
        figure.text(left, 0.77, machine["title"], size=14, weight="bold")
        cells = np.array([[LEVELS.index(digit) for digit in text] for text in texts]) / 31.5 - 1
        cells = np.pad(cells.reshape(len(texts), -1, N_COLUMNS), ((0, 0), (0, 0), (0, 1)))
        axes, (_, height, pitch) = figure.add_axes((left, 0.41, 0.27, 0.33)), cells.shape
        middle = (n - len(texts)) * pitch / 2
        extent = middle, middle + len(texts) * pitch, height, 0
        image = np.hstack([*cells])
        axes.imshow(image, COLOURS, aspect="auto", vmin=-1, vmax=1, extent=extent)
        axes.axis((0, n * pitch, N_ROWS, 0))
        axes.set_axis_off()
        figure.text(left, 0.37, fill(row["outputs"][k], 44), size=11, va="top", linespacing=1.4)
        share = f"{100 * marked['n_right'] / marked['n']:.0f} % right"
        figure.text(left, 0.07, share, size=30, weight="bold")
    return figure

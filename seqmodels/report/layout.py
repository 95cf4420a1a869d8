"""Lay out a figure: title, subtitle, panels, and a legend to their right."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from seqmodels.models import papers
from seqmodels.report import reading, style
from seqmodels.report.format import parameters
from seqmodels.report.reading import Record
from seqmodels.report.style import GREY, WIDTH, Look

LABEL = 26
"""Characters in a line of the legend."""
Texts = tuple[str, str, str]
"""Title, subtitle and caption of a figure."""


def canvas(
    body: float, title: str, subtitle: str, caption: str, width: float = WIDTH
) -> tuple[Figure, float, float]:
    """Return a figure with title and subtitle, and the bottom and top of the `body` inches below.

    The caption is not drawn: it is the figure's label, which pages show below the figure.
    """
    title = textwrap.fill(title, int(84 * width / WIDTH))
    subtitle = fill_lines(subtitle, int(122 * width / WIDTH))
    first = 0.4 + 0.22 * title.count("\n")
    above, below = first + 0.1 + 0.17 * (subtitle.count("\n") + 1), 0.12
    height, x = above + body + below, 0.12 / width
    figure = Figure(figsize=(width, height))
    figure.set_label(caption)
    figure.text(x, 1 - 0.12 / height, title, va="top", size=12.5, weight="bold")
    figure.text(x, 1 - first / height, subtitle, va="top", color=GREY)
    return figure, below / height, 1 - above / height


def fill_lines(text: str, width: int) -> str:
    """Wrap each line of a text."""
    return "\n".join(textwrap.fill(line, width) for line in text.split("\n"))


def key_of(records: Sequence[Record]) -> list[Look]:
    """Return the models' looks, labelled with their years and numbers of parameters."""
    groups = reading.by_model(records)
    years = {model: f" ({paper.year})" for model, paper in papers().items()}
    return [
        look._replace(label=f"{look.label}{years.get(model, '')}\n{parameters(groups[model])}")
        for model, look in style.looks(groups).items()
    ]


def panels(
    texts: Texts, key: Sequence[Look], ratios: Sequence[float], foot: float
) -> tuple[Figure, np.ndarray]:
    """Return a figure with title, subtitle, two columns of axes, and a legend to their right.

    The axes end `foot` inches above the lower edge, and are at least as high as the legend.
    """
    labels = [fill_lines(look.label, LABEL) for look in key]
    n_lines = sum(1.6 + label.count("\n") for label in labels)
    ratios = [max(ratios[0], 0.4 * n_lines - sum(ratios[1:])), *ratios[1:]]
    figure, bottom, top = canvas(0.5 + foot + 0.42 * sum(ratios), *texts)
    height = figure.get_figheight()
    longest = max((len(line) for label in labels for line in label.split("\n")), default=0)
    right = 1 - (0.85 + 0.074 * longest) / WIDTH
    top -= 0.5 / height
    handles = [
        Line2D([], [], color=k.colour, ls=k.dashes, marker=k.marker, lw=2, ms=5, label=label)
        for k, label in zip(key, labels, strict=True)
    ]
    if handles:
        figure.legend(
            handles=handles, loc="upper left", bbox_to_anchor=(right + 0.15 / WIDTH, top),
            frameon=False, handlelength=3, fontsize=9, labelspacing=0.6, borderaxespad=0,
        )  # fmt: skip
    axes = figure.subplots(
        len(ratios), 2, sharex="col", squeeze=False,
        gridspec_kw={
            "left": 0.5 / WIDTH, "right": right, "bottom": bottom + foot / height, "top": top,
            "height_ratios": ratios, "hspace": 0.07, "wspace": 0.2,
        },
    )  # fmt: skip
    return figure, axes

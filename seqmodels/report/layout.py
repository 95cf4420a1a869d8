"""The layout of a figure: title, caption, legend, panels, and labels at the ends of lines."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from seqmodels.models import papers
from seqmodels.report import reading, style, wording
from seqmodels.report.reading import Record
from seqmodels.report.style import GREY, WIDTH, Look

ROW = 14
"""Characters in a row of a label at the end of a line."""


def canvas(
    body: float, title: str, subtitle: str, caption: str, width: float = WIDTH
) -> tuple[Figure, float, float]:
    """Return a figure with its texts, and the bottom and top of the `body` inches between them."""
    wide = width / WIDTH
    title = _fill(title[0].upper() + title[1:], int(84 * wide))
    head = "\n".join(_fill(line, int(122 * wide)) for line in subtitle.split("\n"))
    foot = _fill(caption, int(130 * wide))
    first = 0.4 + 0.22 * title.count("\n")
    above = first + 0.1 + 0.17 * (head.count("\n") + 1)
    below = 0.2 + 0.16 * (foot.count("\n") + 1)
    height, x = above + body + below, 0.12 / width
    figure = Figure(figsize=(width, height))
    figure.text(x, 1 - 0.12 / height, title, va="top", size=12.5, weight="bold")
    figure.text(x, 1 - first / height, head, va="top", color=GREY)
    figure.text(x, 0.12 / height, foot, va="bottom", color=GREY, size=9, linespacing=1.25)
    return figure, below / height, 1 - above / height


def _fill(text: str, width: int) -> str:
    """Wrap a text, but not before a number, an arrow, a percent sign or a unit."""
    kept = re.sub(r" (?=[−+±\d%→]|[kMG]?B\b)", "\N{NO-BREAK SPACE}", text)
    return textwrap.fill(kept, width).replace("\N{NO-BREAK SPACE}", " ")


def key_of(records: Sequence[Record]) -> list[Look]:
    """Return the models' looks, labelled with their years and numbers of parameters."""
    groups = reading.by_model(records)
    years = {model: f" ({paper.year})" for model, paper in papers().items()}
    return [
        look._replace(
            label=f"{look.label}{years.get(model, '')} · {wording.parameters(groups[model])}"
        )
        for model, look in style.looks(groups).items()
    ]


def panels(
    texts: tuple[str, str, str], key: Sequence[Look], ratios: Sequence[float], foot: float
) -> tuple[Figure, np.ndarray]:
    """Return a figure with title, subtitle, caption, legend and two columns of axes.

    The axes begin `foot` inches above the caption, and grow with the number of models until each
    has room for a label of two rows. The legend has fewer columns for long labels.
    """
    ratios = [max(ratios[0], 0.78 * len(key)), *ratios[1:]]
    longest = max((len(k.label) for k in key), default=0)
    n_columns = 3 if longest <= 40 else 2 if longest <= 60 else 1
    n_lines = math.ceil(len(key) / n_columns)
    body = 0.85 + 0.2 * max(0, n_lines - 2) + foot + 0.42 * sum(ratios)
    figure, bottom, top = canvas(body, *texts)
    height = figure.get_figheight()
    handles = [
        Line2D([], [], color=k.colour, ls=k.dashes, marker=k.marker, lw=2, ms=5, label=k.label)
        for k in key
    ]
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.06 / WIDTH, top)}
    look: dict[str, Any] = {"frameon": False, "handlelength": 3, "columnspacing": 1.6}
    if handles:
        look |= {"ncols": n_columns, "borderaxespad": 0, "fontsize": 9.5}
        figure.legend(handles=handles, **place, **look)
    top -= (0.5 + 0.2 * n_lines) / height
    edges = {"left": 0.5 / WIDTH, "right": 1 - 1.2 / WIDTH, "bottom": bottom + foot / height}
    space = {"height_ratios": ratios, "hspace": 0.07, "wspace": 0.48, "top": top}
    axes = figure.subplots(len(ratios), 2, sharex="col", squeeze=False, gridspec_kw=edges | space)
    return figure, axes


def label_ends(ax: Axes, ends: Iterable[tuple[float, float, str, str]]) -> None:
    """Write (x, y, text, colour) to the right of the axes, moved apart until none overlap."""
    ax.autoscale_view()  # otherwise the limits of log axes are not set yet
    to_axes = ax.transScale + ax.transLimits
    ends = sorted(ends, key=lambda end: end[1])
    y = np.array([to_axes.transform(end[:2])[1] for end in ends])
    point = 100 / 72 / ax.get_window_extent().height  # at the default of 100 dpi
    tall = np.array([(12.5 + 11 * end[2].count("\n")) * point for end in ends])
    gap = (tall[:-1] + tall[1:]) / 2
    for _ in range(500):
        overlap = np.maximum(gap - np.diff(y), 0) / 2
        y[:-1] -= overlap
        y[1:] += overlap
        y = np.clip(y, 0, 1)
    font: dict[str, Any] = {"va": "center", "size": 9, "annotation_clip": False}
    font["linespacing"] = 1.05
    for (x_end, y_end, text, colour), y_text in zip(ends, y, strict=True):
        line: dict[str, Any] = {
            "arrowstyle": "-",
            "color": colour,
            "lw": 0.7,
            "shrinkA": 2,
            "shrinkB": 4,
        }
        line["relpos"] = (0, 0.5)
        place: dict[str, Any] = {"xytext": (1.05, y_text), "textcoords": "axes fraction"}
        ax.annotate(text, (x_end, y_end), color=colour, arrowprops=line, **place, **font)


def brief(labels: Sequence[str]) -> list[str]:
    """Return labels for the ends of lines, in up to three rows."""
    labels = distinct(labels)
    return [in_rows(_shortened(label, labels)) for label in labels]


def distinct(labels: Sequence[str]) -> Sequence[str]:
    """Return the labels; if one is long, without their common start and end."""
    if len(labels) < 2 or max(map(len, labels)) <= 2 * ROW:
        return labels
    start = _common(labels)
    end = _common([label[start:][::-1] for label in labels])
    cut = [label[start : len(label) - end] for label in labels]
    return ["…" * (start > 0) + label + "…" * (end > 0) for label in cut]


def _common(labels: Sequence[str]) -> int:
    """Return the length of the labels' common prefix, in whole words if words are short."""
    same = _start_of(labels)[: min(map(len, labels)) - 1]
    words = re.match(r".*[\W_]", same)
    end = words.end() if words else 0
    return end if len(same) - end <= ROW else len(same)


def _start_of(labels: Sequence[str]) -> str:
    """Return the common prefix of the labels."""
    least, most = min(labels), max(labels)
    n_same = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(least, most, strict=False))
    )
    return least[:n_same]


def _shortened(label: str, labels: Sequence[str]) -> str:
    """Shorten a label that is still too long before its first difference from the most similar."""
    others = [_start_of([label, other]) for other in labels if other != label]
    start = max(0, *map(len, others), 4) - 4 if others else 0
    if len(label) <= 3 * ROW or start <= ROW:
        return label
    return f"{label[:ROW]}…{label[start:]}"


def in_rows(label: str) -> str:
    """Break a label into at most three rows of about ROW characters, between words."""
    rows = [""]
    for part in re.findall(rf"[^\W_]{{1,{ROW}}}[\W_]?|[\W_]", label):
        if rows[-1] and len((rows[-1] + part).strip()) > ROW:
            rows.append("")
        rows[-1] += part
    return "\n".join(row.strip() for row in rows[:3]) + "…" * (len(rows) > 3)

"""Convert a figure for a page: to a small <svg> element with unique ids, and to a table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import is_color_like, to_hex
from matplotlib.figure import Figure

from seqmodels.report import style


def inline(figure: Figure, name: str) -> Markup:
    """Return a figure as an <svg> element with its caption; `name` prefixes its ids."""
    text = style.render(figure, ".svg").decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>|\s*<style.*?</style>", "", text, flags=re.S)
    referenced = {*re.findall(r"#([\w.-]+)", text)}
    text = re.sub(r' id="([^"]*)"', lambda m: m[0] * (m[1] in referenced or "bucket" in m[1]), text)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(url\(|xlink:href=")#', rf"\1#{name}-", text)
    for part in ("title", "desc"):
        text = text.replace(f"<{part}>", f'<{part} id="{name}-{part}">', 1)
    aria = f'role="img" aria-labelledby="{name}-title" aria-describedby="{name}-desc"'
    text = re.sub(r'<svg ([^>]*?)width="\S+" height="\S+" ', rf"<svg {aria} \1", text, count=1)
    # coordinates to a tenth of a point, and the font of the page
    text = re.sub(r'\b(d|x|y|transform)="[^"]*"', lambda m: round_numbers(m[0]), text)
    text = re.sub(r" font-family: [^;\"]*;| text-anchor: start;", "", text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    text = re.sub(r"\s*\n\s*", " ", re.sub(r">\s+<", "><", text))
    # a style that many elements have is written once
    styles = dict.fromkeys(re.findall(r'style="(.*?)"', text))
    classes = {its: f"{name}-{i}" for i, its in enumerate(styles)}
    text = re.sub(r'style="(.*?)"', lambda m: f'class="{classes[m[1]]}"', text)
    rules = "".join(f".{its}{{{rule}}}" for rule, its in classes.items())
    svg = Markup(text.replace("</desc>", f"</desc><style>{rules}</style>", 1))
    caption = figure.get_label()
    return svg + (Markup('<p class="note">{}</p>').format(caption) if caption else "")


def round_numbers(text: str) -> str:
    """Round the numbers in a text to one decimal."""
    return re.sub(r"\d+\.\d{2,}", lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), text)


def tabulate(drawn: Figure, series: Mapping[str, str]) -> list[list[Any]]:
    """Return the data points of a figure, below a header; `series` maps colours to labels.

    An interval has two rows, one for each end. A cell of a map has its column and row, from 1.
    """
    rows: list[list[Any]] = [["panel", "series", "kind", "x", "y", "value"]]
    for ax in drawn.axes:
        panel = ax.get_title("left") or ax.get_ylabel()
        points: list[tuple[Any, str, float, float, Any]] = []
        for line in ax.lines:
            for x, y in np.asarray(line.get_xydata()):
                points.append((line.get_color(), "line", x, y, ""))
        for bars in ax.containers:
            for b in bars:
                points.append((b.get_facecolor(), "bar", b.get_center()[0], b.get_height(), ""))
        for each in ax.collections:
            if isinstance(each, LineCollection):
                ends = [end for segment in each.get_segments() for end in segment]
                points += [(each.get_color()[0], "interval", x, y, "") for x, y in ends]
            elif isinstance(each, QuadMesh):
                cells = np.ndenumerate(np.asarray(each.get_array()))
                points += [("", "cell", x + 1, y + 1, value) for (y, x), value in cells]
        for colour, *values in points:
            name = series.get(to_hex(colour).upper(), "") if is_color_like(colour) else ""
            rows.append([panel, name, *(f"{v:.5g}" if isinstance(v, float) else v for v in values)])
    return rows

"""Put a figure into a page: its colours follow the page, and its ids are its own."""

from __future__ import annotations

import colorsys
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import is_color_like, to_hex
from matplotlib.figure import Figure

from seqmodels.report import style

COLOUR = re.compile(r"#[0-9a-f]{6}\b")


def inline(figure: Figure, name: str) -> Markup:
    """Return a figure as an <svg> element, and its caption; `name` begins its ids on the page."""
    text = style.rendered(figure, ".svg").decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>|\s*<style.*?</style>", "", text, flags=re.S)
    used = {*re.findall(r"#([\w.-]+)", text)}
    text = re.sub(r' id="([^"]*)"', lambda m: m[0] * (m[1] in used or "bucket" in m[1]), text)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(url\(|xlink:href=")#', rf"\1#{name}-", text)
    for part in ("title", "desc"):
        text = text.replace(f"<{part}>", f'<{part} id="{name}-{part}">', 1)
    said = f'role="img" aria-labelledby="{name}-title" aria-describedby="{name}-desc"'
    text = re.sub(r'<svg ([^>]*?)width="\S+" height="\S+" ', rf"<svg {said} \1", text, count=1)
    # coordinates to a tenth of a point, and the font of the page
    text = re.sub(r'\b(d|x|y|transform)="[^"]*"', lambda m: rounded(m[0]), text)
    text = re.sub(r" font-family: [^;\"]*;| text-anchor: start;", "", text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    text = re.sub(r"\s*\n\s*", " ", re.sub(r">\s+<", "><", text))
    styles: dict[str, str] = {}

    def class_of(found: re.Match[str]) -> str:
        """Give each style a class, which all its elements share."""
        style = COLOUR.sub(lambda colour: f"var(--c{colour[0][1:]}, {colour[0]})", found[1])
        return f'class="{styles.setdefault(style, f"{name}-{len(styles)}")}"'

    text = re.sub(r'style="([^"]*)"', class_of, text)
    rules = "".join(f".{its}{{{style}}}" for style, its in styles.items())
    svg = Markup(text.replace("</desc>", f"</desc><style>{rules}</style>", 1))
    caption = figure.get_label()
    return svg + (Markup('<p class="note">{}</p>').format(caption) if caption else "")


def rounded(text: str) -> str:
    """Return a text with its numbers to one decimal."""
    return re.sub(r"\d+\.\d{2,}", lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), text)


def night(pages: str) -> str:
    """Return the declarations of all colours in the figures of a page, for a dark background."""
    names = sorted(set(re.findall(r"var\(--c([0-9a-f]{6}), ", pages)))
    return "".join(f"--c{name}:{darkened(name)};" for name in names)


def darkened(colour: str) -> str:
    """Return a colour with its lightness mirrored: white becomes the dark background.

    The colours of models are kept light enough to stand out from it.
    """
    hue, light, full = colorsys.rgb_to_hls(*(int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)))
    mirrored = 0.08 + 0.85 * (1 - light)
    if f"#{colour}" in style.line_colours():
        mirrored = max(mirrored, 0.6)
    parts = colorsys.hls_to_rgb(hue, mirrored, 0.7 * full)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def table(drawn: Figure, series: Mapping[str, str]) -> list[list[Any]]:
    """Return the numbers in a figure, with a row of names; `series` names a series by its colour.

    An interval has two rows, its ends; a cell of a map has the numbers of its column and row.
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

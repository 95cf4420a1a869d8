"""Put a figure into a page: its colours follow the page, and its ids are its own."""

from __future__ import annotations

import colorsys
import re

from markupsafe import Markup
from matplotlib.figure import Figure

from seqmodels.catalog import entries
from seqmodels.report import style

LINES = {colour.lower() for colour in (*(e.colour for e in entries().values()), *style.FURTHER)}
"""The colours of models."""
COLOUR = re.compile(r"#[0-9a-f]{6}\b")


def inline(figure: Figure, name: str) -> Markup:
    """Return a figure as an <svg> element; `name` begins its ids, and is unique on the page."""
    text = style.rendered(figure, ".svg").decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>|\s*<style.*?</style>", "", text, flags=re.S)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(url\(|xlink:href=")#', rf"\1#{name}-", text)
    text = re.sub(r"<title>", f'<title id="{name}-title">', text, count=1)
    text = re.sub(r"<desc>", f'<desc id="{name}-desc">', text, count=1)
    said = f'role="img" aria-labelledby="{name}-title" aria-describedby="{name}-desc"'
    text = re.sub(r'<svg ([^>]*?)width="\S+" height="\S+" ', rf"<svg {said} \1", text, count=1)
    return Markup(re.sub(r'style="[^"]*"', lambda m: COLOUR.sub(variable, m[0]), text))


def variable(colour: re.Match[str]) -> str:
    """Return a reference to the page's variable for a colour, which is the colour by day."""
    return f"var(--c{colour[0][1:]}, {colour[0]})"


def night(pages: str) -> str:
    """Return the declarations of all variables in the figures of a page, for a dark background."""
    names = sorted(set(re.findall(r"var\(--c([0-9a-f]{6}), ", pages)))
    return "".join(f"--c{name}:{darkened(name)};" for name in names)


def darkened(colour: str) -> str:
    """Return a colour with its lightness mirrored: white becomes the dark background.

    The colours of models are kept light enough to stand out from it.
    """
    hue, light, full = colorsys.rgb_to_hls(*(int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)))
    mirrored = 0.08 + 0.85 * (1 - light)
    if f"#{colour}" in LINES:
        mirrored = max(mirrored, 0.6)
    parts = colorsys.hls_to_rgb(hue, mirrored, 0.7 * full)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)

"""The colours of figures in pages, by day and by night.

Lines and fills keep their colours by day and their hues by night; texts have a contrast of 4.5:1.
"""

from __future__ import annotations

from colorsys import hls_to_rgb, rgb_to_hls
from functools import cache

from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb

from seqmodels.report.style import HEAT

DAY, NIGHT = "#ffffff", "#141414"
"""The paper of the pages, as in style.css."""
TEXT, MARK = 4.5, 3.0
"""Least contrasts to the paper of texts, and of coloured lines and fills by night."""
PALE = 0.78
"""Lightness from which a fill is a background: by night it is dark."""
DARK_HEAT = LinearSegmentedColormap.from_list("dark", [NIGHT, "#17405F", "#1B75BC", "#CFE6F7"])
HEAT_BY_NIGHT = {to_hex(HEAT(i)): to_hex(DARK_HEAT(i)) for i in range(HEAT.N)}
"""The colours of heat maps: large values are dark by day, and light by night."""


def declare(key: str, colour: str, is_text: bool) -> str:
    """Return the CSS that sets a property to a colour for each scheme."""
    day, night = for_day(colour, is_text), for_night(colour, is_text, key in ("fill", "background"))
    return f"{key}:{day};" if day == night else f"{key}:light-dark({day},{night});"


@cache
def for_day(colour: str, is_text: bool) -> str:
    """Return the colour of a mark, or a text's, dark enough to be read."""
    if not is_text:
        return colour
    return shift(colour, [DAY], TEXT, -0.01)


@cache
def for_night(colour: str, is_text: bool, is_fill: bool) -> str:
    """Return the colour on dark paper: greys and backgrounds are inverted, others are lighter."""
    if colour in HEAT_BY_NIGHT and not is_text:
        return HEAT_BY_NIGHT[colour]
    hue, lightness, saturation = rgb_to_hls(*to_rgb(colour))
    if is_neutral(colour):
        red, green, blue = (1 - value * (1 - to_rgb(NIGHT)[0]) for value in to_rgb(colour))
        colour = to_hex((red, green, blue))
    elif is_fill and not is_text and lightness > PALE:
        return to_hex(hls_to_rgb(hue, 1 - lightness, saturation / 2))
    elif not is_text:
        return shift(colour, [NIGHT], MARK, 0.01)
    if not is_text:
        return colour
    return shift(colour, [NIGHT], TEXT, 0.01)


def is_neutral(colour: str) -> bool:
    """Return whether a colour is a grey."""
    return max(to_rgb(colour)) - min(to_rgb(colour)) < 0.1


def shift(colour: str, papers: list[str], least: float, step: float) -> str:
    """Return the colour, lighter or darker by steps until it has a contrast to all papers."""
    hue, lightness, saturation = rgb_to_hls(*to_rgb(colour))
    while 0 < lightness < 1 and min(contrast(colour, paper) for paper in papers) < least:
        lightness = min(1, max(0, lightness + step))
        colour = to_hex(hls_to_rgb(hue, lightness, saturation))
    return colour


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, as WCAG 2 defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour."""
    linear = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in to_rgb(colour))
    return sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

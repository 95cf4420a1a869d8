"""Typeset the equations that the chapters' tags name.

An equation is drawn with the glyphs of STIX Two, so that it looks the same everywhere; beside the
drawing stands the same equation in MathML, which is not seen but read aloud.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

import ziamath
from latex2mathml.converter import convert
from markupsafe import Markup

from seqmodels.site.source import TEXT, Chapter, Unit

SIZE = 100
"""Units of a drawing in an em."""
SYMBOL = re.compile(r'<symbol id="([^"]*)" ([^>]*)(?:/>|(?<!/)>(.*?)</symbol>)', re.S)
EQUATIONS: dict[str, Any] = tomllib.loads((TEXT / "equations.toml").read_text(encoding="utf-8"))
"""The equations: by chapter and unit, those of each tagged line."""


def equations_of(chapter: Chapter, unit: Unit) -> dict[int, list[str]]:
    """Return the equations of a unit, in TeX, by the number of the line that computes them."""
    tagged = [line for line in unit.lines if line.tag]
    entries = EQUATIONS.get(chapter.name, {}).get(unit.name, [])
    assert [line.tag for line in tagged] == [e["tag"] for e in entries], (chapter.name, unit.name)
    return {line.number: e["tex"] for line, e in zip(tagged, entries, strict=True)}


class GlyphSheet:
    """The equations of a page, which share their glyphs."""

    def __init__(self) -> None:
        self.glyphs: dict[str, tuple[str, str]] = {}

    def typeset(self, tex: str) -> Markup:
        """Return an equation as an element of the page."""
        ziamath.config.svg2, ziamath.config.precision = True, 1
        text = ziamath.Latex(tex, size=SIZE, inline=True).svg()
        for name, box, glyph in SYMBOL.findall(text):
            self.glyphs.setdefault(name, (f"g{len(self.glyphs)}", whole(f"{box}>{glyph}", 10)))
        text = whole(SYMBOL.sub("", text))
        text = re.sub(r'"#(\w+)"', lambda m: f'"#{self.glyphs[m[1]][0]}"', text)
        (box,) = re.findall(r'viewBox="(.*?)"', text)
        width, height = (float(side) / SIZE for side in box.split()[2:])
        size = f'style="width:{width:.2f}em;height:{height:.2f}em"'
        head = f'<svg aria-hidden="true" {size} viewBox="{box}">'
        text = re.sub(r"<svg .*?>", head, text, count=1)
        text = re.sub(r' fill="black"', "", text)
        return Markup(f'<span class="equation">{text}{convert(tex)}</span>')

    def defs(self) -> Markup:
        """Return the glyphs, to be placed anywhere on the page."""
        symbols = "".join(f'<symbol id="{n}" {g}</symbol>' for n, g in self.glyphs.values())
        return Markup(f'<svg class="glyphs" aria-hidden="true">{symbols}</svg>')


def whole(text: str, scale: int = 1) -> str:
    """Return a drawing whose numbers are multiplied and rounded."""
    return re.sub(r"(?<=[\" ])-?\d+(\.\d+)?", lambda m: str(round(scale * float(m[0]))), text)

"""Find installed fonts for characters that the default font lacks, or note which are missing.

Vector figures keep their text as text: a viewer can have a font that is missing here.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

DEFAULT = "sans-serif"
NOTED: set[str] = set()
"""Characters that a note has already named."""


@cache
def _characters(path: str) -> frozenset[int]:
    """Return the code points that a font file has."""
    try:
        return frozenset(FT2Font(path).get_charmap())
    except (OSError, RuntimeError):  # a damaged file or a bitmap font
        return frozenset()


@cache
def _default() -> frozenset[int]:
    return _characters(font_manager.findfont(font_manager.FontProperties(family=[DEFAULT])))


def lacking(text: str) -> set[str]:
    """Return the visible characters of a text that the default font lacks."""
    strange = {char for char in text if ord(char) not in _default()}
    return {char for char in strange if unicodedata.category(char) not in ("Cc", "Cf", "Zs")}


@cache
def families(characters: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return fonts that have the characters, Noto first, and the characters that no font has."""
    found, missing = _look(characters)
    if missing:  # perhaps in a font installed after matplotlib built its cache
        known = {Path(entry.fname).resolve() for entry in font_manager.fontManager.ttflist}
        for path in font_manager.findSystemFonts():
            if Path(path).resolve() not in known:
                _add(path)
        found, missing = _look(characters)
    return tuple(found), frozenset(missing)


def _look(characters: Iterable[str]) -> tuple[list[str], set[str]]:
    """Collect installed fonts until they cover all characters."""
    missing = set(characters)
    found: dict[str, None] = {}
    fonts = [font for font in font_manager.fontManager.ttflist if font.style == "normal"]
    fonts.sort(key=lambda font: ("Noto Sans" not in font.name, font.weight != 400, font.name))
    for font in fonts:
        if not missing:
            break
        if "Last Resort" not in font.name and "Emoji" not in font.name:
            has = {char for char in missing if ord(char) in _characters(font.fname)}
            found |= {font.name: None} if has else {}
            missing -= has
    return [*found], missing


def _add(path: str) -> None:
    """Add a font file to matplotlib's list."""
    with suppress(OSError, RuntimeError):
        font_manager.fontManager.addfont(path)


def note(missing: frozenset[str]) -> None:
    """Print one line about characters that no installed font has, once for each character."""
    if not (new := sorted(missing - NOTED)):
        return
    NOTED.update(new)
    scripts = sorted({unicodedata.name(char, "unnamed").split()[0].capitalize() for char in new})
    shown = "".join(new[:8]) + "…" * (len(new) > 8)
    print(
        f"note: no font here has {shown} ({', '.join(scripts[:4])}): PNG files show boxes; SVG "
        "files keep the text for viewers with a font. On Debian: apt install fonts-noto "
        "fonts-noto-cjk; elsewhere: fonts.google.com/noto",
        file=sys.stderr,
    )

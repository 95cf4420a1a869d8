"""The style of figures: the models' colours and markers, and how figures are saved."""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Collection
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.style
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.text import Text

from seqmodels.catalog import CATALOG, entries
from seqmodels.report import fonts
from seqmodels.utils import files


class Look(NamedTuple):
    """The label and the line style of one model."""

    label: str
    colour: str
    dashes: Any
    marker: str


DASHES: list[Any] = [(0, (4, 1.6)), (0, (1.6, 1.2)), (0, (6, 1.2, 1.6, 1.2))]
"""Line styles of the models with one vector, in order of history."""
LATER: Any = (0, (1.2, 1.6, 6, 1.6, 1.2, 1.6))
"""The line style of the models that came after the five papers."""
FURTHER = ("#7F8F00", "#6B6B6B", "#7A5230")
INK, GREY = "#222222", "#666666"
MARKERS = "soD^vPX*"
MAX_SYSTEMS = len(MARKERS)
"""Most external systems that are drawn: as many as there are markers."""
HEAT = LinearSegmentedColormap.from_list("heat", ["#FFFFFF", "#9CC7E8", "#1B75BC", "#14254F"])
WIDTH = 9.5
"""In inches; at 800 pixels, a point is 1.17 pixels."""
STAMPS: dict[str, dict[str, None]] = {
    ".svg": dict.fromkeys(("Date", "Creator")),
    ".png": {"Software": None},
}
"""Metadata left out of each kind of file, because they differ from one run to the next."""

RC: dict[str, Any] = {
    **{"font.size": 9.5, "text.color": INK, "axes.labelcolor": INK, "axes.labelsize": 9.5},
    **{"axes.spines.right": False, "axes.spines.top": False, "axes.edgecolor": "#999999"},
    **{"axes.grid": True, "axes.grid.axis": "y", "axes.axisbelow": True, "grid.color": "#E6E6E6"},
    **{"xtick.color": GREY, "ytick.color": GREY, "xtick.labelsize": 8.5, "ytick.labelsize": 8.5},
    "svg.fonttype": "none",  # text stays text: searchable, selectable, accessible
    "font.sans-serif": ["DejaVu Sans", "Verdana"],  # equally wide
    "svg.hashsalt": "seqmodels",
    "text.parse_math": False,  # a price of $5 is not a formula
}


def context() -> AbstractContextManager[None]:
    """Apply this style inside the context, and leave the caller's settings unchanged."""
    return matplotlib.style.context(["default", RC], after_reset=True)


def catalogued() -> dict[str, Look]:
    """Return the looks of all models and variants in the catalog, in order of history.

    Lines are dashed for models with the source in one vector, solid for models with attention, and
    dash-dotted for models with a fixed memory. A variant of the same kind has its model's dashes.
    """
    fixed = [name for name, entry in CATALOG.items() if entry.kind == "one vector"]
    dashes = {name: DASHES[i % len(DASHES)] for i, name in enumerate(fixed)}
    found = {}
    for name, entry in entries().items():
        own = dashes.get(entry.variant_of or name, DASHES[0])
        lines = {"attention": "-", "fixed memory": LATER, "one vector": own}
        found[name] = Look(entry.label, entry.colour, lines[entry.kind], entry.marker)
    return found


def looks(models: Collection[str]) -> dict[str, Look]:
    """Return the models' looks in order; unknown models get other colours and their own names."""
    known = catalogued()
    unknown = sorted(set(models) - set(known))
    further = {
        model: Look(model, FURTHER[i % 3], (0, (6, 1.5, 1.2, 1.5)), "PX*"[i % 3])
        for i, model in enumerate(unknown)
    }
    return {m: k for m, k in (known | further).items() if m in models}


def save(figure: Figure, path: Path) -> Path:
    """Write .svg or .png, with the same bytes every time."""
    if path.suffix.lower() not in STAMPS:
        raise ValueError(f"{path}: a figure is written as .svg or .png")
    return files.write(path, rendered(figure, path.suffix.lower()))


def rendered(figure: Figure, kind: str) -> bytes:
    """Return a figure as .svg or .png.

    An SVG gets the first text of the figure as its title, and the other texts as its description.
    """
    _give_fonts(figure)
    page = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from")  # noted in one line
        figure.savefig(page, format=kind[1:], dpi=160, metadata=STAMPS[kind])
    made = page.getvalue()
    if kind == ".svg":
        title, *more = texts(figure)
        head = f"<title>{html.escape(title)}</title>\n <desc>{html.escape(' '.join(more))}</desc>"
        made = re.sub(rb"(<svg [^>]*>)", lambda m: m[0] + f"\n {head}".encode(), made, count=1)
    return made


def texts(figure: Figure) -> list[str]:
    """Return a figure's own texts, each in one line: its title is the first."""
    return [" ".join(text.get_text().split()) for text in figure.texts] or [""]


def _give_fonts(figure: Figure) -> None:
    """Set fonts that have each text's characters; note the characters that no font has."""
    texts: list[Text] = figure.findobj(Text)
    needed = {text: fonts.lacking(text.get_text()) for text in texts}
    if everything := frozenset().union(*needed.values()):
        found, missing = fonts.families(everything)
        for text in (text for text, characters in needed.items() if characters):
            text.set_fontfamily([fonts.DEFAULT, *found])
        fonts.note(missing)

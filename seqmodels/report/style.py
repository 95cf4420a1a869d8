"""The style of figures: colours and markers, title and legend, and how figures are saved."""

from __future__ import annotations

import colorsys
import html
import io
import re
import sys
import textwrap
import warnings
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.style
import numpy as np
from matplotlib import font_manager
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from seqmodels.models import PAPERS, model_of, papers
from seqmodels.report import reading
from seqmodels.report.reading import Record, parameters
from seqmodels.utils import files


class Look(NamedTuple):
    """The label and the line style of one model."""

    label: str
    colour: str
    dashes: Any
    marker: str


LOOKS = {
    "rnn_encdec": ("#C98200", "s"),
    "bahdanau": ("#1B75BC", "o"),
    "lstm_seq2seq": ("#B02A1E", "D"),
    "transformer": ("#009B77", "^"),
    "gpt": ("#3B2A84", "v"),
    "linear_attention": ("#C2459A", "P"),
}
"""Colour and marker of each model; those of a variant are derived from its model's."""
DASHES: list[Any] = [(0, (4, 1.6)), (0, (1.6, 1.2)), (0, (6, 1.2, 1.6, 1.2))]
"""Line styles of the models with one vector, in order of history."""
LATER: Any = (0, (1.2, 1.6, 6, 1.6, 1.2, 1.6))
"""The line style of models that attend to a memory of fixed size."""
FURTHER = ("#7F8F00", "#6B6B6B", "#7A5230")
INK, GREY = "#222222", "#666666"
MARKERS = "soD^vPX*"
VARIANT_MARKERS = "os^vDPX<>phd8*"
MAX_SYSTEMS = len(MARKERS)
"""Most external systems that are drawn: as many as there are markers."""
HEAT = LinearSegmentedColormap.from_list("heat", ["#FFFFFF", "#9CC7E8", "#1B75BC", "#14254F"])
WIDTH = 9.5
"""In inches; at 800 pixels, a point is 1.17 pixels."""
NOT_IN_DEFAULT_FONT = re.compile("[\u0590-\u1dff\u2c00-\uffff\U00010000-\U0010ffff]")
"""Scripts that the default font lacks, at least in part; it has Latin, Greek, Cyrillic, signs."""
FALLBACK_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans Arabic", "Noto Sans Hebrew"),
    *("Noto Sans Devanagari", "Noto Sans Bengali", "Noto Sans Tamil", "Noto Sans Thai"),
    *("Noto Sans Armenian", "Noto Sans Georgian", "Noto Sans Ethiopic", "Noto Emoji"),
    *("Arial Unicode MS", "Microsoft YaHei", "Hiragino Sans GB", "WenQuanYi Zen Hei", "Symbola"),
)
NOTED: set[str] = set()
"""Characters that a note has named."""
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


def looks(models: Collection[str]) -> dict[str, Look]:
    """Return the looks of models and variants by name, in order of history; unknown ones come last.

    Lines are dashed for models with the source in one vector, solid for models whose memory grows
    with the source, and dash-dotted for models that attend to a memory of fixed size. A variant has
    its model's dashes unless its memory is of another kind, and a shade of its model's colour.
    Models without a colour of their own get the next one.
    """
    known = papers()
    further = [*(m for m in PAPERS if m not in LOOKS), *sorted(set(models) - known.keys())]
    own = LOOKS | {m: (FURTHER[i % 3], "PX*"[i % 3]) for i, m in enumerate(further)}
    vectors = [name for name, paper in PAPERS.items() if paper.memory == "vector"]
    found: dict[str, Look] = {}
    n_variants: Counter[str] = Counter()
    for name, paper in known.items():
        model = model_of(name)
        dashed = DASHES[vectors.index(model) % len(DASHES)] if model in vectors else DASHES[0]
        dashes = {"vector": dashed, "fixed": LATER, "grows": "-"}[paper.memory]
        look = Look(paper.label, own[model][0], dashes, own[model][1])
        found[name] = _variant_look(look, n_variants[model]) if paper.variant_of else look
        n_variants[model] += bool(paper.variant_of)
    for name in further:
        found.setdefault(name, Look(name, own[name][0], (0, (6, 1.5, 1.2, 1.5)), own[name][1]))
    return {name: look for name, look in found.items() if name in models}


def _variant_look(look: Look, n: int) -> Look:
    """Return the look of a model's variant number n, from 0: another shade and another marker."""
    hue, _, saturation = colorsys.rgb_to_hls(*to_rgb(look.colour))
    lightness = 0.26 + 0.44 * ((0.5 + 0.618 * n) % 1)  # far from that of the last few
    shade = colorsys.hls_to_rgb((hue + (0.07, -0.05, 0.02)[n % 3]) % 1, lightness, saturation)
    markers = [marker for marker in VARIANT_MARKERS if marker != look.marker]
    return look._replace(colour=to_hex(shade).upper(), marker=markers[n % len(markers)])


def save(figure: Figure, path: Path) -> Path:
    """Write .svg or .png, with the same bytes every time."""
    if path.suffix.lower() not in STAMPS:
        raise ValueError(f"{path}: a figure is written as .svg or .png")
    return files.write(path, rendered(figure, path.suffix.lower()))


def rendered(figure: Figure, kind: str) -> bytes:
    """Return a figure as .svg or .png.

    An SVG gets the first text of the figure as its title, and the others and its label, which is
    the caption, as its description.
    """
    for text in figure.findobj(Text):
        if NOT_IN_DEFAULT_FONT.search(text.get_text()):
            text.set_fontfamily([*RC["font.sans-serif"][:1], *fallback_families()])
    page = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure.savefig(page, format=kind[1:], dpi=160, metadata=STAMPS[kind])
    note_missing_glyphs([str(warning.message) for warning in caught])
    made = page.getvalue()
    if kind == ".svg":
        title, *more = [*texts(figure), str(figure.get_label())]
        head = f"<title>{html.escape(title)}</title>\n <desc>{html.escape(' '.join(more))}</desc>"
        made = re.sub(rb"(<svg [^>]*>)", lambda m: m[0] + f"\n {head}".encode(), made, count=1)
    return made


def texts(figure: Figure) -> list[str]:
    """Return a figure's own texts, each in one line: its title is the first."""
    return [" ".join(text.get_text().split()) for text in figure.texts] or [""]


def fallback_families() -> list[str]:
    """Return the installed fonts in which matplotlib looks for what the default font lacks."""
    installed = set(font_manager.get_font_names())
    return [name for name in FALLBACK_FONTS if name in installed]


def note_missing_glyphs(messages: Sequence[str]) -> None:
    """Print one line on the characters that matplotlib's warnings name, once for each of them."""
    pattern = re.compile(r"Glyph (\d+) .*missing from")
    missing = {chr(int(m[1])) for message in messages if (m := pattern.match(message))} - NOTED
    NOTED.update(missing)
    if missing:
        shown = "".join(sorted(missing)[:8]) + "…" * (len(missing) > 8)
        print(
            f"note: no font here has {shown}: PNG files show boxes; SVG files keep the text for "
            "viewers with a font. On Debian: apt install fonts-noto fonts-noto-cjk",
            file=sys.stderr,
        )


# Layout

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
        for model, look in looks(groups).items()
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

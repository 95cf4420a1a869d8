"""The style of figures: colours and markers, size and layout, and how figures are saved."""

from __future__ import annotations

import html
import io
import re
import sys
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import matplotlib.style
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, MaxNLocator
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike

from seqmodels.models import OLD_NAMES, PAPERS, model_of, paper_of
from seqmodels.records.schema import Record
from seqmodels.report.load import (
    Groups,
    format_parameters,
    group_by_model,
    info_of,
    label_of,
    order_of,
)
from seqmodels.utils import files

Dashes = str | tuple[float, tuple[float, ...]]
"""Dashes of a line, as matplotlib takes them: a name, or an offset and lengths in points."""


class LineStyle(NamedTuple):
    """The label and the line style of one model."""

    label: str
    colour: str
    dashes: Dashes
    marker: str


LINE_STYLES = {
    "rnn_encdec": ("#C98200", "s", 0.1),
    "bahdanau": ("#1B75BC", "o", 4.1),
    "lstm_seq2seq": ("#B02A1E", "D", 6.9),
    "transformer": ("#009B77", "^", 2.1),
    "gpt": ("#3B2A84", "v", 5.1),
    "linear_attention": ("#C2459A", "P", 6.1),
    "mamba2": ("#7F8F00", "X", 1.1),
    "gated_deltanet": ("#7A5230", "*", 0.1),
}
"""Colour and marker of each model; the place in WHEEL of its colour, nearer to one neighbour."""
FURTHER = (("#6B6B6B", "P", 3.1), ("#9A4E00", "X", 0.1), ("#4F6D7A", "*", 4.1))
"""The same for further models, used in turn."""
WHEEL = (
    ("#D48E23", "#723F00"), ("#A2A62A", "#505200"), ("#51B770", "#055D2C"), ("#00B5CC", "#005C6C"),
    ("#4EA4F1", "#11538F"), ("#9B8FF0", "#4C4185"), ("#DE77AB", "#773056"), ("#E87A67", "#7E3125"),
)  # fmt: skip
"""Hues in a circle, orange to red: a light and a dark shade of each, for variants."""
DASHES: list[Dashes] = [(0, (4, 1.6)), (0, (1.6, 1.2)), (0, (6, 1.2, 1.6, 1.2))]
"""Line styles of the models with one vector, in order of history."""
LATER: Dashes = (0, (1.2, 1.6, 6, 1.6, 1.2, 1.6))
"""The line style of models that attend to a memory of fixed size."""
UNKNOWN: Dashes = (0, (6, 1.5, 1.2, 1.5))
"""The line style of models that are not registered."""
VARIANT_MARKERS = "os^vDPX<>phd8*H"
INK, GREY = "#222222", "#666666"
HEAT = LinearSegmentedColormap.from_list("heat", ["#FFFFFF", "#9CC7E8", "#1B75BC", "#14254F"])
"""The colours of heat maps."""
NOT_IN_DEFAULT_FONT = re.compile("[\u0590-\u1dff\u2c00-\uffff\U00010000-\U0010ffff]")
"""Characters that the default font may lack: scripts other than Latin, Greek and Cyrillic."""
FALLBACK_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans Arabic", "Noto Sans Hebrew"),
    *("Noto Sans Devanagari", "Noto Sans Bengali", "Noto Sans Tamil", "Noto Sans Thai"),
    *("Noto Sans Armenian", "Noto Sans Georgian", "Noto Sans Ethiopic", "Noto Emoji"),
    *("Arial Unicode MS", "Microsoft YaHei", "Hiragino Sans GB", "WenQuanYi Zen Hei", "Symbola"),
)
STAMPS: dict[str, dict[str, str | None]] = {
    ".svg": dict.fromkeys(("Date", "Creator")),
    ".png": {"Software": "seqmodels"},
}
"""Metadata of each kind of file, without what differs between runs; see `files.FILE_MARKS`."""

Look = dict[str, Any]
"""Keyword arguments of matplotlib: how something is drawn."""
RC: Look = {
    **{"font.size": 9.5, "text.color": INK, "axes.labelcolor": INK, "axes.labelsize": 9.5},
    **{"axes.spines.right": False, "axes.spines.top": False, "axes.edgecolor": "#999999"},
    **{"axes.grid": True, "axes.grid.axis": "y", "axes.axisbelow": True, "grid.color": "#E6E6E6"},
    **{"xtick.color": GREY, "ytick.color": GREY, "xtick.labelsize": 8.5, "ytick.labelsize": 8.5},
    **{"axes.titlesize": 10.5, "axes.titlelocation": "left", "legend.frameon": False},
    "svg.fonttype": "none",  # text stays text: searchable, selectable, accessible
    "font.sans-serif": ["DejaVu Sans", "Verdana"],  # equally wide
    "svg.hashsalt": "seqmodels",
    "text.parse_math": False,  # a price of $5 is not a formula
}


WIDTH = 9.5
"""Width of a figure in inches; at 800 pixels, a point is 1.17 pixels."""

context = partial(matplotlib.style.context, ["default", RC], after_reset=True)
"""Applies this style in a `with` statement, and leaves the caller's settings unchanged."""


# Looks


def line_styles_for(groups: Groups) -> dict[str, LineStyle]:
    """Return the looks of the models of records by name, in order of history; unknown ones last.

    An arm has a shade of its model's colour, as a variant does.
    """
    first = {model: group[0] for model, group in groups.items()}
    unknown = sorted(model for model, record in first.items() if info_of(record) is None)
    n_others, n_arms = len(PAPERS.keys() - LINE_STYLES.keys()), Counter[str]()
    line_styles: dict[str, LineStyle] = {}
    for model, record in sorted(first.items(), key=lambda item: order_of(item[1])):
        if model in unknown:
            colour, marker, _ = FURTHER[(n_others + unknown.index(model)) % len(FURTHER)]
            line_styles[model] = LineStyle(label_of(record), colour, UNKNOWN, marker)
        elif record.arm:
            paper = model_of(record.base)
            variants = [name for name in variants_of(paper) if paper_of(name).group != "mistaken"]
            number = len(variants) + n_arms[paper]
            colour, marker = shade_of(paper, number)
            look = {"label": label_of(record), "colour": colour, "marker": marker}
            line_styles[model] = line_style_of(record.base)._replace(**look)
            n_arms[paper] += 1
        else:
            line_styles[model] = line_style_of(model)
    return line_styles


def line_style_of(name: str) -> LineStyle:
    """Return the look of a listed model or variant.

    Lines are dashed for models with the source in one vector, solid for models whose memory grows
    with the source, and dash-dotted for models that attend to a memory of fixed size. A variant has
    its model's dashes unless its memory is of another kind, and a shade of its model's colour.
    """
    info, model = paper_of(name), model_of(name)
    vectors = [paper for paper in PAPERS if PAPERS[paper].memory == "vector"]
    dashed = DASHES[vectors.index(model) % len(DASHES)] if model in vectors else DASHES[0]
    dashes = {"vector": dashed, "fixed": LATER, "grows": "-"}[info.memory]
    colour, marker, _ = colour_of(model)
    if name in OLD_NAMES:
        colour, marker = shade_of(model, variants_of(model).index(name))
    return LineStyle(info.label, colour, dashes, marker)


def colour_of(model: str) -> tuple[str, str, float]:
    """Return the colour of one of PAPERS, its marker, and its colour's place in WHEEL."""
    others = [name for name in PAPERS if name not in LINE_STYLES]
    return LINE_STYLES.get(model) or FURTHER[others.index(model) % len(FURTHER)]


def variants_of(model: str) -> list[str]:
    """Return the names that records have of variants of one of PAPERS."""
    return [name for name in OLD_NAMES if model_of(name) == model]


def shade_of(model: str, number: int) -> tuple[str, str]:
    """Return the colour and the marker of the variant of this number of one of PAPERS.

    The shades of the nearest hue come first, but its dark one last.
    """
    n, (_, marker, place) = len(WHEEL), colour_of(model)
    by_distance = sorted(range(n), key=lambda i: abs((i - place + n / 2) % n - n / 2))
    (light, dark), *others = (WHEEL[i] for i in by_distance)
    shades, markers = [light, *chain(*others), dark], VARIANT_MARKERS.replace(marker, "")
    return shades[number % len(shades)], markers[number % len(markers)]


def label_line_styles(records: Sequence[Record]) -> list[LineStyle]:
    """Return the models' looks, labelled with their years and numbers of parameters."""
    groups = group_by_model(records)
    return [
        look._replace(label=f"{label_with_year(groups[m][0])}\n{format_parameters(groups[m])}")
        for m, look in line_styles_for(groups).items()
    ]


def label_with_year(r: Record) -> str:
    """Return the label of a record's model, with the year of its paper unless it differs."""
    paper = PAPERS.get(r.model)
    return f"{label_of(r)} ({paper.year})" if paper else label_of(r)


# Layout

Engine = Literal["constrained", "compressed"]
Texts = tuple[str, str, str]
"""Title, subtitle and caption of a figure."""


class Chart(Figure):
    """A figure that a notebook shows as an SVG."""

    def _repr_svg_(self) -> str:
        with context():
            content = render(self, ".svg").decode()
        fitting = '<svg style="max-width: 100%; height: auto"'  # in place of a height in points
        return re.sub('<svg( [^>]*?) height="[^"]*"', rf"{fitting}\1", content, count=1)


def make_canvas(
    body: float, title: str, subtitle: str, caption: str, width: float = WIDTH
) -> tuple[Figure, float, float]:
    """Return a figure with title, subtitle and caption; bottom and top of `body` inches between.

    The caption is the figure's label as well, from which pages write it in their own type.
    """
    title = textwrap.fill(title, int(84 * width / WIDTH))
    lines = subtitle.split("\n")
    subtitle = "\n".join(textwrap.fill(line, int(122 * width / WIDTH)) for line in lines)
    below_figure = textwrap.fill(caption, int(150 * width / WIDTH))
    first = 0.4 + 0.22 * title.count("\n")
    above = first + 0.1 + 0.17 * (subtitle.count("\n") + 1)
    below = 0.12 + bool(caption) * (0.1 + 0.155 * (below_figure.count("\n") + 1))
    height, x = above + body + below, 0.12 / width
    figure = Chart(figsize=(width, height))
    figure.set_label(caption)
    figure.text(x, 1 - 0.12 / height, title, size=12.5, weight="bold", va="top")
    figure.text(x, 1 - first / height, subtitle, color=GREY, va="top")
    figure.text(x, 0.1 / height, below_figure, color=GREY, size=8.5)
    return figure, below / height, 1 - above / height


def make_figure(
    body: float, texts: Texts, width: float = WIDTH, engine: Engine = "constrained"
) -> Figure:
    """Return a canvas whose axes matplotlib fits into the `body` inches."""
    figure, bottom, top = make_canvas(body, *texts, width)
    figure.set_layout_engine(engine, rect=(0.06 / width, bottom, 1 - 0.12 / width, top - bottom))
    return figure


def make_panels(
    texts: Texts,
    key: Sequence[LineStyle],
    ratios: Sequence[float] = (1,),
    n_columns: int = 2,
    gap: float = 0.0,
    below: float = 0.5,
) -> tuple[Figure, np.ndarray]:
    """Return a figure with title and subtitle, rows of axes with shared x, and a legend.

    The rows have these ratios of heights, and are at least as high as the legend to their right.
    Inches: a `gap` between rows with titles, each of which has a height of its own, and the room
    for the ticks and the name of x `below`.
    """
    labels = ["\n".join(textwrap.fill(line, 26) for line in k.label.split("\n")) for k in key]
    lines = [line for label in labels for line in label.split("\n")]
    above, beside = 0.5, 0.15  # inches
    if key:
        beside = 0.85 + 0.074 * max(map(len, lines))
    rows = 1.6 * len(ratios) if gap else 2.6
    body = max(rows + gap * (len(ratios) - 1), 0.158 * len(lines) + 0.1 * len(labels))
    figure, bottom, top = make_canvas(above + body + below, *texts)
    width, height = figure.get_size_inches()
    right, top = 1 - beside / width, top - above / height
    add_legend(
        figure, [k._replace(label=label) for k, label in zip(key, labels, strict=True)],
        loc="upper left", bbox_to_anchor=(right + 0.15 / width, top), handlelength=3,
        labelspacing=0.6, borderaxespad=0,
    )  # fmt: skip
    axes = figure.subplots(
        len(ratios), n_columns, sharex="col", squeeze=False, height_ratios=ratios,
        gridspec_kw={
            "left": 0.55 / width, "right": right, "bottom": bottom + below / height, "top": top,
            "hspace": gap / 1.6 or 0.07, "wspace": 0.22,
        },
    )  # fmt: skip
    return figure, axes


class LogTicks(LogLocator):
    """Ticks at powers of ten; below two decades also at 2 and 5 times them, or evenly if few."""

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the ticks of an axis from `vmin` to `vmax`."""
        self.set_params(subs=(1, 2, 5) if vmax < 100 * vmin else (1,))
        ticks = np.asarray(super().tick_values(vmin, vmax))
        is_enough = np.count_nonzero((vmin <= ticks) & (ticks <= vmax)) > 1
        return ticks if is_enough else MaxNLocator(4).tick_values(vmin, vmax)


def set_log(ax: Axes, axis: str, write: str | Callable[..., str], base: float = 10) -> None:
    """Give an axis, x or y, a logarithmic scale with numbers that matplotlib writes so."""
    getattr(ax, f"set_{axis}scale")("log", base=base)
    its = getattr(ax, f"{axis}axis")
    if base == 10:
        its.set_major_locator(LogTicks())
    its.set_major_formatter(write)
    ax.minorticks_off()


def add_legend(figure: FigureBase, key: Sequence[LineStyle], **place: Any) -> None:
    """Add a legend of these looks, if there are any."""
    handles = [
        Line2D([], [], color=k.colour, ls=k.dashes, marker=k.marker, lw=2, ms=5, label=k.label)
        for k in key
    ]
    if handles:
        figure.legend(handles=handles, fontsize=9, **place)


def make_panel(texts: Texts, below: float = 0.5) -> tuple[Figure, Axes]:
    """Return a figure with one panel, and room for the names of its lines to the right."""
    figure, bottom, top = make_canvas(3.6, *texts, width=0.76 * WIDTH)  # so its type is larger
    width, height = figure.get_size_inches()
    size = 1 - 2.85 / width, top - bottom - (0.5 + below) / height
    return figure, figure.add_axes((0.45 / width, bottom + below / height, *size))


def name_lines(ax: Axes, names: Iterable[tuple[float, str, str]]) -> None:
    """Write names (y, text, colour) to the right of a panel, above each other where they meet."""
    y, gap = -np.inf, 0.07 * np.ptp(ax.get_ylim())
    place: Look = {"transform": ax.get_yaxis_transform(), "va": "center"}
    for end, text, colour in sorted(names):
        y = max(end, y + gap)
        ax.text(1.01, y, text, color=colour, weight="bold", **place)


def draw_seeds(
    ax: Axes,
    line_style: LineStyle,
    seeds: Mapping[float, np.ndarray],
    lw: float = 1.9,
    ms: float = 5,
) -> None:
    """Draw the mean and the range of the seeds' scores at each x."""
    draw: Look = {"color": line_style.colour, "clip_on": False, "zorder": 4}
    mean, low, high = ([f(v) for v in seeds.values()] for f in (np.mean, np.min, np.max))
    ax.plot([*seeds], mean, line_style.marker, ls=line_style.dashes, lw=lw, ms=ms, **draw)
    ax.vlines([*seeds], low, high, lw=1.1, **draw)


def draw_map(
    ax: Axes, weights: ArrayLike, rows: Sequence[str], columns: Sequence[str], top: float, lw: float
) -> None:
    """Draw weights from 0 to `top` as a heat map, with words at its upper and left edge."""
    ax.pcolormesh(weights, cmap=HEAT, vmin=0, vmax=top, edgecolors="#EDEDED", lw=lw)
    ax.invert_yaxis()
    ax.grid(False)
    ax.xaxis.tick_top()
    ax.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=90)
    ax.set_yticks(np.arange(len(rows)) + 0.5, rows)
    ax.tick_params(length=0, labelcolor=INK, pad=2)


def mark_cell(ax: Axes, x: int, y: int, lw: float, colour: str = "#E8741C") -> None:
    """Draw an open square in a cell of a heat map."""
    ax.add_patch(Rectangle((x + 0.06, y + 0.06), 0.88, 0.88, fill=False, ec=colour, lw=lw))


# Files


def save_own(drawings: Mapping[str, Figure], folder: Path) -> list[Path]:
    """Write figures as NAME.svg and NAME.png; return the paths."""
    paths = {folder / f"{name}{kind}": drawings[name] for name in drawings for kind in STAMPS}
    return [save(figure, path) for path, figure in paths.items()]


def save(figure: Figure, path: Path) -> Path:
    """Write .svg or .png, with the same bytes every time."""
    if path.suffix.lower() not in STAMPS:
        raise ValueError(f"{path}: a figure is written as .svg or .png")
    return files.write(path, render(figure, path.suffix.lower()))


def render(figure: Figure, kind: str) -> bytes:
    """Return a figure as .svg or .png.

    An SVG gets the first text of the figure as its title, and the others and its label as its
    description.
    """
    installed = set(font_manager.get_font_names())
    families = ["DejaVu Sans", *(name for name in FALLBACK_FONTS if name in installed)]
    for text in figure.findobj(Text):
        if NOT_IN_DEFAULT_FONT.search(text.get_text()):
            text.set_fontfamily(families)
    buffer = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if figure.get_layout_engine():
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
            for ax in figure.axes:  # the solver's last digits differ from run to run
                bounds = (round(edge, 4) for edge in ax.get_position().bounds)
                ax.set_position(Bbox.from_bounds(*bounds))
        figure.savefig(buffer, format=kind[1:], dpi=160, metadata=STAMPS[kind])
    if any("missing from" in str(warning.message) for warning in caught):
        note_missing_glyphs()
    content = buffer.getvalue()
    if kind == ".svg":
        title, *more = dict.fromkeys([*texts_of(figure), str(figure.get_label())])
        about = html.escape(" ".join(filter(None, more)))
        head = f"<title>{html.escape(title)}</title>\n <desc>{about}</desc>"
        content = re.sub(
            rb"(<svg [^>]*>)", lambda m: m[0] + f"\n {head}".encode(), content, count=1
        )
    return content


def texts_of(figure: Figure) -> list[str]:
    """Return the texts of a figure, title first, each in one line."""
    return [" ".join(text.get_text().split()) for text in figure.texts] or [""]


@cache
def note_missing_glyphs() -> None:
    """Print, once, that some characters have no font here."""
    print(
        "note: no font here has some of the characters: PNG files show boxes; SVG files keep the "
        "text for viewers with a font. On Debian: apt install fonts-noto fonts-noto-cjk",
        file=sys.stderr,
    )

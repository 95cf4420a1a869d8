"""The style of figures: a colour, a line and a marker for each model, layout, and files."""

from __future__ import annotations

import html
import io
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike

from seqmodels.models import PAPERS, model_of, paper_of
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
    "rnn_encdec": ("#C98200", "s", 0),
    "bahdanau": ("#1B75BC", "o", 8),
    "lstm_seq2seq": ("#B02A1E", "D", 14),
    "transformer": ("#009B77", "^", 4),
    "gpt": ("#3B2A84", "v", 10),
    "linear_attention": ("#C2459A", "P", 12),
    "mamba2": ("#7F8F00", "X", 2),
    "gated_deltanet": ("#7A5230", "*", 1),
}
"""Colour and marker of each model, and where the shades of its variants begin in SHADES."""
OTHERS = (("#6B6B6B", "P", 6), ("#9A4E00", "X", 1), ("#4F6D7A", "*", 9))
"""The same for models that are not listed here, used in turn."""
SHADES = (
    "#D48E23", "#723F00", "#A2A62A", "#505200", "#51B770", "#055D2C", "#00B5CC", "#005C6C",
    "#4EA4F1", "#11538F", "#9B8FF0", "#4C4185", "#DE77AB", "#773056", "#E87A67", "#7E3125",
)  # fmt: skip
"""A light and a dark shade of eight hues in a circle, for variants."""
VARIANT_MARKERS = "os^vDPX<>phd8*H"
DASHES: dict[str, Dashes] = {
    "vector": (0, (4, 1.6)), "grows": "-", "fixed": (0, (1.2, 1.6, 6, 1.6, 1.2, 1.6)),
}  # fmt: skip
"""The line of a model by its memory of the source; see `ModelInfo.memory`."""
UNKNOWN: Dashes = (0, (6, 1.5, 1.2, 1.5))
"""The line of models that are not registered."""
INK, GREY = "#222222", "#666666"
BETTER, WORSE = "#1B75BC", "#E8741C"
"""Colours of significant differences."""
HEAT = LinearSegmentedColormap.from_list("heat", ["#FFFFFF", "#9CC7E8", "#1B75BC", "#14254F"])
"""The colours of heat maps."""
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
    "svg.hashsalt": "seqmodels",
    "text.parse_math": False,  # a price of $5 is not a formula
}
WIDTH = 9.5
"""Width of a figure in inches; at 800 pixels, a point is 1.17 pixels."""

context = partial(matplotlib.style.context, ["default", RC], after_reset=True)
"""Applies this style in a `with` statement, and leaves the caller's settings unchanged."""

# ------------------------------------------------------------------------------------ Line styles


def line_styles_for(groups: Groups) -> dict[str, LineStyle]:
    """Return the line styles of the models of records, in order of history, unknown ones last.

    Variants of a model, and arms, have shades near its colour.
    """
    line_styles: dict[str, LineStyle] = {}
    n_shades, n_unknown = Counter[str](), 0
    for model, (record, *_) in sorted(groups.items(), key=lambda item: order_of(item[1][0])):
        if info_of(record) is None:
            colour, marker, _ = OTHERS[n_unknown % len(OTHERS)]
            line_styles[model] = LineStyle(label_of(record), colour, UNKNOWN, marker)
            n_unknown += 1
            continue
        paper = model_of(record.base)
        line_styles[model] = line_style_of(record.base, n_shades[paper], record.arm is not None)
        line_styles[model] = line_styles[model]._replace(label=label_of(record))
        n_shades[paper] += model != paper
    return line_styles


def line_style_of(name: str, number: int = 0, is_shaded: bool = False) -> LineStyle:
    """Return the line style of a listed model, or of the variant of this number of a model."""
    info, model = paper_of(name), model_of(name)
    unlisted = [paper for paper in PAPERS if paper not in LINE_STYLES]
    colour, marker, first = LINE_STYLES.get(model) or OTHERS[unlisted.index(model) % len(OTHERS)]
    if name != model or is_shaded:
        colour = SHADES[(first + number) % len(SHADES)]
        markers = VARIANT_MARKERS.replace(marker, "")
        marker = markers[number % len(markers)]
    return LineStyle(info.label, colour, DASHES[info.memory], marker)


def label_line_styles(records: Sequence[Record]) -> list[LineStyle]:
    """Return the models' line styles, labelled with their years and numbers of parameters."""
    groups = group_by_model(records)
    return [
        look._replace(label=f"{label_with_year(groups[m][0])}\n{format_parameters(groups[m])}")
        for m, look in line_styles_for(groups).items()
    ]


def label_with_year(r: Record) -> str:
    """Return the label of a record's model, with the year of its paper unless it differs."""
    paper = PAPERS.get(r.model)
    return f"{label_of(r)} ({paper.year})" if paper else label_of(r)


# ----------------------------------------------------------------------------------------- Layout

Texts = tuple[str, str, str]
"""Title and subtitle of a figure, and its caption, which stands beside it in a page."""


class Chart(Figure):
    """A figure that a notebook shows as an SVG."""

    def _repr_svg_(self) -> str:
        with context():
            content = render(self, ".svg").decode()
        fitting = '<svg style="max-width: 100%; height: auto"'  # in place of a height in points
        return re.sub('<svg( [^>]*?) height="[^"]*"', rf"{fitting}\1", content, count=1)


def make_figure(body: float, texts: Texts, width: float = WIDTH) -> Figure:
    """Return a figure with a title above `body` inches of axes and a subtitle below.

    Its caption is its label.
    """
    title, subtitle, caption = texts
    figure = Chart(figsize=(width, body + 0.8), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", size=12.5, weight="bold", wrap=True)
    figure.supxlabel(subtitle, x=0.01, ha="left", size=8.5, color=GREY, wrap=True)
    figure.set_label(caption)
    return figure


def make_panels(
    texts: Texts, key: Sequence[LineStyle], ratios: Sequence[float] = (1,), n_columns: int = 2
) -> tuple[Figure, np.ndarray]:
    """Return a figure with rows of axes of these heights, which share x, and a legend beside."""
    wrap = partial(textwrap.fill, width=26)
    key = [k._replace(label="\n".join(map(wrap, k.label.split("\n")))) for k in key]
    n_lines = sum(k.label.count("\n") + 1 for k in key)
    rows = sum(ratio == max(ratios) for ratio in ratios)
    figure = make_figure(max(2.3 * rows + 1, 0.19 * n_lines + 0.1 * len(key)), texts)
    axes = figure.subplots(len(ratios), n_columns, sharex="col", squeeze=False,
                           height_ratios=ratios)  # fmt: skip
    add_legend(figure, key, loc="outside right upper", handlelength=3, labelspacing=0.6)
    return figure, axes


def add_legend(figure: Any, key: Sequence[LineStyle], **place: Any) -> None:
    """Add a legend of these line styles, if there are any."""
    handles = [
        Line2D([], [], color=k.colour, ls=k.dashes, marker=k.marker, lw=2, ms=5, label=k.label)
        for k in key
    ]
    if handles:
        figure.legend(handles=handles, fontsize=9, **place)


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


def name_lines(ax: Axes, names: Iterable[tuple[float, str, str]]) -> None:
    """Write names (y, text, colour) to the right of a panel, above each other where they meet."""
    y, gap = -np.inf, 0.07 * np.ptp(ax.get_ylim())
    for end, text, colour in sorted(names):
        y = max(end, y + gap)
        ax.annotate(text, (1.01, y), xycoords=ax.get_yaxis_transform(), color=colour,
                    weight="bold", va="center", annotation_clip=False)  # fmt: skip


def draw_seeds(
    ax: Axes,
    line_style: LineStyle,
    seeds: Mapping[float, np.ndarray],
    lw: float = 1.9,
    ms: float = 5,
) -> None:
    """Draw the mean and the range of the seeds' scores at each x."""
    if not seeds:  # an empty line has no place, and would be laid out as if it had
        return
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


# ------------------------------------------------------------------------------------------ Files


def save_all(drawings: Mapping[str, Figure], folder: Path) -> list[Path]:
    """Write figures as NAME.svg and NAME.png; return the paths."""
    return [save(drawn, folder / f"{name}{kind}")
            for name, drawn in drawings.items() for kind in STAMPS]  # fmt: skip


def save(figure: Figure, path: Path) -> Path:
    """Write .svg or .png, with the same bytes every time."""
    if path.suffix.lower() not in STAMPS:
        raise ValueError(f"{path}: a figure is written as .svg or .png")
    return files.write(path, render(figure, path.suffix.lower()))


def render(figure: Figure, kind: str) -> bytes:
    """Return a figure as .svg, with its texts as title and description, or as .png."""
    buffer = io.BytesIO()
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for ax in figure.axes:  # the solver's last digits differ from run to run
        bounds = (round(edge, 4) for edge in ax.get_position().bounds)
        ax.set_position(Bbox.from_bounds(*bounds))
    figure.savefig(buffer, format=kind[1:], dpi=160, metadata=STAMPS[kind])
    if kind == ".png":
        return buffer.getvalue()
    about = f"{figure.get_supxlabel()} {figure.get_label()}".strip()
    head = f"\n <title>{html.escape(figure.get_suptitle())}</title>\n <desc>{html.escape(about)}"
    return re.sub(r"(<svg [^>]*>)", lambda m: f"{m[0]}{head}</desc>",
                  buffer.getvalue().decode(), count=1).encode()  # fmt: skip

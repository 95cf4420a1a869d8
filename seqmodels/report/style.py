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

from seqmodels.evaluation.intervals import MIN_ROWS
from seqmodels.models import INFOS, PAPERS, model_of, paper_of
from seqmodels.records.schema import Record, Test
from seqmodels.report import load
from seqmodels.utils import files

Dashes = str | tuple[float, tuple[float, ...]]
"""Dashes of a line, as matplotlib takes them: a name, or an offset and lengths in points."""
Look = dict[str, Any]
"""Keyword arguments of matplotlib: how something is drawn."""


class LineStyle(NamedTuple):
    """The label and the line style of one model."""

    label: str
    colour: str
    dashes: Dashes
    marker: str

    @property
    def line(self) -> Look:
        """The style as keyword arguments of matplotlib's lines."""
        return {"color": self.colour, "ls": self.dashes, "marker": self.marker}


LINE_STYLES = {
    "rnn_encdec": ("#C98200", "s", 0),
    "bahdanau": ("#1B75BC", "o", 8),
    "lstm_seq2seq": ("#B02A1E", "D", 14),
    "transformer": ("#009B77", "^", 4),
    "gpt": ("#3B2A84", "v", 10),
    "linear_attention": ("#C2459A", "P", 12),
    "mamba2": ("#7F8F00", "X", 2),
    "gated_deltanet": ("#7A5230", "*", 15),
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
    ".svg": {"Date": None, "Creator": "seqmodels"},
    ".png": {"Software": "seqmodels"},
}
"""Metadata of each kind of file, without what differs between runs; see `files.FILE_MARKS`."""

RC: Look = {
    **{"font.size": 9.5, "text.color": INK, "axes.labelcolor": INK, "axes.labelsize": 9.5},
    **{"axes.spines.right": False, "axes.spines.top": False, "axes.edgecolor": "#999999"},
    **{"axes.grid": True, "axes.grid.axis": "y", "axes.axisbelow": True, "grid.color": "#E6E6E6"},
    **{"xtick.color": GREY, "ytick.color": GREY, "xtick.labelsize": 8.5, "ytick.labelsize": 8.5},
    **{"axes.titlesize": 10.5, "axes.titlelocation": "left", "legend.frameon": False},
    **{"legend.fontsize": 9, "lines.linewidth": 1.9, "lines.markersize": 4.5},
    "svg.fonttype": "none",  # text stays text: searchable, selectable, accessible
    "svg.hashsalt": "seqmodels",
    "text.parse_math": False,  # a price of $5 is not a formula
}
WIDTH, PANEL, LINE, MARGIN = 9.5, 2.6, 0.27, 1.5
"""Inches: a figure's width, the heights of a panel and of a labelled row, and titles and labels."""
MARKS = (
    "Line: mean of the seeds · whisker: their range · band: 95 % interval over the examples · "
    f"hollow: fewer than {load.MIN_EXAMPLES} examples"
)
"""The note below a figure of scores: the marks of `draw_line`."""

context = partial(matplotlib.style.context, ["default", RC], after_reset=True)
"""Applies this style in a `with` statement, and leaves the caller's settings unchanged."""

# ------------------------------------------------------------------------------------ Line styles


def line_styles_for(groups: load.Groups) -> dict[str, LineStyle]:
    """Return the line styles of the models of records, in order of history, unknown ones last.

    Variants of a model, and arms, have shades near its colour.
    """
    line_styles: dict[str, LineStyle] = {}
    n_shades, n_unknown = Counter[str](), 0
    for model, (record, *_) in sorted(groups.items(), key=lambda item: load.order_of(item[1][0])):
        if record.base not in INFOS:
            colour, marker, _ = OTHERS[n_unknown % len(OTHERS)]
            line_styles[model] = LineStyle(load.label_of(record), colour, UNKNOWN, marker)
            n_unknown += 1
            continue
        paper = model_of(record.base)
        line_styles[model] = line_style_of(record.base, n_shades[paper], record.arm is not None)
        line_styles[model] = line_styles[model]._replace(label=load.label_of(record))
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


def label_line_styles(records: Sequence[Record]) -> dict[str, LineStyle]:
    """Return the models' line styles, labelled with their years and numbers of parameters."""
    looks = line_styles_for(groups := load.group_by_model(records))
    for model, group in groups.items():
        label = f"{label_with_year(group[0])}\n{load.format_parameters(group)}"
        looks[model] = looks[model]._replace(label=label)
    return looks


def label_with_year(r: Record) -> str:
    """Return the label of a record's model, with the year of its paper unless it differs."""
    paper = PAPERS.get(r.model)
    return f"{load.label_of(r)} ({paper.year})" if paper else load.label_of(r)


# ----------------------------------------------------------------------------------------- Layout


class Chart(Figure):
    """A figure that a notebook shows as an SVG."""

    def _repr_svg_(self) -> str:
        with context():
            content = render(self, ".svg").decode()
        fitting = '<svg style="max-width: 100%; height: auto"'  # in place of a height in points
        return re.sub('<svg( [^>]*?) height="[^"]*"', rf"{fitting}\1", content, count=1)


def make_figure(
    title: str,
    records: Sequence[Record],
    key: Sequence[LineStyle] = (),
    heights: Sequence[float] = (PANEL,),
    n_columns: int = 1,
    note: str = "",
    **shared: Any,
) -> tuple[Figure, np.ndarray]:
    """Return a figure with rows of axes of these heights in inches, and a legend beside them.

    Below stand what the records are, and a note on what is drawn.
    """
    subtitle = f"{load.format_subtitle(records) if records else ''}\n{note}".strip()
    figure = Chart(figsize=(WIDTH, MARGIN + sum(heights)), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", size=12.5, weight="bold", wrap=True)
    figure.supxlabel(subtitle, x=0.01, ha="left", size=8.5, color=GREY, wrap=True)
    axes = figure.subplots(len(heights), n_columns, squeeze=False, height_ratios=heights, **shared)
    if key:
        handles = [Line2D([], [], label=wrap_lines(k.label), **k.line) for k in key]
        legend = figure.legend(handles=handles, loc="outside right upper", handlelength=3)
        height = legend.get_window_extent().height / figure.dpi
        figure.set_figheight(max(figure.get_figheight(), height))
    return figure, axes


def wrap_lines(label: str) -> str:
    """Break the long lines of a label."""
    return "\n".join(textwrap.fill(line, 26) for line in label.split("\n"))


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


def draw_line(
    ax: Axes, look: LineStyle, seeds: Mapping[float, np.ndarray], n: Sequence[int] = ()
) -> None:
    """Draw the scores of seeds at each x, (seeds, 3), of n examples: value, low and high.

    See `MARKS`. The line ends at the last x with MIN_EXAMPLES; beyond it are hollow markers alone.
    """
    x, counts = np.array([*seeds]), np.array(n or [load.MIN_EXAMPLES] * len(seeds))
    mean, low, high = np.array([scores.mean(axis=0) for scores in seeds.values()]).T
    least, most = ([f(scores[:, 0]) for scores in seeds.values()] for f in (np.min, np.max))
    many, few = (
        np.flatnonzero(counts >= load.MIN_EXAMPLES),
        np.flatnonzero(counts < load.MIN_EXAMPLES),
    )
    end = max(many[np.isfinite(mean[many])], default=-1) + 1
    draw: Look = {"clip_on": False, "zorder": 4, "in_layout": False}
    ax.fill_between(x[:end], low[:end], high[:end], (counts >= MIN_ROWS)[:end],
                    color=look.colour, alpha=0.16, lw=0)  # fmt: skip
    ax.plot(x[:end], mean[:end], **look.line, **draw, markevery=[*many[many < end]])
    ax.vlines(x[:end], least[:end], most[:end], color=look.colour, lw=1.1, **draw)
    ax.plot(x[few], mean[few], look.marker, color=look.colour, mfc="white", ms=3.5, alpha=0.6,
            **draw)  # fmt: skip


def mark_trained(ax: Axes, test: Test, label: str = "longer than trained") -> None:
    """Shade the buckets that are longer than all training examples, on an axis of buckets."""
    n_buckets = len(test.buckets)
    ax.set_xlim(-0.5, n_buckets - 0.5)
    beyond = [i for i, bucket in enumerate(test.buckets) if load.is_beyond(test, bucket)]
    for edge in beyond[:1]:
        ax.axvspan(edge - 0.5, n_buckets - 0.5, color="#F5F2EA", lw=0, zorder=0)
        ax.axvline(edge - 0.5, color="#999999", lw=0.9, ls=(0, (2, 2)), zorder=1)
        ax.set_title(label, loc="right", size=8.5, color=GREY)


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
    """Write figures as NAME.svg and NAME.png; return the paths.

    Raises ValueError, and writes none, if one would replace a file that is not ours.
    """
    paths = {files.claim_file(folder / f"{name}{kind}"): drawn
             for name, drawn in drawings.items() for kind in STAMPS}  # fmt: skip
    return [save(drawn, path) for path, drawn in paths.items()]


def save(figure: Figure, path: Path) -> Path:
    """Write .svg or .png, with the same bytes every time."""
    if path.suffix.lower() not in STAMPS:
        raise ValueError(f"{path}: a figure is written as .svg or .png")
    return files.write(path, render(figure, path.suffix.lower()))


def render(figure: Figure, kind: str) -> bytes:
    """Return a figure as .svg, with its texts as title and description, or as .png."""
    buffer = io.BytesIO()
    for ax in figure.axes:  # the places of a grid beyond its panels
        ax.set_visible(ax.has_data())
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for ax in figure.axes:  # the solver's last digits differ from run to run
        bounds = (round(edge, 4) for edge in ax.get_position().bounds)
        ax.set_position(Bbox.from_bounds(*bounds))
    figure.savefig(buffer, format=kind[1:], dpi=160, metadata=STAMPS[kind])
    if kind == ".png":
        return buffer.getvalue()
    title, about = map(html.escape, (figure.get_suptitle(), figure.get_supxlabel()))
    head = f"\n <title>{title}</title>\n <desc>{about}"
    return re.sub(r"(<svg [^>]*>)", lambda m: f"{m[0]}{head}</desc>",
                  buffer.getvalue().decode(), count=1).encode()  # fmt: skip

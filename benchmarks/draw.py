"""Draw the growth of time with length, from a file of results alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from seqmodels.models import INFOS
from seqmodels.report import style
from seqmodels.report.load import format_short
from seqmodels.report.style import GREY, WIDTH, save
from seqmodels.utils.files import read_json

SCHEMA = "seqmodels.benchmarks/1"
LINE_STYLES = {name: style.line_style_of(name) for name in INFOS}
Point = dict[str, Any]


def load_growth(path: Path) -> dict[str, Any]:
    """Read results; raise ValueError if the file holds no growth with length."""
    results = read_json(path)
    is_ours = isinstance(results, dict) and results.get("schema") == SCHEMA
    if not is_ours or not {"growth-length", "growth-writing"} <= results["parts"].keys():
        raise ValueError(f"{path} holds no growth with length of this version ({SCHEMA})")
    return dict(results)


def panel(ax: Axes, points: Sequence[Point], y: Callable[[Point], float]) -> dict[int, float]:
    """Draw one line per model, log-log, with ticks at the points; return the lowest points."""
    points = [p for p in points if "skipped" not in p]
    for name, line_style in LINE_STYLES.items():
        if line := [p for p in points if p["model"] == name]:
            xs, ys, colour = [p["n"] for p in line], [y(p) for p in line], line_style.colour
            ax.plot(xs, ys, line_style.marker, color=colour, ls=line_style.dashes, ms=4.5)
    ax.set(xscale="log", yscale="log")
    places, heights = sorted({p["n"] for p in points}), [y(p) for p in points]
    shown = places[:: 1 + len(places) // 10]
    ax.set_xticks(shown, map(str, shown))
    is_tall = max(heights) > 30 * min(heights)
    ax.yaxis.set_major_locator(LogLocator(subs=(1,) if is_tall else (1, 2, 5)))
    ax.yaxis.set_major_formatter(format_short)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(NullLocator())
    return {place: min(y(p) for p in points if p["n"] == place) for place in places}


def guides(ax: Axes, drawn: Mapping[int, float], slopes: Mapping[int, str]) -> None:
    """Draw dotted guide lines with these slopes, starting below the data."""
    x, end = sorted(drawn)[len(drawn) // 3], max(drawn)
    y = drawn[x] / 1.6
    top = max(ax.get_ylim()[1], y * end / x)
    for slope, label in slopes.items():
        to = min(end, x * (top / y) ** (1 / slope))
        ax.plot([x, to], [y, y * (to / x) ** slope], ":", color=GREY, lw=1.2, zorder=1)
        ha, va = ("left", "top") if slope == 1 else ("right", "bottom")
        place = x * (to / x) ** 0.8, y * (to / x) ** (0.8 * slope)
        ax.text(*place, f" {label} ", color=GREY, fontsize=8.5, ha=ha, va=va)
    ax.set_ylim(top=top)


def draw_growth(results: dict[str, Any]) -> Figure:
    """Draw the time of a training step, and of decoding a token, and what is kept, by length."""
    figure = Figure((WIDTH, 4.4))
    figure.subplots_adjust(left=0.085, right=0.985, top=0.8, bottom=0.12, wspace=0.3)
    figure.text(0.015, 0.955, "Cost against length", fontsize=12.5, weight="bold", va="center")
    where = results["provenance"]
    note = f"{where['device']}, threads: {where['threads']}, {where['date']}, float32. "
    note += "A line ends where a point needs more than 4 GB."
    figure.text(0.015, 0.905, note, color=GREY, va="center")
    trained, written = (
        results["parts"][f"growth-{axis}"]["points"] for axis in ("length", "writing")
    )
    kept = [point for point in written if "state_bytes" in point]
    left, right, *last = figure.subplots(1, 3 if kept else 2)
    models = {point["model"] for point in trained}
    handles = [
        Line2D([], [], color=k.colour, ls=k.dashes, marker=k.marker, ms=4.5, label=k.label)
        for model, k in LINE_STYLES.items()
        if model in models
    ]
    figure.legend(handles=handles, ncols=5, loc="upper left", bbox_to_anchor=(0.006, 0.885),
                  frameon=False, fontsize=8.5, columnspacing=1.4, handlelength=2.4)  # fmt: skip
    drawn = panel(left, trained, lambda p: 1e3 * p["step_s"] / p["rows"])
    left.set(xlabel="source and target tokens", ylabel="training on one sequence (ms)")
    guides(left, drawn, {1: "∝ S", 2: "∝ S²"})
    drawn = panel(right, written, lambda p: 1e3 * p["token_s"] / p["rows"])
    right.set(xlabel="source tokens", ylabel="decoding one token of one row (ms)")
    guides(right, drawn, {1: "∝ S"})
    for ax in last:
        panel(ax, kept, lambda p: p["state_bytes"] / p["rows"])
        ax.set(xlabel="source tokens", ylabel="bytes kept of one source")
    return figure


def draw(path: Path) -> Path:
    """Draw the figure beside the results; return its path."""
    with style.context():
        return save(draw_growth(load_growth(path)), path.with_name(f"{path.stem}-length.svg"))

"""Turn results into one Markdown file and three figures, deterministically to the byte."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from benchmarks.measure import ratio, spread
from seqmodels.models import PAPERS
from seqmodels.report import style
from seqmodels.report.load_records import format_short
from seqmodels.report.style import GREY, WIDTH, save
from seqmodels.report.tables import format_markdown
from seqmodels.utils.files import write

SCHEMA = "seqmodels.benchmarks/1"
LINE_STYLES = style.line_styles_for(PAPERS)
Part = dict[str, Any]


def load(path: Path) -> dict[str, Any]:
    """Read results; raise ValueError if the file does not hold any."""
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} holds no results: {error}") from None
    if not isinstance(results, dict) or results.get("schema") != SCHEMA:
        raise ValueError(f"{path} holds no results of this version ({SCHEMA})")
    return results


# ---- Tables


def number(x: float) -> str:
    """Format a number with three significant digits, or as an integer from 100 on."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def span(values: Sequence[float], write: Callable[[float], str] = number) -> str:
    """Format the median, with the lowest and the highest in brackets."""
    middle, low, high = map(write, spread(values))
    return middle if len(values) == 1 else f"{middle} [{low}–{high}]"


def contest_rows(parts: Sequence[Part]) -> list[list[str]]:
    """Return a row for each of our sides against each peer, and for each skipped peer."""
    rows = [["contest", "unit", "ours", "", "against", "", "ratio [range]", "bar", ""]]
    for part in parts:
        rates = part["rates"]
        ours = [side for side in rates if side.startswith("ours")]
        for peer in [side for side in rates if side not in ours]:
            for side in ours if not peer.endswith("autocast") else ours[1:]:  # bfloat16 on both
                bar, found = part["bars"].get(peer), ratio(rates[side], rates[peer])
                rows.append([
                    part["title"], part["unit"],
                    side.removeprefix("ours").strip(" ,"), number(spread(rates[side]).median),
                    peer, number(spread(rates[peer]).median),
                    f"{found.median:.2f} [{found.low:.2f}–{found.high:.2f}]",
                    f"{bar:g}" if bar else "–",
                    "–" if not bar else "yes" if found.median >= bar else "no",
                ])  # fmt: skip
        for peer, reason in part["skipped"].items():
            rows.append([part["title"], part["unit"], "", "", peer, "", "skipped", "–", "–"])
            rows[-1][5] = reason.replace("|", "/")
    return rows


def growth_rows(points: Sequence[Part], axis: str) -> list[list[str]]:
    """Return a table of models × points along an axis."""
    key = {"length": "n", "writing": "n", "batch": "rows", "width": "width"}[axis]
    places = sorted({point[key] for point in points})
    rows = [[{"n": "S", "rows": "rows"}.get(key, key), *map(str, places)]]
    for name in LINE_STYLES:
        cells = {p[key]: cell(p, axis) for p in points if p["model"] == name}
        if cells:
            rows.append([LINE_STYLES[name].label, *(cells.get(place, "–") for place in places)])
    return rows


def cell(point: Part, axis: str) -> str:
    """Format a point's result."""
    if "skipped" in point:
        return "–"
    if axis == "length":
        return f"{number(1e3 * point['step_s'] / point['rows'])} ms, {size_of(point['peak_bytes'])}"
    if axis == "writing":
        return f"{number(1e6 * point['token_s'] / point['rows'])} µs"
    return number(point["n"] * point["rows"] / point["step_s"])


def size_of(n_bytes: float, _: object = None) -> str:
    """Format bytes in a readable unit."""
    return format_short(n_bytes, unit="B")


GROWTH = {
    "length": "Training on one sequence of S = T tokens: time and peak memory of a step",
    "writing": "Greedy decoding of one token after a source of S tokens: time per row",
    "batch": "Training, target tokens/s against batch size",
    "width": "Training, target tokens/s against width",
}


def growth_text(part: Part) -> str:
    """Return the table of one axis, followed by the reasons for empty cells."""
    reasons = dict.fromkeys(
        f"{LINE_STYLES[p['model']].label} at {p['n']}: {p['skipped']}"
        for p in part["points"]
        if "skipped" in p
    )
    table = format_markdown(growth_rows(part["points"], part["axis"]))
    note = f"\n\nNo result: {'; '.join(reasons)}." if reasons else ""
    return f"### {GROWTH[part['axis']]}\n\n{table}{note}"


def profile_rows(part: Part) -> list[list[str]]:
    """Return a row per step: its time, each group's share, and the most expensive operations."""
    groups = list(part["rows"][0]["shares"])
    rows = [["model", "step", "ms", *(f"{group} (%)" for group in groups), "most expensive"]]
    for row in part["rows"]:
        shares = [f"{row['shares'][group]:.0f}" for group in groups]
        most = ", ".join(f"{op} {share:.0f}" for op, share in list(row["most"].items())[:4])
        step = [LINE_STYLES[row["model"]].label, row["step"], number(1e3 * row["step_s"])]
        rows.append([*step, *shares, most])
    return rows


def tables(results: dict[str, Any]) -> str:
    """Return all tables as Markdown."""
    where, parts = results["provenance"], list(results["parts"].values())
    commit = (where["commit"] or "no commit")[:12]
    lines = [
        f"{where['device']}, {where['threads']} threads, {where['date']}, commit {commit}; "
        f"{results['rounds']} rounds: median [lowest–highest]",
        ", ".join(f"{name} {version}" for name, version in where["versions"].items()),
    ]
    if contests := [part for part in parts if part["kind"] == "contest"]:
        lines += ["### Contests", format_markdown(contest_rows(contests))]
    for part in parts:
        if part["kind"] == "growth":
            lines.append(growth_text(part))
        elif part["kind"] == "rows":
            rows = [[r["what"], r["unit"], span(r["values"]) if r["values"] else "–"]
                    for r in part["rows"]]  # fmt: skip
            lines += [f"### {part['title']}", format_markdown([["what", "unit", "median"], *rows])]
        elif part["kind"] == "profile":
            lines += [f"### {part['title']}", format_markdown(profile_rows(part))]
    return "\n\n".join(lines) + "\n"


# ---- Figures


def panel(ax: Axes, points: Sequence[Part], x: str, y: Callable[[Part], float]) -> dict[int, float]:
    """Draw one line per model, log-log, with ticks at the points; return the lowest points."""
    points = [p for p in points if "skipped" not in p]
    for name, line_style in LINE_STYLES.items():
        line = [p for p in points if p["model"] == name]
        xs, ys = [p[x] for p in line], [y(p) for p in line]
        ax.plot(xs, ys, line_style.marker, color=line_style.colour, ls=line_style.dashes, ms=4.5)
    ax.set(xscale="log", yscale="log")
    places, heights = sorted({p[x] for p in points}), [y(p) for p in points]
    ax.set_xticks(places, map(str, places))
    is_tall = max(heights) > 30 * min(heights)
    ax.yaxis.set_major_locator(LogLocator(subs=(1,) if is_tall else (1, 2, 5)))
    ax.yaxis.set_major_formatter(FuncFormatter(format_short))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(NullLocator())
    return {place: min(y(p) for p in points if p[x] == place) for place in places}


def guides(ax: Axes, drawn: Mapping[int, float], slopes: Mapping[int, str]) -> None:
    """Draw dotted guide lines with these slopes, starting below the data."""
    x, end = sorted(drawn)[len(drawn) // 3], max(drawn)
    y = drawn[x] / 1.6
    top = max(ax.get_ylim()[1], y * end / x)
    for slope, label in slopes.items():
        to = min(end, x * (top / y) ** (1 / slope))
        ax.plot([x, to], [y, y * (to / x) ** slope], ":", color=GREY, lw=1.2, zorder=1)
        ax.text(to, y * (to / x) ** slope, f" {label}", color=GREY, fontsize=8.5, va="center")
    ax.set_ylim(top=top)


def page(results: dict[str, Any], title: str, n: int) -> tuple[Figure, list[Axes]]:
    """Return a figure of `n` panels with a title, the machine and a legend of the models."""
    figure = Figure((WIDTH, 4.4))
    axes = list(figure.subplots(1, n, squeeze=False)[0])
    figure.subplots_adjust(left=0.085, right=0.985, top=0.8, bottom=0.12, wspace=0.22)
    figure.text(0.015, 0.955, title, fontsize=12.5, weight="bold", va="center")
    where = results["provenance"]
    note = f"{where['device']} · {where['threads']} threads · {where['date']} · float32"
    figure.text(0.015, 0.905, note, color=GREY, va="center")
    handles = [
        Line2D([], [], color=k.colour, ls=k.dashes, marker=k.marker, ms=4.5, label=k.label)
        for k in LINE_STYLES.values()
    ]
    figure.legend(handles=handles, ncols=5, loc="upper left", bbox_to_anchor=(0.006, 0.885),
                  frameon=False, fontsize=8.5, columnspacing=1.4, handlelength=2.4)  # fmt: skip
    return figure, axes


def figures(results: dict[str, Any]) -> dict[str, Figure]:
    """Draw cost and memory against length, and speed against batch size and width."""
    found = {
        part["axis"]: part["points"]
        for part in results["parts"].values()
        if part["kind"] == "growth" and any("skipped" not in p for p in part["points"])
    }
    drawn = {}
    if {"length", "writing"} <= set(found):
        drawn["length"], (left, right) = page(results, "Cost against length", 2)
        drawn_left = panel(left, found["length"], "n", lambda p: 1e3 * p["step_s"] / p["rows"])
        left.set(xlabel="source and target tokens", ylabel="training on one sequence (ms)")
        drawn_right = panel(right, found["writing"], "n", lambda p: 1e3 * p["token_s"] / p["rows"])
        right.set(xlabel="source tokens", ylabel="decoding one token of one row (ms)")
        guides(left, drawn_left, {1: "∝ S", 2: "∝ S²"})
        guides(right, drawn_right, {1: "∝ S"})
    if "length" in found:
        drawn["memory"], (ax,) = page(results, "Memory of a training step against length", 1)
        panel(ax, found["length"], "n", lambda p: p["peak_bytes"])
        ax.set(xlabel="source and target tokens, one sequence", ylabel="peak memory")
        ax.yaxis.set_major_formatter(FuncFormatter(size_of))
    if {"batch", "width"} <= set(found):
        drawn["batch"], axes = page(results, "Training speed against batch size and width", 2)
        for ax, axis in zip(axes, ("batch", "width"), strict=True):
            key = {"batch": "rows"}.get(axis, axis)
            panel(ax, found[axis], key, lambda p: p["n"] * p["rows"] / p["step_s"])
        n = found["batch"][0]["n"]
        axes[0].set(xlabel=f"batch size (rows of {n} tokens)", ylabel="target tokens/s")
        axes[1].set(xlabel="width", ylabel="target tokens/s")
    return drawn


def draw(path: Path) -> list[Path]:
    """Write tables and figures beside the results; return their paths."""
    results = load(path)
    text = path.with_suffix(".md")
    write(text, tables(results))
    with style.context():
        return [text, *(
            save(figure, path.with_name(f"{path.stem}-{name}.svg"))
            for name, figure in figures(results).items()
        )]  # fmt: skip

"""Draw attention as kernel smoothing: lengths, bandwidth, the kernel alone, random features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from seqmodels.report import load_records, style
from seqmodels.report.load_records import Record, format_plain, format_subtitle, label_of
from seqmodels.report.style import GREY, INK, WIDTH, LineStyle
from seqmodels.report.tidy import FigureWithData, Table

KINDS = {
    "encoder": LineStyle("encoder to its own text", "#1B75BC", "-", "o"),
    "decoder": LineStyle("decoder to its own text", "#C98200", "-", "o"),
    "source": LineStyle("decoder to the source", "#009B77", "-", "o"),
}
"""The look of each kind of attention."""
SIDES = {"q": "o", "k": "^"}
"""The markers of queries and keys."""
NATS, FEATURES = "Nats per token", "number of random features"

Row = Mapping[str, Any]


def rows_of(r: Record, analysis: str, key: str) -> list[Row]:
    """Return the rows of an analysis that have this column."""
    return [row for row in r["analyses"][analysis] if key in row]


def draw_smoothing(group: Sequence[Record]) -> FigureWithData:
    """Draw the lengths, and the losses with other weights in place of the learned ones."""
    nats = {
        name: mean(row["nats"] for r in group for row in rows_of(r, "kernel", "weights")
                   if row["weights"] == name)
        for name in ("softmax", "kernel", "equal lengths")
    }  # fmt: skip
    caption = (
        "Markers are heads of each seed, before training hollow. Weights are replaced in all heads "
        "at test time; nothing is trained again, and dotted lines are the loss without it. Kernel "
        "alone: Nadaraya and Watson's weights without the factor exp(|k|²/2h²) of each key; its "
        f"loss is {nats['kernel']:.2g} nats per token, with the learned weights it is "
        f"{nats['softmax']:.2g}, with keys of equal length {nats['equal lengths']:.2g}. Distance: "
        "total variation from the learned weights. A bandwidth of f h divides the scores by f²√d. "
        "Random features: mean, lowest and highest of all draws."
    )
    title = f"Attention of the {label_of(group[0]['model'])} as kernel smoothing"
    figure, axes = _make_panels((title, format_subtitle(group), caption))
    table = Table()
    _draw_lengths(axes[0, 0], table, group)
    _draw_kernel(axes[1, 0], table, group)
    _draw_bandwidth(axes[0, 1], table, group, "nats")
    _draw_bandwidth(axes[1, 1], table, group, "entropy")
    _draw_favor(axes[0, 2], table, group, "nats")
    _draw_favor(axes[1, 2], table, group, "distance")
    exact = mean(r["analyses"]["favor"][0]["nats"] for r in group)
    for ax, value in ((axes[0, 1], nats["softmax"]), (axes[0, 2], exact)):
        ax.axhline(value, color=GREY, lw=0.8, ls=":")
    return FigureWithData(figure, table.rows())


def _make_panels(texts: style.Texts) -> tuple[Figure, np.ndarray]:
    """Return a figure with a legend above two rows of three panels."""
    figure, bottom, top = style.make_canvas(5.6, *texts)
    height, width = figure.get_figheight(), WIDTH
    figure.legend(handles=_handles(), loc="upper left", bbox_to_anchor=(0.06 / width, top), ncols=6,
                  frameon=False, borderaxespad=0, fontsize=8.5, handletextpad=0.2,
                  columnspacing=1.2)  # fmt: skip
    axes = figure.subplots(2, 3, gridspec_kw={
        "left": 0.55 / width, "right": 1 - 0.2 / width, "bottom": bottom + 0.45 / height,
        "top": top - 0.6 / height, "hspace": 0.5, "wspace": 0.26,
    })  # fmt: skip
    return figure, axes


def _handles() -> list[Line2D]:
    """Return the entries of the legend."""
    line_styles = [
        (line_style.label, line_style.colour, "s", line_style.colour)
        for line_style in KINDS.values()
    ]
    line_styles += [("queries", GREY, SIDES["q"], GREY), ("keys", GREY, SIDES["k"], GREY)]
    line_styles += [("before training", GREY, "o", "white")]
    return [
        Line2D([], [], color=colour, marker=marker, mfc=fill, ls="", ms=5, label=label)
        for label, colour, marker, fill in line_styles
    ]


def _draw_lengths(ax: Axes, table: Table, group: Sequence[Record]) -> None:
    """Draw the mean and the spread of the lengths of each head's queries and keys."""
    for r in group:
        for row in rows_of(r, "lengths", "q_mean"):
            colour = KINDS[row["attention"]].colour
            for side, marker in SIDES.items():
                fill = colour if row["when"] == "after" else "white"
                x, y = row[f"{side}_mean"], 100 * row[f"{side}_std"] / row[f"{side}_mean"]
                ax.plot([x], [y], marker, color=colour, mfc=fill, ms=4.5, mew=0.8, alpha=0.75)
                what = {"q": "queries", "k": "keys"}[side]
                table.add(**_about("lengths", r, row), of=what, mean_length=x, spread=y)
    ax.set_xlim(0)
    ax.set_ylim(0)
    ax.set_xlabel("mean length")
    ax.set_title("Spread of lengths (% of the mean)", loc="left", size=10.5)


def _draw_kernel(ax: Axes, table: Table, group: Sequence[Record]) -> None:
    """Draw the distance of the kernel alone from the learned weights, by layer."""
    rows = [(r, row) for r in group for row in rows_of(r, "kernel", "head")]
    places = {key: i for i, key in enumerate(dict.fromkeys(
        (row["attention"], row["layer"]) for _, row in rows
    ))}  # fmt: skip
    for r, row in rows:
        x = (
            places[row["attention"], row["layer"]]
            + 0.5 * (group.index(r) + 0.5) / len(group)
            - 0.25
        )
        ax.plot([x], [row["kernel"]], "o", color=KINDS[row["attention"]].colour, ms=4.5, mew=0,
                alpha=0.75)  # fmt: skip
        table.add(**_about("kernel alone", r, row), distance=row["kernel"])
    ax.set_xticks([*places.values()], [layer for _, layer in places])
    ax.set_xlim(-0.5, len(places) - 0.5)
    ax.set_ylim(0)
    ax.set_xlabel("layer")
    ax.set_title("Distance of the kernel alone", loc="left", size=10.5)


def _draw_bandwidth(ax: Axes, table: Table, group: Sequence[Record], column: str) -> None:
    """Draw the loss or the entropy by multiple of the bandwidth, a line per seed."""
    for r in group:
        rows = rows_of(r, "bandwidth", column)
        for row in rows:
            about = _about("bandwidth", r, row)
            table.add(**about, factor=row["factor"], **{column: row[column]})
        ax.plot([row["factor"] for row in rows], [row[column] for row in rows], color=INK, lw=1.4,
                marker="o", ms=3.5)  # fmt: skip
    sizes = group[0]["model_config"]
    d_k = sizes.get("d_k") or sizes["d_model"] / sizes["n_heads"]
    ax.axvline(d_k**-0.25, color=GREY, lw=0.8, ls="--")
    ax.text(d_k**-0.25, 0.97, " without 1/√d", color=GREY, size=8, va="top",
            transform=ax.get_xaxis_transform())  # fmt: skip
    title = NATS if column == "nats" else "Entropy of the weights (nats)"
    _finish(ax, title, "multiple of the bandwidth h", "{:g}".format)
    if column == "nats":
        style.set_log(ax, "y", format_plain, subs=(1, 2, 5), numticks=9)
    else:
        ax.set_ylim(0)


def _draw_favor(ax: Axes, table: Table, group: Sequence[Record], column: str) -> None:
    """Draw the loss or the distance from the exact weights by number of random features."""
    values: dict[int, list[float]] = {}
    for r in group:
        for row in rows_of(r, "favor", column):
            if row["features"]:
                values.setdefault(row["features"], []).append(row[column])
    for n, drawn in values.items():
        low, high = min(drawn), max(drawn)
        about = {"panel": f"random features, {column}", "features": n, "n": len(drawn)}
        table.add(**about, **{column: mean(drawn)}, low=low, high=high)
    x, colour = [*values], "#C2459A"
    ax.fill_between(x, [*map(min, values.values())], [*map(max, values.values())], color=colour,
                    alpha=0.15, lw=0)  # fmt: skip
    ax.plot(x, [*map(mean, values.values())], color=colour, lw=1.6, marker="o", ms=3.5)
    title = NATS if column == "nats" else "Distance"
    _finish(ax, f"{title}, FAVOR+", FEATURES, "{:.0f}".format)
    if column == "nats":
        style.set_log(ax, "y", format_plain, subs=(1, 2, 5), numticks=9)
    else:
        ax.set_ylim(0, 1)


def _about(panel: str, r: Record, row: Row) -> dict[str, Any]:
    """Return the columns that say of what a row of the table is."""
    places = {key: row.get(key) for key in ("attention", "layer", "head", "when")}
    return {"panel": panel, "seed": r["seed"], **places}


def _finish(ax: Axes, title: str, label: str, write: Callable[[float], str]) -> None:
    """Set the title, and a logarithmic x axis to base 2."""
    style.set_log(ax, "x", lambda v, _: write(v), base=2)
    ax.set_xlabel(label)
    ax.set_title(title, loc="left", size=10.5)


def draw(records: Sequence[Record]) -> dict[str, FigureWithData]:
    """Return a figure per model with the Transformer's scores, by the names of their files."""
    return {
        f"smoothing-{model}": draw_smoothing(group)
        for model, group in load_records.group_by_model(records).items()
        if group[0]["analyses"]["kernel"]
    }


FIGURES = [draw]

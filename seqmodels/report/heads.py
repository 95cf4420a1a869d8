"""Draw what the heads of one model attend to, and its loss without them. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from seqmodels.report import layout, wording
from seqmodels.report.findings import label_of
from seqmodels.report.reading import Record
from seqmodels.report.style import GREY, INK, WIDTH, Look

KINDS = {
    "encoder": Look("encoder to its own text", "#1B75BC", "-", "o"),
    "decoder": Look("decoder to its own text", "#C98200", "-", "s"),
    "source": Look("decoder to the source", "#009B77", "-", "^"),
}
"""The look of each kind of attention."""
READINGS = {"aer_read": "read", "aer_written": "written"}
"""The row of weights that aligns a target word: the one where the decoder reads or writes it."""
NEARLY = 0.05
"""Nats per token that a model can lose and count as nearly as good."""

Row = Mapping[str, Any]
Point = tuple[int, float, str, int]
"""Place on the x axis, value, kind of attention, head."""


def rows_of(r: Record, analysis: str) -> list[Row]:
    """Return the rows of an analysis; none if the record lacks it."""
    return list(r.get("analyses", {}).get(analysis, []))


def is_drawn(group: Sequence[Record]) -> bool:
    """Return whether all records of a model hold what its heads do."""
    return all(rows_of(r, name) for r in group for name in ("heads", "maps", "ablation", "pruning"))


# -------------------------------------------------------------------------------------- findings


def n_free(r: Record) -> int:
    """Return how many heads can be removed, one after the other, for at most NEARLY nats."""
    whole, *rows = rows_of(r, "pruning")
    costly = [row["removed"] for row in rows if row["nats"] > whole["nats"] + NEARLY]
    return min(costly, default=len(rows) + 1) - 1


def best_aligned(r: Record) -> tuple[float, str]:
    """Return the lowest AER (%) of a head, and which row of weights gives it."""
    rows = [row for row in rows_of(r, "heads") if "aer_read" in row and row["head"]]
    return min((row[name], name) for row in rows for name in READINGS)


def finding(group: Sequence[Record]) -> str:
    """Return a title: how many heads the model can do without, and how well the best one aligns."""
    best = [best_aligned(r) for r in group]
    ways = {READINGS[name] for _, name in best}
    where = f", where a word is {ways.pop()}" if len(ways) == 1 else ""
    free = wording.span(map(n_free, group), "{:.0f}".format)
    return (
        f"{label_of(group[0]['model'])} without {free} of its "
        f"{len(rows_of(group[0], 'pruning')) - 1} heads loses at most {NEARLY:g} nats per token; "
        "the best head aligns with an error rate of "
        f"{wording.span((aer for aer, _ in best), '{:.1f}'.format)} %{where}"
    )


# ---------------------------------------------------------------------------------------- panels


def draw_heads(group: Sequence[Record]) -> Figure:
    """Draw entropy, error rate and cost of every head of every seed, and the pruning curves."""
    caption = (
        "A small marker is one head of one seed; a wide bar, all heads of an attention: their mean "
        "weights above, all removed below. Each word is linked to the source word of the largest "
        "weight, and compared with the gold links. Heads to remove are chosen on other sentences "
        f"than those shown; the dotted line is {NEARLY:g} nats above the whole model. A removed "
        "head gives zero; nothing is trained again."
    )
    topic = "Heads of attention: what they do, and the loss without them"
    texts = finding(group), f"{topic}\n{wording.subtitle(group)}{_parts(group)}", caption
    figure, bottom, top = layout.canvas(6.6, *texts)
    height = figure.get_figheight()
    kinds = [k for k in KINDS if any(row["attention"] == k for row in rows_of(group[0], "heads"))]
    handles = [_marker(KINDS[kind], label=KINDS[kind].label) for kind in kinds]
    figure.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.06 / WIDTH, top), ncols=3,
                  frameon=False, borderaxespad=0, fontsize=9.5, handletextpad=0.2)  # fmt: skip
    axes = figure.subplots(2, 2, gridspec_kw={
        "left": 0.55 / WIDTH, "right": 1 - 0.2 / WIDTH, "bottom": bottom + 0.45 / height,
        "top": top - 0.6 / height, "hspace": 0.42, "wspace": 0.2,
    })  # fmt: skip
    _draw_entropy(axes[0, 0], group)
    _draw_rates(axes[0, 1], group)
    _draw_costs(axes[1, 0], group)
    _draw_pruning(axes[1, 1], group)
    return figure


def _parts(group: Sequence[Record]) -> str:
    """Return which share of the parameters is in each part of the model."""
    rows = rows_of(group[0], "parameters")
    total = sum(row["n"] for row in rows)
    shares = ", ".join(f"{row['part']} {100 * row['n'] / total:.0f} %" for row in rows)
    return f"\nParameters: {shares}" if rows else ""


def _marker(look: Look, **how: Any) -> Line2D:
    return Line2D([], [], color=look.colour, marker=look.marker, ls="", ms=5, **how)


def _places(group: Sequence[Record]) -> dict[tuple[str, int], int]:
    """Return the place of each attention on the x axis."""
    found = dict.fromkeys((r["attention"], r["layer"]) for r in rows_of(group[0], "heads"))
    return {attention: i for i, attention in enumerate(found)}


def _point(places: Mapping[tuple[str, int], int], row: Row, value: float) -> Point:
    return places[row["attention"], row["layer"]], value, row["attention"], row["head"]


def _dots(ax: Axes, points: Iterable[Point], n_seeds: int) -> None:
    """Draw values at their places: seeds side by side, head 0 as a bar."""
    seeds: dict[tuple[int, int], int] = {}
    for x, y, kind, head in points:
        look, i = KINDS[kind], seeds.get((x, head), 0)
        seeds[x, head] = i + 1
        at = x + 0.5 * ((i + 0.5) / n_seeds - 0.5)
        wide = 0.2 / n_seeds
        if head:
            ax.plot([at], [y], look.marker, color=look.colour, ms=4.5, alpha=0.75, mew=0)
        else:
            ax.plot([at - wide, at + wide], [y, y], color=INK, lw=2, solid_capstyle="butt")


def _on_x(ax: Axes, names: Mapping[int, str]) -> None:
    ax.set_xticks([*names], [*names.values()])
    ax.set_xlim(min(names) - 0.5, max(names) + 0.5)
    ax.tick_params(axis="x", length=0)


def _draw_entropy(ax: Axes, group: Sequence[Record]) -> None:
    """Draw the entropy of the weights by attention."""
    places = _places(group)
    rows = [row for r in group for row in rows_of(r, "heads")]
    _dots(ax, [_point(places, row, row["entropy"]) for row in rows], len(group))
    ax.set_title("Entropy of the weights (nats)", loc="left", size=10.5)
    ax.set_ylim(0)
    _on_x(ax, {x: f"{kind}\n{layer}" for (kind, layer), x in places.items()})


def _draw_rates(ax: Axes, group: Sequence[Record]) -> None:
    """Draw AER over the source, by layer and by the row of weights that is read."""
    rows = [row for r in group for row in rows_of(r, "heads") if "aer_read" in row]
    layers = sorted({row["layer"] for row in rows})
    x = {(layer, n): 2 * i + j for i, layer in enumerate(layers) for j, n in enumerate(READINGS)}
    points = [(x[row["layer"], n], row[n], row["attention"], row["head"])
              for row in rows for n in READINGS]  # fmt: skip
    _dots(ax, points, len(group))
    ax.set_title("Alignment error rate (%), by reading or writing", loc="left", size=10.5)
    ax.set_ylim(0, 100)
    _on_x(ax, {at: f"{READINGS[n]}\nlayer {layer}" for (layer, n), at in x.items()})


def _draw_costs(ax: Axes, group: Sequence[Record]) -> None:
    """Draw the loss that the removal of one head, or of all of an attention, adds."""
    places, points = _places(group), []
    for r in group:
        whole, *rows = rows_of(r, "ablation")
        points += [_point(places, row, row["nats"] - whole["nats"]) for row in rows]
    _dots(ax, points, len(group))
    ax.set_yscale("symlog", linthresh=0.01, linscale=0.4)
    ax.set_title("Nats per token lost without one head", loc="left", size=10.5)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    _on_x(ax, {x: f"{kind}\n{layer}" for (kind, layer), x in places.items()})


def _draw_pruning(ax: Axes, group: Sequence[Record]) -> None:
    """Draw the loss against the number of heads left; a marker is the head removed last."""
    for r in group:
        rows = rows_of(r, "pruning")
        x = [len(rows) - 1 - row["removed"] for row in rows]
        ax.plot(x, [row["nats"] for row in rows], color=GREY, lw=1, zorder=1)
        for left, row in zip(x[1:], rows[1:], strict=True):
            look = KINDS[row["attention"]]
            ax.plot([left], [row["nats"]], look.marker, color=look.colour, ms=4.5, mew=0)
        ax.axhline(rows[0]["nats"] + NEARLY, color=GREY, lw=0.8, ls=":")
    ax.set_yscale("log")
    ax.set_xlim(len(rows) - 0.5, -0.5)
    ax.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    ax.minorticks_off()
    ax.set_xlabel("heads left; markers: the head removed last")
    ax.set_title("Nats per token, the cheapest head removed first", loc="left", size=10.5)

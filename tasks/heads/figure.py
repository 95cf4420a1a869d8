"""Draw the heads of a model: what they attend to, and its loss without them. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from seqmodels.report import reading, style
from seqmodels.report.reading import Record, format_subtitle, label_of
from seqmodels.report.style import GREY, HEAT, INK, WIDTH, Look

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
OFFSETS = {"previous": "the previous word", "own": "the same word", "next": "the next word"}
MOSTLY = 0.5
"""Mean weight from which a head is said to look at a place."""
LETTER = 0.066
"""Inches per letter in the labels."""

Row = Mapping[str, Any]
Point = tuple[int, float, str, int]
"""Place on the x axis, value, kind of attention, head."""
Head = tuple[str, int, int]
"""Attention, layer, number."""


def rows_of(r: Record, analysis: str) -> list[Row]:
    """Return the rows of an analysis; none for a model without heads."""
    return list(r["analyses"][analysis])


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
    title = f"Heads of the {label_of(group[0]['model'])}: what they do, and the loss without them"
    texts = title, f"{format_subtitle(group)}{_parts(group)}", caption
    figure, bottom, top = style.make_canvas(6.6, *texts)
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
    attentions = dict.fromkeys((r["attention"], r["layer"]) for r in rows_of(group[0], "heads"))
    return {attention: i for i, attention in enumerate(attentions)}


def _point(places: Mapping[tuple[str, int], int], row: Row, value: float) -> Point:
    return places[row["attention"], row["layer"]], value, row["attention"], row["head"]


def _dots(ax: Axes, points: Iterable[Point], n_seeds: int) -> None:
    """Draw values at their places: seeds side by side, head 0 as a bar."""
    seeds: dict[tuple[int, int], int] = {}
    for x, y, kind, head in points:
        look, i = KINDS[kind], seeds.get((x, head), 0)
        seeds[x, head] = i + 1
        place = x + 0.5 * ((i + 0.5) / n_seeds - 0.5)
        wide = 0.2 / n_seeds
        if head:
            ax.plot([place], [y], look.marker, color=look.colour, ms=4.5, alpha=0.75, mew=0)
        else:
            ax.plot([place - wide, place + wide], [y, y], color=INK, lw=2, solid_capstyle="butt")


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
    _on_x(ax, {place: f"{READINGS[n]}\nlayer {layer}" for (layer, n), place in x.items()})


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


# ------------------------------------------------------------------------------------------ maps


def identify_head(row: Row) -> Head:
    """Return which head a row is about."""
    return row["attention"], row["layer"], row["head"]


def describe_habit(row: Row) -> str:
    """Return where most of a head's weight is among the words of its own text; empty if nowhere."""
    if "previous" not in row:
        return ""
    name = max(OFFSETS, key=lambda name: row[name])
    return name if row[name] >= MOSTLY else ""


class Sides(NamedTuple):
    """The words at the edges of a map: left, right, top."""

    read: Sequence[str]
    written: Sequence[str]
    keys: Sequence[str]


def label_sides(kind: str, alignment: Mapping[str, Any], n_keys: int) -> Sides:
    """Return the words of a kind of attention; a decoder's keys can include the source."""
    src, tgt = alignment["src"], alignment["tgt"]
    read, written = ["<bos>", *tgt], [*tgt, "<eos>"]
    if kind == "encoder":
        return Sides(src, [], src)
    if kind == "source":
        return Sides(read, written, src)
    return Sides(read, written if n_keys > len(read) else [], [*src, *read][-n_keys:])


def draw_maps(r: Record) -> Figure:
    """Draw a row of maps for each kind of attention: its layers, and in each its heads."""
    maps: dict[Head, list[list[float]]] = {}
    for row in rows_of(r, "maps"):
        maps.setdefault(identify_head(row), []).append(
            [float(w) / 100 for w in row["weights"].split()]
        )
    rows = {identify_head(row): row for row in rows_of(r, "heads")}
    per_row = 8 if max(len(weights[0]) for weights in maps.values()) <= 12 else 4
    map_rows = [
        (kind, own[i : i + per_row])
        for kind in KINDS
        for own in [[head for head in maps if head[0] == kind]]
        for i in range(0, len(own), per_row)
    ]
    edges = [label_sides(kind, r["alignment"], len(maps[own[0]][0])) for kind, own in map_rows]
    longest = max(len(word) for e in edges for words in e for word in words) * LETTER
    n, gap, margin, above = (
        max(len(own) for _, own in map_rows),
        0.1,
        longest + 0.25,
        longest + 0.42,
    )
    n_keys = max(len(e.keys) for e in edges)
    cell = min(0.16, max(0.1, ((WIDTH - 2 * margin) / n - gap) / n_keys))
    width = max(WIDTH, 2 * margin + n * (cell * n_keys + gap))
    body = 0.3 + sum(above + cell * len(e.read) + 0.2 for e in edges)
    figure, _, top = style.make_canvas(body, *_texts(r), width)
    height = figure.get_figheight()
    y = top * height - 0.2
    for (kind, own), e in zip(map_rows, edges, strict=True):
        tall, wide, look = cell * len(e.read), cell * len(e.keys), KINDS[kind]
        heading: dict[str, Any] = {"va": "top", "weight": "bold", "size": 10, "color": look.colour}
        figure.text(0.12 / width, y / height, look.label[0].upper() + look.label[1:], **heading)
        y -= above
        for i, head in enumerate(own):
            x = margin + i * (wide + gap)
            ax = figure.add_axes((x / width, (y - tall) / height, wide / width, tall / height))
            _draw_map(ax, np.array(maps[head][-len(e.read) :]), e, i == 0, i == len(own) - 1)
            _mark_gold(ax, rows[head], r["alignment"]["gold"] or ())
            text = f"{head[1]}.{head[2]}{_note(rows[head])}"
            figure.text(x / width, (y + longest + 0.08) / height, text, size=8.5, color=INK)
        y -= tall + 0.2
    return figure


def _texts(r: Record) -> tuple[str, str, str]:
    """Return title, subtitle and caption."""
    about = format_subtitle([r]).replace("one seed", f"seed {r['seed']}")
    title = f"Heads of the {label_of(r['model'])} in one sentence: rows attend to columns"
    caption = (
        "Darker is more. 2.1 is head 1 of layer 2. Each row sums to one. Squares: gold links, "
        "solid where they fit the row that reads the target word (labels on the left) better, "
        "dashed where they fit the row that writes it (labels on the right); AER: the head's "
        "alignment error rate over the validation split. The share is that of the weight on a "
        "place, over the same split."
    )
    return title, about, caption


def _note(row: Row) -> str:
    """Return what to say of a head beside its number."""
    if "aer_read" in row:
        return f" · AER {min(row[name] for name in READINGS):.0f} %"
    name = describe_habit(row)
    return f" · {name} {100 * row[name]:.0f} %" if name else ""


def _draw_map(ax: Axes, weights: np.ndarray, e: Sides, is_rank0: bool, is_last: bool) -> None:
    """Draw one map, with the words of its rows at the edges of the grid."""
    ax.pcolormesh(weights, cmap=HEAT, vmin=0, vmax=1, edgecolors="#EDEDED", lw=0.3)
    ax.invert_yaxis()
    ax.grid(False)
    ax.xaxis.tick_top()
    ax.tick_params(length=0, labelcolor=INK, pad=1.5, labelsize=7)
    ax.set_xticks(np.arange(len(e.keys)) + 0.5, e.keys, rotation=90)
    ax.set_yticks(np.arange(len(e.read)) + 0.5, e.read if is_rank0 else [""] * len(e.read))
    if is_last and e.written:
        right = ax.secondary_yaxis("right")
        right.set_yticks(np.arange(len(e.written)) + 0.5, e.written)
        right.tick_params(length=0, labelcolor=INK, pad=1.5, labelsize=7)
        right.spines["right"].set_visible(False)


def _mark_gold(ax: Axes, row: Row, links: Sequence[Sequence[int]]) -> None:
    """Mark the gold links in the rows that fit them better, if the head is over the source."""
    if "aer_read" not in row:
        return
    is_read = row["aer_read"] <= row["aer_written"]
    look: dict[str, Any] = {"ec": "#E8741C", "lw": 1.1, "ls": "-" if is_read else (0, (2, 1))}
    for s, t in links:
        ax.add_patch(Rectangle((s + 0.06, t + is_read + 0.06), 0.88, 0.88, fill=False, **look))


def draw(records: Sequence[Record]) -> dict[str, Figure]:
    """Return two figures for each model with heads by the names of their files."""
    figures = {}
    for model, group in reading.group_by_model(records).items():
        if all(rows_of(r, "heads") for r in group):
            figures[f"heads-{model}"] = draw_heads(group)
            figures[f"head-maps-{model}"] = draw_maps(group[0])
    return figures


FIGURES = [draw]

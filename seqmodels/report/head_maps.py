"""Draw the weights of every head of one model in one sentence, as a grid of maps. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from seqmodels.report import layout, wording
from seqmodels.report.findings import label_of
from seqmodels.report.heads import KINDS, READINGS, Row, rows_of
from seqmodels.report.reading import Record
from seqmodels.report.style import HEAT, INK, WIDTH

OFFSETS = {"previous": "the previous word", "own": "the same word", "next": "the next word"}
MOSTLY = 0.5
"""Mean weight from which a head is said to look at a place."""
LETTER = 0.066
"""Inches per letter in the labels."""
Head = tuple[str, int, int]
"""Attention, layer, number."""


def key(row: Row) -> Head:
    """Return which head a row is about."""
    return row["attention"], row["layer"], row["head"]


def habit(row: Row) -> str:
    """Return where most of a head's weight is among the words of its own text; empty if nowhere."""
    if "previous" not in row:
        return ""
    name = max(OFFSETS, key=lambda name: row[name])
    return name if row[name] >= MOSTLY else ""


def finding(r: Record) -> str:
    """Return a title: how many heads look mostly at one place of their own text, and which."""
    rows = [row for row in rows_of(r, "heads") if row["head"] and "previous" in row]
    found = [habit(row) for row in rows]
    counts = {text: found.count(name) for name, text in OFFSETS.items() if name in found}
    if not counts:
        return (
            f"{label_of(r['model'])}: of {len(rows)} heads over their own text, none at one place"
        )
    places = " and ".join(f"{n} mostly at {text}" for text, n in counts.items())
    return f"{label_of(r['model'])}: of {len(rows)} heads over their own text, {places}"


class Sides(NamedTuple):
    """The words at the edges of a map: left, right, top."""

    read: Sequence[str]
    written: Sequence[str]
    keys: Sequence[str]


def sides(kind: str, alignment: Mapping[str, Any], n_keys: int) -> Sides:
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
        maps.setdefault(key(row), []).append([float(w) / 100 for w in row["weights"].split()])
    rows = {key(row): row for row in rows_of(r, "heads")}
    per_row = 8 if max(len(weights[0]) for weights in maps.values()) <= 12 else 4
    shown = [
        (kind, own[i : i + per_row])
        for kind in KINDS
        for own in [[head for head in maps if head[0] == kind]]
        for i in range(0, len(own), per_row)
    ]
    edges = [sides(kind, r["alignment"], len(maps[own[0]][0])) for kind, own in shown]
    longest = max(len(word) for e in edges for words in e for word in words) * LETTER
    n, gap, margin, above = max(len(own) for _, own in shown), 0.1, longest + 0.25, longest + 0.42
    n_keys = max(len(e.keys) for e in edges)
    cell = min(0.16, max(0.1, ((WIDTH - 2 * margin) / n - gap) / n_keys))
    width = max(WIDTH, 2 * margin + n * (cell * n_keys + gap))
    body = 0.3 + sum(above + cell * len(e.read) + 0.2 for e in edges)
    figure, _, top = layout.canvas(body, *_texts(r), width)
    height = figure.get_figheight()
    y = top * height - 0.2
    for (kind, own), e in zip(shown, edges, strict=True):
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
    about = wording.subtitle([r]).replace("one seed", f"seed {r['seed']}")
    topic = "Every head in one sentence: rows attend to columns; darker is more"
    caption = (
        "2.1 is head 1 of layer 2. Each row sums to one. Squares: gold links, solid where they fit "
        "the row that reads the target word (labels on the left) better, dashed where they fit "
        "the row that writes it (labels on the right); AER: the head's alignment error rate over "
        "the validation split. The share is that of the weight on a place, over the same split."
    )
    return finding(r), f"{topic}\n{about}", caption


def _note(row: Row) -> str:
    """Return what to say of a head beside its number."""
    if "aer_read" in row:
        return f" · AER {min(row[name] for name in READINGS):.0f} %"
    name = habit(row)
    return f" · {name} {100 * row[name]:.0f} %" if name else ""


def _draw_map(ax: Axes, weights: np.ndarray, e: Sides, is_first: bool, is_last: bool) -> None:
    """Draw one map, with the words of its rows at the edges of the grid."""
    ax.pcolormesh(weights, cmap=HEAT, vmin=0, vmax=1, edgecolors="#EDEDED", lw=0.3)
    ax.invert_yaxis()
    ax.grid(False)
    ax.xaxis.tick_top()
    ax.tick_params(length=0, labelcolor=INK, pad=1.5, labelsize=7)
    ax.set_xticks(np.arange(len(e.keys)) + 0.5, e.keys, rotation=90)
    ax.set_yticks(np.arange(len(e.read)) + 0.5, e.read if is_first else [""] * len(e.read))
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

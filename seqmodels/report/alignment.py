"""Draw alignments as heat maps side by side, with the pieces of words shown as text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from seqmodels.report import layout, style
from seqmodels.report.findings import label_of
from seqmodels.report.style import GREY, HEAT, INK, WIDTH


def draw_alignment(
    alignments: Mapping[str, dict[str, Any]], path: Path, subtitle: str = ""
) -> Path:
    """Draw model -> {src, tgt, alpha (T, S), gold} as one heat map each; write .svg or .png.

    Raises ValueError for another kind of file, for nothing to draw, and if `alpha` has not one row
    per target word and one column per source word.
    """
    if not alignments:
        raise ValueError("no model here attends to the source; there is no alignment to draw")
    for model, a in alignments.items():
        if np.shape(a["alpha"]) != (words := (len(a["tgt"]), len(a["src"]))):
            raise ValueError(f"{model}: alpha is {np.shape(a['alpha'])}, but the words are {words}")
    with style.context():
        return style.save(_draw_alignments(alignments, subtitle), Path(path))


def _draw_alignments(alignments: Mapping[str, dict[str, Any]], subtitle: str) -> Figure:
    """Lay the heat maps out in one row, with cells in which words fit, and one colour scale."""
    cell, letter = 0.14, 0.072  # inches, at least
    shown = {m: [*map(_pieces, (a["src"], a["tgt"]))] for m, a in alignments.items()}
    n_src, n_tgt = (max(len(pieces[i]) for pieces in shown.values()) for i in (0, 1))
    above, margin = (
        0.15 + letter * max(_width(w) for pieces in shown.values() for w in pieces[i])
        for i in (0, 1)
    )
    is_same = len({tuple(tgt) for _, tgt in shown.values()}) == 1  # then its words are written once
    margins = [margin if i == 0 or not is_same else 0.15 for i in range(len(shown))]
    bar, n = 0.75, len(shown)
    cell = max(cell, min(0.24, (WIDTH - bar - sum(margins)) / n / n_src))
    width = max(WIDTH, sum(margins) + n * cell * n_src + bar)
    words = _words(alignments, shown, subtitle)
    figure, _, top = layout.canvas(above + 0.4 + cell * n_tgt, *words, width)
    height = figure.get_figheight()
    y, x = top * height - 0.3, 0.0
    for i, (model, look) in enumerate(style.looks(alignments).items()):
        a, (src, tgt) = alignments[model], shown[model]
        x += margins[i]
        size = cell * len(src) / width, cell * len(tgt) / height
        ax = figure.add_axes((x / width, (y - above) / height - size[1], *size))
        _draw_heat(ax, a | {"src": src, "tgt": tgt if margins[i] == margin else [""] * len(tgt)})
        head: dict[str, Any] = {"color": look.colour, "weight": "bold", "size": 10}
        figure.text(x / width, y / height, look.label, va="bottom", **head)
        x += cell * n_src
    tall = min(1.6, cell * n_tgt)
    place = ((x + 0.15) / width, (y - above - tall) / height, 0.12 / width, tall / height)
    _draw_scale(figure, place)
    return figure


def _draw_scale(figure: Figure, place: tuple[float, float, float, float]) -> None:
    """Draw the colour scale at (left, bottom, width, height), as shares of the figure."""
    scale = figure.colorbar(
        ScalarMappable(cmap=HEAT), cax=figure.add_axes(place), ticks=[0, 0.5, 1]
    )
    scale.outline.set_visible(False)
    scale.ax.set_title("weight", size=8.5, loc="left", color=GREY, pad=5)
    scale.ax.grid(False)


def _words(
    alignments: Mapping[str, dict[str, Any]], shown: Mapping[str, Sequence[list[str]]], about: str
) -> tuple[str, str, str]:
    """Return title, subtitle and caption for maps whose edges show these pieces."""
    has_gold = any(a.get("gold") is not None for a in alignments.values())
    what = "Alignments: target words (rows) look at source words (columns)"
    title, subtitle = (_looked(alignments), f"{what}\n{about}") if has_gold else (what, about)
    caption = (
        "Each row shows how the attention is shared among the source words while one target word "
        "is written: it sums to one"
    )
    caption += ", GPT's to less, because the rest lies on the target" * ("gpt" in alignments)
    caption += ". Open squares: gold links." if has_gold else ". No gold links for this sentence."
    caption += _signs(w for pieces in shown.values() for words in pieces for w in words)
    return title, subtitle, caption


def _looked(alignments: Mapping[str, dict[str, Any]]) -> str:
    """Say for how many of the target words with a gold link the strongest weight is on one."""
    counts = []
    for model in style.looks(alignments):
        a = alignments[model]
        gold = {(s, t) for s, t in a.get("gold") or ()}
        linked = {t for _, t in gold}
        n = sum((int(np.argmax(a["alpha"][t])), t) in gold for t in linked)
        counts.append(f"{label_of(model)} {n}")
    return f"Strongest weight on a gold link, of {len(linked)} target words: {', '.join(counts)}"


def _draw_heat(ax: Axes, a: dict[str, Any]) -> None:
    """Draw one heat map, words at its edges, gold links as open squares."""
    alpha = np.array(a["alpha"], float)
    ax.pcolormesh(alpha, cmap=HEAT, vmin=0, vmax=1, edgecolors="#EDEDED", lw=0.4)
    ax.invert_yaxis()
    ax.grid(False)
    for s, t in a.get("gold") or ():
        ax.add_patch(Rectangle((s + 0.06, t + 0.06), 0.88, 0.88, fill=False, ec="#E8741C", lw=1.5))
    ax.xaxis.tick_top()
    ax.set_xticks(np.arange(len(a["src"])) + 0.5, a["src"], rotation=90)
    ax.set_yticks(np.arange(len(a["tgt"])) + 0.5, a["tgt"])
    ax.tick_params(length=0, labelcolor=INK, pad=2)


def _pieces(labels: Sequence[str]) -> list[str]:
    """Return a text's pieces as they are shown: the mark of the space before a word goes.

    Where there are such marks, a piece that goes on with the word before it gets a dot.
    """
    words = _joined(labels)
    has_marks = any(re.match(r"▁[^▁]", word) for word in words)
    shown = []
    for before, word in pairwise(["", *words]):
        goes_on = has_marks and _is_letter(word[:1]) and (_is_letter(before[-1:]) or before == "…")
        bare = word[1:] if has_marks and re.match(r"▁[^▁]", word) else word
        shown.append("·" * goes_on + bare.replace("▁", "␣"))
    return shown


def _is_letter(char: str) -> bool:
    return char != "" and unicodedata.category(char)[0] in "LMN"


def _joined(labels: Sequence[str]) -> list[str]:
    """Move a character whose bytes pieces share to the first of them; "…" is what has the rest."""
    pieces = [
        re.sub(rb"\\x([89a-f][0-9a-f])", lambda m: bytes.fromhex(m[1].decode()), label.encode())
        for label in labels
    ]
    owner = [i for i, piece in enumerate(pieces) for _ in piece]
    words, n = ["" for _ in pieces], 0
    for char in b"".join(pieces).decode(errors="surrogateescape"):
        size = len(char.encode(errors="surrogateescape"))
        words[owner[n]] += char if char.isprintable() else labels[owner[n]]
        n += size
    return [word or "…" * bool(piece) for word, piece in zip(words, pieces, strict=True)]


def _width(word: str) -> int:
    """Count the columns that a word takes: two for each wide character."""
    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in word)


def _signs(words: Iterable[str]) -> str:
    """Explain the signs among the pieces that stand for something else."""
    words = set(words)
    told = {
        "A dot (·): goes on with the word before.": any(w[:1] == "·" and len(w) > 1 for w in words),
        "An open box (␣): a space.": any("␣" in w for w in words),
        "An ellipsis (…): the rest of the character before.": "…" in words,
    }
    return "".join(f" {text}" for text, is_there in told.items() if is_there)

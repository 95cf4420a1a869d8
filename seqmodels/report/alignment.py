"""Draw alignments as heat maps side by side, with tokens shown as text."""

from __future__ import annotations

import re
import textwrap
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

from seqmodels.report import style
from seqmodels.report.reading import label_of
from seqmodels.report.style import GREY, HEAT, INK, WIDTH


def draw_alignment(
    alignments: Mapping[str, dict[str, Any]], path: Path, subtitle: str = ""
) -> Path:
    """Draw model -> {src, tgt, alpha (T, S), gold} as one heat map each; write .svg or .png.

    Raises ValueError for other kinds of files, if there is nothing to draw, and unless `alpha` has
    one row per target word and one column per source word.
    """
    with style.context():
        return style.save(figure_of(alignments, subtitle), Path(path))


def figure_of(alignments: Mapping[str, dict[str, Any]], subtitle: str) -> Figure:
    """Draw the heat maps in one row, with cells that fit the words, and one colour scale.

    Raises ValueError like `draw_alignment`.
    """
    _check(alignments)
    cell, letter = 0.14, 0.072  # least sizes in inches
    shown = {m: [*map(_pieces, (a["src"], a["tgt"]))] for m, a in alignments.items()}
    n_src, n_tgt = (max(len(pieces[i]) for pieces in shown.values()) for i in (0, 1))
    above, margin = (
        0.15 + letter * max(_width(w) for pieces in shown.values() for w in pieces[i])
        for i in (0, 1)
    )
    is_same = len({tuple(tgt) for _, tgt in shown.values()}) == 1  # then they are written once
    margins = [margin if i == 0 or not is_same else 0.15 for i in range(len(shown))]
    bar, n = 0.75, len(shown)
    cell = max(cell, min(0.24, (WIDTH - bar - sum(margins)) / n / n_src))
    width = max(WIDTH, sum(margins) + n * cell * n_src + bar)
    texts = _texts(alignments, shown, subtitle)
    looks = style.looks(alignments)
    names = [textwrap.fill(k.label, max(12, int(11 * cell * n_src))) for k in looks.values()]
    above_maps = 0.3 + 0.17 * max(name.count("\n") for name in names)
    figure, _, top = style.canvas(above_maps + above + 0.1 + cell * n_tgt, *texts, width)
    height = figure.get_figheight()
    y, x = top * height - above_maps, 0.0
    for i, (model, look) in enumerate(looks.items()):
        a, (src, tgt) = alignments[model], shown[model]
        x += margins[i]
        size = cell * len(src) / width, cell * len(tgt) / height
        ax = figure.add_axes((x / width, (y - above) / height - size[1], *size))
        _draw_heat(ax, a | {"src": src, "tgt": tgt if margins[i] == margin else [""] * len(tgt)})
        head: dict[str, Any] = {"color": look.colour, "weight": "bold", "size": 10}
        figure.text(x / width, y / height, names[i], va="bottom", **head)
        x += cell * n_src
    tall = min(1.6, cell * n_tgt)
    place = ((x + 0.15) / width, (y - above - tall) / height, 0.12 / width, tall / height)
    _draw_scale(figure, place)
    return figure


def _check(alignments: Mapping[str, dict[str, Any]]) -> None:
    """Raise ValueError like `draw_alignment`."""
    if not alignments:
        raise ValueError("no model here attends to the source; there is no alignment to draw")
    for model, a in alignments.items():
        if np.shape(a["alpha"]) != (shape := (len(a["tgt"]), len(a["src"]))):
            raise ValueError(f"{model}: alpha is {np.shape(a['alpha'])}, but the words are {shape}")


def _draw_scale(figure: Figure, place: tuple[float, float, float, float]) -> None:
    """Draw the colour scale at (left, bottom, width, height), in figure coordinates."""
    scale = figure.colorbar(
        ScalarMappable(cmap=HEAT), cax=figure.add_axes(place), ticks=[0, 0.5, 1]
    )
    scale.outline.set_visible(False)
    scale.ax.set_title("weight", size=8.5, loc="left", color=GREY, pad=5)
    scale.ax.grid(False)


def _texts(
    alignments: Mapping[str, dict[str, Any]], shown: Mapping[str, Sequence[list[str]]], about: str
) -> tuple[str, str, str]:
    """Return title, subtitle and caption of maps with these tokens at their edges."""
    has_gold = any(a.get("gold") is not None for a in alignments.values())
    title = "Alignments: target words (rows) attend to source words (columns)"
    caption = (
        "Each row shows the distribution of attention over the source words when one target word "
        "is generated. Rows sum to one"
    )
    caption += _also_attending(alignments)
    caption += ". Open squares: gold links." if has_gold else ". No gold links for this sentence."
    caption += _signs(w for pieces in shown.values() for words in pieces for w in words)
    return title, about, caption


def _also_attending(alignments: Mapping[str, dict[str, Any]]) -> str:
    """Return a clause on the models whose weights cover more than the source."""
    models = [m for m in style.looks(alignments) if np.sum(alignments[m]["alpha"], 1).min() < 0.95]
    names = " and ".join(map(label_of, models))
    if len(models) > 1:
        return f", those of {names} to less, because they also attend to the target"
    return f", {names}'s to less, because {names} also attends to the target" if models else ""


def _draw_heat(ax: Axes, a: dict[str, Any]) -> None:
    """Draw one heat map with words at its edges and gold links as open squares."""
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
    """Return a text's tokens as shown, without the marks of spaces before words.

    If a text has such marks, a token that continues the previous word gets a dot.
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
    """Move a character split between tokens to the first of them; the others become "…"."""
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
    """Return the columns that a word takes: two for each wide character."""
    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in word)


def _signs(words: Iterable[str]) -> str:
    """Explain the special signs among the tokens."""
    words = set(words)
    signs = {
        "Dot (·): continues the previous word.": any(w[:1] == "·" and len(w) > 1 for w in words),
        "Open box (␣): a space.": any("␣" in w for w in words),
        "Ellipsis (…): the rest of the previous character.": "…" in words,
    }
    return "".join(f" {text}" for text, is_present in signs.items() if is_present)

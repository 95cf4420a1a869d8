"""Alignments: heat maps, gold links, pieces of words."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from seqmodels.report import alignment


def test_alignments_stand_alone(tmp_path: Path) -> None:
    """Words read as formulas, or a map whose rows and columns are swapped."""
    a = {"src": ["$5", "and", "$6"], "tgt": ["5", "$"], "alpha": [[1, 0, 0], [0, 0.5, 0.5]]}
    for kind in ("svg", "png"):
        path = alignment.draw_alignment(
            {"bahdanau": a | {"gold": [[0, 0], [2, 1]]}}, tmp_path / f"a.{kind}"
        )
        assert path.stat().st_size > 1000
    with pytest.raises(ValueError, match=r"gpt: alpha is \(2, 3\)"):
        alignment.draw_alignment(
            {"gpt": a | {"src": a["tgt"], "tgt": a["src"]}}, tmp_path / "b.svg"
        )
    with pytest.raises(ValueError, match="no model here attends"):
        alignment.draw_alignment({}, tmp_path / "b.svg")
    with pytest.raises(ValueError, match=r"written as \.svg or \.png"):
        alignment.draw_alignment({"gpt": a}, tmp_path / "b.pdf")


def test_gold_links_lie_on_their_cells() -> None:
    """Keeps out links and words that are transposed, or rows that are upside down to them."""
    ax = Figure().subplots()
    a = {"src": ["a", "b", "c"], "tgt": ["x", "y"], "alpha": [[1, 0, 0], [0, 0, 1]]}
    alignment._draw_heat(ax, a | {"gold": [[2, 1]]})
    (link,) = ax.patches
    assert [int(x) for x in link.get_xy()] == [2, 1]
    assert np.array_equal(ax.collections[0].get_array().reshape(2, 3), a["alpha"])
    assert ax.yaxis_inverted()
    assert not ax.xaxis_inverted()
    assert [t.get_text() for t in ax.get_xticklabels()] == a["src"]
    assert [t.get_text() for t in ax.get_yticklabels()] == a["tgt"]


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["The", "▁mag", "ic", ",", "▁isn", "'t", "▁", "8", "]"],
         ["The", "mag", "·ic", ",", "isn", "'t", "␣", "8", "]"]),
        (["Fr", r"\xc3", r"\xa4", "u", "▁"], ["Fr", "ä", "…", "u", "␣"]),
        ([r"▁M\xc3", r"\xa4dch", "en"], ["Mä", "·dch", "·en"]),
        ([r"▁\xe4", r"\xbd\xa0"], ["你", "…"]),
        ([r"\xe4", "x", r"a\x00"], [r"\xe4", "x", r"a\x00"]),
        (["nine", "words"], ["nine", "words"]),
    ],
)  # fmt: skip
def test_pieces_are_shown_as_text(pieces: list[str], shown: list[str]) -> None:
    r"""Keeps out marks of spaces, bytes such as \xe4, and pieces that look like whole words."""
    assert alignment.show_tokens(pieces) == shown


def test_alignments_stand_in_one_row_with_one_scale() -> None:
    """Keeps out maps below each other, a scale of another range, and marks without a word."""
    a = {"src": ["▁a", "b", "▁c"], "tgt": ["▁d", "e"], "alpha": [[1, 0, 0], [0, 0.6, 0.4]]}
    a["gold"] = [[0, 0], [2, 1]]
    other = a | {"alpha": [[0.2, 0.8, 0], [0, 0, 1]]}
    partial = a | {"alpha": [[0.2, 0.6, 0], [0, 0, 1]]}
    maps_of = {"bahdanau": a, "transformer": other, "gpt": partial}
    figure = alignment.figure_of(maps_of, "about")
    *maps, scale = figure.axes
    assert len({round(ax.get_position().y0, 6) for ax in maps}) == 1
    assert all(one.get_position().x1 < two.get_position().x0 for one, two in pairwise(maps))
    assert scale.get_ylim() == (0, 1)
    assert maps[0].collections[0].norm.vmax == 1
    assert np.allclose(maps[0].collections[0].get_array(), a["alpha"])
    assert [t.get_text() for t in maps[0].get_xticklabels()] == ["a", "·b", "c"]
    assert [t.get_text() for t in maps[0].get_yticklabels()] == ["d", "·e"]
    assert [square.get_xy() for square in maps[0].patches] == [(0.06, 0.06), (2.06, 1.06)]
    caption = figure.get_label()
    assert "Dot (·): continues the previous word." in caption

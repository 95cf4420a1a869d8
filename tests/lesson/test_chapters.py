"""Chapters in pages: their differences, what their lines compute, and how findings are read."""

import pytest
import torch

from lesson.attention import count_by_part
from lesson.pair import pair_lines
from lesson.questions import find_question, read_findings
from lesson.source import Line, Unit, read_chapter, read_letters
from lesson.trace import trace_lines
from seqmodels import build


def unit(*texts: str) -> Unit:
    return Unit("Model", "", "", [Line(i, text, "", "") for i, text in enumerate(texts, 1)])


def test_the_names_of_models_are_no_difference() -> None:
    old = unit("class Old(Base):", "    x = a + b", "    gone = 1")
    new = unit("class New(Base):", "    x = a - b", "    return Old")
    rows = pair_lines(old, new, "Old", "New")
    assert [row.kind for row in rows] == ["same", "changed", "gone", "new"]
    marked = [char for char, mark in zip(rows[1].new.text, rows[1].new_marks, strict=True) if mark]
    assert marked == ["-"]


def test_a_line_shows_what_it_computed_first() -> None:
    """Attention is computed for each target word: the one shown is that of the first."""
    torch.manual_seed(3)
    model = build("bahdanau", 11, d_model=8, d_embed=8, d_maxout=8, d_align=8).eval()
    for p in model.parameters():
        torch.nn.init.normal_(p)
    src, tgt_in = torch.tensor([[4, 5, 6, 7, 8]]), torch.tensor([[1, 9, 5]])
    chapter = read_chapter("bahdanau")
    values = trace_lines(chapter, model, src, tgt_in)
    lines = [line for unit in chapter.units for line in unit.lines if line.tag]
    (number,) = [line.number for line in lines if "softmax" in line.text]
    alpha = model.align(src, src > 0, tgt_in)[0]
    assert (alpha[0] - alpha[-1]).abs().max() > 0.01
    (value,) = values[number]
    assert value.first == pytest.approx(alpha[0, :4].tolist(), abs=1e-6)
    assert value.shape == (1, 1, 5)


def test_a_chapter_names_the_letters_of_its_shapes() -> None:
    bahdanau, gpt = (read_letters(read_chapter(name)) for name in ("bahdanau", "gpt"))
    assert [*bahdanau] == [*"BERDJASTV", "D2", "D3"]  # in the order of the legend
    assert (bahdanau["A"], bahdanau["D3"]) == ("width of the alignment model", "3 × D")
    assert (gpt["H"], gpt["R"]) == ("heads", "rows of a step: B, or B × J")
    assert {"A", "E", "D2"}.isdisjoint(gpt)


def test_parameters_are_counted_by_part() -> None:
    """Six layers of 512: 18 attentions of four matrices, 12 layers of two, four times as wide."""
    transformer, *_ = counts = count_by_part()
    assert transformer["parts"]["attention"] == 18 * 4 * 512**2
    inner = 18 * 4 * 512**2 + 12 * 2 * 512 * 2048
    assert transformer["shares"]["attention"] == pytest.approx(18 * 4 * 512**2 / inner, rel=2e-3)
    assert all(sum(each["shares"].values()) == pytest.approx(1) for each in counts)


def test_a_finding_keeps_its_conclusion() -> None:
    (state,) = (
        f for f in read_findings() if (f.folder, f.figure) == ("lookup-state", "score-query")
    )
    assert state.observed.endswith("and not what they could hold.")


def test_a_question_is_found() -> None:
    assert find_question("We tried. Does it help? Is it fast?") == "Does it help?"
    assert find_question("No.") == ""

"""All figures of a folder of records; curves, sizes and alignments; the style of figures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_records import MODELS, fake_record, fake_tests, several

from seqmodels.report import alignment, drawing, figures, reading, style, tables


@pytest.mark.parametrize("task", ["recall", "next_token"])
def test_each_test_set_gets_a_figure(task: str) -> None:
    """Keeps out a metric or an axis that only one task has, and that nothing draws."""
    records = several(1, task)[:2]
    records[0]["tests"][0]["name"] = records[1]["tests"][0]["name"] = "a / b"
    names = [f"score-{test['name']}" for test in fake_tests("gpt", task)[1:]]
    with style.context():
        assert {"score-a-b", *names} <= {*figures.draw_all(records, None)}
    assert tables.format_tables(records).count("\n### ") >= len(names)


def test_records_without_the_tasks_measurements_are_named(capsys: Any) -> None:
    """Keeps out a traceback, or a figure that is missing in silence, for records from elsewhere."""
    bare = fake_record("gpt", 1) | {"task": "distance"}
    assert {*figures.draw_all([bare], None)} == {"curves", "state", "score-length", "alignment"}
    assert "'analyses'" in capsys.readouterr().err


def test_curves_show_validation_losses() -> None:
    """Keeps out the training loss under the name of validation, and exchanged axes."""
    records = several(1)
    axes = drawing.draw_curves(records).axes
    assert [ax.get_xlabel() for ax in axes] == ["target tokens", "seconds of training"]
    for ax, field in zip(axes, ("tokens", "seconds"), strict=True):
        for record in records:
            points, colour = record["curve"], style.looks([record["model"]])[record["model"]].colour
            line = next(line for line in ax.lines if line.get_color() == colour)
            assert np.allclose(line.get_xdata(), [point[field] for point in points])
            assert np.allclose(line.get_ydata(), [point["valid_nats"] for point in points])


def test_both_sizes_are_drawn() -> None:
    """Keeps out the cache drawn as what the paper passes on, one size twice, and two scales."""
    records, looks = several(1), style.looks(MODELS)
    axes = [ax for ax in drawing.draw_state(records).axes if ax.lines]
    assert axes[0].get_ylim() == axes[1].get_ylim()
    for ax, (field, title) in zip(axes, drawing.SIZES.items(), strict=True):
        assert ax.get_title("left") == title
        lines = {line.get_color(): line.get_xydata() for line in ax.lines}
        for record in records:
            assert np.array_equal(lines[looks[record["model"]].colour], np.array(record[field]))


def test_alignments_that_cannot_be_drawn_are_refused(tmp_path: Path) -> None:
    """Keeps out words read as formulas, and a map whose rows and columns are swapped."""
    a = {"src": ["$5", "and", "$6"], "tgt": ["5", "$"], "alpha": [[1, 0, 0], [0, 0.5, 0.5]]}
    path = alignment.draw_alignment(
        {"bahdanau": a | {"gold": [[0, 0], [2, 1]]}}, tmp_path / "a.PNG"
    )
    assert path.read_bytes().startswith(b"\x89PNG")
    swapped = a | {"src": a["tgt"], "tgt": a["src"]}
    for maps, name, words in (
        ({"gpt": swapped}, "b.svg", r"gpt: alpha is \(2, 3\)"),
        ({}, "b.svg", "no alignment"),
        ({"gpt": a}, "b.pdf", r"b\.pdf"),
    ):
        with pytest.raises(ValueError, match=words):
            alignment.draw_alignment(maps, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["a.PNG"]


def test_tokens_are_shown_as_text() -> None:
    r"""Keeps out marks of spaces, bytes such as \xe4, and pieces that look like whole words."""
    for tokens, texts in (
        ("The ▁mag ic , ▁isn 't ▁ 8 ]", "The mag ·ic , isn 't ␣ 8 ]"),
        (r"Fr \xc3 \xa4 u ▁", "Fr ä … u ␣"),
        (r"▁M\xc3 \xa4dch en", "Mä ·dch ·en"),
        (r"\xe4 x a\x00", r"\xe4 x a\x00"),
    ):
        assert alignment.show_tokens(tokens.split()) == texts.split()


def test_alignments_are_drawn_in_a_row_with_one_scale() -> None:
    """Keeps out transposed links or words, rows upside down, and maps of different ranges."""
    a = {"src": ["▁a", "b", "▁c"], "tgt": ["▁d", "e"], "alpha": [[1, 0, 0], [0, 0.6, 0.4]]}
    a["gold"] = [[0, 0], [2, 1]]
    partial = a | {"alpha": [[0.2, 0.6, 0], [0, 0, 1]]}
    figure = alignment.draw_heat_maps(
        {"bahdanau": a, "transformer": partial, "gpt": partial}, "about"
    )
    *maps, scale = figure.axes
    assert scale.get_ylim() == (0, 1)
    assert maps[0].collections[0].norm.vmax == 1
    assert maps[0].yaxis_inverted()
    assert not maps[0].xaxis_inverted()
    assert np.allclose(maps[0].collections[0].get_array(), a["alpha"])
    assert [t.get_text() for t in maps[0].get_xticklabels()] == ["a", "·b", "c"]
    assert [t.get_text() for t in maps[0].get_yticklabels()] == ["d", "·e"]
    assert [square.get_xy() for square in maps[0].patches] == [(0.06, 0.06), (2.06, 1.06)]


def test_large_and_small_numbers_are_short() -> None:
    """Keeps out ten thousand giga, and ticks of 0.00005 over the edge of the figure."""
    numbers = {2_000_000: "2 M", 999: "999", 0: "0", 5e-5: "5e-5", 2e-4: "2e-4", 0.001: "0.001"}
    assert [reading.format_short(n, unit="") for n in numbers] == [*numbers.values()]
    assert reading.format_short(2.5e13, unit="FLOP") == "25 TFLOP"
    assert reading.format_short(1000, unit="B") == "1 kB"

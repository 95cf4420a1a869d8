"""Scores against memory and width, read back from the figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from fake_records import fake_record, write

from seqmodels.report import figures, style
from seqmodels.report.reading import subtitle
from tasks.lookup import figure as lookup


def wide(model: str, seed: int, d_model: int, score: float) -> dict[str, Any]:
    """Make a record of this width, which passes d_model bytes per token, with one score."""
    record = fake_record(model, seed)
    record["model_config"] = {"d_model": d_model}
    record["data"] |= {"n_tokens_source": 17}
    grows = model != "lstm_seq2seq"
    record["source_bytes"] = [[n, d_model * (n if grows else 1)] for n in (8, 16, 32)]
    for bucket in record["tests"][0]["buckets"]:
        bucket["bleu"] = {"value": score, "low": score, "high": score}
    return record


FOLDERS = {
    f"width-{d}": [
        wide("gpt", 1, d, 60 + d), wide("gpt", 2, d, 64 + d), wide("lstm_seq2seq", 1, d, d),
    ]
    for d in (16, 32)
}  # fmt: skip


def test_a_point_is_its_bytes_and_its_score(tmp_path: Path) -> None:
    """Keeps out bytes of another length, widths for bytes, and one seed for the mean."""
    (figure,) = lookup.draw_across([*FOLDERS.values()]).values()
    by_bytes, by_width = figure.axes
    assert any("1–2 seeds" in text.get_text() for text in figure.texts)  # at each width
    for model, sizes, means in (
        ("gpt", [17 * 16, 17 * 32], [78, 94]), ("lstm_seq2seq", [16, 32], [16, 32]),
    ):  # fmt: skip
        colour = style.looks([model])[model].colour
        for ax, x in ((by_bytes, sizes), (by_width, [16, 32])):
            line = next(line for line in ax.lines if line.get_color() == colour)
            assert np.allclose(line.get_xdata(), x)
            assert np.allclose(line.get_ydata(), means)


def test_only_several_widths_on_the_same_data_are_drawn() -> None:
    """Keeps out a line between two tasks, and the figure where it would be a point."""
    one = FOLDERS["width-16"]
    assert lookup.draw_across([one]) == {}
    other = [r | {"data": r["data"] | {"sha256": "11"}} for r in FOLDERS["width-32"]]
    assert lookup.draw_across([one, other]) == {}
    assert {*lookup.draw_across([*FOLDERS.values()])} == {"widths-lookup"}


def test_the_results_page_shows_it(tmp_path: Path) -> None:
    """Keeps out a figure of several folders that nobody sees, or that other tasks' folders join."""
    for name, records in FOLDERS.items():
        write(tmp_path / name, [r | {"task": "lookup"} for r in records])
    write(tmp_path / "other", [fake_record("gpt", 1)])
    assert tmp_path / "widths-lookup.svg" in figures.plot_results(tmp_path)
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "![widths-lookup](widths-lookup.svg)" in page


def test_a_seed_that_two_folders_have_counts_once() -> None:
    """Keeps out a fourth seed of a model whose own width is also one of the equal widths."""
    one = {"task": "lookup", "model": "gpt", "model_config": {"d_model": 64}, "n_parameters": 1}
    one |= {"train_config": {"tokens": 1}, "data": {"name": "x"}}
    records = [one | {"seed": seed} for seed in (1, 2, 3, 1)]
    assert subtitle(records).endswith(" · 3 seeds")

"""When models learn to look up, and scores against memory and width, read back from figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from fake_records import fake_record

from seqmodels.models import papers
from seqmodels.report import style
from tasks.lookup import figure


def learning(model: str, seed: int, accuracy: list[float]) -> dict[str, Any]:
    """Make a record with these validation accuracies at steps 100, 200 and so on."""
    record = fake_record(model, seed)
    point = record["curve"][0]
    record["curve"] = [
        point | {"step": 100 * i, "valid_accuracy": value} for i, value in enumerate(accuracy, 1)
    ]
    record["tests"][0]["baseline"] = "knows nothing"
    return record


RECORDS = [
    learning("gpt", 1, [5, 20, 96, 99]),
    learning("gpt", 2, [5, 95, 90, 99]),
    learning("gpt", 3, [5, 20, 94.9, 99]),
    learning("lstm_seq2seq", 1, [5, 20, 30, 40]),
    learning("bahdanau", 1, [5, 20, 30, 97]),
    learning("bahdanau", 2, [5, 20, 30, 40]),
]


def test_every_seed_has_its_marker() -> None:
    """Keeps out a failed seed that is drawn as if it had learned at the end."""
    left, right = figure.draw_transition(RECORDS).axes
    assert [len(ax.lines) for ax in (left, right)] == [7, 6]  # and the line at 95 %
    filled: dict[str, list[tuple[float, bool]]] = {}
    for line in right.lines:
        is_filled = line.get_markerfacecolor() != "white"
        filled.setdefault(line.get_color(), []).append((line.get_xdata()[0], is_filled))
    looks = style.looks(papers())
    expected = {
        "gpt": [(300, True), (200, True), (400, True)],
        "lstm_seq2seq": [(400, False)],
        "bahdanau": [(400, True), (400, False)],
    }
    assert filled == {looks[model].colour: found for model, found in expected.items()}


# ----------------------------------------------------------------------------------------- Widths


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
    (plot,) = figure.draw_across([*FOLDERS.values()]).values()
    by_bytes, by_width = plot.axes
    assert any("1–2 seeds" in text.get_text() for text in plot.texts)  # at each width
    for model, sizes, means in (
        ("gpt", [17 * 16, 17 * 32], [78, 94]), ("lstm_seq2seq", [16, 32], [16, 32]),
    ):  # fmt: skip
        colour = style.looks([model])[model].colour
        for ax, x in ((by_bytes, sizes), (by_width, [16, 32])):
            line = next(line for line in ax.lines if line.get_color() == colour)
            assert np.allclose(line.get_xdata(), x)
            assert np.allclose(line.get_ydata(), means)


def test_only_several_widths_on_the_same_data_are_drawn() -> None:
    """Keeps out a line between two tasks, and the plot where it would be a point."""
    one = FOLDERS["width-16"]
    assert figure.draw_across([one]) == {}
    other = [r | {"data": r["data"] | {"sha256": "11"}} for r in FOLDERS["width-32"]]
    assert figure.draw_across([one, other]) == {}
    assert {*figure.draw_across([*FOLDERS.values()])} == {"widths-lookup"}

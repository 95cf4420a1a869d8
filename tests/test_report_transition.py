"""When a model learned, read back from the figure."""

from __future__ import annotations

from typing import Any

import pytest
from fake_records import fake_record

from seqmodels.models import papers
from seqmodels.report import style
from tasks.lookup import figure as transition


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


@pytest.mark.parametrize(("place", "step"), [(0, 300), (1, 200), (2, 400), (3, None)])
def test_the_first_validation_counts(place: int, step: int | None) -> None:
    """Keeps out the last step below the threshold, and the best step instead of the first."""
    assert transition.steps_to(RECORDS[place]) == step


def test_every_seed_has_its_marker() -> None:
    """Keeps out a failed seed that is drawn as if it had learned at the end."""
    left, right = transition.draw_transition(RECORDS).axes
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

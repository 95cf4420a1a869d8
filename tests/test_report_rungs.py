"""The rungs from one vector to attention, and the places in the target, read back from figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_records import fake_record, scored
from matplotlib.colors import to_hex

from seqmodels.evaluation.intervals import wilson
from seqmodels.models import papers
from seqmodels.report import style
from tasks.ladder import figure as ladder

LAST, DOT, FED = "lstm_seq2seq_last", "lstm_seq2seq_dot", "lstm_seq2seq_dot_fed"
SCORES = {
    "lstm_seq2seq": [60.0, 20.0, 5.0], "lstm_seq2seq_forward": [50.0, 18.0, 4.0],
    LAST: [65.0, 31.0, 6.0], DOT: [90.0, 80.0, 40.0], FED: [95.0, 88.0, 60.0],
}  # fmt: skip


def climbed(shift: float = 0.0, seed: int = 1) -> list[dict[str, Any]]:
    """Make a record per rung: 11–20 words are the longest trained of three buckets."""
    records = scored({m: [v + shift for v in s] for m, s in SCORES.items()}, trained=20, half=2.0)
    for r in records:
        r["seed"], r["model_config"] = seed, dict(papers()[r["model"]].sizes)
    return records


def bars(ax: Any) -> dict[tuple[str, float], float]:
    """Return the height of each bar by colour and place."""
    found = {}
    for bar in ax.patches:
        colour = to_hex(bar.get_facecolor()).upper()
        found[colour, round(bar.get_x() + bar.get_width() / 2, 2)] = bar.get_height()
    return found


def test_a_bar_is_its_rung_and_bucket() -> None:
    """Keeps out a bar of another bucket or rung, and one seed drawn for the mean."""
    left, right = ladder.draw_rungs([*climbed(), *climbed(2.0, 2)]).axes
    at = {"lstm_seq2seq_forward": 0, "lstm_seq2seq": 1, LAST: 2, DOT: 2.8, FED: 3.2}
    for ax, place in ((left, 1), (right, 2)):
        expected = {(style.looks([m])[m].colour, x): SCORES[m][place] + 1 for m, x in at.items()}
        assert bars(ax) == pytest.approx(expected)
    names = [text.get_text().replace("\n", " ") for text in left.get_xticklabels()]
    assert names == ["not reversed", "last state alone", "last vector", "dot"]
    assert left.get_title("left") == "BLEU at 11–20 words"
    assert right.get_title("left") == "BLEU at 21–30 words, longer than trained"
    assert {text.get_text() for text in left.texts} == {"19", "21", "32", "81", "89"}


def test_every_seed_has_its_dot() -> None:
    """Keeps out a spread of seeds that is hidden behind their mean."""
    left, _ = ladder.draw_rungs([*climbed(), *climbed(2.0, 2)]).axes
    assert sorted(y for line in left.lines for y in line.get_ydata()) == sorted(
        s[1] + shift for s in SCORES.values() for shift in (0, 2)
    )
    assert not ladder.draw_rungs(climbed()).axes[0].lines


# ---------------------------------------------------------------------------------------- Places


def placed(model: str, accuracy: list[float], seed: int = 1) -> dict[str, Any]:
    """Make a record with these accuracies in the quarters, of 400 words each."""
    rows = [{"place": float(k), "n": 400.0, "accuracy": a} for k, a in enumerate(accuracy)]
    return fake_record(model, seed) | {"analyses": {"places": rows}}


PLACED = [
    placed("lstm_seq2seq", [80, 60, 50, 50]), placed("lstm_seq2seq", [90, 60, 50, 50], 2),
    placed("lstm_seq2seq_forward", [60, 55, 50, 52]),
]  # fmt: skip


def test_a_gain_is_a_difference_at_its_place() -> None:
    """Keeps out a gain with its sign turned, one seed for the mean, and a place too far."""
    lines, bars = ladder.draw_places(PLACED).axes
    assert [list(line.get_ydata()) for line in lines.lines] == [[85, 60, 50, 50], [60, 55, 50, 52]]
    assert [bar.get_height() for bar in bars.patches] == pytest.approx([25, 5, 0, -2])


def test_a_gain_has_the_interval_of_two_proportions() -> None:
    """Keeps out an interval of one side alone, or in shares instead of points."""
    gained = ladder.gains({PLACED[1]["model"]: PLACED[:2], PLACED[2]["model"]: PLACED[2:]})
    halves = [50 * np.ptp(wilson(share, 400)) for share in (0.85, 0.6)]
    assert gained[2, 0] - gained[0, 0] == pytest.approx(np.hypot(*halves))
    assert gained[0, 0] - gained[1, 0] == pytest.approx(np.hypot(*halves))


def test_rungs_are_drawn_of_the_lstm_and_its_variants() -> None:
    """Keeps out an error for models that are not on the ladder, and one figure for another."""
    others = [placed("gpt", [80, 60, 50, 50]), placed("bahdanau", [80, 60, 50, 50])]
    assert {*ladder.draw(others)} == {"places"}
    analyses = others[0]["analyses"]
    assert {*ladder.draw([r | {"analyses": analyses} for r in climbed()])} == {"rungs", "places"}

"""The rungs from one vector to attention, and the places in the target, read back from figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_records import fake_record, scored, write
from matplotlib.colors import to_hex

from seqmodels.evaluation.intervals import wilson
from seqmodels.models import papers
from seqmodels.report import figures, findings, places, rungs, style
from tasks import flags

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
    left, right = rungs.draw_rungs([*climbed(), *climbed(2.0, 2)]).axes
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
    left, _ = rungs.draw_rungs([*climbed(), *climbed(2.0, 2)]).axes
    assert sorted(y for line in left.lines for y in line.get_ydata()) == sorted(
        s[1] + shift for s in SCORES.values() for shift in (0, 2)
    )
    assert not rungs.draw_rungs(climbed()).axes[0].lines


def test_the_title_is_read_off_the_longest_trained_bucket() -> None:
    """Keeps out a title with numbers of its own."""

    def title(records: list[dict[str, Any]]) -> str:
        return rungs.draw_rungs(records).texts[0].get_text().replace("\n", " ")

    assert title(climbed()) == (
        "BLEU at 11–20 words: 20 from the last state alone, 31 with the last vector at every "
        "step, 80–88 with attention"
    )
    assert title(climbed()[3:]) == "BLEU of each step from one vector to attention"


def test_rungs_are_compared_as_one_vector_and_attention() -> None:
    """Keeps out variants that count twice for their model, and rungs that count for nothing."""
    sides = {name: findings.side_of(name) for name in flags.MODELS["ladder"]}
    attending = {name for name, side in sides.items() if side == "attention"}
    assert attending == {name for name in sides if "last" not in name and "_" in name[12:]} - {
        "lstm_seq2seq_forward"
    }
    assert [name for name, side in sides.items() if side == "one vector"] == ["lstm_seq2seq"]
    others = ("lstm_seq2seq_x2", "transformer_rotary", "linear_attention", "unheard of")
    assert {findings.side_of(name) for name in others} == {""}


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
    lines, bars = places.draw_places(PLACED).axes
    assert [list(line.get_ydata()) for line in lines.lines] == [[85, 60, 50, 50], [60, 55, 50, 52]]
    assert [bar.get_height() for bar in bars.patches] == pytest.approx([25, 5, 0, -2])
    assert places.finding(places.gains({"a": PLACED})) == ""
    title = places.draw_places(PLACED).texts[0].get_text().replace("\n", " ")
    assert title == (
        "Reading the source backwards: +25.0 points in the first quarter of the target, −2.0 in "
        "the last"
    )


def test_a_gain_has_the_interval_of_two_proportions() -> None:
    """Keeps out an interval of one side alone, or in shares instead of points."""
    gained = places.gains({PLACED[1]["model"]: PLACED[:2], PLACED[2]["model"]: PLACED[2:]})
    halves = [50 * np.ptp(wilson(share, 400)) for share in (0.85, 0.6)]
    assert gained[2, 0] - gained[0, 0] == pytest.approx(np.hypot(*halves))
    assert gained[0, 0] - gained[1, 0] == pytest.approx(np.hypot(*halves))


def test_figures_are_drawn_where_records_have_them(tmp_path: Path) -> None:
    """Keeps out a figure that nobody sees, and one of models that it is not about."""
    analyses = placed("lstm_seq2seq", [80, 60, 50, 50])["analyses"]
    write(tmp_path / "climbed", [r | {"analyses": analyses} for r in climbed()])
    write(tmp_path / "others", [fake_record("gpt", 1), fake_record("lstm_seq2seq", 1)])
    drawn = {path.name for path in figures.plot_folder(tmp_path / "climbed")}
    assert {"rungs.svg", "rungs.png", "places.svg", "places.png"} <= drawn
    drawn = {path.name for path in figures.plot_folder(tmp_path / "others")}
    assert not {"rungs.svg", "places.svg"} & drawn

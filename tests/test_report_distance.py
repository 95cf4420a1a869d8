"""The figure of gradients and probes by distance, read back."""

from __future__ import annotations

from typing import Any

import pytest
from fake_records import fake_record

from seqmodels.models import papers
from seqmodels.report import style
from tasks.distance import figure as distance


def record(model: str, seed: int, a: float, later: float = 1.0) -> dict[str, Any]:
    """Make a record whose gradient falls by `a` per token, and by `later` after training."""
    made = fake_record(model, seed)
    gradients = [
        {"when": when, "distance": d, "low": f**d / 2, "median": f**d, "high": f**d * 2}
        for when, f in (("before", a), ("after", later))
        for d in range(1, 8)
    ]
    probe = [{"back": i, "accuracy": 100.0 / i, "control": 5.0 + seed} for i in range(1, 5)]
    made["analyses"] = {"gradients": gradients, "probe": probe}
    return made


RECORDS = [record("rnn_encdec", 1, 0.1), record("lstm_seq2seq", 1, 0.5), record("gpt", 1, 1.0)]
LOOKS = style.looks(papers())


def test_each_panel_has_its_rows() -> None:
    """Keeps out the panels in the wrong order, and seeds that are drawn as one another."""
    more = [*RECORDS, record("gpt", 2, 3.0, 0.5)]
    before, after, probe = distance.draw_distance(more).axes
    lines = {ax: {line.get_color(): line for line in ax.lines} for ax in (before, after, probe)}
    colour = LOOKS["gpt"].colour
    assert lines[before][colour].get_ydata()[1] == pytest.approx((1 + 9) / 2)
    assert lines[after][colour].get_ydata()[1] == pytest.approx((1 + 0.25) / 2)
    assert [*lines[before][LOOKS["rnn_encdec"].colour].get_xdata()] == [1, 2, 3, 4, 5, 6, 7]
    assert [*lines[probe][colour].get_ydata()] == pytest.approx([100, 50, 100 / 3, 25])
    controls = [line.get_ydata()[0] for line in probe.lines if line.get_color() == "#AAAAAA"]
    assert sorted(controls) == [6.0, 6.0, 6.5]
    marks = [line.get_xdata()[0] for line in before.lines if line.get_linestyle() == ":"]
    assert marks == [4]
    assert before.get_ylim() == after.get_ylim()


def test_bands_are_the_quartiles() -> None:
    """Keeps out a band around the wrong model or of another panel."""
    before, *_ = distance.draw_distance(RECORDS).axes
    first = before.collections[0].get_paths()[0].vertices[:, 1]
    assert first.min() == pytest.approx(0.1**7 / 2)
    assert first.max() == pytest.approx(0.2)

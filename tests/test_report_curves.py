"""Learning curves, read back from the figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_records import MODELS, fake_record, several, write

from seqmodels.report import curves, matching, reading, style


def test_the_curves_are_titled_by_their_numbers(tmp_path: Path) -> None:
    """Keeps out the highest loss sold as the lowest."""
    made = several(2)
    for point in (p for r in made if r["model"] == "rnn_encdec" for p in r["curve"]):
        point["valid_nats"] += 2  # never ahead
    records = reading.load_records(write(tmp_path, made))
    title = " ".join(curves.draw_curves(records).texts[0].get_text().split())
    last = {
        m: np.mean([r["curve"][-1]["valid_nats"] for r in records if r["model"] == m])
        for m in MODELS
    }
    low, high = min(last.values()), max(last.values())
    assert f"{low:.3f} nats per token, the lowest" in title
    assert title.endswith(f"{high:.3f}, the highest")
    later = fake_record("linear_attention", 1)
    for point in later["curve"]:
        point["valid_nats"] = 99.0
    assert " ".join(curves.draw_curves([*records, later]).texts[0].get_text().split()) == title


def test_curves_are_the_validation_losses(tmp_path: Path) -> None:
    """Keeps out the training loss under the name of validation, and exchanged axes."""
    records = reading.load_records(write(tmp_path, several(1)))
    axes = curves.draw_curves(records).axes
    assert [ax.get_xlabel() for ax in axes] == ["target tokens", "seconds of training"]
    for ax, field in zip(axes, ("tokens", "seconds"), strict=True):
        for record in records:
            points, colour = record["curve"], style.looks([record["model"]])[record["model"]].colour
            line = next(line for line in ax.lines if line.get_color() == colour)
            assert np.allclose(line.get_xdata(), [point[field] for point in points])
            assert np.allclose(line.get_ydata(), [point["valid_nats"] for point in points])


LEADER, WINNER = "bahdanau", "transformer"


def with_curves(slope: float, end: float, n_seeds: int = 2) -> list[dict[str, Any]]:
    """Make a model whose loss stays at 2 nats, and one that falls from 3 by a slope."""
    records = [fake_record(m, s) for m in (LEADER, WINNER) for s in range(1, n_seeds + 1)]
    for r in records:
        seconds = 3.0 if r["model"] == LEADER else 1.0
        r["curve"] = [
            {"step": k, "tokens": 1_000 * k, "seconds": seconds * k, "train_nats": 9.0,
             "valid_accuracy": 50.0,
             "valid_nats": 2.0 if r["model"] == LEADER else max(3 - slope * k, end)}
            for k in range(1, 21)
        ]  # fmt: skip
    return records


def test_the_crossing_is_where_the_curves_cross() -> None:
    """Keeps out a ring where nothing crosses, and tokens taken for seconds."""
    records = with_curves(slope=0.125, end=0.0)
    assert curves.first_and_last(records) == (LEADER, WINNER)
    tokens, nats = curves.crossing(records, "tokens") or (0, 0)
    assert tokens == pytest.approx(8_000, rel=0.01)  # 3 - 8 / 8 = 2
    assert nats == pytest.approx(2, rel=0.01)
    seconds, _ = curves.crossing(records, "seconds") or (0, 0)
    assert seconds == pytest.approx(8, rel=0.03)  # the winner needs a third of the time
    figure = curves.draw_curves(records)
    title = " ".join(figure.texts[0].get_text().split())
    assert title.startswith("Transformer passes Bahdanau after 8")
    assert title.endswith("ends lowest, at 0.500 nats per token")
    for ax, x in zip(figure.axes, (tokens, seconds), strict=True):
        rings = [line for line in ax.lines if line.get_markersize() == 11]
        assert [float(ring.get_xdata()[0]) for ring in rings] == [x]
    assert any("Ring: the mean of Transformer passes" in text.get_text() for text in figure.texts)


def test_no_crossing_is_made_up() -> None:
    """Keeps out a ring for a lead of nothing, for one model, and for times of two machines."""
    equal = with_curves(slope=0.125, end=2 - curves.LEAD / 2)
    assert curves.crossing(equal, "tokens") is None
    assert not any("Ring" in text.get_text() for text in curves.draw_curves(equal).texts)
    one = [r for r in with_curves(slope=0.125, end=0.0) if r["model"] == WINNER]
    assert curves.crossing(one, "tokens") is None
    elsewhere = with_curves(slope=0.125, end=0.0)
    elsewhere[0]["provenance"] = elsewhere[0]["provenance"] | {"device": "another"}
    assert not matching.is_one_machine(elsewhere)
    assert curves.crossing(elsewhere, "seconds") is None
    assert curves.crossing(elsewhere, "tokens") is not None

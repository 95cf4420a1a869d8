"""Learning curves, read back from the figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from fake_records import MODELS, fake_record, several, write

from seqmodels.report import curves, reading, style


def test_the_curves_are_titled_by_their_numbers(tmp_path: Path) -> None:
    """Keeps out the highest loss sold as the lowest."""
    records = reading.load_records(write(tmp_path, several(2)))
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
            points, colour = record["curve"], style.catalogued()[record["model"]].colour
            line = next(line for line in ax.lines if line.get_color() == colour)
            assert np.allclose(line.get_xdata(), [point[field] for point in points])
            assert np.allclose(line.get_ydata(), [point["valid_nats"] for point in points])

"""Learning curves, and bytes for the decoder, read back from the figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fake_records import LENGTHS, MODELS, several, write

from seqmodels.report import drawing, reading, style


def test_curves_are_the_validation_losses(tmp_path: Path) -> None:
    """Keeps out the training loss under the name of validation, and exchanged axes."""
    records = reading.load_records(write(tmp_path, several(1)))
    axes = drawing.draw_curves(records).axes
    assert [ax.get_xlabel() for ax in axes] == ["target tokens", "seconds of training"]
    for ax, field in zip(axes, ("tokens", "seconds"), strict=True):
        for record in records:
            points, colour = record["curve"], style.looks([record["model"]])[record["model"]].colour
            line = next(line for line in ax.lines if line.get_color() == colour)
            assert np.allclose(line.get_xdata(), [point[field] for point in points])
            assert np.allclose(line.get_ydata(), [point["valid_nats"] for point in points])


@pytest.mark.parametrize(
    ("panel", "key", "title"),
    [
        (0, "source_bytes", "Passed to the decoder in the paper"),
        (1, "cache_bytes", "Kept by this implementation"),
    ],
)
def test_both_sizes_are_drawn(panel: int, key: str, title: str, tmp_path: Path) -> None:
    """Keeps out what is kept drawn as what the paper hands over, or one size twice."""
    made = several(1)
    records = reading.load_records(write(tmp_path, made))
    figure = drawing.draw_state(records)
    axes = [ax for ax in figure.axes if ax.lines]
    assert axes[0].get_ylim() == axes[1].get_ylim()
    assert axes[panel].get_title("left") == title
    lines = {line.get_color(): line.get_xydata() for line in axes[panel].lines}
    looks = style.looks(MODELS)
    for record in made:
        drawn = lines[looks[record["model"]].colour]
        assert np.array_equal(drawn, np.array(record[key]))
        assert [n for n, _ in drawn] == list(LENGTHS)

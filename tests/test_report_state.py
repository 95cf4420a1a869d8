"""Bytes passed to the decoder and bytes kept, read back from the figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fake_records import LENGTHS, MODELS, fake_record, several, write

from seqmodels.report import reading, state, style


def test_the_state_is_titled_by_its_numbers(tmp_path: Path) -> None:
    """Keeps out a vector that is said to grow, and a title from what is kept."""
    records = reading.load_records(write(tmp_path, several(2)))
    title = state.draw_state(records).texts[0].get_text()
    assert " ".join(title.split()) == (
        "Passed to the decoder: one vector stays at 2.05 kB, attention grows to 65.5 kB–269 kB at "
        "256 source tokens"
    )
    later = fake_record("linear_attention", 1)
    assert state.draw_state([*records, later]).texts[0].get_text() == title


def test_models_that_read_less_are_titled_at_a_length_that_all_read(tmp_path: Path) -> None:
    """Keeps out GPT at 128 tokens set against the others at 256."""
    made = several(1)
    made[-1]["source_bytes"] = made[-1]["source_bytes"][:-1]
    records = reading.load_records(write(tmp_path, made))
    title = " ".join(state.draw_state(records).texts[0].get_text().split())
    assert title.endswith("attention grows to 32.8 kB–134 kB at 128 source tokens")


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
    figure = state.draw_state(records)
    axes = [ax for ax in figure.axes if ax.lines]
    assert axes[0].get_ylim() == axes[1].get_ylim()
    assert axes[panel].get_title("left") == title
    lines = {line.get_color(): line.get_xydata() for line in axes[panel].lines}
    looks = style.looks(MODELS)
    for record in made:
        drawn = lines[looks[record["model"]].colour]
        assert np.array_equal(drawn, np.array(record[key]))
        assert [n for n, _ in drawn] == list(LENGTHS)

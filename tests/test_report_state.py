"""The size of the State, read back from the figure."""

from __future__ import annotations

from pathlib import Path

from fake_records import several, write

from seqmodels.report import reading, state


def test_the_state_is_titled_by_its_numbers(tmp_path: Path) -> None:
    """Keeps out a vector that is said to grow."""
    records = reading.load_records(write(tmp_path, several(2)))
    title = state.draw_state(records).texts[0].get_text()
    assert " ".join(title.split()) == (
        "State: one vector stays at 2.05 kB, attention grows to 65.5 kB–269 kB at 256 tokens of "
        "source"
    )

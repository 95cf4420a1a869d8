"""Names beside the ends of lines."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from fake_records import several, write

from seqmodels.report import layout, reading, scores, state


def test_labels_at_line_ends_do_not_overlap(tmp_path: Path) -> None:
    """Five names on top of each other where the lines meet, on log axes too."""
    records = reading.load_records(write(tmp_path, several(1)))
    scored = scores.draw_scores(records, records[0]["tests"][0])
    sizes = state.draw_state(records)
    for figure, ax in ((scored, scored.axes[0]), (scored, scored.axes[1]), (sizes, sizes.axes[0])):
        figure.draw_without_rendering()
        labels = [t for t in ax.texts if hasattr(t, "xyann")]
        boxes = sorted((t.get_window_extent() for t in labels), key=lambda b: b.y0)
        assert len(boxes) == 5
        assert all(low.y1 <= high.y0 + 4 for low, high in pairwise(boxes))
        assert all(b.x1 <= figure.bbox.x1 for b in boxes)


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        (["RNN encoder–decoder", "GPT"], ["RNN encoder–\ndecoder", "GPT"]),
        (
            [f"experiment_of_november_with_rate_{i}_beam_5_out" for i in (1, 2, 10)],
            ["…1…", "…2…", "…10…"],
        ),
        ([f"{'x' * 40}{i}" for i in "ab"], ["…a", "…b"]),
        (["base.v1", "base.v2"], ["base.v1", "base.v2"]),
        (["base.de", "a_very_long_name_of_a_system.v1", "a_very_long_name_of_a_system.v2"],) * 2,
    ],
)
def test_long_names_keep_what_differs(labels: list[str], shown: list[str]) -> None:
    """Keeps out two systems that are both called `exper…5_out` beside their lines."""
    found = layout.brief(labels)
    assert len(set(found)) == len(labels)
    assert [text.replace("\n", "") for text in found] == [s.replace("\n", "") for s in shown]
    assert max(len(line) for text in found for line in text.split("\n")) <= layout.ROW + 2


def test_a_name_has_three_rows_at_most() -> None:
    """Keeps out a name that grows over those above and below it, and one whose cut is not shown."""
    (found,) = layout.brief(["one name of a system that is far too long to stand beside its line"])
    assert found.count("\n") == 2
    assert found.endswith("…")

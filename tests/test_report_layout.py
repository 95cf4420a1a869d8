"""Names beside the ends of lines."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from fake_records import fake_record, several, write
from matplotlib.text import Text

from seqmodels.report import layout, reading, scores, state

BOTTLENECK = [
    *(f"rnn_encdec_{width}" for width in (32, 64, 128, 256, 512)),
    *(f"bahdanau_{n}" for n in (1, 2, 4, 8, 16)),
]


@pytest.mark.parametrize("others", [[], BOTTLENECK])
def test_labels_at_line_ends_do_not_overlap(tmp_path: Path, others: list[str]) -> None:
    """Five names where the lines meet, on log axes as well, and ten more, most in two rows."""
    made = [*several(1), *(fake_record("bahdanau", 1) | {"model": name} for name in others)]
    records = reading.load_records(write(tmp_path, made))
    scored = scores.draw_scores(records, records[0]["tests"][0])
    sizes = state.draw_state(records)
    for figure, ax in ((scored, scored.axes[0]), (scored, scored.axes[1]), (sizes, sizes.axes[0])):
        figure.draw_without_rendering()
        labels = [t for t in ax.texts if hasattr(t, "xyann")]
        boxes = sorted((Text.get_window_extent(t) for t in labels), key=lambda b: b.y0)
        assert len(boxes) == 5 + len(others)
        assert all(low.y1 <= high.y0 + 2 for low, high in pairwise(boxes))
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

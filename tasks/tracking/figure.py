"""Draw how far models follow the balls, for each number of cups. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from seqmodels.records.schema import Record
from seqmodels.report import load, style

from ..figures import draw_comparisons


def draw_across(folders: Sequence[Sequence[Record]]) -> dict[str, Figure]:
    """Return the figure of all folders, with that of the most records for each number of cups."""
    by_cups: dict[int, Sequence[Record]] = {}
    for folder in folders:
        n_cups = folder[0].data.count("n_cups")
        by_cups[n_cups] = max(by_cups.get(n_cups, []), folder, key=len)
    comparisons = [by_cups[n_cups] for n_cups in sorted(by_cups)]
    records = [r for own in comparisons for r in own]
    line_styles = style.line_styles_for(load.group_by_model(records))
    return {
        "tracking": draw_comparisons(
            "Sources whose balls are all found (%), by moves",
            "Each ball starts under its own cup, and each move swaps two cups or none.",
            comparisons,
            line_styles,
            style.label_line_styles(records),
        )
    }


FIGURES = ()
"""A folder has the figures of every comparison alone."""
ACROSS = [draw_across]

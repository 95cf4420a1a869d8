"""Draw the five papers in one panel. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from seqmodels.models import FIVE
from seqmodels.records.schema import Record
from seqmodels.report import figures, load

from ..bottleneck import figure as bottleneck
from . import preset_figures


def draw_five(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the scores of the five papers by source length, if the folder holds all of them."""
    five = [record for record in records if record.model in FIVE]
    if {record.model for record in five} != {*FIVE}:
        return {}
    test = next(iter(load.tests_by_name(five).values()))
    title = f"{figures.name_score(test, test.primary_metric)} by {test.axis}"
    return {"five-papers": figures.draw_headline(five, test, title)}


FIGURES = (draw_five, bottleneck.draw, preset_figures.draw)

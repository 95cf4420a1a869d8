"""Draw the five papers alone, where the records of a folder are of more models. No torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seqmodels.models import FIVE
from seqmodels.records.schema import Record
from seqmodels.report import bucket_plots, load_records
from seqmodels.report.tidy import FigureWithData
from tasks.synthetic import changes

from . import best_state_figure


def draw_five(records: Sequence[Record]) -> dict[str, FigureWithData]:
    """Return the scores of the five papers by source length, unless the folder holds no others."""
    five = [record for record in records if record.model in FIVE]
    if not five or len(five) == len(records):
        return {}
    return {
        "five-papers": bucket_plots.draw_scores(
            five, next(iter(load_records.tests_by_name(five).values()))
        )
    }


FIGURES = (draw_five, best_state_figure.draw)


def find_classifier(record: Record) -> Callable[..., dict[str, int]] | None:
    """Return what counts the wrong words of a text by kind, from its words and the reference's."""
    if record.data.name != "English–German grammar":
        return None

    def classify(reference: Sequence[str], words: Sequence[str]) -> dict[str, int]:
        counts = changes.classify_changes(reference, words)
        return {kind: counts[kind] for kind in changes.CHANGES}

    return classify

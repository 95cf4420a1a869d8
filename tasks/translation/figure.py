"""Draw the five papers alone, where the records of a folder are of more models. No torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seqmodels.models import PAPERS
from seqmodels.report import drawing, reading
from seqmodels.report.reading import Record
from seqmodels.report.tidy import Drawing
from tasks.made import changes

from . import best_state_figure

FIVE = {name for name, paper in PAPERS.items() if paper.group == "five"}


def draw_five(records: Sequence[Record]) -> dict[str, Drawing]:
    """Return the scores of the five papers by source length, unless the folder holds no others."""
    five = [record for record in records if record["model"] in FIVE]
    if not five or len(five) == len(records):
        return {}
    return {
        "five-papers": drawing.draw_scores(five, next(iter(reading.tests_by_name(five).values())))
    }


FIGURES = (draw_five, best_state_figure.draw)


def find_classifier(record: Record) -> Callable[..., dict[str, int]] | None:
    """Return what counts the wrong words of a text by kind, from its words and the reference's."""
    if record["data"]["name"] != "English–German grammar":
        return None

    def classify(reference: Sequence[str], words: Sequence[str]) -> dict[str, int]:
        counts = changes.classify_changes(reference, words)
        return {kind: counts[kind] for kind in changes.CHANGES}

    return classify

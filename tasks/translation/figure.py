"""Draw the five papers in one panel. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from seqmodels.models import FIVE, paper_of
from seqmodels.records.schema import Record, Test
from seqmodels.report import figures, load
from seqmodels.report.load import longest_trained_bucket

from ..bottleneck import figure as bottleneck
from . import preset_figures


def draw_five(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the scores of the five papers by source length, if the folder holds all of them."""
    five = [record for record in records if record.model in FIVE]
    if {record.model for record in five} != {*FIVE}:
        return {}
    test = next(iter(load.tests_by_name(five).values()))
    return {"five-papers": figures.draw_headline(five, test, find_title(five, test))}


def find_title(records: Sequence[Record], test: Test) -> str:
    """Return what the scores show: what becomes of long sentences, or else their name.

    Compared with its first bucket, each model with one vector has less than half of its score in
    the longest trained one, and each other model nine tenths.
    """
    metric, last = test.primary_metric, longest_trained_bucket(test)
    shares: dict[str, list[float]] = {"vector": [], "grows": []}
    for model, group in load.group_by_model(records).items():
        means = load.score_array(group, test.name, metric)[:, 1:, 0].mean(axis=0)
        shares[paper_of(model).memory].append(means[last or 0] / means[0])
    if max(shares["vector"]) < 0.5 and min(shares["grows"]) >= 0.9:
        return "One vector loses long sentences; attention keeps them, up to trained lengths"
    return f"{figures.name_score(test, metric)} by {test.axis}"


FIGURES = (draw_five, bottleneck.draw, preset_figures.draw)

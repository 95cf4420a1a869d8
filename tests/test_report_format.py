"""Numbers and names that figures and tables share."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_records import several, write

from seqmodels.report import drawing, reading, tables


@pytest.mark.parametrize(("n_seeds", "words"), [(1, "one seed"), (3, "3 seeds")])
def test_the_number_of_seeds_is_said(n_seeds: int, words: str, tmp_path: Path) -> None:
    """One lucky seed that reads like a result of many."""
    records = reading.load_records(write(tmp_path, several(n_seeds)))
    figure = drawing.draw_scores(records, records[0]["tests"][0])
    head, caption = figure.texts[1].get_text(), figure.get_label()
    assert head.endswith(words)
    assert ("whisker" in caption) == (n_seeds > 1)


@pytest.mark.parametrize(("beam", "words"), [(1, "greedy"), (5, "beam 5")])
def test_a_score_says_how_targets_were_searched_for(beam: int, words: str, tmp_path: Path) -> None:
    """Keeps out a beam's BLEU beside a greedy one as if they were the same."""
    made = several(1)
    for test in (test for r in made for test in r["tests"]):
        test["beam"] = beam
    folder = write(tmp_path, made)
    records = reading.load_records(folder)
    titles = [
        ax.get_title("left") for ax in drawing.draw_scores(records, records[0]["tests"][0]).axes
    ]
    assert f"BLEU, free-running, {words}" in titles
    assert f"### length: BLEU by source length (words), {words}\n" in tables.tables(records)

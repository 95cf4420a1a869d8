"""The sentences of README.md that are filled with numbers from records."""

from __future__ import annotations

from lesson.essays import answer_first, choose_shown, compare_budgets, mark
from seqmodels.report.load_records import load_records
from seqmodels.utils.files import read_json
from tools.numbers import RESULTS


def question_first() -> str:
    """Return the question that the home page begins with, and its answer."""
    budgets = compare_budgets(load_records(RESULTS / "budgets"))
    return "**{}** {}".format(*answer_first(budgets, "docs/why.md#who-loses-the-sentence"))


def opening_picture() -> str:
    """Return what the film of a sentence shows."""
    live = RESULTS / "translation-live"
    (tokens,) = {r.train_config.tokens for r in load_records(live)}
    shown = choose_shown(read_json(live / "opening.json"))
    encoder, attending, best = (mark(output, shown["ref"]) for output in shown["outputs"])
    assert encoder["n_right"] < best["n_right"] == best["n"] == attending["n_right"]
    return f"""
A sentence of {len(shown["src"].split())} words, as trained models read and write it (one seed of
[translation-live](results/README.md#translation-live), {tokens / 1e6:g} million target tokens; each
coloured cell is one of their numbers). From the vector that the encoder has written,
{encoder["n_right"]} of the {encoder["n"]} words of its translation are right. From one of the same
size, written by gradient descent with the reference in hand, the decoder says all {best["n"]}, as
Bahdanau's model does. The [still](results/opening.svg), and [the lesson](docs/site.md) with more.
"""

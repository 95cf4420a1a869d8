"""The sentences of README.md that are filled with numbers from records."""

from __future__ import annotations

from lesson.essays import answer_first, choose_shown, compare_budgets, mark
from seqmodels.report.load_records import load_records
from seqmodels.utils.files import read_json
from tools.numbers import (
    BAHDANAU,
    GPT,
    LSTM,
    RESULTS,
    RNN,
    TRANSFORMER,
    interval,
    load_runs,
    span,
)
from tools.page_results import LAPTOP, count_seeds, trained_on_gpu
from tools.page_why import BUDGETS, RNN_40M, best_score, bible_bleu, vector_width


def question_first() -> str:
    """Return the question that the home page begins with, and its answer."""
    budgets = compare_budgets(load_records(RESULTS / "budgets"))
    return "**{}** {}".format(*answer_first(budgets, "docs/why.md#who-loses-the-sentence"))


def opening_picture() -> str:
    """Return what the film of a sentence shows."""
    live = RESULTS / "translation-live"
    (tokens,) = {run.train_config.tokens for run in load_runs("translation-live")}
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


def opening() -> str:
    """Return how it was measured who loses a long sentence."""
    longer, after_40m = (best_score(model, "71–80").value for model in (RNN, RNN_40M))
    return f"""
**How this was measured.** The models translate sentences of a synthetic English–German grammar.
After 5 million target tokens, on the longest sentences in training (31–40 words), Bahdanau has
{BUDGETS.mean(BAHDANAU, "31–40"):.1f} BLEU, and the RNN encoder–decoder, which hands over one
vector of {vector_width()} numbers, {BUDGETS.mean(RNN, "31–40"):.1f}. But freeze its decoder, and
write the vector by gradient descent on the reference: it then says these sentences with
{interval(best_score(RNN, "31–40"))} BLEU ({len(BUDGETS.seeds(RNN, "31–40"))} seeds). On longer
sentences the best vectors fall as well, later with more training: at 71–80 words they have
{longer:.0f} BLEU after 5 million tokens, and {after_40m:.0f} after 40 million (one seed). On verses
of the Bible of 51–60 words, the encoder's vectors, the best ones of fewer steps and Bahdanau have
{bible_bleu(RNN, "51–60"):.0f}, {bible_bleu(RNN, "51–60", "best_state"):.0f} and
{bible_bleu(BAHDANAU, "51–60"):.0f} BLEU (one
seed). [More, and the code](docs/why.md#who-loses-the-sentence).
"""


def expected_scores() -> str:
    """Return the scores to expect of the default comparison."""
    return f"""
At 21 to 30 words, the longest in training, expect about {LAPTOP.mean(BAHDANAU, "21–30"):.0f},
{LAPTOP.mean(TRANSFORMER, "21–30"):.0f} and {LAPTOP.mean(GPT, "21–30"):.0f} BLEU from Bahdanau,
the Transformer and GPT, which look back at the source, and {LAPTOP.mean(RNN, "21–30"):.0f} and
{LAPTOP.mean(LSTM, "21–30"):.0f} from the two models that read one vector: means of [five
seeds](tasks/translation/README.md#the-default-comparison).
"""


def limits() -> str:
    """Return the sizes of what was trained, and on what."""
    assert trained_on_gpu("budgets", RNN)
    largest = max(run.n_parameters for run in load_runs("*"))
    return f"""
Each result has {span(count_seeds("*").values())} seeds, models have up to
{largest / 1e6:.1f} million parameters, and some runs, the RNN encoder–decoder of the
first figure among them, were trained on a GPU: [all limits](docs/results.md#limits). Please cite
[this software and the papers](CITATION.cff). [MIT licence](LICENSE).
"""

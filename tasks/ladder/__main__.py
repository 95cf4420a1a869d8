"""Climb from one vector to attention, rung by rung: what each step gains, by sentence length.

Question
    Between the LSTM of Sutskever et al. 2014 and attention lie small steps. The decoder starts from
    the encoder's last state; it is given that vector at every step; it weighs all outputs of the
    encoder instead, by one of three scores (Luong et al. 2015, arXiv:1508.04025, section 3.1); and
    it reads again what it has attended to (input feeding, section 3.3). And the source is read from
    its first word or from its last. Which steps make long sentences work?

    python -m tasks.ladder                                 one seed
    python -m tasks.ladder --size full --seeds 1 2 3       a larger budget, half an hour

    About 8 minutes on two cores. Luong et al. (table 1, WMT'14 English to German, BLEU) had 11.3
    from the start state alone, 12.6 with the source reversed, 14.0 with dropout, 16.8 with
    attention and 18.1 with input feeding; Sutskever et al. (arXiv:1409.3215v3, table 1, English to
    French) 26.2 without and 30.6 with reversal. Expect, at 16 to 20 words, 14 BLEU without
    reversal, 18 with it, 23 with the last vector at every step and 84 to 91 with attention; with
    the larger budget 30, 30, 39 and 94 to 97: reversal then lowers the validation loss, but shows
    no gain in BLEU. Input feeding raises BLEU with neither.
"""

from __future__ import annotations

from tasks.flags import TaskParser, run

SCORES = ("last", "dot", "general", "additive")
MODELS = [
    "lstm_seq2seq_forward",
    "lstm_seq2seq",
    *(f"lstm_seq2seq_{score}{feeding}" for score in SCORES for feeding in ("", "_fed")),
]
PARSER = TaskParser("tasks.ladder", __doc__, models=MODELS)

if __name__ == "__main__":
    PARSER.parse_args()  # answer --help and mistakes before the slow imports below

import argparse
from dataclasses import replace
from functools import partial

from seqmodels.comparison.task import Recipe, Task
from tasks.ladder.figure import FIGURES
from tasks.ladder.measure import accuracy_by_place
from tasks.made import grammar
from tasks.made.pairs import grammar_task

# ---------------------------------------------------------------------------------------- Data
#
#     The sentences of tasks.translation, those in training of 4 to 20 words:
#
#     Although the cat watched them, the hat had disappeared.
#     Obwohl die Katze sie beobachtete, war der Hut verschwunden.

SIZES = {
    "smoke": {"n_train": 1_000, "n_valid": 50, "max_train": 20, "max_test": 30, "per_bucket": 10},
    "laptop": {
        "n_train": 80_000, "n_valid": 500, "max_train": 20, "max_test": 40, "per_bucket": 200,
    },
    "full": {
        "n_train": 120_000, "n_valid": 500, "max_train": 20, "max_test": 40, "per_bucket": 400,
    },
}  # fmt: skip
TOKENS = {"smoke": 15_000, "laptop": 600_000, "full": 1_400_000}
BUCKETS = [(low, low + 4) for low in range(1, 60, 5)]

# ------------------------------------------------------------------------------------- Recipes

# One recipe for all, except for what is compared; README.md lists the trials.

SHARED = {"d_embed": 96, "n_layers": 1, "init_range": 0.3, "forget_bias": 2.0, "dropout": 0.0}
RECIPES = {name: Recipe(SHARED, lr=1.6e-2) for name in MODELS}

# ----------------------------------------------------------------------------------------- Run


CONTRASTS = (
    ("lstm_seq2seq", "lstm_seq2seq_forward"), ("lstm_seq2seq_last", "lstm_seq2seq"),
    *((f"lstm_seq2seq_{score}", "lstm_seq2seq_last") for score in SCORES[1:]),
    *((f"lstm_seq2seq_{score}_fed", f"lstm_seq2seq_{score}") for score in SCORES),
)  # fmt: skip
"""Each rung and the one that it adds to."""


def make_task(args: argparse.Namespace) -> Task:
    """Return the task: translation, with an LSTM for each rung."""
    corpus = grammar.draw_corpus(seed=1, **SIZES[args.size])
    task = grammar_task(corpus, args.tokens or TOKENS[args.size])
    (test,) = task.tests
    longest = SIZES[args.size]["max_train"]
    trained = [e for e, n_words in zip(test.examples, test.x, strict=True) if n_words <= longest]
    return replace(
        task,
        name="ladder",
        tests=[replace(test, buckets=BUCKETS)],
        contrasts=CONTRASTS,
        recipes={**task.recipes, **RECIPES},
        training={**task.training, "batch_tokens": 800},
        n_parameters=600_000,
        measure={"places": partial(accuracy_by_place, trained)},
        figures=FIGURES,
    )


main = partial(run, PARSER, make_task)

if __name__ == "__main__":
    main()

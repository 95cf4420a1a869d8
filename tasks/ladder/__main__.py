"""Climb from one vector to attention, and on to the Transformer: what each step gains, by length.

Question
    Between the LSTM of Sutskever et al. 2014 and attention lie small steps. The decoder starts from
    the encoder's last state; it is given that vector at every step; it weighs all outputs of the
    encoder instead, by one of three scores (Luong et al. 2015, arXiv:1508.04025, section 3.1); and
    it reads again what it has attended to (input feeding, section 3.3). And the source is read from
    its first word or from its last. What does each step gain on long sentences?

    python -m tasks.ladder                                 one seed
    python -m tasks.ladder --size full --seeds 1 2 3       a larger budget, half an hour

    About 8 minutes on two cores. Luong et al. (table 1, WMT'14 English to German, BLEU) had 11.3
    from the start state alone, 12.6 with the source reversed, 14.0 with dropout, 16.8 with
    attention and 18.1 with input feeding; Sutskever et al. (arXiv:1409.3215v3, table 1, English to
    French) 26.2 without and 30.6 with reversal. docs/results.md has the scores of the larger
    budget.

    The Transformer of Vaswani et al. 2017 then changed several things at once. With --to
    transformer, the models go from Bahdanau's to it, a few changes at a time: the score, several
    heads, the tied output, residual connections, depth, self-attention in the encoder and then in
    the decoder (seqmodels/models/variants/bahdanau_to_transformer.py). Which of them gain BLEU,
    which save time or sequential steps, and how evenly does a gradient reach near and far words?

    python -m tasks.ladder --to transformer                one seed
    python -m tasks.ladder --to transformer --seeds 1 2 3 4 5

    Data and both ends are those of tasks.translation, with half of its budget. On real text, with
    larger models, self-attention mattered more in the encoder than in the decoder, where in most
    settings a recurrence did as well (Domhan 2018, ACL, P18-1167).
"""

from __future__ import annotations

import argparse

from ..flags import TaskParser, run

SCORES = ("last", "dot", "general", "additive")
MODELS = [
    "lstm_seq2seq_forward",
    "lstm_seq2seq",
    *(f"lstm_seq2seq_{score}{feeding}" for score in SCORES for feeding in ("", "_fed")),
]
TO_TRANSFORMER = [
    "bahdanau", "bahdanau_dot", "bahdanau_heads", "bahdanau_tied", "transformer_recurrent_1",
    "transformer_recurrent", "transformer_recurrent_decoder", "transformer",
]  # fmt: skip
"""The second ladder: each differs from the one before in a few changes."""


PARSER = TaskParser(
    "tasks.ladder", __doc__, models=MODELS,
    choose=lambda args: (
        ("ladder-transformer", TO_TRANSFORMER) if args.to == "transformer" else None
    ),
)  # fmt: skip
PARSER.add_argument("--to", choices=["attention", "transformer"], default="attention",
                    help="attention (default): from the LSTM to attention; transformer: from "
                         f"Bahdanau's model to the Transformer, by {', '.join(TO_TRANSFORMER)}, in "
                         "runs/ladder-transformer-SIZE")  # fmt: skip

if __name__ == "__main__":
    PARSER.parse_args()  # answer --help and mistakes before the slow imports below

from dataclasses import replace
from functools import partial
from itertools import pairwise

from seqmodels.experiments.task import Recipe, Task

from ..analyses import measure_gradients, pick_equally_long
from ..synthetic import grammar, pairs
from ..synthetic.pairs import grammar_task, short_task
from .figure import FIGURES
from .measure import accuracy_by_place, count_sequential_steps

# ---------------------------------------------------------------------------------------- Data
#
# The sentences of tasks.translation, those in training of 4 to 20 words; on the way to
# the Transformer, all of them.

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
#
# One recipe for all, except for what is compared; README.md lists the trials. On the way to the
# Transformer, the ends have the recipes of tasks.translation, and each model between them has that
# of the end that its name begins with, without trials of its own: the learning rate of AdamW, which
# trains embeddings and biases, falls from 4e-3 to 3e-3 where the layers become the Transformer's.

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
    """Return the task of the ladder that --to names."""
    return task_to_transformer(args) if args.to == "transformer" else task_to_attention(args)


def task_to_attention(args: argparse.Namespace) -> Task:
    """Return the task: translation of short sentences, with an LSTM for each rung."""
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


def task_to_transformer(args: argparse.Namespace) -> Task:
    """Return the task: tasks.translation, with the models from Bahdanau's to the Transformer."""
    task = short_task(grammar.draw_corpus(seed=1, **pairs.SIZES[args.size]), args)
    measured = pick_equally_long(task.tests[0])
    n_source, n_target = len(measured[0].src), len(measured[0].tgt)
    return replace(
        task,
        name="ladder",
        contrasts=[(rung, before) for before, rung in pairwise(TO_TRANSFORMER)],
        measure={
            "gradients": partial(measure_gradients, examples=measured),
            "sequential_steps": partial(
                count_sequential_steps, n_source=n_source, n_target=n_target
            ),
        },
        figures=FIGURES,
    )


if __name__ == "__main__":
    run(PARSER, make_task)

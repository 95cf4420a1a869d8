"""Translate longer sentences than any in training: what becomes of a Transformer's positions.

Question
    To attention, words are a set: positions add their order. A Transformer with sinusoids, as
    published, with learned, with rotary and with no positions is trained on sentences of 4 to 20
    words and tested on up to 60. Which position encodings still work on longer sentences?

    python -m tasks.positions                                   one seed
    python -m tasks.positions --size full --seeds 1 2 3 4 5     a larger budget, under an hour

    6 minutes on two cores. Expect a high BLEU with any positions at 16 to 20 words, less at 21 to
    25, where rotary positions have most, and little at 56 to 60. docs/results.md has the scores,
    and those of ALiBi (--models transformer_alibi). Sinusoids and rotary positions also fail beyond
    training in language models (Press et al. 2022, arXiv:2108.12409, figure 1). Without positions,
    the encoder reads a set. A decoder can still count, because its mask is causal (Haviv et al.
    2022, arXiv:2203.16634); decoders without positions carried over best in Kazemnejad et al. 2023
    (arXiv:2305.19466).
"""

from __future__ import annotations

from ..flags import TaskParser, run

MODELS = [f"transformer_{kind}" for kind in ("sinusoids", "learned", "rotary", "none")]
PARSER = TaskParser("tasks.positions", __doc__, models=MODELS)

if __name__ == "__main__":
    PARSER.parse_args()  # answer --help and mistakes before the slow imports below

import argparse
from dataclasses import replace

from seqmodels.experiments.task import Recipe, Task

from ..synthetic import grammar
from ..synthetic.pairs import grammar_task

# ---------------------------------------------------------------------------------------- Data
#
# The sentences of tasks.translation, those in training of 4 to 20 words.

SIZES = {
    "smoke": {"n_train": 1_000, "n_valid": 50, "max_train": 20, "max_test": 40, "per_bucket": 10},
    "laptop": {
        "n_train": 80_000, "n_valid": 500, "max_train": 20, "max_test": 60, "per_bucket": 100,
    },
    "full": {
        "n_train": 120_000, "n_valid": 500, "max_train": 20, "max_test": 60, "per_bucket": 300,
    },
}  # fmt: skip
TOKENS = {"smoke": 15_000, "laptop": 900_000, "full": 1_400_000}
BUCKETS = [(low, low + 4) for low in range(1, 60, 5)]
"""Half as wide as those of tasks.translation: the fall is steep."""

# ------------------------------------------------------------------------------------- Recipes
#
# One recipe for all, which is not the best for each; README.md lists the trials.

SHARED = {
    "d_ff": 512, "n_heads": 4, "n_layers": 2, "dropout": 0.0, "is_prenorm": True,
    "n_positions": 160,
}  # fmt: skip
RECIPES = {name: Recipe(SHARED, lr=3e-3) for name in [*MODELS, "transformer_alibi"]}

# ----------------------------------------------------------------------------------------- Run

CONTRASTS = (
    ("transformer_rotary", "transformer_sinusoids"), ("transformer_rotary", "transformer_learned"),
    ("transformer_learned", "transformer_sinusoids"), ("transformer_none", "transformer_sinusoids"),
)  # fmt: skip


def make_task(args: argparse.Namespace) -> Task:
    """Return the task: translation, with a model for each kind of positions."""
    corpus = grammar.draw_corpus(seed=1, **SIZES[args.size])
    task = grammar_task(corpus, args.tokens or TOKENS[args.size])
    return replace(
        task,
        name="positions",
        tests=[replace(test, buckets=BUCKETS) for test in task.tests],
        contrasts=CONTRASTS,
        recipes={**task.recipes, **RECIPES},
        training={**task.training, "batch_tokens": 800},
    )


if __name__ == "__main__":
    run(PARSER, make_task)

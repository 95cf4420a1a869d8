"""Train the Transformer with mistakes that are made in writing it, one at a time.

Question
    Anyone who writes a Transformer forgets a mask, a root or a matrix one day, and it trains all
    the same. What does each mistake look like: in learning curve, attention weights and text?

    python -m tasks.mistakes                        sound, and with 13 mistakes: one seed
    python -m tasks.mistakes --seeds 1 2 3 4 5      the same, five seeds, to test the differences
    python -m tasks.mistakes --models gpt --vary source_loss=1      a mistake that GPT allows

    All are trained as the sound model is, with a quarter of the budget of tasks.translation: 4
    minutes a seed on two cores. README.md says what one sees of each.
"""

from __future__ import annotations

from ..flags import TaskParser, run

ABLATIONS = ("unscaled", "unnormalised")
MISTAKES = (
    "score_mask", "weight_mask", "finite_mask", "no_causal_mask", "pads", "wrong_axis", *ABLATIONS,
    "one_projection", "no_values", "no_output", "embeddings", "no_bos",
)  # fmt: skip
VARIANTS = [f"transformer_{mistake}" for mistake in MISTAKES]
MODELS = ["transformer", *VARIANTS]
PARSER = TaskParser("tasks.mistakes", __doc__, models=MODELS, sizes=("smoke", "laptop"))

if __name__ == "__main__":
    PARSER.parse_args()  # answer --help and mistakes before the slow imports below

import argparse
from dataclasses import replace
from functools import partial

from seqmodels.experiments.task import Task

from ..synthetic import grammar
from ..synthetic.pairs import DEFAULT_SIZES, DEFAULT_TOKENS, grammar_task
from .figure import FIGURES
from .measure import measure_losses

# ---------------------------------------------------------------------------- Data and recipes
#
# Those of tasks.translation; a variant has its model's recipe.

N_MEASURED = 200
"""Validation sentences on which losses are measured in other ways."""

# ----------------------------------------------------------------------------------------- Run


def make_task(args: argparse.Namespace) -> Task:
    """Return the task of tasks.translation, with measurements that tell mistakes apart."""
    corpus = grammar.draw_corpus(seed=1, **DEFAULT_SIZES[args.size])
    tokens, is_small = args.tokens or DEFAULT_TOKENS[args.size] // 4, args.size == "laptop"
    task = grammar_task(corpus, tokens, optimizer="muon", is_small=is_small)
    return replace(
        task,
        name="mistakes",
        contrasts=[(name, "transformer") for name in (*VARIANTS, "gpt")],
        measure={"losses": partial(measure_losses, examples=task.valid[:N_MEASURED])},
        figures=FIGURES,
    )


if __name__ == "__main__":
    run(PARSER, make_task)

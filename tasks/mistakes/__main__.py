"""Train the Transformer with mistakes that are made in writing it, one at a time.

Question
    Anyone who writes a Transformer forgets a mask, a root or a matrix one day, and it trains all
    the same. What does each mistake look like, in learning curve, loss and BLEU?

    python -m tasks.mistakes                        sound, and with 13 mistakes: one seed
    python -m tasks.mistakes --seeds 1 2 3 4 5      the same, five seeds, to test the differences
    python -m tasks.mistakes --models gpt --vary source_loss=1      a mistake that GPT allows

    All are trained as the sound model is, with a quarter of the budget of tasks.translation: 4
    minutes a seed on two cores. README.md says what one sees of each.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..flags import TaskParser, run
from ..synthetic.pairs import DEFAULT_SIZES, DEFAULT_TOKENS, grammar_task

if TYPE_CHECKING:
    from seqmodels.experiments.task import Task

MODELS = ["transformer", *(f"transformer_{mistake}" for mistake in (
    "score_mask", "weight_mask", "finite_mask", "no_causal_mask", "pads", "wrong_axis", "unscaled",
    "unnormalised", "one_projection", "no_values", "no_output", "embeddings", "no_bos",
))]  # fmt: skip
PARSER = TaskParser("tasks.mistakes", __doc__, models=MODELS, sizes=("smoke", "laptop"))

# ---------------------------------------------------------------------------- Data and recipes
#
# Those of tasks.translation; a variant has its model's recipe.

N_MEASURED = 200
"""Validation sentences on which losses are measured in other ways."""

# ----------------------------------------------------------------------------------------- Run


def make_task(args: argparse.Namespace) -> Task:
    """Return the task of tasks.translation, with measurements that tell mistakes apart."""
    from ..synthetic import grammar
    from .measure import measure_losses

    corpus = grammar.draw_corpus(seed=1, **DEFAULT_SIZES[args.size])
    tokens, is_small = args.tokens or DEFAULT_TOKENS[args.size] // 4, args.size == "laptop"
    task = grammar_task(corpus, tokens, optimizer="muon", is_small=is_small)
    return replace(
        task,
        name="mistakes",
        contrasts=[(name, "transformer") for name in (*MODELS[1:], "gpt")],
        measure={"losses": partial(measure_losses, examples=task.valid[:N_MEASURED])},
    )


if __name__ == "__main__":
    run(PARSER, make_task)

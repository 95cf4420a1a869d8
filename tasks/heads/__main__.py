r"""Ask what each head of attention looks for, and which words change without it.

Question
    A Transformer translates the sentences of tasks.translation, of which the grammar knows each
    word's part of speech and on which word it depends. Which head lets an article find its noun, on
    which its German form depends? What becomes of the translation without this head? And what do
    the heads of GPT look for, which read source and target as one text?

    python -m tasks.heads                              also with one head, one layer, no positions
    python -m tasks.heads --models transformer         as published alone
    python -m tasks.heads --trained runs/translation-parts-laptop   on weights of preset parts
    python -m tasks.heads --models gpt                 GPT, as the preset parts trains it

    The weights that come with the package are measured without a training:

    python -m tasks.heads --size full --models gpt --precision bfloat16 \
        --trained results/translation-live

    5 minutes on two cores.
"""

from __future__ import annotations

from ..flags import TaskParser, run

PARSER = TaskParser("tasks.heads", __doc__, models=["transformer", "transformer_none"])

if __name__ == "__main__":
    PARSER.parse_args()  # answer --help and mistakes before the slow imports below

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from seqmodels.experiments.task import Task

from ..analyses import Rows, draw_sample
from ..synthetic import grammar
from ..synthetic.pairs import SIZES, short_task
from . import measure
from .figure import FIGURES

# ---------------------------------------------------------------------------------------- Data
#
#     The corpus of tasks.translation, and sentences that are not in it, to measure heads on:
#
#     Although  the     cat   watched  them  ,  the     hat   had        disappeared  .
#               article noun  verb              article noun  auxiliary  verb

N_MEASURED = {"smoke": 10, "laptop": 200, "full": 200}
LENGTHS = range(6, 25)
"""Words in the sentences that are measured."""

# ------------------------------------------------------------------------------------- Recipes
#
# Those of tasks.translation.

# ----------------------------------------------------------------------------------------- Run

MEASURES: dict[str, Callable[..., Rows]] = {
    "heads": partial(measure.describe_attentions, describe=measure.describe_heads),
    "scores": partial(measure.describe_attentions, describe=measure.describe_scores),
    "distances": measure.describe_distances,
    "muting": measure.mute_each,
    "article": measure.describe_article_heads,
    "maps": measure.map_article_heads,
}


def make_task(args: argparse.Namespace) -> Task:
    """Return the task: the grammar's sentences, and what is measured in the heads."""
    corpus = grammar.draw_corpus(seed=1, **SIZES[args.size])
    task = short_task(corpus, args)
    sample = draw_sample(N_MEASURED[args.size], LENGTHS, task.tokenizer, corpus)
    return replace(
        task,
        name="heads",
        vary={"transformer": [{"n_heads": 1}, {"n_layers": 1}]},
        measure={
            name: partial(measurement, sample=sample) for name, measurement in MEASURES.items()
        },
        figures=FIGURES,
    )


if __name__ == "__main__":
    run(PARSER, make_task)

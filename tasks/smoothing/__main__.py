"""Ask in what sense attention is kernel smoothing, and with what bandwidth.

Question
    A Transformer's attention averages values, with weights that fall with the distance of a key
    from the query: Nadaraya and Watson's kernel smoother of 1964, with a Gaussian kernel of
    bandwidth d_k^¼ that counts longer keys more. Do the learned queries and keys use their lengths,
    or angles alone? What does the model lose with another bandwidth, without the weights by
    length, or with FAVOR+'s random features in place of the kernel? And what if it is trained with
    cosines, or without 1/√d_k?

    python -m tasks.smoothing                  the Transformer and two variants, one seed
    python -m tasks.smoothing --seeds 1 2 3    with several seeds, to test their differences
    python -m tasks.smoothing --models gpt gpt_unscaled    GPT, as the preset parts trains it

    Data and recipes are those of tasks.translation, with half of its budget, so that runs of
    the preset parts can be measured (--trained DIR). 5 minutes on two cores.
"""

from __future__ import annotations

from ..flags import TaskParser, run

MODELS = ["transformer", *(f"transformer_{name}" for name in ("unscaled", "cosine"))]
PARSER = TaskParser("tasks.smoothing", __doc__, models=MODELS)

if __name__ == "__main__":
    PARSER.parse_args()  # answer --help and mistakes before the slow imports below

import argparse
from dataclasses import replace
from functools import partial

from seqmodels.experiments.task import Task

from ..synthetic import grammar
from ..synthetic.pairs import SIZES, short_task
from . import measure
from .figure import FIGURES

# ---------------------------------------------------------------------------------------- Data
#
# The sentences of tasks.translation. Queries and keys are those of validation sentences.

N_MEASURED = 200
"""Validation sentences that are measured."""
N_SAMPLED = 50
"""Validation sentences on which random features are tried, which takes most of the time."""

# ------------------------------------------------------------------------------------- Recipes
#
# Those of tasks.translation; a variant has its model's.

# ----------------------------------------------------------------------------------------- Run


def make_task(args: argparse.Namespace) -> Task:
    """Return the task of tasks.translation, with measurements of the Transformer's kernel."""
    corpus = grammar.draw_corpus(seed=1, **SIZES[args.size])
    task = short_task(corpus, args)
    measured, sampled = task.valid[:N_MEASURED], task.valid[:N_SAMPLED]
    return replace(
        task,
        name="smoothing",
        contrasts=[*((variant, MODELS[0]) for variant in MODELS[1:]), ("gpt_unscaled", "gpt")],
        measure={
            "lengths": partial(measure.measure_lengths, examples=measured),
            "kernel": partial(measure.measure_kernel, examples=measured),
            "bandwidth": partial(measure.measure_bandwidth, examples=measured),
            "favor": partial(measure.measure_favor, examples=sampled),
        },
        figures=FIGURES,
    )


if __name__ == "__main__":
    run(PARSER, make_task)

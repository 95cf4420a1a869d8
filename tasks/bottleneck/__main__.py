"""Find which component limits long sentences: the encoder, the vector or the decoder.

Question
    A model that hands over one vector loses long sentences. The trained model is frozen, and the
    numbers that its encoder hands over are optimised for each sentence by gradient descent on the
    reference (latent.py). What does the decoder generate from the optimised vector, what is left of
    it after rounding or noise, and which words of the source does the encoder's vector lack? How
    many content words are kept of the first k words?

    python -m tasks.bottleneck                        RNN and, beside it, attention
    python -m tasks.bottleneck --size full --best-state 400 --seeds 1 2 3
    python -m tasks.bottleneck --best-state 0 --frozen runs/bottleneck-laptop \
        --models rnn_encdec rnn_encdec_fresh          train the encoder alone for the trained
                                                      decoder, and a decoder for the encoder

    10 minutes on two cores. At the longest lengths in training, expect far more BLEU from the
    optimised vectors than from the encoder's. README.md and docs/results.md have the numbers.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from seqmodels.utils.terminal import non_negative

from ..flags import run
from ..translation import __main__ as translation

if TYPE_CHECKING:
    from seqmodels.experiments.task import Task

    from ..synthetic.grammar import Splits
    from ..synthetic.trees import Sentence

PARSER = translation.make_parser("tasks.bottleneck", __doc__, ["rnn_encdec", "bahdanau"])
PARSER.add_argument("--best-state", type=non_negative, default=100, metavar="STEPS",
                    help="optimise what an encoder hands over, if its size is fixed, for each test "
                         "sentence by this many steps of gradient descent on its reference; 0: "
                         "do not (default: 100)")  # fmt: skip
PARSER.add_argument("--frozen", type=Path, metavar="DIR",
                    help="train one half of each model for the other half of this folder's runs, "
                         "which stays as it is: a decoder for the trained encoder "
                         "(rnn_encdec_fresh), or an encoder for the trained decoder (others)"
                    )  # fmt: skip
PARSER.add_argument(
    "--autoencoder", action="store_true", help="train models to generate the target from the target"
)

# ---------------------------------------------------------------------------- Data and recipes
#
# Those of tasks.translation, and sentences that are in no split, whose beginnings are translated.

N_PREFIXES = {"smoke": 12, "laptop": 200, "full": 200}
LONGEST_PREFIX = 60


def draw_others(corpus: Splits, n: int) -> list[Sentence]:
    """Draw sentences of LONGEST_PREFIX words, or as long as the longest of the test."""
    from ..synthetic.grammar import draw_unseen

    rng, n_words = random.Random(2), min(LONGEST_PREFIX, max(s.n_words for s in corpus.test))
    seen = {sentence.en for split in corpus for sentence in split}
    return [draw_unseen(rng, n_words, seen).sentence for _ in range(n)]


# ----------------------------------------------------------------------------------------- Run


def with_best_state(task: Task, steps: int, sentences: list[Sentence]) -> Task:
    """Return the task with a test set on which models translate from their optimised States.

    `sentences` are those of the test set, if the grammar has drawn them.
    """
    from .best_state import BestState
    from .kept import measure_places

    best = BestState(task.tests[0], task.tokenizer, task.bleu_tokenize, steps)
    measure = {"best_state": best.measure, "controls": best.measure_controls}
    if sentences:
        measure["places"] = partial(measure_places, best=best, sentences=sentences)
    test = replace(task.tests[0], name="best_state", beam=1, adapt=best.adapt)
    return replace(task, tests=[*task.tests, test], measure={**measure, **task.measure})


def make_task(args: argparse.Namespace) -> Task:
    """Return the task of tasks.translation, with what is measured of its States."""
    from .halves import to_autoencoder, with_frozen_half
    from .kept import measure_prefixes

    sentences: list[Sentence] = []
    if args.data:
        task = translation.make_task(args)
    else:
        corpus = translation.draw_corpus(args)
        task = translation.builtin_task(args, corpus)
        others, sentences = draw_others(corpus, N_PREFIXES[args.size]), corpus.test
        prefixes = partial(measure_prefixes, sentences=others, tokenizer=task.tokenizer)
        task = replace(task, measure={"prefixes": prefixes})
    if args.autoencoder:
        task, sentences = to_autoencoder(task), []
    if args.best_state:
        task = with_best_state(task, args.best_state, sentences)
    if args.frozen:
        return with_frozen_half(task, args.frozen, args.models, args.seeds)
    return task


if __name__ == "__main__":
    run(PARSER, make_task)

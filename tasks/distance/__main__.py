"""Measure how far back a model reaches: gradients by distance and depth, and what a probe reads.

Question
    A text repeats what it has said: random symbols, then the same again. How much does the loss of
    a target token change with a token of the source, the further back that is, before and after
    training? How does that depend on the number of layers, from 1 to 5, on sources of 25 to 100
    tokens, and on the LSTM's forget bias? And which tokens can a linear probe still read from the
    last place of the source?

    python -m tasks.distance                                  one seed
    python -m tasks.distance --size full --seeds 1 2 3        a larger budget, a quarter of an hour
    python -m tasks.distance --models lstm_seq2seq --vary n_layers=1,2,3,5 --grid \
        --vary forget_bias=0,2 --same-width --out runs/distance-depth     LSTMs trained at depth

    6 minutes on two cores. Recurrence makes a gradient depend exponentially on the distance
    (Hochreiter 1991; Bengio et al. 1994). Before training, expect it to fall with the distance in
    the models with one vector, and hardly in those with attention; along a source it falls in an
    LSTM without a forget bias, and grows with one of 2. The numbers are in docs/results.md and
    docs/results.md.
"""

from __future__ import annotations

from ..flags import TaskParser, run

PARSER = TaskParser("tasks.distance", __doc__)

if __name__ == "__main__":
    PARSER.parse_args()  # answer --help and mistakes before the slow imports below

import argparse
import random
from functools import partial

from seqmodels.data.batches import Example
from seqmodels.data.tokenizers import Words
from seqmodels.experiments.task import Recipe, Task, TestSet
from seqmodels.interface import EOS

from ..analyses import measure_gradients
from ..recipes import COPYING, HISTORY
from ..synthetic.pairs import describe_data
from .figure import FIGURES
from .measure import measure_depth, probe_states

# ---------------------------------------------------------------------------------------- Data
#
#     c a f a b | c a f a b
#
# One text, cut in the middle: the source is not marked as ended.

SYMBOLS = list("abcdefghijklmnop")
LONGEST = 24
"""Symbols in the longest source of training, and in every source that is measured."""
LENGTHS = (4, 8, 12, 16, 20, 24)
DEEP_LENGTHS = (25, 50, 100)
"""Symbols in the sources on which depths are compared."""
SIZES = {
    "smoke": {"n_train": 500, "n_valid": 20, "per_length": 5, "n_gradient": 4, "n_probe": 60},
    "laptop": {
        "n_train": 60_000, "n_valid": 300, "per_length": 100, "n_gradient": 64, "n_probe": 3_000,
    },
    "full": {
        "n_train": 120_000, "n_valid": 300, "per_length": 200, "n_gradient": 128, "n_probe": 6_000,
    },
}  # fmt: skip
TOKENS = {"smoke": 2_000, "laptop": 400_000, "full": 1_000_000}


def draw_text(rng: random.Random, n: int) -> Example:
    """Draw a text of n symbols, said twice."""
    symbols = [4 + int(len(SYMBOLS) * rng.random()) for _ in range(n)]  # after PAD, BOS, EOS, UNK
    return Example(symbols, [*symbols, EOS])


def draw_texts(rng: random.Random, n: int) -> list[Example]:
    """Draw n texts of 2 to LONGEST symbols, log-uniform."""
    lengths = range(2, LONGEST + 1)
    weights = [1 / length for length in lengths]
    return [draw_text(rng, length) for length in rng.choices(lengths, weights, k=n)]


# ------------------------------------------------------------------------------------- Recipes
#
# Those of tasks.recall, but pre-norm for the Transformer and with two layers for all that attend,
# without trials. The LSTM reads the source forwards, as the others do: read backwards, the distance
# in the text is not that in the network. It starts without a forget bias, as published; the
# weights' ±0.2 at this width give sums of about the size that the published ±0.08 gives at width
# 1,000. The gradient before training depends on both.

TWO_LAYERS = {"n_layers": 2, "n_heads": 4, "dropout": 0.0}
LSTM = {"d_embed": 64, "n_layers": 1, "init_range": 0.2, "is_reversed": False}
DECODER = TWO_LAYERS | {"init_std": 0.08, "n_positions": 2 * LONGEST + 64}
RECIPES = COPYING | {
    "lstm_seq2seq": Recipe(LSTM, lr=8e-3),
    "transformer": Recipe(TWO_LAYERS | {"d_ff": 256, "is_prenorm": True}, lr=3e-3),
    "gpt": Recipe(DECODER, lr=2e-3),
    "linear_attention": Recipe(DECODER, lr=2e-3),
    "mamba2": Recipe({"n_heads": 4, "n_layers": 4, "d_state": 32, "init_std": 0.08}, lr=2e-3),
    "gated_deltanet": Recipe(TWO_LAYERS | {"init_std": 0.08}, lr=2e-3),
}

# ----------------------------------------------------------------------------------------- Run


def make_task(args: argparse.Namespace) -> Task:
    """Return the task; gradients and probes are measured on texts of their own."""
    rng, size, tokenizer = random.Random(1), SIZES[args.size], Words(SYMBOLS)
    train, valid = draw_texts(rng, size["n_train"]), draw_texts(rng, size["n_valid"])
    test = [draw_text(rng, n) for n in LENGTHS for _ in range(size["per_length"])]
    measured = [draw_text(rng, LONGEST) for _ in range(size["n_gradient"] + size["n_probe"])]
    rng = random.Random(2)  # they are no part of the data's checksum
    deep = [[draw_text(rng, n) for _ in range(min(size["n_gradient"], 32))] for n in DEEP_LENGTHS]
    unended = [e._replace(tgt=e.tgt[:-1]) for e in measured[: size["n_gradient"]]]
    return Task(
        name="distance",
        data=describe_data(
            "symbols said twice", (train, valid, test), tokenizer,
            (tokenizer.decode(e.src) for e in [*train, *valid, *test, *measured]),
            source_end="none",
        ),
        tokenizer=tokenizer,
        train=train,
        valid=valid,
        tests=[TestSet(
            name="copy", axis="symbols in the source", unit="symbols", noun="texts",
            primary_metric="accuracy",
            examples=test, x=[len(e.src) for e in test], buckets=[(n, n) for n in LENGTHS],
            max_train_length=LONGEST,
        )],
        contrasts=HISTORY,
        recipes=RECIPES,
        training={"tokens": args.tokens or TOKENS[args.size], "batch_tokens": 400},
        n_parameters=240_000,
        measure={
            "gradients": partial(measure_gradients, examples=unended),
            "depth": partial(measure_depth, groups=deep),
            "probe": partial(probe_states, examples=measured[size["n_gradient"] :]),
        },
        figures=FIGURES,
    )  # fmt: skip


if __name__ == "__main__":
    run(PARSER, make_task)

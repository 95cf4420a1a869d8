"""Measure the bits that training gets through one vector, by its width, and through k vectors.

Question
    The RNN encoder–decoder copies random symbols through one vector of 32 to 512 numbers. Nothing
    can be guessed: of n symbols from an alphabet of 64, the vector has transmitted 6 n bits less
    the cross-entropy of the target. How does that grow with the width, in one budget, and how many
    vectors, pooled from Bahdanau's annotations by learned queries, copy as well as all of them?

    python -m tasks.bottleneck                                 one seed
    python -m tasks.bottleneck --size full --seeds 1 2 3       longer texts, under an hour

    About 8 minutes on two cores. What is measured is what the training of this budget has put into
    a vector, and not what it could hold; docs/results.md has the bits of the larger budget. A
    recurrent network can store about one real number per unit (Collins et al. 2017,
    arXiv:1611.09913). Britz et al. 2017 (arXiv:1707.00110) translate about as well with a fixed
    number of vectors as with one per word.
"""

from __future__ import annotations

from ..flags import TaskParser, run

MODELS = [
    *(f"rnn_encdec_{d}" for d in (32, 64, 128, 256, 512)),
    *(f"bahdanau_{k}" for k in (1, 2, 4, 8, 16)),
    "bahdanau",
]
PARSER = TaskParser("tasks.bottleneck", __doc__, models=MODELS)

if __name__ == "__main__":
    PARSER.parse_args()  # answer --help and mistakes before the slow imports below

import argparse
import random

from seqmodels.data.splits import Pair
from seqmodels.data.tokenizers import Words
from seqmodels.experiments.task import Recipe, Task, TestSet

from ..recipes import COPYING
from ..synthetic.pairs import SYMBOLS, describe_data, encode_pairs
from .figure import FIGURES

# ---------------------------------------------------------------------------------------- Data
#
#     ba du fe EOS  ->  ba du fe    (without EOS: the length of the target is given)

LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48)
SIZES = {
    "smoke": {"n_train": 500, "n_valid": 20, "max_length": 8, "per_length": 10},
    "laptop": {"n_train": 150_000, "n_valid": 300, "max_length": 24, "per_length": 100},
    "full": {"n_train": 250_000, "n_valid": 500, "max_length": 48, "per_length": 200},
}
TOKENS = {"smoke": 2_000, "laptop": 700_000, "full": 2_000_000}


def draw_pair(rng: random.Random, n: int) -> Pair:
    """Draw n symbols, uniformly and independently, and their copy."""
    text = " ".join(rng.choices(SYMBOLS, k=n))
    return Pair(text, text)


# ------------------------------------------------------------------------------------- Recipes
#
# The wider of two vectors was best at a lower rate in the trials, which README.md lists; any number
# of pooled vectors has Bahdanau's rate.

WIDTH = 64
"""d_model of Bahdanau's model, with any number of vectors."""
WIDE = COPYING["rnn_encdec"]._replace(lr=4e-3)
POOLED = Recipe({**COPYING["bahdanau"].sizes, "d_model": WIDTH}, lr=1.6e-2)
RECIPES = COPYING | {"rnn_encdec_256": WIDE, "rnn_encdec_512": WIDE, "bahdanau": POOLED}

CONTRASTS = (
    *((f"rnn_encdec_{2 * d}", f"rnn_encdec_{d}") for d in (32, 64, 128, 256)),
    *((f"bahdanau_{2 * k}", f"bahdanau_{k}") for k in (1, 2, 4, 8)),
    ("bahdanau_1", "rnn_encdec_128"), ("bahdanau", "bahdanau_16"), ("bahdanau", "rnn_encdec_512"),
)  # fmt: skip
"""Twice the numbers, one vector of another kind, and all annotations."""

# ----------------------------------------------------------------------------------------- Run


def make_task(args: argparse.Namespace) -> Task:
    """Return the task."""
    rng, size = random.Random(1), SIZES[args.size]
    lengths = range(1, size["max_length"] + 1)
    weights = [1 / n for n in lengths]  # as many symbols of every length
    train, valid = (
        [draw_pair(rng, n) for n in rng.choices(lengths, weights, k=size[split])]
        for split in ("n_train", "n_valid")
    )
    x = [n for n in LENGTHS if n in lengths for _ in range(size["per_length"])]
    test = [draw_pair(rng, n) for n in x]
    tokenizer, splits = Words(SYMBOLS), (train, valid, test)
    train_ids, valid_ids, test_ids = (  # without EOS: the loss is that of the symbols alone
        encode_pairs(pairs, tokenizer, has_target_eos=False) for pairs in splits
    )
    return Task(
        name="bottleneck",
        data=describe_data(
            "random symbols", splits, tokenizer, n_symbols=len(SYMBOLS), source_end="EOS"
        ),
        tokenizer=tokenizer,
        train=train_ids,
        valid=valid_ids,
        tests=[TestSet(
            name="copy", axis="source length (symbols)", unit="symbols",
            primary_metric="token_accuracy",
            examples=test_ids, x=x, buckets=[(n, n) for n in LENGTHS],
            max_train_length=size["max_length"], is_generated=False,
        )],
        contrasts=CONTRASTS,
        recipes=RECIPES,
        training={"tokens": args.tokens or TOKENS[args.size], "batch_tokens": 500},
        n_parameters=500_000,
        figures=FIGURES,
    )  # fmt: skip


if __name__ == "__main__":
    run(PARSER, make_task)

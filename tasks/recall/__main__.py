"""Copy and reverse random symbols: nothing can be guessed from language.

Question
    How many symbols of a source does a model write in place, after a given training? There is no
    language to guess from.

    python -m tasks.recall

    9 minutes on two cores. At 32 symbols, expect few in place with one vector or linear attention,
    and most with attention to every symbol. docs/results.md has the scores.
"""

from __future__ import annotations

from ..flags import TaskParser, run

PARSER = TaskParser("tasks.recall", __doc__, sizes=["smoke", "laptop"])

if __name__ == "__main__":
    PARSER.parse_args()  # answer --help and mistakes before the slow imports below

import argparse
import random
from collections.abc import Sequence

from seqmodels.data.splits import Pair
from seqmodels.data.tokenizers import Tokenizer, Words
from seqmodels.experiments.task import AlignmentExample, Task, TestSet

from ..recipes import COPYING, HISTORY
from ..synthetic.pairs import SYMBOLS, describe_data, encode_pairs

# ---------------------------------------------------------------------------------------- Data
#
#     copy ba du fe      ->  ba du fe
#     reverse ba du fe   ->  fe du ba

KINDS = ("copy", "reverse")
LENGTHS = (4, 8, 16, 32, 64, 128)
SIZES = {
    "smoke": {"n_train": 1_000, "n_valid": 30, "per_length": 5, "max_train": 16, "max_test": 32},
    "laptop": {
        "n_train": 80_000, "n_valid": 300, "per_length": 50, "max_train": 32, "max_test": 128,
    },
}  # fmt: skip
TOKENS = {"smoke": 10_000, "laptop": 800_000}


def draw_pair(rng: random.Random, kind: str, n: int) -> Pair:
    """Draw one example with n symbols in the source."""
    symbols = rng.choices(SYMBOLS, k=n)
    tgt = symbols[::-1] if kind == "reverse" else symbols
    return Pair(" ".join([kind, *symbols]), " ".join(tgt))


def draw_pairs(rng: random.Random, n: int, max_train: int) -> list[Pair]:
    """Draw n examples of both kinds, of even lengths from 4 to `max_train`, log-uniform."""
    lengths = range(4, max_train + 1, 2)
    weights = [1 / length for length in lengths]
    return [
        draw_pair(rng, KINDS[i % len(KINDS)], rng.choices(lengths, weights)[0]) for i in range(n)
    ]


def length_test(pairs: Sequence[Pair], kind: str, tokenizer: Tokenizer, max_train: int) -> TestSet:
    """Return the test set of one kind: the score against the number of source symbols."""
    own = [pair for pair in pairs if pair.src.startswith(f"{kind} ")]
    return TestSet(
        name=kind,
        axis="source length (symbols)",
        unit="symbols",
        primary_metric="accuracy",
        examples=encode_pairs(own, tokenizer),
        x=[len(pair.src.split()) - 1 for pair in own],  # without the kind
        buckets=[(n, n) for n in LENGTHS],
        max_train_length=max_train,
    )


# ------------------------------------------------------------------------------------- Recipes
#
# COPYING of tasks/recipes.py.

# ----------------------------------------------------------------------------------------- Run


def make_task(args: argparse.Namespace) -> Task:
    """Return the task, in which a model learns both kinds at once."""
    rng, size = random.Random(1), SIZES[args.size]
    train = draw_pairs(rng, size["n_train"], size["max_train"])
    valid = draw_pairs(rng, size["n_valid"], size["max_train"])
    test = [
        draw_pair(rng, kind, n)
        for kind in KINDS
        for n in LENGTHS
        if n <= size["max_test"]
        for _ in range(size["per_length"])
    ]
    tokenizer, splits = Words([*KINDS, *SYMBOLS]), (train, valid, test)
    (shown,) = encode_pairs([draw_pair(rng, "reverse", 12)], tokenizer)
    return Task(
        name="recall",
        data=describe_data("random symbols", splits, tokenizer, source_end="EOS"),
        tokenizer=tokenizer,
        train=encode_pairs(train, tokenizer),
        valid=encode_pairs(valid, tokenizer),
        tests=[length_test(test, kind, tokenizer, size["max_train"]) for kind in KINDS],
        contrasts=HISTORY,
        recipes=COPYING,
        training={"tokens": args.tokens or TOKENS[args.size], "batch_tokens": 500},
        n_parameters=500_000,
        alignment_example=AlignmentExample(shown, [(12 - i, i) for i in range(12)]),
    )


if __name__ == "__main__":
    run(PARSER, make_task)

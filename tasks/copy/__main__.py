"""Copy random symbols: nothing can be guessed from language.

Question
    How many symbols of a source does a model write in place, copied or reversed, after a given
    training? And, with --bits, how many bits does training get through one vector, by its width,
    and through k vectors, pooled from Bahdanau's annotations by learned queries? Of n symbols from
    an alphabet of 64, 6 n bits less the cross-entropy of the target have been transmitted.

    python -m tasks.copy                                   all models, copy and reverse
    python -m tasks.copy --bits                            vectors of 32 to 512 numbers, 1 to 16
    python -m tasks.copy --bits --size full --seeds 1 2 3  longer texts, under an hour
    python -m tasks.copy --bits --best-state 100           and what optimised vectors hold

    9 minutes on two cores. At 32 symbols, expect few in place with one vector or linear attention,
    and most with attention to every symbol. The bits are those that the training of this budget has
    put into a vector, and not what it could hold: about one real number per unit (Collins et al.
    2017, arXiv:1611.09913). Britz et al. 2017 (arXiv:1707.00110) translate about as well with a
    fixed number of vectors as with one per word. docs/results.md has the scores.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from seqmodels.data.text import Pair
from seqmodels.data.tokenizers import Words
from seqmodels.experiments.task import AlignmentExample, Recipe, Task, TestSet
from seqmodels.utils.terminal import non_negative

from ..flags import Preset, TaskParser, run
from ..recipes import COPYING, HISTORY
from ..synthetic.pairs import describe_data, encode_pairs

if TYPE_CHECKING:
    from seqmodels.data.batches import Example

VECTORS = [f"rnn_encdec_{d}" for d in (32, 64, 128, 256, 512)]
POOLED = [f"bahdanau_{k}" for k in (1, 2, 4, 8, 16)]
BITS = [*VECTORS, *POOLED, "bahdanau"]
"""The models of --bits: one vector by its width, k pooled annotations, all of them."""


def check_flags(args: argparse.Namespace) -> Preset | None:
    """Return the models of --bits; raise ValueError for a size that only --bits has."""
    if args.size == "full" and not args.bits:
        raise ValueError("--size full needs --bits")
    if args.best_state and not args.bits:
        raise ValueError("--best-state needs --bits")
    return ("copy-bits", BITS) if args.bits else None


PARSER = TaskParser("tasks.copy", __doc__, check=check_flags)
PARSER.add_argument("--bits", action="store_true",
                    help="measure the bits that reach the target through one vector, by its width, "
                         "and through k vectors")  # fmt: skip
PARSER.add_argument("--best-state", type=non_negative, default=0, metavar="STEPS",
                    help="with --bits: also from States that are optimised for each text by this "
                         "many steps of gradient descent (see tasks.bottleneck)")  # fmt: skip

# ---------------------------------------------------------------------------------------- Data
#
#     copy ba du fe      ->  ba du fe
#     reverse ba du fe   ->  fe du ba
#     ba du fe           ->  ba du fe    (--bits; its targets have no EOS: their length is given)

KINDS = ("copy", "reverse")
SYMBOLS = [consonant + vowel for consonant in "bdfgklmnprstvwxz" for vowel in "aeio"]
LENGTHS = (4, 8, 16, 32, 64, 128)
SIZES = {
    "smoke": {"n_train": 1_000, "n_valid": 30, "per_length": 5, "max_train": 16, "max_test": 32},
    "laptop": {
        "n_train": 80_000,
        "n_valid": 300,
        "per_length": 50,
        "max_train": 32,
        "max_test": 128,
    },
}
TOKENS = {"smoke": 10_000, "laptop": 800_000}
BITS_LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48)
BITS_SIZES = {
    "smoke": {"n_train": 500, "n_valid": 20, "per_length": 10, "max_train": 8},
    "laptop": {"n_train": 150_000, "n_valid": 300, "per_length": 100, "max_train": 24},
    "full": {"n_train": 250_000, "n_valid": 500, "per_length": 200, "max_train": 48},
}
BITS_TOKENS = {"smoke": 2_000, "laptop": 700_000, "full": 2_000_000}


def draw_pair(rng: random.Random, n: int, kind: str = "") -> Pair:
    """Draw n symbols, uniformly and independently, and their copy, or reversed."""
    symbols = rng.choices(SYMBOLS, k=n)
    tgt = symbols[::-1] if kind == "reverse" else symbols
    return Pair(" ".join([kind, *symbols] if kind else symbols), " ".join(tgt))


def length_test(
    name: str, examples: Sequence[Example], x: Sequence[int], lengths: Sequence[int], longest: int
) -> TestSet:
    """Return a test set that plots the score against the number of source symbols."""
    return TestSet(
        name=name,
        axis="source length (symbols)",
        unit="symbols",
        primary_metric="accuracy",
        examples=examples,
        x=x,
        buckets=[(n, n) for n in lengths],
        max_train_length=longest,
    )


# ------------------------------------------------------------------------------------- Recipes
#
# COPYING of tasks/recipes.py. Of --bits, the wider vectors were best at a lower rate in the trials
# (README.md); any number of pooled vectors has Bahdanau's width and rate.

WIDE = COPYING["rnn_encdec"]._replace(lr=4e-3)
BITS_RECIPES = COPYING | {
    "rnn_encdec_256": WIDE,
    "rnn_encdec_512": WIDE,
    "bahdanau": Recipe({**COPYING["bahdanau"].sizes, "d_model": 64}, lr=1.6e-2),
}
BITS_CONTRASTS = (
    *((wide, narrow) for names in (VECTORS, POOLED) for narrow, wide in pairwise(names)),
    ("bahdanau_1", "rnn_encdec_128"), ("bahdanau", "bahdanau_16"), ("bahdanau", "rnn_encdec_512"),
)  # fmt: skip
"""Twice the numbers, one vector of another kind, and all annotations."""

# ----------------------------------------------------------------------------------------- Run


def make_task(args: argparse.Namespace) -> Task:
    """Return the task of copying and reversing, or that of --bits."""
    sizes, budgets = (BITS_SIZES, BITS_TOKENS) if args.bits else (SIZES, TOKENS)
    task = (make_bits if args.bits else make_order)(sizes[args.size])
    tokens = args.tokens or budgets[args.size]
    if args.best_state:
        from ..bottleneck.best_state import BestState

        (test,) = task.tests
        best = BestState(test, task.tokenizer, task.bleu_tokenize, args.best_state)
        task = replace(task, tests=[test, replace(test, name="best_state", adapt=best.adapt)])
    return replace(task, training={"tokens": tokens, "batch_tokens": 500})


def make_order(size: dict[str, int]) -> Task:
    """Return the task in which a model learns to copy and to reverse at once."""
    rng, lengths = random.Random(1), range(4, size["max_train"] + 1, 2)
    weights = [1 / n for n in lengths]  # as many symbols of every length
    train, valid = (
        [draw_pair(rng, rng.choices(lengths, weights)[0], KINDS[i % 2]) for i in range(size[split])]
        for split in ("n_train", "n_valid")
    )
    x = [n for n in LENGTHS if n <= size["max_test"] for _ in range(size["per_length"])]
    test = {kind: [draw_pair(rng, n, kind) for n in x] for kind in KINDS}
    tokenizer, splits = Words([*KINDS, *SYMBOLS]), (train, valid, [*chain(*test.values())])
    (shown,) = encode_pairs([draw_pair(rng, 12, "reverse")], tokenizer)
    return Task(
        name="copy",
        data=describe_data("random symbols", splits, tokenizer, source_end="EOS"),
        tokenizer=tokenizer,
        train=encode_pairs(train, tokenizer),
        valid=encode_pairs(valid, tokenizer),
        tests=[
            length_test(kind, encode_pairs(test[kind], tokenizer), x, LENGTHS, size["max_train"])
            for kind in KINDS
        ],
        contrasts=HISTORY,
        recipes=COPYING,
        training={},
        n_parameters=500_000,
        alignment_example=AlignmentExample(shown, [(12 - i, i) for i in range(12)]),
    )


def make_bits(size: dict[str, int]) -> Task:
    """Return the task of copying through vectors; its loss is that of the symbols alone."""
    rng, lengths = random.Random(1), range(1, size["max_train"] + 1)
    weights = [1 / n for n in lengths]
    train, valid = (
        [draw_pair(rng, n) for n in rng.choices(lengths, weights, k=size[split])]
        for split in ("n_train", "n_valid")
    )
    x = [n for n in BITS_LENGTHS if n in lengths for _ in range(size["per_length"])]
    tokenizer, splits = Words(SYMBOLS), (train, valid, [draw_pair(rng, n) for n in x])
    encoded = [encode_pairs(pairs, tokenizer, has_target_eos=False) for pairs in splits]
    test = length_test("copy", encoded[2], x, BITS_LENGTHS, size["max_train"])
    return Task(
        name="copy",
        data=describe_data(
            "random symbols", splits, tokenizer, n_symbols=len(SYMBOLS), source_end="EOS"
        ),
        tokenizer=tokenizer,
        train=encoded[0],
        valid=encoded[1],
        tests=[replace(test, primary_metric="token_accuracy", is_generated=False)],
        contrasts=BITS_CONTRASTS,
        recipes=BITS_RECIPES,
        training={},
        n_parameters=500_000,
    )


if __name__ == "__main__":
    run(PARSER, make_task)

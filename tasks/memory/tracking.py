"""Balls under cups that are swapped.

    a b c 12 23 -  ->  3 1 2      (a starts under cup 1, and is under cup 3 in the end)

The source begins with the balls, so that a memory that is empty at first has something to swap; the
move "-" swaps nothing: without it, the length of a source would give the parity of its swaps. The
cups are asked for after the last move alone: no token of the source says where a ball is. The
target ends with its last ball, without EOS.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from itertools import combinations
from math import factorial
from typing import Any

from seqmodels.data.text import Pair
from seqmodels.data.tokenizers import Words
from seqmodels.experiments.task import Recipe, Task, TestSet

from ..recipes import COPYING, HISTORY, MEMORIES, with_positions
from ..synthetic.pairs import describe_data, encode_pairs

BALLS = "abcde"
LONGEST = 8
"""Most moves in training."""
LENGTHS = (4, 8, 16, 24, 32, 48, 96)
SIZES = {
    "smoke": {"n_train": 500, "n_valid": 20, "per_length": 10},
    "laptop": {"n_train": 200_000, "n_valid": 300, "per_length": 400},
}
SOURCES = {"smoke": 1_000, "laptop": 200_000}
"""Budgets in sources, each of which has as many target tokens as there are cups."""


def list_moves(n_cups: int) -> list[str]:
    """Return the move that swaps nothing, and the swaps of two cups."""
    return ["-", *(f"{i}{j}" for i, j in combinations(range(1, n_cups + 1), 2))]


def follow(moves: Sequence[str], n_cups: int) -> list[int]:
    """Return the cup of each ball after the moves; a move names cups, whatever is under them."""
    under = list(range(n_cups))  # the ball under each cup
    for i, j in (map(int, move) for move in moves if move != "-"):
        under[i - 1], under[j - 1] = under[j - 1], under[i - 1]
    return [1 + under.index(ball) for ball in range(n_cups)]


def draw_pair(rng: random.Random, n_cups: int, n_moves: int) -> Pair:
    """Draw moves, each of them as likely as the others, and tell where the balls are then."""
    moves = rng.choices(list_moves(n_cups), k=n_moves)
    return Pair(" ".join([*BALLS[:n_cups], *moves]), " ".join(map(str, follow(moves, n_cups))))


def draw_pairs(rng: random.Random, n: int, n_cups: int) -> list[Pair]:
    """Draw n examples of 1 to LONGEST moves, log-uniform: short ones show what a move does."""
    numbers = range(1, LONGEST + 1)
    return [draw_pair(rng, n_cups, k) for k in rng.choices(numbers, [1 / k for k in numbers], k=n)]


# The LSTM reads the source forwards, as the others do. The README has what was tried.
TWO_LAYERS = {"n_layers": 2, "n_heads": 4, "dropout": 0.0}
DECODER = Recipe(TWO_LAYERS | {"init_std": 0.08}, lr=3e-3)
RECIPES = COPYING | {
    "lstm_seq2seq": Recipe({**COPYING["lstm_seq2seq"].sizes, "is_reversed": False}, lr=8e-3),
    "transformer": Recipe(TWO_LAYERS | {"d_ff": 160, "is_prenorm": True}, lr=3e-3),
    "gpt": DECODER,
    "linear_attention": DECODER,
    "mamba2": Recipe(TWO_LAYERS | {"d_state": 32, "init_std": 0.08}, lr=6e-3),
    "gated_deltanet": DECODER,
}


def make_task(args: argparse.Namespace, n: int) -> Task:
    """Return the task of n cups."""
    rng, sizes = random.Random(1), SIZES[args.size]
    train = draw_pairs(rng, sizes["n_train"], n)
    valid = [draw_pair(rng, n, LONGEST) for _ in range(sizes["n_valid"])]
    x = [k for k in LENGTHS for _ in range(sizes["per_length"])]
    splits = train, valid, [draw_pair(rng, n, k) for k in x]
    tokenizer = Words([*BALLS[:n], *list_moves(n), *map(str, range(1, n + 1))])
    about: Any = {"n_cups": n, "n_tokens_source": n + LONGEST + 1, "source_end": "EOS"}
    encoded = [encode_pairs(pairs, tokenizer, has_target_eos=False) for pairs in splits]
    return Task(
        name="memory",
        data=describe_data(f"{n} cups", splits, tokenizer, **about),
        tokenizer=tokenizer,
        train=encoded[0],
        valid=encoded[1],
        tests=[TestSet(
            name="moves", axis="moves in the source", unit="moves", kind="count", noun="sources",
            primary_metric="exact_match", examples=encoded[2], x=x,
            buckets=[(k, k) for k in LENGTHS], max_train_length=LONGEST, is_generated=False,
            baseline=[1 / factorial(n)] * len(x),
            baseline_name="chance: knows nothing of the moves",
        )],
        contrasts=[*HISTORY, *MEMORIES],
        recipes=with_positions(RECIPES, 2 * n + LENGTHS[-1] + 2),
        training={
            "tokens": args.tokens or n * SOURCES[args.size], "batch_tokens": 64 * (n + LONGEST + 1),
            "n_validations": 20,
        },
        n_parameters=125_000,
    )  # fmt: skip

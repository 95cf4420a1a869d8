"""Copy, reverse and recall random symbols: the bottleneck with nothing else in the way.

Question
    How many symbols does the State of a model carry from source to target? There is no language
    to guess from: what is not carried is lost.

    python -m tasks.recall
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from seqmodels.batches import Example
from seqmodels.compare import Recipe, Shown, Task, TestSet, compare, guard, parser
from seqmodels.corpus import Pair, sha256
from seqmodels.interface import EOS
from seqmodels.text import Tokenizer, Words

# ---------------------------------------------------------------------------------------- Data
#
#     copy ba du fe      ->  ba du fe
#     reverse ba du fe   ->  fe du ba
#     recall ba du fe gi fe  ->  gi          (pairs of key and value, then one of the keys)

KINDS = ("copy", "reverse", "recall")
SYMBOLS = [consonant + vowel for consonant in "bdfgklmnprstvwxz" for vowel in "aeiou"]
LENGTHS = (4, 8, 16, 32, 64, 128)
SIZES = {
    "smoke": {"n_train": 1_000, "n_valid": 30, "per_length": 5, "trained_to": 16, "tested_to": 32},
    "laptop": {"n_train": 60_000, "n_valid": 300, "per_length": 50, "trained_to": 32, "tested_to": 128},
}  # fmt: skip
TOKENS = {"smoke": 10_000, "laptop": 1_500_000}


def pick(rng: random.Random, n: int) -> list[str]:
    """Draw n symbols, each as likely as any other."""
    return [SYMBOLS[int(rng.random() * len(SYMBOLS))] for _ in range(n)]


def draw(rng: random.Random, kind: str, n: int) -> Pair:
    """Draw one example with n symbols in the source, beside a recall's question.

    A recall's keys differ from each other as long as there are symbols enough.
    """
    symbols = pick(rng, n)
    if kind == "recall":
        keys = sorted(SYMBOLS, key=lambda _: rng.random())
        symbols[::2] = [keys[i % len(keys)] for i in range(len(symbols[::2]))]
        asked = 2 * int(rng.random() * (n // 2))
        return Pair(" ".join([kind, *symbols, symbols[asked]]), symbols[asked + 1])
    return Pair(" ".join([kind, *symbols]), " ".join(symbols[::-1] if kind == "reverse" else symbols))


def draw_many(rng: random.Random, n: int, trained_to: int) -> list[Pair]:
    """Draw n examples of all kinds, of even lengths from 4 to `trained_to`, alike in logarithm."""
    lengths = range(4, trained_to + 1, 2)
    weights = [1 / length for length in lengths]
    return [
        draw(rng, KINDS[i % len(KINDS)], rng.choices(lengths, weights)[0]) for i in range(n)
    ]


def encode(pair: Pair, tokenizer: Tokenizer) -> Example:
    """Turn a pair into ids."""
    return Example(tokenizer.encode(pair.src), [*tokenizer.encode(pair.tgt), EOS])

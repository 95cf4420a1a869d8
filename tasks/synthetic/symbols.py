"""Draw random symbols, for tasks in which nothing can be guessed."""

from __future__ import annotations

import random

SYMBOLS = [consonant + vowel for consonant in "bdfgklmnprstvwxz" for vowel in "aeio"]


def draw_symbols(rng: random.Random, n: int) -> list[str]:
    """Draw n symbols uniformly."""
    return [SYMBOLS[int(rng.random() * len(SYMBOLS))] for _ in range(n)]

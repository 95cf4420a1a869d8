"""The surprisal of the grammar's sentences: how many bits of choice are in each."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TypeVar

from .grammar import Sampler
from .trees import Sentence, parse

T = TypeVar("T")


class CountingSampler(Sampler):
    """Draws what `Sampler` draws from the same random numbers, and adds up the bits of its choices.

    A choice of probability p has -log2 p bits. Their sum bounds the surprisal of the sentence from
    above: two derivations can give the same words.
    """

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.bits = 1.0  # of the tense

    def pick(self, items: Sequence[T]) -> T:
        """Draw one item; equal items are one choice."""
        item = super().pick(items)
        self.bits -= math.log2(items.count(item) / len(items))
        return item

    def between(self, low: int, high: int) -> int:
        """Draw an integer from low to high, both included."""
        self.bits += math.log2(high - low + 1)
        return super().between(low, high)

    def chance(self, probability: float) -> bool:
        """Draw a yes or no."""
        is_drawn = super().chance(probability)
        self.bits -= math.log2(probability if is_drawn else 1 - probability)
        return is_drawn

    def subject_kind(self, size: int, kinds: str) -> str:
        """Draw the kind of a subject."""
        kind = super().subject_kind(size, kinds)
        if size > 1:
            by_kind = {"h": 0.6, "a": 0.4} if kinds == "ha" else SUBJECTS
            self.bits -= math.log2(by_kind[kind])
        return kind


SUBJECTS = {"h": 0.6, "a": 0.25, "t": 0.1, "p": 0.05}


def count_bits(sentences: Sequence[Sentence], seed: int) -> list[float]:
    """Return the bits of the first sentences that a seed draws: those of a corpus's test set.

    Draws of a sentence that was there already are passed over, as in `draw_unseen`. Raises
    ValueError if the seed draws others.
    """
    rng, bits = random.Random(seed), []
    for sentence in sentences:
        for _ in range(100):
            sampler = CountingSampler(rng)
            if parse(*sampler.sentence(sentence.n_words)).sentence.en == sentence.en:
                break
        else:
            raise ValueError(f"seed {seed} does not draw {sentence.en_text!r}")
        bits.append(sampler.bits)
    return bits

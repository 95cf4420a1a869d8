"""The content words of a source that are lost, by their place in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np

from seqmodels.evaluation.evaluate import generate_targets
from seqmodels.evaluation.metrics import map_buckets
from seqmodels.interface import SequenceModel

from ..analyses import Rows
from ..synthetic.trees import Sentence
from ..synthetic.words import english_words, german_words
from .best_state import BestState, FromStates, is_fixed

N_PLACES = 5
"""Parts of equal length into which a source is cut."""


def find_kept(sentence: Sentence, output: Sequence[str]) -> np.ndarray:
    """Return how many content words each part of a source has, and how many the output has of them.

    (2, N_PLACES). A word that occurs n times has to be said n times.
    """
    counts, seen = np.zeros((2, N_PLACES)), Counter[str]()
    said = Counter(word for token in output for word in german_words(token))
    for i, word in english_words(sentence.en):
        seen[word] += 1
        counts[:, i * N_PLACES // len(sentence.en)] += 1, said[word] >= seen[word]
    return counts


def measure_places(
    model: SequenceModel, _: SequenceModel, best: BestState, sentences: Sequence[Sentence]
) -> Rows:
    """Return the share (%) of content words kept, by length and place in the source.

    From the encoder's State (steps 0) and from the best one.
    """
    if not is_fixed(model):
        return []
    rows: Rows = []
    examples = best.test.examples
    for steps, state in best.write(model)[1].items():
        speaker = FromStates(model, examples, state)
        outputs = generate_targets(speaker, examples, 1)
        texts = [best.tokenizer.tokens(output) for output in outputs]
        counts = np.array([*map(find_kept, sentences, texts)])
        for bucket in map_buckets(best.test.x, best.test.buckets, partial(sum_counts, counts)):
            shares = bucket.pop("shares")
            rows += [
                {**bucket, "steps": steps, "place": place, "share": share}
                for place, share in enumerate(shares, 1)
                if share is not None
            ]
    return rows


def sum_counts(counts: np.ndarray, indices: np.ndarray) -> dict[str, list[float | None]]:
    """Return the share (%) of words kept in each part over these sentences; None: it has none."""
    sums = zip(*counts[indices].sum(0), strict=True)
    return {"shares": [100 * kept / words if words else None for words, kept in sums]}

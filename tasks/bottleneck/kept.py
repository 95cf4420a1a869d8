"""Measure which content words of a source its translation has: by place, and by words read."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np

from seqmodels.data.batches import Example
from seqmodels.data.tokenizers import Tokenizer
from seqmodels.evaluation.evaluate import generate_targets
from seqmodels.evaluation.metrics import map_buckets
from seqmodels.experiments.task import Rows
from seqmodels.interface import EOS, SequenceModel

from ..synthetic.trees import Sentence
from ..synthetic.words import english_words, german_words
from .best_state import BestState
from .latent import FromStates, is_fixed

N_PLACES = 5
"""Parts of equal length into which a source is cut."""
BINS = ((1, 5), (6, 10), (11, 15), (16, 20), (21, 30), (31, 40), (41, 50), (51, 60))
"""Ranges of words read."""


def count_kept(source: Sequence[str], output: Sequence[str]) -> np.ndarray:
    """Return the content words in each part of a source that the output has, and all of them.

    (N_PLACES, 2). A word that occurs n times has to be generated n times.
    """
    counts, seen = np.zeros((N_PLACES, 2)), Counter[str]()
    generated = Counter(word for token in output for word in german_words(token))
    for i, word in english_words(source):
        seen[word] += 1
        counts[i * N_PLACES // len(source)] += generated[word] >= seen[word], 1
    return counts


def measure_places(
    model: SequenceModel, _: SequenceModel, best: BestState, sentences: Sequence[Sentence]
) -> Rows:
    """Return the share (%) of content words kept, by length and place in the source.

    From the encoder's State (steps 0) and from the optimised one.
    """
    rows: Rows = []
    examples = best.test.examples
    states = best.optimise(model)[1] if is_fixed(model) else {}
    for steps, state in states.items():
        outputs = generate_targets(FromStates(model, examples, state), examples, 1)
        texts = map(best.tokenizer.tokens, outputs)
        counts = np.array([count_kept(s.en, t) for s, t in zip(sentences, texts, strict=True)])
        for bucket in map_buckets(best.test.x, best.test.buckets, lambda i: {"indices": i}):
            sums = counts[bucket.pop("indices")].sum(0)
            rows += [
                {**bucket, "steps": steps, "place": place, "share": 100 * kept / n}
                for place, (kept, n) in enumerate(sums, 1)
                if n
            ]
    return rows


def measure_prefixes(
    model: SequenceModel, _: SequenceModel, sentences: Sequence[Sentence], tokenizer: Tokenizer
) -> Rows:
    """Return the share (%) of content words kept, by words read.

    The model translates the first words of each sentence, and a full stop, greedily. `chance` is
    the share that the output for the next sentence has.
    """
    rng, rows = random.Random(1), list[dict[str, float | str]]()
    for low, high in BINS:
        prefixes = [cut_prefix(s, rng.randint(low, high)) for s in sentences if s.n_words >= high]
        if not prefixes:
            continue
        sources = [[*tokenizer.encode(" ".join(prefix)), EOS] for prefix in prefixes]
        outputs = generate_targets(model, [Example(src, src) for src in sources], 1)
        texts = [*map(tokenizer.tokens, outputs)]
        share, chance = (
            100 * kept / n
            for each in (texts, texts[1:] + texts[:1])
            for kept, n in [np.sum([*map(count_kept, prefixes, each)], (0, 1))]
        )
        n_words = [sum(token not in ",." for token in prefix) for prefix in prefixes]
        rows.append({
            "cut": "anywhere", "kept": "content words", "low": low, "high": high,
            "n": len(prefixes), "words": sum(n_words) / len(prefixes),
            "chance": chance, "share_value": share,
        })  # fmt: skip
    return [{k: v if isinstance(v, str) else float(v) for k, v in row.items()} for row in rows]


def cut_prefix(sentence: Sentence, n_words: int) -> list[str]:
    """Return the first words of an English sentence, closed by a full stop."""
    places = [i for i, token in enumerate(sentence.en) if token not in (",", ".")]
    return [*sentence.en[: places[n_words - 1] + 1], "."]

"""Measure what a decoder generates from optimised States.

See `latent.py`. A model whose State grows with the source has none of this.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from seqmodels.data.batches import Example
from seqmodels.data.tokenizers import Tokenizer
from seqmodels.evaluation.evaluate import generate_targets
from seqmodels.evaluation.metrics import make_bleu, map_buckets
from seqmodels.experiments.task import Rows, TestSet
from seqmodels.interface import EOS, SequenceModel

from .latent import (
    FromStates,
    Ranges,
    encode_all,
    flatten_fields,
    is_fixed,
    measure_ranges,
    optimise_all,
    take_rows,
)

BITS = (1, 2, 3, 4, 5, 6, 8)
NOISE = (0.05, 0.1, 0.2, 0.4)
"""Standard deviations, in halves of a number's range."""
SEED = 1
EARLY, LINE = (10, 25, 100), (0.25, 0.5, 0.75)
"""Steps of descent, and shares of the way to its end, after which BLEU is measured as well."""
DESCENT, OTHER_START = "descent", "start: another sentence's State"


@dataclass
class BestState:
    """Optimises the States of a test set once, for the set on which they are scored and for more.

    A run first scores its test sets, then measures.
    """

    test: TestSet
    tokenizer: Tokenizer
    bleu_tokenize: str
    steps: int
    model: SequenceModel | None = None
    optimised: tuple[Ranges, dict[int, Any]] | None = None
    """The ranges, and the States by steps of descent: the encoder's (0) and the best one."""

    def optimise(self, model: SequenceModel) -> tuple[Ranges, dict[int, Any]]:
        """Return the ranges and the States of a model's test sentences."""
        if self.optimised is None or self.model is not model:
            start = encode_all(model, self.test.examples)
            ranges = measure_ranges(model, start)
            best = optimise_all(model, self.test.examples, [self.steps], start, ranges)
            self.model, self.optimised = model, (ranges, {0: start, **best})
        return self.optimised

    def adapt(self, model: SequenceModel, *_: Any) -> SequenceModel:
        """Return the model that translates from its best States; one without them as it is."""
        if not is_fixed(model):
            return model
        return FromStates(model, self.test.examples, self.optimise(model)[1][self.steps])

    def score(
        self, model: SequenceModel, state: Any, examples: Sequence[Example], x: Sequence[int]
    ) -> Rows:
        """Return BLEU by length of what a model generates from the States of examples."""
        outputs = generate_targets(FromStates(model, examples, state), examples, 1)
        texts = [*map(self.tokenizer.decode, outputs)]
        references = [self.tokenizer.decode(example.scored()) for example in examples]
        bleu = make_bleu(self.bleu_tokenize)

        def score_bucket(indices: np.ndarray) -> dict[str, float]:
            own, targets = ([each[i] for i in indices] for each in (texts, references))
            return {"bleu": bleu.corpus_score(own, [targets]).score}

        return map_buckets(x, self.test.buckets, score_bucket)

    def measure(self, model: SequenceModel, _: SequenceModel) -> Rows:
        """Return BLEU by length from the encoder's State (0 steps) and the best one.

        Each as it is, with a few bits for each number, and with Gaussian noise.
        """
        if not is_fixed(model):
            return []
        ranges, states = self.optimise(model)
        numbers = int((ranges.half > 0).sum())
        draw = torch.Generator().manual_seed(SEED)
        scored: list[tuple[dict[str, float], Any]] = []
        for steps, state in states.items():
            x = ranges.normalise(state)
            noise = torch.randn(x.shape, generator=draw).to(x)
            changed: list[tuple[dict[str, float], Tensor]]
            changed = [({"bits": bits}, quantise(x, bits)) for bits in BITS]
            changed += [({"noise": std}, x + std * noise) for std in NOISE]
            scored.append(({"steps": steps, "numbers": numbers}, state))
            scored += [({"steps": steps, **by}, ranges.put(state, each)) for by, each in changed]
        return [
            {**about, **row}
            for about, state in scored
            for row in self.score(model, state, self.test.examples, self.test.x)
        ]

    def measure_controls(self, model: SequenceModel, _: SequenceModel) -> Rows:
        """Return BLEU at the longest lengths in training, on the way to the best State and beside.

        `descent` is the way itself, with the distance from the encoder's State, over the mean
        distance of two sentences' States, and the share (%) of sentences whose nearest State of the
        encoder is their own. `line` is the straight line between both ends. Descent also starts
        from another sentence's State (`mean of two` lies between both ends), or from the middle of
        each range; or its target is another sentence's, or has its words shuffled.
        """
        if not is_fixed(model):
            return []
        (ranges, states), rows = self.optimise(model), find_longest_trained(self.test)
        examples, x = [self.test.examples[i] for i in rows], [self.test.x[i] for i in rows]
        own, rng = take_rows(states[0], rows), random.Random(SEED)
        following = [*range(1, len(rows)), 0]
        others, z = take_rows(own, following), ranges.normalise(own)
        other_targets = [
            e._replace(tgt=examples[i].tgt) for e, i in zip(examples, following, strict=True)
        ]
        controls = {
            DESCENT: (own, examples),
            OTHER_START: (others, examples),
            "start: the middle of each range": (ranges.put(own, torch.zeros_like(z)), examples),
            "target: another sentence's": (own, other_targets),
            "target: its words shuffled": (own, [shuffle_target(e, rng) for e in examples]),
        }
        found, ends = Rows(), dict[str, Tensor]()
        for name, (start, targets) in controls.items():
            steps = {self.steps, *(n for n in EARLY if n < self.steps and name == DESCENT)}
            path = {0: start, **optimise_all(model, targets, sorted(steps), start, ranges)}
            ends[name] = ranges.normalise(path[self.steps])
            for step, state in path.items():
                about: dict[str, Any] = {"control": name, "steps": step}
                if name == DESCENT:
                    about |= measure_distance(own, state, ranges)
                found += [{**about, **row} for row in self.score(model, state, targets, x)]
        between: list[tuple[dict[str, Any], Tensor]]
        between = [({"control": "line", "share": a}, z + a * (ends[DESCENT] - z)) for a in LINE]
        between += [({"control": "mean of two"}, (ends[DESCENT] + ends[OTHER_START]) / 2)]
        for about, places in between:
            scores = self.score(model, ranges.put(own, places), examples, x)
            found += [{**about, **row} for row in scores]
        return found


def measure_distance(own: Any, state: Any, ranges: Ranges) -> dict[str, float]:
    """Return the mean distance of States from the encoder's, and whose is the nearest of these."""
    start, end = (flatten_fields(each, ranges.shapes) for each in (own, state))
    between, moved = torch.cdist(start, start), torch.cdist(end, start)
    apart = between.sum() / (len(start) * (len(start) - 1))
    nearest = moved.argmin(1) == torch.arange(len(start), device=start.device)
    return {
        "distance": (moved.diagonal().mean() / apart).item(),
        "own_nearest": 100 * nearest.double().mean().item(),
    }


def quantise(x: Float[Tensor, "B N"], bits: int) -> Float[Tensor, "B N"]:
    """Round numbers from -1 to 1 to one of 2^bits values, equally spaced."""
    n = 2**bits - 1
    return ((x + 1) / 2 * n).round() / n * 2 - 1


def find_longest_trained(test: TestSet) -> list[int]:
    """Return the sentences of the last bucket with some that training reaches the end of."""
    longest = test.max_train_length or max(test.x)
    inside = [[i for i, x in enumerate(test.x) if low <= x <= high] for low, high in test.buckets]
    trained = [own for own, (_, high) in zip(inside, test.buckets, strict=True) if high <= longest]
    return [own for own in trained or inside if own][-1]


def shuffle_target(example: Example, rng: random.Random) -> Example:
    """Return an example with the tokens of its target, but for EOS, in random order."""
    tokens = [token for token in example.tgt if token != EOS]
    return example._replace(tgt=[*rng.sample(tokens, len(tokens)), EOS])

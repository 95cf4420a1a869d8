"""Write the State from which a decoder says a sentence best, by gradient descent.

The trained model is frozen. Free numbers, a set for each sentence, take the place of those that the
encoder hands over. They start there, and gradient descent on the loss of the reference (Adam)
changes them. Each number stays in the range that the encoder gives it in these sentences. The
decoder then translates from them, greedily. The score is a bound from below of what the State can
hold for this decoder: it is written with the reference in hand, in a number of steps. The distance
between the encoder's and the best code of an example is known as the amortisation gap (Cremer et
al. 2018, arXiv:1801.03558).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seqmodels.data.batches import Example, batches_by_length, collate
from seqmodels.data.tokenizers import Tokenizer
from seqmodels.evaluation.evaluate import generate_targets
from seqmodels.evaluation.metrics import METRICS, map_buckets
from seqmodels.experiments.task import TestSet
from seqmodels.interface import EOS, PAD, Batch, SequenceModel
from seqmodels.models import bahdanau, rnn_encdec
from seqmodels.search import unroll
from seqmodels.utils.progress import SILENT, StatusFile

RATE = 0.03
BATCH_TOKENS = {"cpu": 6_000, "cuda": 100_000}
BITS = (1, 2, 3, 4, 5, 6, 8)
NOISES = (0.05, 0.1, 0.2, 0.4)
"""Standard deviations of noise, as shares of half the range of each number."""
SEED = 1
Rows = list[dict[str, float | str]]
Fields = dict[str, Tensor]
"""Fields of a State by name, each with a row per sentence."""


class Ranges(NamedTuple):
    """The middle and half the width of the range that an encoder gives each number."""

    middle: Fields
    half: Fields

    def bounded(self, free: Fields) -> Fields:
        """Return numbers within the ranges, from free ones."""
        return {k: self.middle[k] + self.half[k] * z.tanh() for k, z in free.items()}

    def relative(self, fields: Fields) -> Fields:
        """Return the place of each number in its range, from -1 to 1; 0 if it has none."""
        return {
            k: torch.where(self.half[k] > 0, (x - self.middle[k]) / self.half[k], 0.0)
            for k, x in fields.items()
        }

    def absolute(self, places: Fields) -> Fields:
        """Return the numbers at these places of their ranges."""
        return {k: self.middle[k] + self.half[k] * x for k, x in places.items()}

    def quantise(self, fields: Fields, bits: int) -> Fields:
        """Round each number to one of 2^bits values, equally spaced over its range."""
        n = 2**bits - 1
        return self.absolute(
            {k: ((x + 1) / 2 * n).round() / n * 2 - 1 for k, x in self.relative(fields).items()}
        )

    def add_noise(self, fields: Fields, share: float) -> Fields:
        """Add Gaussian noise whose standard deviation is a share of half the range."""
        draw = torch.Generator().manual_seed(SEED)
        return {
            k: x + share * self.half[k] * torch.randn(x.shape, generator=draw).to(x)
            for k, x in fields.items()
        }


def is_fixed(model: SequenceModel) -> bool:
    """Return whether the size of a model's State does not depend on the source's length."""
    return bool(model.config.source_floats(8) == model.config.source_floats(16))


def complete(model: Any, state: Any) -> Any:
    """Return a State whose fields that follow from others are computed from these.

    Cho's encoder hands over c alone; an annotation's key follows from it. The fields of any other
    model are all free.
    """
    if isinstance(state, rnn_encdec.State):
        return state._replace(s=torch.tanh(model.V_start(state.c)))
    if isinstance(state, bahdanau.State):
        return state._replace(keys=model.attention.U_a(state.h))
    return state


class FromStates(SequenceModel):
    """A model whose encoder hands over given States, looked up by the source."""

    def __init__(self, model: SequenceModel, examples: Sequence[Example], state: Any):
        super().__init__(model.config)
        self.model, self.state = model, state
        self.rows = {tuple(example.src): i for i, example in enumerate(examples)}

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> Any:
        """Return the States of these sources."""
        lengths = src_mask.sum(1).tolist()
        sources = (tuple(row[:n]) for row, n in zip(src.tolist(), lengths, strict=True))
        rows = torch.tensor([self.rows[source] for source in sources], device=src.device)
        return complete(self.model, take(self.state, rows))

    def step(self, y: Int[Tensor, " R"], state: Any) -> tuple[Float[Tensor, "R V"], Any]:
        """Write one token as the model does."""
        return self.model.step(y, state)

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of all target tokens."""
        return unroll(self.model, self.encode(src, src_mask), tgt_in)[0]

    def max_target(self, n_source: int) -> int:
        """Return how many target tokens can follow, as of the model."""
        return self.model.max_target(n_source)


# ------------------------------------------------------------------------------------- Writing


class Written(NamedTuple):
    """The States of the sentences of a test set: the encoder's and the best ones."""

    state: Any
    """The encoder's State of each sentence."""
    ranges: Ranges
    best: Mapping[int, Fields]
    """The best fields after numbers of steps; after 0 steps, they are the encoder's."""


@torch.no_grad()
def read_states(model: SequenceModel, examples: Sequence[Example], device: str) -> Any:
    """Return the encoder's State of every source, in one tuple of tensors."""
    model.eval()
    lots = batches_by_length(examples, BATCH_TOKENS["cpu"])
    states = []
    for rows in lots:
        batch = collate([examples[i] for i in rows], device)
        states.append(model.encode(batch.src, batch.src_mask))
    order = torch.tensor([i for rows in lots for i in rows], device=device).argsort()
    fields = (torch.cat(field)[order] for field in zip(*states, strict=True))
    return type(states[0])(*fields)


@torch.no_grad()
def free_fields(model: SequenceModel, state: Any) -> Fields:
    """Return the fields of a State that hold real numbers and do not follow from others."""
    fields = zip(state._fields, state, complete(model, state), strict=True)
    return {k: x for k, x, same in fields if x.is_floating_point() and x is same}


def measure_ranges(fields: Fields) -> Ranges:
    """Return the range of each number over the sentences."""
    ends = {k: (x.amin(0), x.amax(0)) for k, x in fields.items()}
    return Ranges(
        {k: (low + high) / 2 for k, (low, high) in ends.items()},
        {k: (high - low) / 2 for k, (low, high) in ends.items()},
    )


def descend(
    model: SequenceModel,
    batch: Batch,
    state: Any,
    ranges: Ranges,
    n_steps: int,
) -> Iterator[Fields]:
    """Yield the fields after 1, 2, … steps towards the batch's targets, from a State."""
    start = ranges.relative(free_fields(model, state))
    free = {
        k: x.clamp(-0.999, 0.999).atanh().requires_grad_() for k, x in start.items()
    }  # fmt: skip
    adam = torch.optim.Adam([*free.values()], RATE)
    for _ in range(n_steps):
        with torch.enable_grad():
            written = complete(model, state._replace(**ranges.bounded(free)))
            logits, _ = unroll(model, written, batch.tgt_in)
            nats = F.cross_entropy(
                logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD, reduction="sum"
            )
            gradients = torch.autograd.grad(nats, [*free.values()])
        for z, gradient in zip(free.values(), gradients, strict=True):
            z.grad = gradient
        adam.step()
        yield {k: x.detach() for k, x in ranges.bounded(free).items()}


def write(
    model: SequenceModel,
    examples: Sequence[Example],
    state: Any,
    ranges: Ranges,
    marks: Sequence[int],
    status: StatusFile = SILENT,
) -> dict[int, Fields]:
    """Return the fields written for each example's target, after each of these numbers of steps.

    Descent starts from the State's rows, one for each example.
    """
    device = state[0].device.type
    lots = batches_by_length(examples, BATCH_TOKENS[device])
    parts: dict[int, list[Fields]] = {mark: [] for mark in marks}
    for rows in status.track("best state", lots):
        batch = collate([examples[i] for i in rows], device)
        index = torch.tensor(rows, device=device)
        own = take(state, index)
        for n, fields in enumerate(descend(model, batch, own, ranges, max(marks)), 1):
            if n in parts:
                parts[n].append(fields)
    order = torch.tensor([i for rows in lots for i in rows], device=device).argsort()
    return {
        n: {k: torch.cat([p[k] for p in own])[order] for k in own[0]} for n, own in parts.items()
    }


# ------------------------------------------------------------------------------------ Measuring


class BestState:
    """Writes the best States of a test set once, for the set on which they are scored and for more.

    A run first scores its test sets, then measures.
    """

    def __init__(
        self,
        test: TestSet,
        tokenizer: Tokenizer,
        bleu_tokenize: str,
        n_steps: int,
        surprisal: Sequence[float] | None = None,
    ):
        self.test, self.tokenizer, self.bleu_tokenize = test, tokenizer, bleu_tokenize
        self.n_steps, self.surprisal = n_steps, surprisal
        self.model: SequenceModel | None = None
        self.written: Written | None = None

    def write(self, model: SequenceModel, device: str, status: StatusFile = SILENT) -> Written:
        """Return what was written for a model's test sentences; write it if it is another model."""
        if self.written is None or self.model is not model:
            examples = self.test.examples
            state = read_states(model, examples, device)
            encoded = free_fields(model, state)
            ranges = measure_ranges(encoded)
            marks = {n for n in (25, 100, self.n_steps // 2) if 0 < n < self.n_steps}
            best = write(model, examples, state, ranges, [*sorted(marks), self.n_steps], status)
            self.model, self.written = model, Written(state, ranges, {0: encoded, **best})
        return self.written

    def adapt(
        self, model: SequenceModel, device: str, status: StatusFile = SILENT
    ) -> SequenceModel:
        """Return the model that translates from its best States.

        One whose State grows with the source is returned as it is.
        """
        if not is_fixed(model):
            return model
        written = self.write(model, device, status)
        state = written.state._replace(**written.best[self.n_steps])
        return FromStates(model, self.test.examples, state)

    def translate(self, model: SequenceModel, rows: Sequence[int], state: Any) -> list[list[int]]:
        """Return what a model writes from States, for some of the sentences."""
        examples = [self.test.examples[i] for i in rows]
        return generate_targets(
            FromStates(model, examples, state), examples, 1, state[0].device.type
        )

    def score(self, model: SequenceModel, rows: Sequence[int], state: Any, **about: Any) -> Rows:
        """Return BLEU by length of what a model writes from States, for some of the sentences.

        If their bits are known, also for the half with fewer bits and the half with more.
        """
        targets = zip(rows, self.translate(model, rows, state), strict=True)
        texts = [
            {
                "hyp": self.tokenizer.decode(hyp),
                "ref": self.tokenizer.decode(self.test.examples[i].scored()),
            }
            for i, hyp in targets
        ]
        terms = METRICS["bleu"].terms(texts, self.bleu_tokenize)
        assert terms is not None

        def bleu(indices: np.ndarray) -> dict[str, float]:
            score_from_stats = METRICS["bleu"].score_from_stats
            scores = {"bleu": float(score_from_stats(terms[indices].sum(0)))}
            if self.surprisal is not None:
                bits = np.array([self.surprisal[rows[i]] for i in indices])
                scores["surprisal"] = float(bits.mean())
                for name, half in zip(("fewer", "more"), halves(bits), strict=True):
                    scores[f"bleu_{name}_bits"] = float(
                        score_from_stats(terms[indices[half]].sum(0))
                    )
            return scores

        x = [self.test.x[i] for i in rows]
        return [{**about, **bucket} for bucket in map_buckets(x, self.test.buckets, bleu)]

    def follow(self, model: SequenceModel) -> dict[str, float]:
        """Return BLEU at the longest lengths in training, from the encoder's and the best State.

        For snapshots: with a quarter of the steps.
        """
        if not is_fixed(model):
            return {}
        rows, scores = self.longest_trained(), {}
        examples = [self.test.examples[i] for i in rows]
        state = read_states(model, examples, str(next(model.parameters()).device))
        encoded = free_fields(model, state)
        n_steps = max(1, self.n_steps // 4)
        best = write(model, examples, state, measure_ranges(encoded), [n_steps])
        for name, fields in (("encoder", encoded), ("best_state", best[n_steps])):
            (row,) = self.score(model, rows, state._replace(**fields))
            scores[name] = float(row["bleu"])
        return scores

    def measure(self, model: SequenceModel, _: SequenceModel) -> Rows:
        """Return BLEU by length from the encoder's and the best State: by steps, bits and noise.

        Steps of 0 are the encoder's; bits are those of each number, and noise is a share of half
        its range.
        """
        if not is_fixed(model):
            return []
        everyone = range(len(self.test.examples))
        written = self.write(model, str(next(model.parameters()).device))
        ranges, state = written.ranges, written.state
        n_numbers = sum(int((half > 0).sum()) for half in ranges.half.values())
        rows: Rows = []
        for steps, fields in written.best.items():
            about = {"steps": steps, "numbers": n_numbers}
            rows += self.score(model, everyone, state._replace(**fields), **about)
        for steps in (0, self.n_steps):
            fields = written.best[steps]
            for bits in BITS:
                changed = state._replace(**ranges.quantise(fields, bits))
                rows += self.score(model, everyone, changed, steps=steps, bits=bits)
            for share in NOISES:
                changed = state._replace(**ranges.add_noise(fields, share))
                rows += self.score(model, everyone, changed, steps=steps, noise=share)
        return rows

    def measure_controls(self, model: SequenceModel, _: SequenceModel) -> Rows:
        """Return BLEU at the longest lengths in training, for other starts and another target.

        Descent starts from the State of another sentence of similar length, or from the middle of
        each range; or it starts from the encoder's, and the words of its target are shuffled.
        """
        if not is_fixed(model):
            return []
        device = str(next(model.parameters()).device)
        written, rows = self.write(model, device), self.longest_trained()
        examples = [self.test.examples[i] for i in rows]
        own = take(written.state, torch.tensor(rows, device=device))
        other = take(own, torch.tensor([*range(1, len(rows)), 0], device=device))
        middle = {k: m.expand_as(getattr(own, k)) for k, m in written.ranges.middle.items()}
        rng = random.Random(SEED)
        shuffled = [shuffle_target(example, rng) for example in examples]
        controls = (
            ("start: another sentence's State", other, examples),
            ("start: the middle of each range", own._replace(**middle), examples),
            ("target: its words shuffled", own, shuffled),
        )
        starts = type(own)(*map(torch.cat, zip(*(start for _, start, _ in controls), strict=True)))
        targets = [example for _, _, chosen in controls for example in chosen]
        marks = sorted({max(1, self.n_steps // 2), self.n_steps})
        best = write(model, targets, starts, written.ranges, marks)
        found: Rows = []
        for i, (name, start, chosen) in enumerate(controls):
            part = slice(i * len(rows), (i + 1) * len(rows))
            test = replace(self.test, examples=chosen, x=[self.test.x[j] for j in rows])
            control = BestState(test, self.tokenizer, self.bleu_tokenize, self.n_steps)
            for steps, fields in {0: free_fields(model, starts), **best}.items():
                state = start._replace(**{k: x[part] for k, x in fields.items()})
                found += control.score(model, range(len(rows)), state, control=name, steps=steps)
        return found

    def longest_trained(self) -> list[int]:
        """Return the sentences of the last bucket that training reaches the end of."""
        longest = self.test.max_train_length or max(self.test.x)
        low, high = [bucket for bucket in self.test.buckets if bucket[1] <= longest][-1]
        return [i for i, x in enumerate(self.test.x) if low <= x <= high]


def take(state: Any, rows: Int[Tensor, " R"]) -> Any:
    """Return some rows of a State of tensors."""
    return type(state)(*(field[rows] for field in state))


def halves(bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the half with fewer bits, then those of the others."""
    order = np.argsort(bits, kind="stable")
    return order[: (len(order) + 1) // 2], order[(len(order) + 1) // 2 :]


def shuffle_target(example: Example, rng: random.Random) -> Example:
    """Return an example with the tokens of its target, but for EOS, in random order."""
    tokens = [token for token in example.tgt if token != EOS]
    return example._replace(tgt=[*rng.sample(tokens, len(tokens)), EOS])

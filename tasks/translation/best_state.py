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
from collections.abc import Sequence
from dataclasses import dataclass
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

from ..analyses import Rows, batches_of

RATE = 0.03
BATCH_TOKENS = {"cpu": 6_000, "cuda": 100_000}
BITS = (1, 2, 3, 4, 5, 6, 8)
SEED = 1
Fields = dict[str, Tensor]
"""Fields of a State by name, each with a row per sentence."""


class Ranges(NamedTuple):
    """The middle and half the width of the range that an encoder gives each number."""

    middle: Fields
    half: Fields

    def places_in(self, state: Any) -> Fields:
        """Return the place of each number in its range, from -1 to 1; 0 if it has none."""
        return {
            k: torch.where(half > 0, (getattr(state, k) - self.middle[k]) / half, 0.0)
            for k, half in self.half.items()
        }

    def put(self, state: Any, places: Fields) -> Any:
        """Return a State with the numbers at these places of their ranges."""
        return state._replace(**{k: self.middle[k] + self.half[k] * x for k, x in places.items()})

    def quantise(self, state: Any, bits: int) -> Any:
        """Round each number to one of 2^bits values, equally spaced over its range."""
        n, places = 2**bits - 1, self.places_in(state)
        return self.put(
            state, {k: ((x + 1) / 2 * n).round() / n * 2 - 1 for k, x in places.items()}
        )


def is_fixed(model: SequenceModel) -> bool:
    """Return whether the size of a model's State does not depend on the source's length."""
    return bool(model.config.source_floats(8) == model.config.source_floats(16))


def complete_state(model: Any, state: Any) -> Any:
    """Return a State whose fields that follow from others are computed from these.

    Cho's encoder hands over c alone; an annotation's key follows from it. The fields of any other
    model are all free.
    """
    if isinstance(state, rnn_encdec.State):
        return state._replace(s=torch.tanh(model.V_start(state.c)))
    if isinstance(state, bahdanau.State):
        return state._replace(keys=model.attention.U_a(state.h))
    return state


@torch.no_grad()
def free_fields(model: SequenceModel, state: Any) -> Fields:
    """Return the fields of a State that hold real numbers and do not follow from others."""
    fields = zip(state._fields, state, complete_state(model, state), strict=True)
    return {k: x for k, x, own in fields if x.is_floating_point() and x is own and x.numel()}


def measure_ranges(model: SequenceModel, state: Any) -> Ranges:
    """Return the range of each free number over the sentences of a State."""
    ends = {k: (x.amin(0), x.amax(0)) for k, x in free_fields(model, state).items()}
    return Ranges(
        {k: (low + high) / 2 for k, (low, high) in ends.items()},
        {k: (high - low) / 2 for k, (low, high) in ends.items()},
    )


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
        state = take_rows(self.state, [self.rows[source] for source in sources])
        return complete_state(self.model, state)

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


def take_rows(state: Any, rows: Sequence[int]) -> Any:
    """Return some rows of a State of tensors."""
    index = torch.tensor(rows, device=state[0].device)
    return type(state)(*(field[index] for field in state))


def join_batches(states: Sequence[Any], rows: Sequence[Sequence[int]]) -> Any:
    """Return the States of batches in one, in the order of their rows."""
    order = np.argsort([i for batch in rows for i in batch])
    joined = type(states[0])(*map(torch.cat, zip(*states, strict=True)))
    return take_rows(joined, order.tolist())


@torch.no_grad()
def read_states(model: SequenceModel, examples: Sequence[Example]) -> Any:
    """Return the encoder's State of every source, in one tuple of tensors."""
    model.eval()
    lots, batches = zip(*batches_of(model, examples), strict=True)
    return join_batches([model.encode(batch.src, batch.src_mask) for batch in batches], lots)


def descend(model: SequenceModel, batch: Batch, state: Any, ranges: Ranges, n_steps: int) -> Any:
    """Return the State after a number of steps towards the batch's targets, from a State."""
    free = {
        k: x.clamp(-0.999, 0.999).atanh().requires_grad_()
        for k, x in ranges.places_in(state).items()
    }
    adam = torch.optim.Adam([*free.values()], RATE)
    for _ in range(n_steps):
        with torch.enable_grad():
            written = ranges.put(state, {k: z.tanh() for k, z in free.items()})
            logits, _ = unroll(model, complete_state(model, written), batch.tgt_in)
            nats = F.cross_entropy(
                logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD, reduction="sum"
            )
        adam.zero_grad()
        nats.backward(inputs=[*free.values()])
        adam.step()
    return ranges.put(state, {k: z.detach().tanh() for k, z in free.items()})


def write(
    model: SequenceModel,
    examples: Sequence[Example],
    state: Any,
    ranges: Ranges,
    n_steps: int,
    status: StatusFile = SILENT,
) -> Any:
    """Return the State that is written for each example's target, in a number of steps.

    Descent starts from the State's rows, one for each example.
    """
    device = state[0].device.type
    lots = batches_by_length(examples, BATCH_TOKENS[device])
    states = []
    for rows in status.track("best state", lots):
        batch = collate([examples[i] for i in rows], device)
        states.append(descend(model, batch, take_rows(state, rows), ranges, n_steps))
    return join_batches(states, lots)


# ------------------------------------------------------------------------------------ Measuring


Written = tuple[Ranges, dict[int, Any]]
"""The States of a test set by steps of gradient descent: the encoder's (0) and the best one."""


@dataclass
class BestState:
    """Writes the best States of a test set once, for the set on which they are scored and for more.

    A run first scores its test sets, then measures.
    """

    test: TestSet
    tokenizer: Tokenizer
    bleu_tokenize: str
    n_steps: int
    surprisal: Sequence[float] | None = None
    model: SequenceModel | None = None
    written: Written | None = None

    def write(self, model: SequenceModel, status: StatusFile = SILENT) -> Written:
        """Return what was written for a model's test sentences; write it if it is another model."""
        if self.written is None or self.model is not model:
            state = read_states(model, self.test.examples)
            ranges = measure_ranges(model, state)
            best = write(model, self.test.examples, state, ranges, self.n_steps, status)
            self.model, self.written = model, (ranges, {0: state, self.n_steps: best})
        return self.written

    def adapt(self, model: SequenceModel, status: StatusFile = SILENT) -> SequenceModel:
        """Return the model that translates from its best States.

        One whose State grows with the source is returned as it is.
        """
        if not is_fixed(model):
            return model
        _, states = self.write(model, status)
        return FromStates(model, self.test.examples, states[self.n_steps])

    def score(
        self,
        model: SequenceModel,
        state: Any,
        examples: Sequence[Example],
        x: Sequence[int],
        surprisal: Sequence[float] | None = None,
    ) -> Rows:
        """Return BLEU by length of what a model writes from the States of examples of lengths x.

        If their bits are known, also of the half with fewer bits and of the half with more.
        """
        outputs = generate_targets(FromStates(model, examples, state), examples, 1)
        decode = self.tokenizer.decode
        texts = [
            {"hyp": decode(output), "ref": decode(example.scored())}
            for output, example in zip(outputs, examples, strict=True)
        ]
        terms = METRICS["bleu"].terms(texts, self.bleu_tokenize)
        assert terms is not None

        def bleu(indices: np.ndarray) -> float:
            return float(METRICS["bleu"].score_from_stats(terms[indices].sum(0)))

        def score_bucket(indices: np.ndarray) -> dict[str, float]:
            scores = {"bleu": bleu(indices)}
            if surprisal is not None:
                bits = np.array(surprisal)[indices]
                fewer, more = np.array_split(np.argsort(bits, kind="stable"), 2)
                scores["surprisal"] = float(bits.mean())
                scores["bleu_fewer_bits"] = bleu(indices[fewer])
                scores["bleu_more_bits"] = bleu(indices[more])
            return scores

        return map_buckets(x, self.test.buckets, score_bucket)

    def measure(self, model: SequenceModel, _: SequenceModel) -> Rows:
        """Return BLEU by length from the encoder's State (0 steps) and the best one.

        First with all bits, then with a few bits for each number.
        """
        if not is_fixed(model):
            return []
        ranges, states = self.write(model)
        n_numbers = sum(int((half > 0).sum()) for half in ranges.half.values())
        scored: list[tuple[dict[str, float], Any]] = [
            ({"steps": steps, "numbers": n_numbers}, state) for steps, state in states.items()
        ]
        scored += [
            ({"steps": steps, "bits": bits}, ranges.quantise(state, bits))
            for steps, state in states.items()
            for bits in BITS
        ]
        return [
            {**about, **row}
            for about, state in scored
            for row in self.score(model, state, self.test.examples, self.test.x, self.surprisal)
        ]

    def measure_controls(self, model: SequenceModel, _: SequenceModel) -> Rows:
        """Return BLEU at the longest lengths in training, for other starts and another target.

        Descent starts from the State of another sentence of similar length, or from the middle of
        each range; or it starts from the encoder's, and the words of its target are shuffled.
        """
        if not is_fixed(model):
            return []
        (ranges, states), rows = self.write(model), self.longest_trained()
        examples, x = [self.test.examples[i] for i in rows], [self.test.x[i] for i in rows]
        own = take_rows(states[0], rows)
        middle = {k: torch.zeros_like(x) for k, x in ranges.places_in(own).items()}
        rng = random.Random(SEED)
        controls = {
            "start: another sentence's State": (
                take_rows(own, [*range(1, len(rows)), 0]),
                examples,
            ),
            "start: the middle of each range": (ranges.put(own, middle), examples),
            "target: its words shuffled": (own, [shuffle_target(e, rng) for e in examples]),
        }
        found: Rows = []
        for name, (start, targets) in controls.items():
            best = write(model, targets, start, ranges, self.n_steps)
            for steps, state in {0: start, self.n_steps: best}.items():
                scores = self.score(model, state, targets, x)
                found += [{"control": name, "steps": steps, **row} for row in scores]
        return found

    def longest_trained(self) -> list[int]:
        """Return the sentences of the last bucket that training reaches the end of."""
        longest = self.test.max_train_length or max(self.test.x)
        low, high = [bucket for bucket in self.test.buckets if bucket[1] <= longest][-1]
        return [i for i, x in enumerate(self.test.x) if low <= x <= high]


def shuffle_target(example: Example, rng: random.Random) -> Example:
    """Return an example with the tokens of its target, but for EOS, in random order."""
    tokens = [token for token in example.tgt if token != EOS]
    return example._replace(tgt=[*rng.sample(tokens, len(tokens)), EOS])

"""Optimise what an encoder hands over, a set of free numbers for each sentence.

The trained model is frozen. Free numbers take the place of those of the encoder's State and start
there, and gradient descent on the loss of the reference (Adam) changes them. Each number stays in
the range that the encoder gives it in these sentences. The score that the decoder then has is a
lower bound of what such a State can hold for this decoder: it is optimised with the reference in
hand, in a number of steps. Subramani et al. 2019 (arXiv:1907.04944) do so for a language model; the
distance between the encoder's code and the best one is known as the amortisation gap (Cremer et al.
2018, arXiv:1801.03558).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seqmodels.data.batches import Example, batches_by_length
from seqmodels.interface import PAD, Batch, SequenceModel
from seqmodels.models import bahdanau, rnn_encdec
from seqmodels.search import unroll

from ..analyses import batch_of

RATE = 0.03
BATCH_TOKENS = {"cpu": 6_000, "cuda": 100_000}


class Ranges(NamedTuple):
    """The range that an encoder gives each free number of its State, over some sentences."""

    shapes: dict[str, torch.Size]
    """Of the fields that hold these numbers, for one sentence."""
    middle: Float[Tensor, " N"]
    half: Float[Tensor, " N"]
    """Half the width; 0: the number is always the same."""

    def normalise(self, state: Any) -> Float[Tensor, "B N"]:
        """Return the place of each number in its range, from -1 to 1; 0 if the range is empty."""
        x = flatten_fields(state, self.shapes)
        return torch.where(self.half > 0, (x - self.middle) / self.half, 0.0)

    def put(self, state: Any, places: Float[Tensor, "B N"]) -> Any:
        """Return a State with the numbers at these places of their ranges."""
        x = self.middle + self.half * places
        parts = x.split([shape.numel() for shape in self.shapes.values()], 1)
        fields = zip(self.shapes.items(), parts, strict=True)
        return state._replace(**{k: part.unflatten(1, shape) for (k, shape), part in fields})


def flatten_fields(state: Any, names: Iterable[str]) -> Float[Tensor, "B N"]:
    """Return the numbers of these fields, a row for each sentence."""
    return torch.cat([getattr(state, name).flatten(1) for name in names], 1)


def is_fixed(model: SequenceModel) -> bool:
    """Return whether the size of a model's State does not depend on the source's length."""
    return bool(model.source_floats(8) == model.source_floats(16))


def complete_state(model: Any, state: Any) -> Any:
    """Compute the fields of a State that follow from others.

    Cho's encoder hands over c alone; an annotation's key follows from it. The fields of any other
    model are all free.
    """
    if isinstance(state, rnn_encdec.State):
        return state._replace(s=torch.tanh(model.V_start(state.c)))
    if isinstance(state, bahdanau.State):
        return state._replace(keys=model.attention.U_a(state.h))
    return state


@torch.no_grad()
def measure_ranges(model: SequenceModel, state: Any) -> Ranges:
    """Return the range, over the sentences of a State, of each real number that is free."""
    fields = zip(state._fields, state, complete_state(model, state), strict=True)
    free = [k for k, x, own in fields if x.is_floating_point() and x is own and x.numel()]
    x = flatten_fields(state, free)
    low, high = x.amin(0), x.amax(0)
    shapes = {k: getattr(state, k).shape[1:] for k in free}
    return Ranges(shapes, (low + high) / 2, (high - low) / 2)


def optimise_latent(
    model: SequenceModel, batch: Batch, steps: Sequence[int], start: Any, ranges: Ranges
) -> dict[int, Any]:
    """Return the States after these numbers of steps of descent on the loss of the batch's targets.

    It starts from a State with a row for each sentence; each number stays within its range.
    """
    z = ranges.normalise(start).clamp(-0.999, 0.999).atanh().requires_grad_()
    adam, states = torch.optim.Adam([z], RATE), dict[int, Any]()
    for step in range(1, max(steps) + 1):
        with torch.enable_grad():
            state = complete_state(model, ranges.put(start, z.tanh()))
            logits, _ = unroll(model, state, batch.tgt_in)
            nats = F.cross_entropy(
                logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD, reduction="sum"
            )
        adam.zero_grad()
        nats.backward(inputs=[z])
        adam.step()
        if step in steps:
            states[step] = ranges.put(start, z.detach().tanh())
    return states


# ---------------------------------------------------------------------------------- All sentences


def take_rows(state: Any, rows: Sequence[int]) -> Any:
    """Return some rows of a State of tensors."""
    index = torch.tensor(rows, device=state[0].device)
    return type(state)(*(field[index] for field in state))


@torch.no_grad()
def encode_all(model: SequenceModel, examples: Sequence[Example]) -> Any:
    """Return the encoder's State of every source, in one tuple of tensors."""
    batch = batch_of(model.eval(), examples)
    return model.encode(batch.src, batch.src_mask)


def optimise_all(
    model: SequenceModel,
    examples: Sequence[Example],
    steps: Sequence[int],
    start: Any,
    ranges: Ranges,
) -> dict[int, Any]:
    """Return the States of all examples after each number of steps; see `optimise_latent`."""
    places = {step: ranges.normalise(start) for step in steps}
    for rows in batches_by_length(examples, BATCH_TOKENS[start[0].device.type]):
        batch = batch_of(model, [examples[i] for i in rows])
        own = optimise_latent(model, batch, steps, take_rows(start, rows), ranges)
        for step, state in own.items():
            places[step][rows] = ranges.normalise(state)
    return {step: ranges.put(start, x) for step, x in places.items()}


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
        """Generate one token as the model does."""
        return self.model.step(y, state)

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of all target tokens."""
        return unroll(self.model, self.encode(src, src_mask), tgt_in)[0]

    def max_target(self, n_source: int) -> int:
        """Return how many target tokens can follow, as of the model."""
        return self.model.max_target(n_source)

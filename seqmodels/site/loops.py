"""What the chapters write as a loop, as one operator: a graph then reads sources of any length.

While a model is traced, its encoder's loop over the words is a `scan` over the same unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch._higher_order_ops.scan import scan

from seqmodels.models import bahdanau, linear_attention, lstm_seq2seq, rnn_encdec


def states(
    step: Callable[..., Tensor], first: Float[Tensor, "B D"], xs: Any, is_backward: bool = False
) -> Float[Tensor, "B N D"]:
    """Return all states of a recurrence h = step(h, x); xs: tensors (N,B,…), one x per state."""

    def body(h: Tensor, x: Any) -> tuple[Tensor, Tensor]:
        h = step(h, x)
        return h, h.clone()

    return scan(body, first, xs, reverse=is_backward)[1].transpose(0, 1)


def read_ahead(self: Any, e: Float[Tensor, "B S E"], src_mask: Tensor) -> Float[Tensor, "B D"]:
    """Read a source as `rnn_encdec.Encoder` does."""
    h = e.new_zeros(len(e), self.unit.U.in_features)
    ahead = states(lambda h, x: self.unit(x, h), h, self.W(e).transpose(0, 1))
    return ahead[torch.arange(len(e)), src_mask.sum(1) - 1]


def read_both_ways(
    self: Any, e: Float[Tensor, "B S E"], src_mask: Tensor
) -> Float[Tensor, "B S D2"]:
    """Read a source as `bahdanau.Encoder` does."""
    h = e.new_zeros(len(e), self.unit.U.in_features)
    real = src_mask.unsqueeze(-1).to(e.dtype).transpose(0, 1)
    ahead = states(lambda h, x: self.unit(x, h), h, self.W(e).transpose(0, 1))
    xs = self.W_back(e).transpose(0, 1), real
    back = states(lambda h, x: x[1] * self.unit_back(x[0], h), h, xs, is_backward=True)
    return torch.cat([ahead, back], -1)


def run_layer(self: Any, e: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """Run over a sequence as `lstm_seq2seq.LSTMLayer` does; a scan carries h and c as one."""
    width = h.shape[-1]

    def step(hc: Tensor, x: Tensor) -> Tensor:
        return torch.cat(self.unit(x, hc[:, :width], hc[:, width:]), -1)

    both = states(step, torch.cat([h, c], -1), self.W(e).transpose(0, 1))
    return both.split(width, -1)


def embed(self: Any, tokens: Tensor, position: Tensor) -> Tensor:
    """Embed as `linear_attention` does, at positions that cannot be checked in a graph."""
    return self.dropout(self.embedding(tokens) + self.positions(position))


Swap = tuple[type, str, Callable[..., Any]]

UNCHECKED: list[Swap] = [(linear_attention.LinearAttention, "embed", embed)]
SWAPS: list[Swap] = [
    (rnn_encdec.Encoder, "forward", read_ahead),
    (bahdanau.Encoder, "forward", read_both_ways),
    (lstm_seq2seq.LSTMLayer, "forward", run_layer),
    *UNCHECKED,
]


@contextmanager
def swapped(swaps: Sequence[Swap] = SWAPS) -> Iterator[None]:
    """Swap methods for those that can be traced, and swap them back."""
    before = [getattr(owner, name) for owner, name, _ in swaps]
    try:
        for owner, name, method in swaps:
            setattr(owner, name, method)
        yield
    finally:
        for (owner, name, _), kept in zip(swaps, before, strict=True):
            setattr(owner, name, kept)

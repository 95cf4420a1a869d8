"""What every model promises: three methods, one state, one batch.

`B` batch, `S` source length, `T` target length, `V` vocabulary. Masks are bool, True = real token.

    encode(src, src_mask)          -> State                 read the source
    step(y, state)                 -> (logits (B,V), State)  one target token; search uses it
    forward(src, src_mask, tgt_in) -> logits (B,T,V)         all tokens, teacher forced; training

A State is a NamedTuple of tensors, each with the batch first. Modules hold parameters and nothing
that changes from step to step, so any search may keep, drop and reorder states as it likes.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

PAD, BOS, EOS, UNK = range(4)
"""The first four ids of every vocabulary."""

S = TypeVar("S", bound=tuple[Tensor, ...])


class Batch(NamedTuple):
    """Sources and targets, padded on the right with PAD."""

    src: Int[Tensor, "B S"]
    src_mask: Bool[Tensor, "B S"]
    tgt_in: Int[Tensor, "B T"]
    """BOS y1 … y_{T-1}."""
    tgt_out: Int[Tensor, "B T"]
    """y1 … y_T, the last one EOS where the text ends there; PAD is not scored."""


class SequenceModel(nn.Module):
    """The base of all models; a subclass writes out the three methods."""

    config_type: ClassVar[type]
    """A frozen dataclass of sizes; its first field is `vocab_size`."""
    year: ClassVar[int]
    paper: ClassVar[str]

    def __init__(self, config: Any):
        super().__init__()
        self.config = config

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> Any:
        """Read the source; return the State before the first target token."""
        raise NotImplementedError

    def step(self, y: Int[Tensor, " B"], state: Any) -> tuple[Float[Tensor, "B V"], Any]:
        """Take the previous target token; return the next one's logits and the new State."""
        raise NotImplementedError

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of all target tokens, each given the true ones before it."""
        raise NotImplementedError

    def max_target(self, n_source: int) -> int:
        """Return how many target tokens may follow a source of `n_source` tokens."""
        return sys.maxsize


def head_width(d_model: int, n_heads: int) -> int:
    """Return the width of one of `n_heads` equal heads.

    Raises ValueError if they do not fill the model.
    """
    if d_model % n_heads:
        raise ValueError(f"d_model {d_model} is no multiple of n_heads {n_heads}")
    return d_model // n_heads


def unroll(
    model: SequenceModel, state: Any, tgt_in: Int[Tensor, "B T"]
) -> tuple[Float[Tensor, "B T V"], Any]:
    """Feed `tgt_in` token by token through `step`; return all logits and the last State."""
    logits = []
    for y in tgt_in.unbind(1):
        logits_t, state = model.step(y, state)
        logits.append(logits_t)
    return torch.stack(logits, 1), state


def select_rows(state: S, rows: Int[Tensor, " R"]) -> S:
    """Return the State whose row i is the old row `rows[i]`; serves any beam of any model."""
    return type(state)(*(tensor.index_select(0, rows) for tensor in state))


def attention_weights(state: Any) -> Float[Tensor, "B S"]:
    """Return the last step's weights over the source.

    Raises ValueError for a model that has none: its whole source is in one vector.
    """
    if not hasattr(state, "alpha"):
        raise ValueError(
            "this model has no attention to show: the whole source is in one vector; "
            "choose bahdanau, transformer or gpt"
        )
    return state.alpha

"""What every model promises: three methods, one state, one batch.

`B` batch, `S` source length, `T` target length, `V` vocabulary. Masks are bool, True = real token.

    encode(src, src_mask)          -> State                 read the source
    step(y, state)                 -> (logits (B,V), State)  one target token; search uses it
    forward(src, src_mask, tgt_in) -> logits (B,T,V)         all tokens, teacher forced; training

A State is a NamedTuple of tensors, each with the batch first. Modules hold parameters and nothing
that changes from step to step, so any search may keep, drop and reorder states as it likes.

A model may name in `of_source` what the beams of one source share: what is known of the source,
or a memory into which they write together. A search keeps it once a source, not once a beam:
`step` takes B rows of it beside R = B × beams rows of all else.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
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
    of_source: ClassVar[tuple[str, ...]] = ()
    """Fields of the State that beams of one source share."""

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
    if n_heads < 1 or d_model % n_heads:
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


def select_beams(
    model: SequenceModel,
    state: S,
    beams: Int[Tensor, " R"],
    sources: Int[Tensor, " B"] | None = None,
) -> S:
    """Return the State whose row i goes on as the old row `beams[i]`.

    What the beams of a source share is not copied: its rows `sources` are kept (None: all).
    """
    fields = type(state)._fields  # type: ignore[attr-defined]
    rows = (sources if field in model.of_source else beams for field in fields)
    picked = zip(state, rows, strict=True)
    return type(state)(*(t if r is None else t.index_select(0, r) for t, r in picked))


def fused_attention(
    q: Float[Tensor, "B H N K"],
    k: Float[Tensor, "B H M K"],
    v: Float[Tensor, "B H M Kv"],
    mask: Tensor | None,
    dropout: float,
) -> Float[Tensor, "B H N Kv"]:
    """Return softmax(q kᵀ / √K) v; the weights, which no one looks at, need not be kept.

    On CPUs torch's fused kernel loses more time in bfloat16, going back, than it wins: there it
    is the same three products one by one.
    """
    if q.is_cuda or q.dtype != torch.bfloat16:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
    score = (k @ (q / q.shape[-1] ** 0.5).transpose(-2, -1)).transpose(-2, -1)
    score = score if mask is None else score.masked_fill(~mask, -torch.inf)
    return F.dropout(score.softmax(-1), dropout) @ v


class QuickTanh(torch.autograd.Function):
    """tanh x = 1 - 2 σ(-2x), right to 2e-7."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return tanh x."""
        y = (-2 * x).sigmoid_().mul_(-2).add_(1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Return grad (1 - tanh² x)."""
        return torch.ops.aten.tanh_backward(grad, *ctx.saved_tensors)


def tanh(x: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """Return tanh x of many numbers: on CPUs torch's float32 sigmoid is six times as fast."""
    if x.is_cuda or x.dtype != torch.float32:
        return torch.tanh(x)
    return QuickTanh.apply(x)


# A memory of keys and values (B,H,L,N,K) that beams of one source write into together: nothing is
# copied when a search reorders them, because each beam knows its own places in it, `seen` (R,N).


class Room(NamedTuple):
    """Memory behind a tensor that grows; `taken` is a list of one number, shared by its views."""

    buffer: Float[Tensor, "B H L M K"]
    taken: list[int]


def reserve(past: Float[Tensor, "B H L N K"], n_more: int) -> Float[Tensor, "B H L M K"]:
    """Return a memory with more places, M = N + n_more, which `put` fills layer by layer.

    Room for more is kept behind it, so that a text is not copied for every token that is written.
    Who asks first gets it; who asks again from the same State gets a copy, so that no State
    changes. Where gradients are wanted, every token is a copy.
    """
    (*size, n, width), room = past.shape, getattr(past, "room", None)
    if torch.is_grad_enabled():
        return torch.cat([past, past.new_zeros(*size, n_more, width)], 3)
    if room is None or room.taken != [n] or n + n_more > room.buffer.shape[3]:
        room = Room(past.new_empty(*size, 2 * (n + 16 * n_more), width), [n])
        room.buffer[..., :n, :] = past
    room.taken[0] = n + n_more
    grown = room.buffer[..., : n + n_more, :]
    setattr(grown, "room", room)  # noqa: B010
    return grown


def put(
    memory: Float[Tensor, "B H L M K"], layer: int, new: Float[Tensor, "B H N K"]
) -> Float[Tensor, "B H L M K"]:
    """Fill a layer's last places; without gradients in place, `reserve` having seen to it."""
    if torch.is_grad_enabled():
        memory = memory.clone()
    memory[:, :, layer, -new.shape[2] :] = new
    return memory


def see_own(seen: Bool[Tensor, "R N"], n_beams: int) -> Bool[Tensor, "R M"]:
    """Return `seen` after each of the beams has taken a place, M = N + n_beams."""
    own = torch.eye(n_beams, dtype=torch.bool, device=seen.device)
    return torch.cat([seen, own.repeat(len(seen) // n_beams, 1)], 1)


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

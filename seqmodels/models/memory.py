"""The parts shared by the models whose memory of a text has a fixed size.

Pads come first, so that none stands between source and target, where a memory would fade; tokens
pass through layers that hand on a memory; and a short convolution sees a token and those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import PAD, SequenceModel


def rotate(x: Tensor, n: Int[Tensor, " B"], dim: int = 1) -> Tensor:
    """Move the first n[b] of each row's entries along an axis behind the others.

    A negative number moves the last ones before the others.
    """
    shape = [-1 if axis in (0, dim % x.dim()) else 1 for axis in range(x.dim())]
    i = (torch.arange(x.shape[dim], device=x.device) + n.unsqueeze(1)) % x.shape[dim]
    shape[0] = len(x)
    return x.take_along_dim(i.view(shape), dim)


def join(
    src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
) -> tuple[Int[Tensor, "B N"], Bool[Tensor, "B N"]]:
    """Return source and target as one text, and which of its tokens are real.

    The source's pads come first, where the memory is empty and cannot fade; so the last tokens of
    the source stand right before the target.
    """
    n = src_mask.sum(1)
    text = torch.cat([rotate(src, n), tgt_in], 1)
    return text, torch.cat([rotate(src_mask, n), tgt_in != PAD], 1)


def convolve(
    x: Float[Tensor, "B N _"],
    real: Tensor,
    window: Float[Tensor, "B W _"] | None,
    filter: Float[Tensor, "W1 1 _"] | None,
) -> tuple[Float[Tensor, "B N _"], Float[Tensor, "B W _"]]:
    """Sum each token's numbers and those of the W tokens before it, each times its own weights.

    `window` has the W tokens before x, None: zeros; the second result is the window of the next
    token. Pads are zeros. Without a filter, W is 0 and the other tokens stay as they are.
    """
    x, n = x * real.unsqueeze(-1), x.shape[1]
    if filter is None:
        return x, x.new_zeros(len(x), 0, x.shape[2])
    if window is None:
        window = x.new_zeros(len(x), len(filter) - 1, x.shape[2])
    x = torch.cat([window, x], 1)
    return torch.stack([row * x[:, i : i + n] for i, row in enumerate(filter)]).sum(0), x[:, n:]


class Layer(nn.Module):
    """As in GPT: self-attention and feed-forward, each after a norm, added to the stream."""

    def __init__(self, attention: nn.Module, cfg: Any, has_feed_forward: bool = True):
        super().__init__()
        D = cfg.d_model
        self.norm_1, self.norm_2 = nn.LayerNorm(D), nn.LayerNorm(D) if has_feed_forward else None
        self.self_attention, self.dropout = attention, nn.Dropout(cfg.dropout)
        if has_feed_forward:
            inner, outer = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
            self.ff = nn.Sequential(inner, nn.GELU(approximate="tanh"), outer)

    def attend(
        self, x: Float[Tensor, "B N D"], real: Tensor, *memory: Tensor
    ) -> tuple[Tensor, ...]:
        """Attend to this text, or to a memory of it; also return the memory."""
        attended, *new = self.self_attention(self.norm_1(x), real, *memory)
        return x + self.dropout(attended), *new

    def feed_forward(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        """Work on each token by itself, unless attention is all that the block has."""
        return x if self.norm_2 is None else x + self.dropout(self.ff(self.norm_2(x)))


def read_layers(
    layers: Iterable[Any], x: Float[Tensor, "B N D"], real: Tensor, n_out: int, state: Any = ()
) -> tuple[Float[Tensor, "B n_out D"], list[Tensor]]:
    """Pass tokens through all layers, after the memory in the fields (R,L,…) of a State.

    Return the rows of the last n_out tokens, and the memory of all layers as such fields. After its
    attention, the last layer computes only these rows: nothing reads its others.
    """
    layers, memories = [*layers], []
    for i, layer in enumerate(layers):
        x, *memory = layer.attend(x, real, *(field[:, i] for field in state))
        x = layer.feed_forward(x[:, -n_out:] if layer is layers[-1] else x)
        memories.append(memory)
    return x, [torch.stack(fields, 1) for fields in zip(*memories, strict=True)]


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compute a function of tensors outside autocast, in float32 in place of bfloat16."""

    @wraps(function)
    def computed(*args: Any) -> Any:
        tensors = [t.float() if getattr(t, "dtype", None) == torch.bfloat16 else t for t in args]
        device = next(t.device.type for t in args if isinstance(t, Tensor))
        with torch.autocast(device, enabled=False):
            return function(*tensors)

    return computed


class TextModel(SequenceModel):
    """A model that reads source and target as the one text that `join` makes of them."""

    def read(self, text: Int[Tensor, "B N"], real: Tensor, n_out: int) -> tuple[Tensor, Any]:
        """Read a text in one pass; return the logits of its last tokens, and the memory of it."""
        raise NotImplementedError

    def text_logits(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B S+T V"]:
        """Return the logits after each token, those of the source in its own order."""
        logits, _ = self.read(*join(src, src_mask, tgt_in), src.shape[1] + tgt_in.shape[1])
        first, last = logits.split([src.shape[1], tgt_in.shape[1]], 1)
        return torch.cat([rotate(first, -src_mask.sum(1)), last], 1)

    def attention_weights(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B L H T S"]:
        """Return the weights over the source, in its own order."""
        weights = super().attention_weights(src, src_mask, tgt_in)
        return rotate(weights, -src_mask.sum(1), -1)

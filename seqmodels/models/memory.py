"""What models share whose memory of a text has a fixed size: pads first, and a short convolution.

To a chapter a text has no pads and `convolve` is a causal convolution of each number with those of
the tokens before it.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

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

    The source's pads come first, where the memory is empty: then no token that is read after them
    has to be kept from fading, and the last tokens of the source stand before the target.
    """
    n = src_mask.sum(1)
    text = torch.cat([rotate(src, n), tgt_in], 1)
    return text, torch.cat([rotate(src_mask, n), tgt_in != PAD], 1)


def convolve(
    x: Float[Tensor, "B N C"],
    real: Tensor,
    window: Float[Tensor, "B W C"] | None,
    filter: Float[Tensor, "W1 1 C"] | None,
) -> tuple[Float[Tensor, "B N C"], Float[Tensor, "B W C"]]:
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

"""Bahdanau et al. with k vectors instead of one per word: between one vector and attention.

k learned queries weigh the annotations before the first word is written, and the decoder attends to
the k means. With as many as the source has words, nothing has to be pooled: that is the chapter.
Britz et al. 2017 (arXiv:1707.00110) also encode a source into k context vectors; their weights
depend on the place in the source as well, and their decoder does not compare keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import Size, watch_attention
from seqmodels.models import bahdanau
from seqmodels.models.bahdanau import Bahdanau, State


@dataclass(frozen=True, kw_only=True)
class Config(bahdanau.Config):
    """Sizes, and the number of vectors."""

    n_queries: Size = 4
    """Vectors that pass from source to target (k)."""


class Pooling(nn.Module):
    """Learned queries, each with its own softmax over the words of the source."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.query = nn.Linear(2 * cfg.d_model, cfg.n_queries, bias=False)

    def attention_weights(
        self, h: Float[Tensor, "B S D2"], src_mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B k S"]:
        """Return the weights of the words for each query."""
        return self.query(h).mT.masked_fill(~src_mask.unsqueeze(1), -torch.inf).softmax(-1)


class PooledBahdanau(Bahdanau):
    """RNNsearch whose decoder attends to k pooled annotations."""

    config_type = Config

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.pooling = Pooling(cfg)
        bahdanau.init(self)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Annotate the source and pool the annotations; the start state is the published one."""
        state = super().encode(src, src_mask)
        h = self.pooling.attention_weights(state.h, src_mask) @ state.h
        keys = self.attention.U_a(h)
        return State(h.to(keys), keys, torch.ones_like(h[..., 0], dtype=torch.bool), state.s)

    def attention_weights(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B L H T S"]:
        """Return how much of each word a target reads, through all k vectors."""
        with watch_attention([self.attention]) as [alphas]:
            self(src, src_mask, tgt_in)
        pooled = self.pooling.attention_weights(super().encode(src, src_mask).h, src_mask)
        return (torch.cat(alphas, 1) @ pooled)[:, None, None]

    def source_floats(self, n: int) -> int:
        """Return how many numbers about a source of n tokens the decoder is given."""
        return 2 * self.config.n_queries * self.config.d_model

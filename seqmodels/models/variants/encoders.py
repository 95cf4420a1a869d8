"""Cho's decoder with other encoders that write its vector c, or for a trained one's vector.

    both        the last state of a forward and that of a backward pass, as h in c = tanh(V h)
    pooled      the mean of Bahdanau's annotations, weighted by a learned query, as that h
    attention   the same mean of the states of the Transformer's encoder

The decoder, its vector and their equations are those of `rnn_encdec`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import Size
from seqmodels.models import bahdanau, rnn_encdec, transformer
from seqmodels.models.rnn_encdec import RNNEncDec, State


@dataclass(frozen=True, kw_only=True)
class Config(rnn_encdec.Config):
    """Sizes, and what is read into the vector."""

    reads: Literal["both", "pooled", "attention"] = "both"
    """The encoder's states that c is computed from."""


def pool(h: Float[Tensor, "B S D"], query: nn.Linear, src_mask: Tensor) -> Float[Tensor, "B D"]:
    """Return the mean of the words' states, weighted by the softmax of a learned query's scores."""
    alpha = query(h).squeeze(-1).masked_fill(~src_mask, -torch.inf).softmax(-1)
    return (alpha.unsqueeze(1) @ h.to(alpha.dtype)).squeeze(1)


class TwoWayEncoder(nn.Module):
    """Bahdanau's annotations in one vector, of twice the model's width."""

    def __init__(self, cfg: Config):
        super().__init__()
        sizes = {"d_model": cfg.d_model, "d_embed": cfg.d_embed}
        self.annotate = bahdanau.Encoder(bahdanau.Config(vocab_size=cfg.vocab_size, **sizes))
        self.query = nn.Linear(2 * cfg.d_model, 1, bias=False) if cfg.reads == "pooled" else None

    def forward(
        self, e: Float[Tensor, "B S E"], src_mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B D2"]:
        """Return the last state of each direction, or the mean annotation."""
        h = self.annotate(e, src_mask)
        if self.query:
            return pool(h, self.query, src_mask)
        forwards, backwards = h.chunk(2, -1)
        rows, last = torch.arange(len(h), device=h.device), src_mask.sum(1) - 1
        return torch.cat([forwards[rows, last], backwards[:, 0]], -1)


class AttentionEncoder(nn.Module):
    """The Transformer's encoder of two pre-norm layers, as wide as an embedding, and a mean."""

    def __init__(self, cfg: Config):
        super().__init__()
        sizes = transformer.Config(
            vocab_size=cfg.vocab_size, d_model=cfg.d_embed, d_ff=4 * cfg.d_embed, n_heads=4,
            n_layers=2, is_prenorm=True, dropout=cfg.dropout,
        )  # fmt: skip
        layers = (transformer.Layer(sizes, i, is_decoder=False) for i in range(sizes.n_layers))
        self.layers, self.norm = nn.ModuleList(layers), nn.LayerNorm(cfg.d_embed)
        self.query = nn.Linear(cfg.d_embed, 1, bias=False)

    def forward(
        self, e: Float[Tensor, "B S E"], src_mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B E"]:
        """Return the mean state of the last layer."""
        position = torch.arange(e.shape[1], device=e.device)
        x = e + transformer.sinusoids(position, e.shape[-1]).to(e.dtype)
        for layer in self.layers:
            x = layer(x, src_mask[:, None, None])
        return pool(self.norm(x), self.query, src_mask)


class OtherEncoder(RNNEncDec):
    """The RNN encoder–decoder with an encoder of another kind."""

    config_type = Config

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        del self.encoder, self.V
        reads_words = cfg.reads == "attention"
        self.V_reader = nn.Linear(cfg.d_embed if reads_words else 2 * cfg.d_model, cfg.d_model)
        if not reads_words:
            self.reader: nn.Module = TwoWayEncoder(cfg)
        rnn_encdec.init(self)
        if reads_words:  # with PyTorch's own first weights
            self.reader = AttentionEncoder(cfg)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source; all that is left of it is c."""
        h = self.reader(self.dropout(self.embed(src)), src_mask)
        c = torch.tanh(self.V_reader(h))
        return State(c, torch.tanh(self.V_start(c)))


# ------------------------------------------------------------------------------------- Decoder


@dataclass(frozen=True, kw_only=True)
class FreshConfig(rnn_encdec.Config):
    """Sizes of the decoder, and of the vector that it reads."""

    d_vector: Size = 1000
    """Width of the trained encoder's vector."""

    def source_floats(self, n: int) -> int:
        """Return how many numbers about a source of n tokens the decoder is given."""
        return self.d_vector


class FreshDecoder(RNNEncDec):
    """A decoder for the vector of a trained encoder, which has embeddings of its own.

    `tasks.bottleneck --frozen` loads the encoder and keeps it as it is. A decoder of another width
    reads a projection of the vector.
    """

    config_type = FreshConfig

    def __init__(self, cfg: FreshConfig):
        super().__init__(cfg)
        self.embed_source = nn.Embedding(cfg.vocab_size, cfg.d_embed)
        self.encoder = rnn_encdec.Encoder(replace(cfg, d_model=cfg.d_vector))
        self.V = nn.Linear(cfg.d_vector, cfg.d_vector)
        is_wider = cfg.d_model != cfg.d_vector
        self.W_c = nn.Linear(cfg.d_vector, cfg.d_model, bias=False) if is_wider else nn.Identity()
        rnn_encdec.init(self)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source as the trained encoder does."""
        h = self.encoder(self.dropout(self.embed_source(src)), src_mask)
        c = self.W_c(torch.tanh(self.V(h)))
        return State(c, torch.tanh(self.V_start(c)))

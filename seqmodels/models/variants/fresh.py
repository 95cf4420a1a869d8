"""A decoder that learns to read the vector of a trained encoder."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from seqmodels.interface import Size
from seqmodels.models import rnn_encdec


@dataclass(frozen=True, kw_only=True)
class FreshConfig(rnn_encdec.Config):
    """Sizes of the decoder, and of the vector that it reads."""

    d_vector: Size = 1000
    """Width of the trained encoder's vector."""
    is_fresh: bool = True
    """Draw the decoder, instead of training further the one that belongs to the encoder."""


class FreshDecoder(rnn_encdec.RNNEncDec):
    """A decoder of its own width and embeddings for the encoder that `tasks.bottleneck` loads."""

    config_type = FreshConfig

    def __init__(self, cfg: FreshConfig):
        super().__init__(cfg)
        self.embed_source = nn.Embedding(cfg.vocab_size, cfg.d_embed)
        self.encoder = rnn_encdec.Encoder(replace(cfg, d_model=cfg.d_vector))
        self.V = nn.Linear(cfg.d_vector, cfg.d_vector)
        is_wider = cfg.d_model != cfg.d_vector
        self.W_c = nn.Linear(cfg.d_vector, cfg.d_model, bias=False) if is_wider else nn.Identity()
        rnn_encdec.init(self)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> rnn_encdec.State:
        """Read the source as the trained encoder does."""
        h = self.encoder(self.dropout(self.embed_source(src)), src_mask)
        c = self.W_c(torch.tanh(self.V(h)))
        return rnn_encdec.State(c, torch.tanh(self.V_start(c)))

    def source_floats(self, n: int) -> int:
        """Return how many numbers about a source of n tokens the decoder is given."""
        return self.config.d_vector

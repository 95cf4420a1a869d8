"""Cho's decoder with encoders that read in both directions and write its vector c.

    both        the last state of a forward and that of a backward pass, as h in c = tanh(V h)
    pooled      the mean of Bahdanau's annotations, weighted by a learned query, as that h

The decoder, its vector and their equations are those of `rnn_encdec`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.models import bahdanau, rnn_encdec
from seqmodels.models.rnn_encdec import RNNEncDec, State


@dataclass(frozen=True, kw_only=True)
class Config(rnn_encdec.Config):
    """Sizes, and what is read into the vector."""

    reads: Literal["both", "pooled"] = "both"
    """The encoder's states that c is computed from."""


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
            alpha = self.query(h).squeeze(-1).masked_fill(~src_mask, -torch.inf).softmax(-1)
            return (alpha.unsqueeze(1) @ h.to(alpha.dtype)).squeeze(1)
        forwards, backwards = h.chunk(2, -1)
        rows, last = torch.arange(len(h), device=h.device), src_mask.sum(1) - 1
        return torch.cat([forwards[rows, last], backwards[:, 0]], -1)


class OtherEncoder(RNNEncDec):
    """The RNN encoder–decoder with an encoder that reads in both directions."""

    config_type = Config

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        del self.encoder, self.V
        self.reader = TwoWayEncoder(cfg)
        self.V_reader = nn.Linear(2 * cfg.d_model, cfg.d_model)
        rnn_encdec.init(self)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source; all that is left of it is c."""
        h = self.reader(self.dropout(self.embed(src)), src_mask)
        c = torch.tanh(self.V_reader(h))
        return State(c, torch.tanh(self.V_start(c)))

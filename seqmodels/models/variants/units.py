"""The RNN encoder–decoder with plain tanh units, or with an encoder of another width.

    unit            tanh: h = tanh(x + U h), the simple recurrent network of Elman (1990), in place
                    of the gated unit, on both sides
    encoder_width   width of the encoder's state in widths of the decoder's; V, which computes the
                    vector c from it, is then the learned mapping between the two

All else is `rnn_encdec`; with a gated unit and the width 1 it is that model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seqmodels.interface import Positive
from seqmodels.models import rnn_encdec
from seqmodels.models.rnn_encdec import Encoder, RNNEncDec


@dataclass(frozen=True, kw_only=True)
class Config(rnn_encdec.Config):
    """Sizes, the recurrent unit, and how wide the encoder is."""

    unit: Literal["gated", "tanh"] = "gated"
    """The recurrent unit of encoder and decoder."""
    encoder_width: Positive = 1.0
    """Width of the encoder's state, as a multiple of `d_model`; rounded to whole numbers."""


class TanhUnit(nn.Module):
    """Elman 1990: the next state is tanh of the input and of the state times a matrix."""

    def __init__(self, d_model: int):
        super().__init__()
        self.U = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Float[Tensor, "R D"], h: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        """Return the next state."""
        return torch.tanh(x + self.U(h))


class RNNWithUnits(RNNEncDec):
    """The RNN encoder–decoder with other units, or with a wider or narrower encoder."""

    config_type = Config

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        d_encoder = max(1, round(cfg.encoder_width * cfg.d_model))
        self.encoder = Encoder(replace(cfg, d_model=d_encoder))
        self.V = nn.Linear(d_encoder, cfg.d_model)
        if cfg.unit == "tanh":
            self.encoder.W = nn.Linear(cfg.d_embed, d_encoder)
            self.encoder.unit = TanhUnit(d_encoder)
            self.W = nn.Linear(cfg.d_embed, cfg.d_model)
            self.C = nn.Linear(cfg.d_model, cfg.d_model, bias=False)
            self.unit = TanhUnit(cfg.d_model)
        rnn_encdec.init(self)

"""An RNN encoder–decoder whose decoder learns in one of so many steps, its encoder in all.

He et al. 2019 (arXiv:1901.05534) find that a variational autoencoder's encoder lags behind its
decoder, and train it more often at first, until its code says no more of the text. Here the share
is fixed.

    python -m tasks.translation --models rnn_encdec examples/encoder_first.py:EncoderFirst
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seqmodels.models import rnn_encdec


@dataclass(frozen=True, kw_only=True)
class Config(rnn_encdec.Config):
    """Sizes, and how often the decoder learns."""

    period: int = 2
    """Steps of training of which the decoder learns in one."""


class EncoderFirst(rnn_encdec.RNNEncDec):
    """Cho's model; what the decoder uses, the shared embedding included, learns less often."""

    label = "Encoder first"
    config_type = Config
    n_steps: Tensor

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.register_buffer("n_steps", torch.zeros((), dtype=torch.long))  # saved with the weights
        for name, parameter in self.named_parameters():
            if not name.startswith(("encoder.", "V.")):
                parameter.register_post_accumulate_grad_hook(self.drop_gradient)

    def drop_gradient(self, parameter: Tensor) -> None:
        """Leave a parameter of the decoder as it is, except in one of `period` steps."""
        if self.n_steps % self.config.period:
            parameter.grad = None

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        """Count the steps of training; a batch in parts counts each."""
        self.n_steps += self.training
        return super().forward(src, src_mask, tgt_in)

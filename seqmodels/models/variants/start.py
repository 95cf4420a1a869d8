"""A decoder that is given the vector once, at its start, as `lstm_seq2seq` is."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from seqmodels.models import rnn_encdec
from seqmodels.models.rnn_encdec import RNNEncDec


class Zero(nn.Module):
    """A layer that adds nothing."""

    def forward(self, x: Float[Tensor, "*B D"]) -> float:
        """Return zero."""
        return 0.0


class StartOnly(RNNEncDec):
    """Cho's model whose vector is the decoder's first state, and is not read again."""

    def __init__(self, cfg: rnn_encdec.Config):
        super().__init__(cfg)
        self.C = self.output.C_o = Zero()  # type: ignore[assignment]

"""An RNN encoder–decoder whose encoder learns to write what descent makes of its vector.

In each step of training, descent on the loss of the target moves the encoder's vectors a little, as
`tasks.bottleneck` moves those of a trained model; the parameters stay as they are. The encoder then
learns to write the moved vectors (squared distance), in place of the gradient of the cross-entropy,
and the decoder learns from the encoder's own. Semi-amortised (after Kim et al. 2018,
arXiv:1802.02550, but without second derivatives), both learn from the cross-entropy at the moved
vectors. Without a reference, the decoder has the encoder's own vectors.

    python -m tasks.translation --models rnn_encdec examples/descent_targets.py:DescentTargets
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from seqmodels.interface import EOS, PAD
from seqmodels.models import rnn_encdec

RATE = 0.03


@dataclass(frozen=True, kw_only=True)
class Config(rnn_encdec.Config):
    """Sizes, and how the encoder learns."""

    n_steps: int = 5
    """Steps of descent (Adam) for each batch."""
    semi_amortised: bool = False
    """Whether encoder and decoder learn from the loss at the moved vectors."""


class DescentTargets(rnn_encdec.RNNEncDec):
    """Cho's model; its encoder learns from vectors that the decoder reads better."""

    label = "Descent's targets"
    config_type = Config
    config: Config

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        """Return the logits of all target tokens; in training, replace the encoder's gradient."""
        c = self.encode(src, src_mask).c
        if not self.training:
            return self.write(c, tgt_in)
        moved = self.descend(c.detach(), tgt_in)
        if self.config.semi_amortised:
            return self.write(c + (moved - c.detach()), tgt_in)
        error = c.detach() - moved
        c.register_hook(lambda gradient: error * (gradient.norm() / error.norm()))  # as long
        return self.write(c, tgt_in)

    def write(self, c: Tensor, tgt_in: Tensor) -> Tensor:
        """Return the logits of all target tokens, written from these vectors."""
        e = self.dropout(self.embed(tgt_in))
        s, states = torch.tanh(self.V_start(c)), []
        for x_t in (self.W(e) + self.C(c).unsqueeze(1)).unbind(1):
            s = self.unit(x_t, s)
            states.append(s)
        return self.output(torch.stack(states, 1), e, c.unsqueeze(1))

    def descend(self, c: Tensor, tgt_in: Tensor) -> Tensor:
        """Return the vectors after some steps of descent on the loss of their targets."""
        targets = F.pad(tgt_in[:, 1:], (0, 1), value=PAD)
        targets = targets.masked_fill((targets == PAD) & (tgt_in != PAD), EOS)
        z = c.clamp(-0.999, 0.999).atanh().requires_grad_()
        adam = torch.optim.Adam([z], RATE)
        for _ in range(self.config.n_steps):
            with torch.enable_grad():
                logits = self.write(z.tanh(), tgt_in).flatten(0, 1)
                nats = F.cross_entropy(logits, targets.flatten(), ignore_index=PAD, reduction="sum")
            (z.grad,) = torch.autograd.grad(nats, [z])
            adam.step()
        return z.detach().tanh()

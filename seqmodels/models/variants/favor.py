"""Linear attention with FAVOR+: random features whose products approach those of a softmax.

K. Choromanski et al.: Rethinking Attention with Performers. ICLR 2021, arXiv:2009.14794 ("2021").
The F directions ω are drawn once (2021, 4.2: periodically). From the keys' log φ the maximum over
the text is not subtracted, which `step` cannot know, and log φ is limited to ±60.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seqmodels.interface import Size
from seqmodels.models import linear_attention
from seqmodels.models.linear_attention import LinearAttention, MultiHeadAttention


@dataclass(frozen=True, kw_only=True)
class Config(linear_attention.Config):
    """Sizes of linear attention, and the number of its features."""

    n_draws: Size = 1
    """Features of a head, in multiples of its width."""

    def source_floats(self, n: int) -> int:
        """Return how many numbers about a source of n tokens its decoder is given."""
        memory, window = self.d_model // self.n_heads + 1, 3 * (self.d_conv - 1)
        return self.n_layers * self.d_model * (self.n_draws * memory + window)


class RandomFeatures(MultiHeadAttention):
    """Attention by positive orthogonal random features."""

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        width = cfg.d_model // cfg.n_heads
        self.omega = nn.Buffer(torch.empty(cfg.n_draws * width, width))

    def phi(self, x: Float[Tensor, "B H N K"], is_query: bool) -> Float[Tensor, "B H N F"]:
        """Return the features of queries or of keys, all positive."""
        x = x / x.shape[-1] ** 0.25
        log_phi = x @ self.omega.T - x.square().sum(-1, keepdim=True) / 2  #           2021, (7)
        if is_query:  # a factor common to its features cancels in (8)
            log_phi = log_phi - log_phi.amax(-1, keepdim=True)
        return log_phi.clamp(-60, 60).exp() / len(self.omega) ** 0.5  #                2021, (5)


class Favor(LinearAttention):
    """Linear attention by random features."""

    config_type = Config

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        for layer in self.decoder:
            layer.self_attention = RandomFeatures(cfg)
        self.cross_attentions = [layer.self_attention for layer in self.decoder]
        linear_attention.init(self)
        for omega in self.buffers():
            for block in omega.split(omega.shape[1]):
                nn.init.orthogonal_(block)  #                                          2021, 2.4
            omega *= torch.empty_like(omega).normal_().norm(dim=1, keepdim=True)

"""The Transformer without one of its parts, or with the usual alternative to it.

    scale           scores are q·k, not q·k / √d_k
    lengths         scores are g cos(q, k); g, of each head, is learned and starts at √d_k, where a
                    cosine of random vectors varies like q·k / √d_k (after Henry et al. 2020,
                    Query-Key Normalization, arXiv:2010.04245)
    normaliser      weights are exp(q·k / √d_k), and need not sum to 1
    residual        a sublayer replaces its argument: LayerNorm(Sublayer(x))
    feed_forward    attention alone
    norm            x + Sublayer(x), nowhere normalised
    tying           the output has a matrix of its own

The Transformer without positions is one of `positions`; pre-norm, sizes and dropout are fields of
the published Config.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from seqmodels.models import transformer
from seqmodels.models.cache import KVCache, softmax
from seqmodels.models.transformer import Layer, MultiHeadAttention, Residual, Transformer

Part = Literal["scale", "lengths", "normaliser", "residual", "feed_forward", "norm", "tying"]
SCORES = "scale", "lengths", "normaliser"
"""Parts of the attention."""


@dataclass(frozen=True, kw_only=True)
class Config(transformer.Config):
    """Sizes of a Transformer, and the part that it lacks."""

    without: Part | None = None
    """The part that is left out."""


class AblatedAttention(MultiHeadAttention):
    """Attention with other scores, or without their normalisation."""

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.without = cfg.without
        if cfg.without == "lengths":
            d_k = self.W_q.out_features // cfg.n_heads
            self.g = nn.Parameter(torch.full((cfg.n_heads, 1, 1), d_k**0.5))

    def attention_weights(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Return each query's weights over the keys."""
        if self.without == "scale":
            return softmax(q @ k.mT, mask)
        if self.without == "lengths":
            return softmax(self.g * (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT), mask)
        score = q @ k.mT / q.shape[-1] ** 0.5
        return score.masked_fill(~mask, -torch.inf).exp()

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Float[Tensor, "B N D"]:
        """Return the weighted values of all heads, merged with W_o."""
        heads = self.dropout(self.attention_weights(q, k, v, mask)) @ v
        return self.W_o(heads.transpose(1, 2).flatten(2))


class WithoutResidual(Residual):
    """A sublayer whose output replaces its argument."""

    def forward(self, x: Tensor, sublayer: Callable[..., Tensor], *args: Any) -> Tensor:
        """Return LayerNorm(Dropout(Sublayer(x, …)))."""
        return self.norm(self.dropout(sublayer(x, *args)))


class AblatedLayer(Layer):
    """A layer without one of its parts."""

    def __init__(self, cfg: Config, index: int, is_decoder: bool):
        super().__init__(cfg, index, is_decoder)
        for name, part in [*self.named_children()]:
            if isinstance(part, MultiHeadAttention) and cfg.without in SCORES:
                setattr(self, name, AblatedAttention(cfg))
            elif isinstance(part, Residual) and cfg.without == "residual":
                setattr(self, name, WithoutResidual(cfg))
            elif isinstance(part, Residual) and cfg.without == "norm":
                part.add_module("norm", nn.Identity())
        if cfg.without == "feed_forward":
            del self.ff, self.ff_residual
            self.ff, self.ff_residual = None, lambda x, _: x  # type: ignore[assignment]


class AblatedTransformer(Transformer):
    """A Transformer without the part that its Config names."""

    config_type = Config

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.encoder = nn.ModuleList(AblatedLayer(cfg, i, False) for i in range(cfg.n_layers))
        self.decoder = nn.ModuleList(AblatedLayer(cfg, i, True) for i in range(cfg.n_layers))
        self.cross_attentions = [layer.src_attention for layer in self.decoder]
        if cfg.without == "tying":
            self.output = nn.Linear(cfg.d_model, cfg.vocab_size, bias=False)
        transformer.init(self)

    def decode(self, x: Tensor, mask: Tensor, tgt: KVCache | None, memory: KVCache) -> Tensor:
        """Return logits of target tokens, by the embeddings unless the output has its own."""
        if self.config.without != "tying":
            return super().decode(x, mask, tgt, memory)
        for layer in self.decoder:
            x = layer(x, mask, tgt, memory)
        return self.output(self.norm_tgt(x))

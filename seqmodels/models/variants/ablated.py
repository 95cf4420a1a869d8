"""The Transformer without one of its parts, or with the usual alternative to it.

    scale           scores are q·k, not q·k / √d_k
    root            scores are q·k / d_k
    lengths         scores are g cos(q, k); g, of each head, is learned and starts at √d_k, where a
                    cosine of random vectors varies like q·k / √d_k (after Henry et al. 2020,
                    Query-Key Normalization, arXiv:2010.04245)
    normaliser      weights are exp(q·k / √d_k), and need not sum to 1
    residual        a sublayer replaces its argument: LayerNorm(Sublayer(x))
    feed_forward    attention alone
    norm            x + Sublayer(x), nowhere normalised
    tying           the output has a matrix of its own
    multiplication  embeddings are not multiplied by √d
    multiplication and tying
    addition        the last quarter of a vector has the position, the rest the token
    factors         scores are x A y / √d_k with a matrix A of each head, not x W_q W_kᵀ y / √d_k
    mixing          a head's queries, keys and values see its own slice of the vector alone

The Transformer without positions is one of `positions`; pre-norm, sizes and dropout are fields of
the published Config.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from seqmodels.models import transformer
from seqmodels.models.cache import KVCache, softmax
from seqmodels.models.transformer import Layer, MultiHeadAttention, Residual, Transformer

Part = Literal[
    "scale", "root", "lengths", "normaliser", "residual", "feed_forward", "norm", "tying",
    "multiplication", "multiplication and tying", "addition", "factors", "mixing",
]  # fmt: skip
SCORES = "scale", "root", "lengths", "normaliser"
"""Parts of the score."""


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
        if self.without == "root":
            return softmax(q @ k.mT / q.shape[-1], mask)
        if self.without == "lengths":
            return softmax(self.g * (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT), mask)
        score = q @ k.mT / q.shape[-1] ** 0.5
        return score.masked_fill(~mask, -torch.inf).exp()


class MergedAttention(MultiHeadAttention):
    """Attention whose keys are the vectors themselves: one matrix a head weighs pairs of them."""

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.d_k = self.W_q.out_features // cfg.n_heads
        self.W_q = nn.Linear(cfg.d_model, cfg.n_heads * cfg.d_model, bias=False)
        del self.W_k

    def attend(self, x: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Float[Tensor, "B N D"]:
        """Attend from x; a key k has the score x A k / √d_k."""
        q = self.split_heads(self.W_q(x)) * (x.shape[-1] / self.d_k) ** 0.5
        return self(q, k, v, mask)

    def keys_values(self, x: Float[Tensor, "B N D"]) -> tuple[Tensor, Tensor]:
        """Return the vectors, for each head, and the values."""
        return x.unsqueeze(1).expand(-1, self.n_heads, -1, -1), self.split_heads(self.W_v(x))


class Slices(nn.Module):
    """A matrix for each head's slice of a vector."""

    def __init__(self, whole: nn.Linear, n_heads: int):
        super().__init__()
        sizes = whole.in_features // n_heads, whole.out_features // n_heads
        self.parts = nn.ModuleList(nn.Linear(*sizes, bias=False) for _ in range(n_heads))

    def forward(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N _"]:
        """Return each slice times its matrix."""
        slices = x.chunk(len(self.parts), -1)
        return torch.cat([f(part) for f, part in zip(self.parts, slices, strict=True)], -1)


class SlicedAttention(MultiHeadAttention):
    """Attention whose heads see a slice of the vector each."""

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        for name in ("W_q", "W_k", "W_v"):
            setattr(self, name, Slices(getattr(self, name), cfg.n_heads))


class WithoutResidual(Residual):
    """A sublayer whose output replaces its argument."""

    def forward(self, x: Tensor, sublayer: Callable[..., Tensor], *args: Any) -> Tensor:
        """Return LayerNorm(Dropout(Sublayer(x, …)))."""
        return self.norm(self.dropout(sublayer(x, *args)))


def attention_without(part: Part | None) -> Callable[[Config], MultiHeadAttention] | None:
    """Return the class of attention that lacks a part; None if the part is none of its own."""
    if part in SCORES:
        return AblatedAttention
    return {"factors": MergedAttention, "mixing": SlicedAttention}.get(part or "")


class AblatedLayer(Layer):
    """A layer without one of its parts."""

    def __init__(self, cfg: Config, index: int, is_decoder: bool):
        super().__init__(cfg, index, is_decoder)
        for name, part in [*self.named_children()]:
            if isinstance(part, MultiHeadAttention) and (kind := attention_without(cfg.without)):
                setattr(self, name, kind(cfg))
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
        self.without = cfg.without or ""
        if self.without == "addition":
            self.embedding = nn.Embedding(cfg.vocab_size, cfg.d_model - cfg.d_model // 4)
        if "tying" in self.without:
            self.output = nn.Linear(cfg.d_model, cfg.vocab_size, bias=False)
        transformer.init(self)

    def embed(self, tokens: Int[Tensor, "*B"], position: Tensor) -> Float[Tensor, "*B D"]:
        """Return embeddings and positional encodings, added unless they stand side by side."""
        D, x = self.config.d_model, self.embedding(tokens)
        if "multiplication" in self.without:
            return self.dropout(x + transformer.sinusoids(position, D).to(x.dtype))
        if self.without != "addition":
            return super().embed(tokens, position)
        place = transformer.sinusoids(position, D // 4).to(x.dtype).expand(*tokens.shape, -1)
        return self.dropout(torch.cat([x * x.shape[-1] ** 0.5, place], -1))

    def decode(self, x: Tensor, mask: Tensor, tgt: KVCache | None, memory: KVCache) -> Tensor:
        """Return logits of target tokens, by the embeddings unless the output has its own."""
        for layer in self.decoder:
            x = layer(x, mask, tgt, memory)
        x = self.norm_tgt(x)
        if "tying" in self.without:
            return self.output(x)
        return x[..., : self.embedding.embedding_dim] @ self.embedding.weight.T

"""The Transformer with its positions as a switch.

    sinusoids   added to the embeddings, as published (Vaswani et al. 2017, section 3.5)
    learned     vectors, one for each position, in their place (Gehring et al. 2017,
                arXiv:1705.03122, section 3.1)
    rotary      queries and keys of self-attention are rotated by their positions, so that a score
                depends on the distance of two tokens alone (Su et al. 2021, arXiv:2104.09864)
    alibi       scores of self-attention fall with the distance of two tokens, in each head at
                another rate (Press et al. 2022, arXiv:2108.12409; theirs is a decoder, in the
                encoder the distance counts in both directions)
    none        the encoder reads a set of words; the decoder can tell by its causal mask how many
                came before (Haviv et al. 2022, arXiv:2203.16634)

All count real tokens. Attention to the source has no positions of its own in any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import Positive, Size, check_positions
from seqmodels.models import transformer
from seqmodels.models.cache import KVCache
from seqmodels.models.transformer import Layer, MultiHeadAttention, Transformer


@dataclass(frozen=True, kw_only=True)
class Config(transformer.Config):
    """Sizes of a Transformer, and its positions."""

    positions: Literal["sinusoids", "learned", "rotary", "alibi", "none"] = "sinusoids"
    """How tokens in different places are told apart."""
    rotary_base: Positive = 10_000.0
    """Rotary wavelengths grow from 2π towards 2π times this (3.2.2: 10,000)."""
    n_positions: Size = 1024
    """Longest source and longest target if positions are learned."""


def rotate(
    x: Float[Tensor, "B H N K"], position: Int[Tensor, "*N"], base: float
) -> Float[Tensor, "B H N K"]:
    """Rotate each pair (x_2i, x_2i+1) by position · base^(-2i/K) radians (eqs. 14 and 15)."""
    i = torch.arange(0, x.shape[-1], 2, device=x.device)
    angle = position.unsqueeze(-1) * base ** (-i / x.shape[-1])
    cos, sin = angle.cos().to(x), angle.sin().to(x)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, odd * cos + even * sin], -1).flatten(-2)


def check_even(d_k: int) -> None:
    """Raise ValueError for queries whose numbers cannot be rotated in pairs."""
    if d_k % 2:
        raise ValueError(f"rotary positions need an even width of a head's queries, not {d_k}")


def distance_biases(mask: Bool[Tensor, "#B 1 N M"], n_heads: int) -> Float[Tensor, "#B H N M"]:
    """Return what ALiBi (section 3) adds to the scores of each head, -∞ where the mask is False.

    A token sees those before it, and itself last: the distance is how many it sees after a key.
    """
    distance = mask.sum(-1, keepdim=True) - mask.cumsum(-1)
    return torch.where(mask, -slopes(n_heads).to(mask.device) * distance, -torch.inf)


def slopes(n_heads: int) -> Float[Tensor, "H 1 1"]:
    """Return how fast the scores of each head fall."""
    return 0.5 ** (8 * torch.arange(1, n_heads + 1, dtype=torch.double) / n_heads)[:, None, None]


class RotaryLayer(Layer):
    """A layer whose self-attention compares rotated queries and keys."""

    def __init__(self, cfg: Config, index: int, is_decoder: bool):
        super().__init__(cfg, index, is_decoder)
        self.base = cfg.rotary_base

    def attend_to_text(self, x: Tensor, mask: Tensor, cache: KVCache | None) -> Tensor:
        """Do as the published layer does; keys are rotated before they are cached."""
        position = torch.arange(x.shape[1], device=x.device)
        if cache is not None:
            position = mask.sum(-1) - 1  # in the cache: all that the token sees
        attention = self.self_attention
        (k, v), q = attention.keys_values(x), attention.split_heads(attention.W_q(x))
        k, q = rotate(k, position, self.base), rotate(q, position, self.base)
        if cache is not None:
            k, v = cache.update(self.index, k, v)
        return attention(q, k, v, mask)


class BiasedAttention(MultiHeadAttention):
    """Attention whose mask holds numbers that are added to the scores."""

    def attention_weights(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Return each query's weights over the keys."""
        return (q @ k.mT / q.shape[-1] ** 0.5 + mask).softmax(-1)


class BiasedLayer(Layer):
    """A layer whose self-attention prefers near tokens: ALiBi, section 3."""

    def __init__(self, cfg: Config, index: int, is_decoder: bool):
        super().__init__(cfg, index, is_decoder)
        self.self_attention, self.slopes = BiasedAttention(cfg), slopes(cfg.n_heads)

    def attend_to_text(self, x: Tensor, mask: Tensor, cache: KVCache | None) -> Tensor:
        """Do as the published layer does, with a bias for each head and pair of tokens."""
        k, v = self.self_attention.keys_values(x)
        if cache is not None:
            bias = distance_biases(mask, len(self.slopes))
            k, v = cache.update(self.index, k, v)
        else:
            position = torch.arange(x.shape[1], device=x.device)
            distance = (position - position.unsqueeze(-1)).abs()
            bias = torch.where(mask, -self.slopes.to(x.device) * distance, -torch.inf)
        return self.self_attention.attend(x, k, v, bias.to(k))


LAYERS = {"rotary": RotaryLayer, "alibi": BiasedLayer}


class TransformerPositions(Transformer):
    """A Transformer with the positions that its Config names."""

    config_type = Config

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        if cfg.positions == "learned":  # as large as sinusoids, whose mean square is 1/2
            self.positions = nn.Embedding(cfg.n_positions, cfg.d_model)
            nn.init.normal_(self.positions.weight, std=0.5**0.5)
        if cfg.positions == "rotary":
            check_even(cfg.d_k or cfg.d_model // cfg.n_heads)
        if layer := LAYERS.get(cfg.positions):
            self.encoder = nn.ModuleList(layer(cfg, i, False) for i in range(cfg.n_layers))
            self.decoder = nn.ModuleList(layer(cfg, i, True) for i in range(cfg.n_layers))
            self.cross_attentions = [layer.src_attention for layer in self.decoder]
            transformer.init(self)

    def embed(self, tokens: Int[Tensor, "*B"], position: Tensor) -> Float[Tensor, "*B D"]:
        """Return embeddings × √d, plus positional encodings if these are added."""
        kind = self.config.positions
        if kind == "sinusoids":
            return super().embed(tokens, position)
        x = self.embedding(tokens) * self.config.d_model**0.5
        if kind == "learned":
            check_positions(position, self.config.n_positions)
            x = x + self.positions(position)
        return self.dropout(x)

    def max_target(self, n_source: int) -> int:
        """Return how many target tokens (with BOS) learned positions leave room for."""
        n = self.config.n_positions
        if self.config.positions == "learned":
            return n if n_source <= n else 0
        return super().max_target(n_source)

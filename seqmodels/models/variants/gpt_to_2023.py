"""GPT with parts that later models have in place of its own, or without one; a switch each.

    norm        x / rms(x) · g: no mean is subtracted (Zhang and Sennrich 2019, arXiv:1910.07467)
    positions   queries and keys are rotated by their positions, so that a score depends on the
                distance of two tokens alone (Su et al. 2021, arXiv:2104.09864); or scores fall
                with it (alibi: Press et al. 2022, arXiv:2108.12409); or there are none, and the
                causal mask alone tells order (Haviv et al. 2022, arXiv:2203.16634)
    ff          (silu(x W) ∘ x V) W_2: one projection gates the other (Shazeer 2020,
                arXiv:2002.05202); two thirds as wide, so that it has as many parameters
    n_kv_heads  H / G heads of queries share the keys and values of one, which alone are cached
                (Ainslie et al. 2023, arXiv:2305.13245)
    is_prefix   the source is read in both directions (Raffel et al. 2020, arXiv:1910.10683, 3.2.1)

RMSNorm, rotary positions, SwiGLU and grouped queries are the block of Llama 2 (Touvron et al. 2023,
arXiv:2307.09288). It has no biases and an output matrix of its own; here, attention keeps GPT's
biases, and the output is tied. With all switches off, this is `gpt.py` to the bit. `without` leaves
out one of these:

    scale           scores are q·k, not q·k / √d_k
    residual        a sublayer replaces its argument: Sublayer(LayerNorm(x))
    feed_forward    attention alone
    norm            x + Sublayer(x), nowhere normalised
    prenorm         LayerNorm(x + Sublayer(x)), as in the Transformer and in GPT of 2018
    shrinking       matrices that write to the residual stream start as large as the others, not
                    smaller by √(2L)
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from seqmodels.interface import Positive, Size
from seqmodels.models import gpt
from seqmodels.models.cache import KVCache
from seqmodels.models.gpt import GPT, Layer, MultiHeadAttention, State
from seqmodels.models.variants.positions import check_even, distance_biases, rotate


@dataclass(frozen=True, kw_only=True)
class Config(gpt.Config):
    """Sizes of GPT, and which of its parts are those of 2023."""

    norm: Literal["layer", "rms"] = "layer"
    """What normalises before each sublayer and at the end."""
    positions: Literal["learned", "rotary", "alibi", "none"] = "learned"
    """How tokens in different places are told apart."""
    ff: Literal["gelu", "swiglu"] = "gelu"
    """What is between the two matrices of a feed-forward layer."""
    n_kv_heads: Size | None = None
    """Heads of keys and values, which divide n_heads; None: as many."""
    rotary_base: Positive = 10_000.0
    """Rotary wavelengths grow from 2π towards 2π times this."""
    is_prefix: bool = False
    """Whether each token of the source sees all of it, not only those before."""
    without: Literal["scale", "residual", "feed_forward", "norm", "prenorm", "shrinking"] | None = (
        None
    )
    """The part that is left out."""


class BiasedAttention(MultiHeadAttention):
    """Attention whose mask may hold numbers that are added to the scores."""

    def attention_weights(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Return each query's weights over the keys."""
        if mask.dtype == torch.bool:
            return super().attention_weights(q, k, v, mask)
        return (q @ k.mT / q.shape[-1] ** 0.5 + mask).softmax(-1)


class GroupedAttention(BiasedAttention):
    """Attention with fewer heads of keys and values than of queries."""

    def __init__(self, cfg: Config, n_kv_heads: int):
        super().__init__(cfg)
        if cfg.n_heads % n_kv_heads:
            raise ValueError(
                f"n_kv_heads {n_kv_heads} does not divide n_heads {cfg.n_heads}; choose a number "
                "that does, or None"
            )
        self.n_each = cfg.n_heads, n_kv_heads, n_kv_heads
        self.to_heads = nn.Unflatten(-1, (sum(self.n_each), cfg.d_model // cfg.n_heads))
        self.W_qkv = nn.Linear(cfg.d_model, cfg.d_model * sum(self.n_each) // cfg.n_heads)

    def qkv(self, x: Float[Tensor, "B N D"]) -> tuple[Tensor, ...]:  # type: ignore[override]
        """Return the queries (B,H,N,K), the keys and the values (B,G,N,K)."""
        return self.to_heads(self.W_qkv(x)).transpose(1, 2).split(self.n_each, 1)


class Gate(nn.Module):
    """SwiGLU between its matrices: silu(x W) ∘ x V."""

    def forward(self, x: Float[Tensor, "B N F2"]) -> Float[Tensor, "B N F"]:
        """Return the second half, gated by the first."""
        gate, value = x.chunk(2, -1)
        return F.silu(gate) * value


class Layer2023(Layer):
    """GPT's layer with the parts that its Config names."""

    def __init__(self, cfg: Config, index: int):
        super().__init__(cfg, index)
        D, d_ff = cfg.d_model, 8 * cfg.d_model // 3
        self.base = cfg.rotary_base if cfg.positions == "rotary" else None
        self.without, self.is_biased = cfg.without, cfg.positions == "alibi"
        if cfg.norm == "rms":
            self.add_module("norm_1", nn.RMSNorm(D, eps=1e-5))
            self.add_module("norm_2", nn.RMSNorm(D, eps=1e-5))
        if cfg.ff == "swiglu":
            inner, outer = nn.Linear(D, 2 * d_ff, bias=False), nn.Linear(d_ff, D, bias=False)
            self.ff = nn.Sequential(inner, Gate(), outer)
        if cfg.n_kv_heads:
            self.self_attention = GroupedAttention(cfg, cfg.n_kv_heads)
        elif self.is_biased:
            self.self_attention = BiasedAttention(cfg)
        if cfg.without == "norm":
            self.add_module("norm_1", nn.Identity())
            self.add_module("norm_2", nn.Identity())
        if cfg.without == "feed_forward":
            del self.ff, self.norm_2

    def attend(self, x: Tensor, mask: Tensor, cache: KVCache) -> Float[Tensor, "B N D"]:
        """Do as GPT's layer does; the cache has rotated keys, and those of a group once."""
        q, k, v = self.self_attention.qkv(x if self.without == "prenorm" else self.norm_1(x))
        if self.without == "scale":
            q = q * q.shape[-1] ** 0.5
        if self.base:
            position = mask.sum(-1) - 1  # all that a token sees, without itself
            q, k = rotate(q, position, self.base), rotate(k, position, self.base)
        k, v = cache.update(self.index, k, v)
        if self.is_biased:
            mask = distance_biases(mask, q.shape[1]).to(q)
        if (n_sharing := q.shape[1] // k.shape[1]) > 1:
            k, v = k.repeat_interleave(n_sharing, 1), v.repeat_interleave(n_sharing, 1)
        return self.merge(x, self.self_attention(q, k, v, mask), self.norm_1)

    def feed_forward(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        """Do as GPT's layer does."""
        if self.without == "feed_forward":
            return x
        y = self.ff(x if self.without == "prenorm" else self.norm_2(x))
        return self.merge(x, y, self.norm_2)

    def merge(self, x: Tensor, y: Tensor, norm: nn.Module) -> Float[Tensor, "B _ D"]:
        """Return x + Dropout(y) for a sublayer's output y, or what is left of it."""
        x = self.dropout(y) if self.without == "residual" else x + self.dropout(y)
        return norm(x) if self.without == "prenorm" else x


class GPTTo2023(GPT):
    """GPT with the parts that its Config names."""

    config_type = Config

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        if cfg.positions == "rotary":
            check_even(cfg.d_model // cfg.n_heads)
        if cfg.positions in ("rotary", "alibi") and cfg.is_prefix:
            raise ValueError(
                f"positions {cfg.positions!r} count the tokens that each one sees; with is_prefix, "
                "choose learned ones or none"
            )
        if cfg.positions != "learned":
            del self.positions
        self.decoder = nn.ModuleList(Layer2023(cfg, i) for i in range(cfg.n_layers))
        self.cross_attentions = [layer.self_attention for layer in self.decoder]
        if cfg.norm == "rms":
            self.add_module("norm", nn.RMSNorm(cfg.d_model, eps=1e-5))
        if cfg.without in ("norm", "prenorm"):  # post-norm, the last sum is normalised already
            self.add_module("norm", nn.Identity())
        gpt.init(self)
        if cfg.without == "shrinking":
            for name, p in self.named_parameters():
                if name.endswith(("W_o.weight", "ff.2.weight")):
                    p.data *= (2 * cfg.n_layers) ** 0.5

    def max_target(self, n_source: int) -> int:
        """Return how many target tokens learned positions leave room for."""
        is_learned = self.config.positions == "learned"
        return super().max_target(n_source) if is_learned else sys.maxsize

    def embed(self, tokens: Int[Tensor, "*B"], position: Tensor, n: int) -> Float[Tensor, "*B D"]:
        """Return embeddings of tokens, and of learned positions."""
        if self.config.positions == "learned":
            return super().embed(tokens, position, n)
        return self.dropout(self.embedding(tokens))

    def read(self, text: Int[Tensor, "B N"], real: Tensor, cache: KVCache, n_out: int) -> Tensor:
        """Read a text in one pass, as GPT does; the source, before the last n_out, both ways."""
        if not self.config.is_prefix:
            return super().read(text, real, cache, n_out)
        i = torch.arange(text.shape[1], device=text.device)
        seen = (i <= i.unsqueeze(1)) | (i < text.shape[1] - n_out)
        x = self.embed(text, (real.cumsum(1) - 1).clamp(min=0), text.shape[1])
        return self.decode(x, seen & cache.mask, cache, n_out)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source as the beginning of the text."""
        if not self.config.is_prefix:
            return super().encode(src, src_mask)
        cache = KVCache(src_mask)
        self.read(src, src_mask, cache, 0)  # no token of the text is a target
        return State(cache)

    def text_logits(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B S+T V"]:
        """Return all logits; raise ValueError if the source's tokens see what follows them."""
        if self.config.is_prefix:
            raise ValueError("is_prefix: the source is not predicted; choose source_loss 0")
        return super().text_logits(src, src_mask, tgt_in)

"""Transformer: attention only; the loop over time disappears.

Paper
    A. Vaswani, N. Shazeer, N. Parmar, J. Uszkoreit, L. Jones, A. N. Gomez, Ł. Kaiser,
    I. Polosukhin: Attention Is All You Need. NIPS 2017, arXiv:1706.03762v7 (eqs., sections).

Before
    Attention sat on top of recurrence, where each state waits for the one before it.

Idea
    Every position looks at every other, in several heads and layers; sinusoids tell them apart.

Symbols
    paper       code      shape        meaning
    Q, K, V     q, k, v   (B,H,N,K)    queries, keys, values of H heads
    d_k, d_v    d_k, d_v  K            width of a head's queries and keys, and of its values
    N           n_layers  L            layers a side
    PE          pe        (N,D)        positional encoding

Differs
    1. `is_prenorm` (off) normalises before sublayers and after each stack, as most later code.
    2. Dropout also acts on attention weights, as in the authors' code (5.4 names two places).
    3. AdamW with linear decay (paper: Adam, inverse square root); label smoothing where a task asks
       for it (paper: 0.1); the best weights, not the mean of the last 5 or 20 checkpoints (6.1).

Cost
    Time O((S+T) D² + (S+T)² D), memory O(L S D); O(1) sequential steps to train, T to write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import SequenceModel, fused_attention, head_width, put, reserve, see_own

# ------------------------------------------------------------------------------------- Config


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes; the defaults are the paper's base model."""

    vocab_size: int
    """Tokens in the shared vocabulary (section 5.1: about 37,000)."""
    d_model: int = 512
    """Width."""
    d_ff: int = 2048
    """Inner width of the feed-forward layers."""
    n_heads: int = 8
    """Heads; d_model is a multiple of it unless d_k and d_v are given."""
    n_layers: int = 6
    """Layers on each side."""
    d_k: int | None = None
    """Width of one head's queries and keys; None: d_model / n_heads."""
    d_v: int | None = None
    """Width of one head's values; None: d_model / n_heads."""
    is_prenorm: bool = False
    """Normalise before each sublayer instead of after it."""
    dropout: float = 0.1
    """Share of units dropped in training (table 3: P_drop)."""


BASE = Config(vocab_size=37_000)
BIG = Config(vocab_size=37_000, d_model=1024, d_ff=4096, n_heads=16, dropout=0.3)

# -------------------------------------------------------------------------------------- State


class State(NamedTuple):
    """Keys and values, side by side, of every layer: the source's stay, the target's grow."""

    src: Float[Tensor, "B H L S KV"]
    src_mask: Bool[Tensor, "B S"]
    tgt: Float[Tensor, "B H L N KV"]
    seen: Bool[Tensor, "R N"]  # which places of tgt hold a beam's own text
    alpha: Float[Tensor, "R S"]  # last layer's weights over the source, mean of its heads


# -------------------------------------------------------------------------------------- Parts


class MultiHeadAttention(nn.Module):
    """3.2.2: H attentions side by side, each in its own projection."""

    def __init__(self, cfg: Config):
        super().__init__()
        d_k, d_v = (d or head_width(cfg.d_model, cfg.n_heads) for d in (cfg.d_k, cfg.d_v))
        self.split, self.widths = nn.Unflatten(-1, (cfg.n_heads, -1)), (d_k, d_v)
        self.W_q = nn.Linear(cfg.d_model, cfg.n_heads * d_k, bias=False)
        self.W_k = nn.Linear(cfg.d_model, cfg.n_heads * d_k, bias=False)
        self.W_v = nn.Linear(cfg.d_model, cfg.n_heads * d_v, bias=False)
        self.W_o = nn.Linear(cfg.n_heads * d_v, cfg.d_model, bias=False)
        self.dropout = nn.Dropout(cfg.dropout)

    def memory(self, x: Float[Tensor, "B N D"]) -> tuple[Tensor, Tensor]:
        """Return what can be looked at: all heads' keys and values."""
        return self.split(self.W_k(x)).transpose(1, 2), self.split(self.W_v(x)).transpose(1, 2)

    def forward(
        self, x: Float[Tensor, "B N D"], memory: Sequence[Tensor], mask: Bool[Tensor, "... M"]
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B H N M"]]:
        """Return the new x and the weights; mask is True where looking is allowed."""
        q, (k, v) = self.split(self.W_q(x)).transpose(1, 2), memory
        score = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        alpha = score.masked_fill(~mask, -torch.inf).softmax(-1)  #                          (1)
        heads = self.dropout(alpha) @ v
        return self.W_o(heads.transpose(1, 2).flatten(2)), alpha  #                        3.2.2

    def fused(self, x: Tensor, memory: Sequence[Tensor], mask: Tensor) -> Float[Tensor, "B N D"]:
        """Return the new x alone: (1) in one call, which does not keep the weights."""
        q, (k, v) = self.split(self.W_q(x)).transpose(1, 2), memory
        heads = fused_attention(q, k, v, mask, self.dropout.p * self.training)
        return self.W_o(heads.transpose(1, 2).flatten(2))


class Residual(nn.Module):
    """5.4 and 3.1: LayerNorm(x + Dropout(Sublayer(x)))."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(cfg.d_model), nn.Dropout(cfg.dropout)
        self.is_prenorm = cfg.is_prenorm

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Add to x what the sublayer makes of it."""
        if self.is_prenorm:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderLayer(nn.Module):
    """3.1: self-attention, then feed-forward."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.self_attention, self.self_residual = MultiHeadAttention(cfg), Residual(cfg)
        inner, outer = nn.Linear(cfg.d_model, cfg.d_ff), nn.Linear(cfg.d_ff, cfg.d_model)
        self.ff, self.ff_residual = nn.Sequential(inner, nn.ReLU(), outer), Residual(cfg)  #  (2)

    def forward(self, x: Float[Tensor, "B S D"], src_mask: Bool[Tensor, "B S"]) -> Tensor:
        """Let every word look at every word."""
        look, mask = self.self_attention, src_mask[:, None, None]
        x = self.self_residual(x, lambda z: look.fused(z, look.memory(z), mask))
        return self.ff_residual(x, self.ff)


class DecoderLayer(EncoderLayer):
    """3.1: self-attention to what is written, attention to the source, then feed-forward."""

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.src_attention, self.src_residual = MultiHeadAttention(cfg), Residual(cfg)

    def forward(self, x: Tensor, back: Callable, over: Callable) -> Tensor:  # type: ignore
        """Look back at the target and over at the source, as the caller lets these attentions."""
        x = self.self_residual(x, partial(back, self.self_attention))
        x = self.src_residual(x, partial(over, self.src_attention))
        return self.ff_residual(x, self.ff)


def sinusoids(start: int, end: int, d_model: int) -> Float[Tensor, "N D"]:
    """Return the positional encoding of positions start … end - 1 (section 3.5)."""
    angle = torch.arange(start, end).unsqueeze(1) * 1e4 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :d_model]  #   sin 2i, cos 2i+1


# -------------------------------------------------------------------------------------- Model


class Transformer(SequenceModel):
    """Vaswani et al. 2017: two stacks of attention, joined by attention."""

    config_type = Config
    year = 2017
    paper = "Vaswani et al., arXiv:1706.03762"
    of_source = ("src", "src_mask", "tgt")

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.embedding = nn.Embedding(cfg.vocab_size, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(cfg) for _ in range(cfg.n_layers))
        self.decoder = nn.ModuleList(DecoderLayer(cfg) for _ in range(cfg.n_layers))
        last_norm = nn.LayerNorm if cfg.is_prenorm else nn.Identity
        self.norm_src, self.norm_tgt = last_norm(cfg.d_model), last_norm(cfg.d_model)
        init(self)

    def embed(self, tokens: Int[Tensor, "B N"], pe: Tensor | None = None) -> Tensor:
        """Return embeddings × √d plus positional encodings; if none are given, from 0 on."""
        x = self.embedding(tokens) * self.config.d_model**0.5  #                                3.4
        pe = sinusoids(0, x.shape[1], x.shape[2]).to(x) if pe is None else pe
        return self.dropout(x + pe)  #                                                          3.5

    def memories(self, src: Tensor, src_mask: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Read the source in one pass; return keys and values of it for each decoder layer."""
        x = self.embed(src)
        for layer in self.encoder:
            x = layer(x, src_mask)
        x = self.norm_src(x)
        return [layer.src_attention.memory(x) for layer in self.decoder]  # type: ignore

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source; nothing is written yet."""
        memory = torch.stack([torch.cat(k_v, -1) for k_v in self.memories(src, src_mask)], 2)
        return State(memory, src_mask, memory[..., :0, :], src_mask[:, :0], src_mask.to(memory) * 0)

    def step(self, y: Int[Tensor, " R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Write one token; the beams of a source stand side by side, like words."""
        src, src_mask, tgt, seen, alpha = state
        pe = sinusoids(0, seen.shape[1] + 1, self.config.d_model).to(src)[seen.sum(1)]
        x = self.embed(*(t.unflatten(0, (len(src), -1)) for t in (y, pe)))
        tgt, seen = reserve(tgt, x.shape[1]), see_own(seen, x.shape[1])
        own, real = seen.unflatten(0, (len(src), 1, -1)), src_mask[:, None, None]

        def back(attention: MultiHeadAttention, z: Tensor) -> Tensor:
            nonlocal tgt
            tgt = put(tgt, i, torch.cat(attention.memory(z), -1))
            return attention.fused(z, tgt[:, :, i].split(attention.widths, -1), own)

        def over(attention: MultiHeadAttention, z: Tensor) -> Tensor:
            nonlocal alpha
            out, alpha = attention(z, src[:, :, i].split(attention.widths, -1), real)
            return out

        for i, layer in enumerate(self.decoder):  # noqa: B007
            x = layer(x, back, over)
        state = State(src, src_mask, tgt, seen, alpha.mean(1).flatten(0, 1))
        return self.norm_tgt(x).flatten(0, 1) @ self.embedding.weight.T, state

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Write all tokens in one masked pass: no loop over time."""
        x, real = self.embed(tgt_in), src_mask[:, None, None]
        causal = torch.ones_like(tgt_in[0]).bool().expand(tgt_in.shape[1], -1).tril()  #   3.2.3
        for layer, memory in zip(self.decoder, self.memories(src, src_mask), strict=True):
            over = partial(MultiHeadAttention.fused, memory=memory, mask=real)
            x = layer(x, lambda look, z: look.fused(z, look.memory(z), causal), over)
        return self.norm_tgt(x) @ self.embedding.weight.T  #                   tied weights, 3.4


# --------------------------------------------------------------------------------------- Init


def init(model: SequenceModel) -> None:
    """Draw matrices from Glorot's uniform distribution, embeddings from N(0, 1/D)."""
    for name, p in model.named_parameters():
        if name == "embedding.weight":
            nn.init.normal_(p, std=p.shape[1] ** -0.5)
        elif p.dim() == 2:
            nn.init.xavier_uniform_(p)
        elif name.endswith("bias"):
            nn.init.zeros_(p)

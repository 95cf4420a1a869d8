"""Transformer: attention only; the loop over time disappears.

Paper
    A. Vaswani, N. Shazeer, N. Parmar, J. Uszkoreit, L. Jones, A. N. Gomez, Ł. Kaiser,
    I. Polosukhin: Attention Is All You Need. NIPS 2017, arXiv:1706.03762v7 (eqs., sections).

Before
    Attention sat on top of recurrence, where each state waits for the one before it.

Idea
    Every position looks at every other one directly, several times over (heads, layers); added
    sinusoids tell positions apart. Training is one masked pass.

Symbols
    paper       code      shape        meaning
    Q, K, V     q, k, v   (B,H,N,K)    queries, keys, values of H heads
    d_k, d_v    d_k, d_v  K            width of a head's queries and keys, and of its values
    N           n_layers  L            layers a side
    PE          pe        (N,D)        positional encoding

Differs
    1. `is_prenorm` (off) normalises before sublayers and after each stack, as most later code.
    2. Dropout also acts on attention weights, as in the authors' code (5.4 names two places).
    3. AdamW with linear decay (paper: Adam with inverse square root decay).

Cost
    Time O((S+T) D² + (S+T)² D), memory O(L S D); O(1) sequential steps to train, T to write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import SequenceModel, head_width

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
    """Keys and values of every layer: the source's stay, the target's grow."""

    src_k: Float[Tensor, "B L H S K"]
    src_v: Float[Tensor, "B L H S Kv"]
    src_mask: Bool[Tensor, "B S"]
    tgt_k: Float[Tensor, "B L H T K"]
    tgt_v: Float[Tensor, "B L H T Kv"]
    alpha: Float[Tensor, "B S"]
    """Last layer's weights over the source, mean of its heads."""


# -------------------------------------------------------------------------------------- Parts


class MultiHeadAttention(nn.Module):
    """3.2.2: H attentions side by side, each in its own projection."""

    def __init__(self, cfg: Config):
        super().__init__()
        d_k = cfg.d_k or head_width(cfg.d_model, cfg.n_heads)
        d_v = cfg.d_v or head_width(cfg.d_model, cfg.n_heads)
        self.split = nn.Unflatten(-1, (cfg.n_heads, -1))
        self.W_q = nn.Linear(cfg.d_model, cfg.n_heads * d_k, bias=False)
        self.W_k = nn.Linear(cfg.d_model, cfg.n_heads * d_k, bias=False)
        self.W_v = nn.Linear(cfg.d_model, cfg.n_heads * d_v, bias=False)
        self.W_o = nn.Linear(cfg.n_heads * d_v, cfg.d_model, bias=False)
        self.dropout = nn.Dropout(cfg.dropout)

    def memory(self, x: Float[Tensor, "B N D"]) -> tuple[Tensor, Tensor]:
        """Return what can be looked at: all heads' keys and values."""
        return self.split(self.W_k(x)).transpose(1, 2), self.split(self.W_v(x)).transpose(1, 2)

    def forward(
        self, x: Float[Tensor, "B N D"], memory: tuple[Tensor, Tensor], mask: Bool[Tensor, "... M"]
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B H N M"]]:
        """Return the new x and the weights; mask is True where looking is allowed."""
        q, (k, v) = self.split(self.W_q(x)).transpose(1, 2), memory
        score = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        alpha = score.masked_fill(~mask, -torch.inf).softmax(-1)  #                          (1)
        heads = self.dropout(alpha) @ v
        return self.W_o(heads.transpose(1, 2).flatten(2)), alpha  #                        3.2.2


def feed_forward(cfg: Config) -> nn.Sequential:
    """Return the same two layers at every position, eq. (2)."""
    inner, outer = nn.Linear(cfg.d_model, cfg.d_ff), nn.Linear(cfg.d_ff, cfg.d_model)
    return nn.Sequential(inner, nn.ReLU(), outer)


class Residual(nn.Module):
    """5.4 and 3.1: LayerNorm(x + Dropout(sublayer(x)))."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.norm = nn.LayerNorm(cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)
        self.is_prenorm = cfg.is_prenorm

    def before(self, x: Tensor) -> Tensor:
        """Return the sublayer's input."""
        return self.norm(x) if self.is_prenorm else x

    def after(self, x: Tensor, out: Tensor) -> Tensor:
        """Return the sum of x and the sublayer's output."""
        x = x + self.dropout(out)
        return x if self.is_prenorm else self.norm(x)


class EncoderLayer(nn.Module):
    """3.1: self-attention, then feed-forward."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.self_attention, self.self_residual = MultiHeadAttention(cfg), Residual(cfg)
        self.ff, self.ff_residual = feed_forward(cfg), Residual(cfg)

    def forward(self, x: Float[Tensor, "B S D"], src_mask: Bool[Tensor, "B S"]) -> Tensor:
        """Let every word look at every word."""
        z = self.self_residual.before(x)
        out, _ = self.self_attention(z, self.self_attention.memory(z), src_mask[:, None, None])
        x = self.self_residual.after(x, out)
        return self.ff_residual.after(x, self.ff(self.ff_residual.before(x)))


class DecoderLayer(EncoderLayer):
    """3.1: self-attention to what is written, attention to the source, then feed-forward."""

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.src_attention, self.src_residual = MultiHeadAttention(cfg), Residual(cfg)

    def forward(  # type: ignore[override]
        self, x: Float[Tensor, "B N D"], state: State, layer: int
    ) -> tuple[Float[Tensor, "B N D"], tuple[Tensor, Tensor], Float[Tensor, "B S"]]:
        """Return x, the target's keys and values so far, and the last word's source weights."""
        z = self.self_residual.before(x)
        past, new = (state.tgt_k[:, layer], state.tgt_v[:, layer]), self.self_attention.memory(z)
        k, v = (torch.cat(pair, 2) for pair in zip(past, new, strict=True))
        n, m = x.shape[1], k.shape[2]
        causal = torch.ones(n, m, dtype=torch.bool, device=x.device).tril(m - n)  #        3.2.3
        out, _ = self.self_attention(z, (k, v), causal)
        x = self.self_residual.after(x, out)
        z, src = self.src_residual.before(x), (state.src_k[:, layer], state.src_v[:, layer])
        out, alpha = self.src_attention(z, src, state.src_mask[:, None, None])
        x = self.src_residual.after(x, out)
        x = self.ff_residual.after(x, self.ff(self.ff_residual.before(x)))
        return x, (k, v), alpha[:, :, -1].mean(1)


def sinusoids(start: int, end: int, d_model: int) -> Float[Tensor, "N D"]:
    """Return the positional encoding of positions start … end - 1 (section 3.5)."""
    rate = 10_000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    angle = torch.arange(start, end).unsqueeze(1) * rate
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :d_model]  #   sin 2i, cos 2i+1


# -------------------------------------------------------------------------------------- Model


class Transformer(SequenceModel):
    """Vaswani et al. 2017: two stacks of attention, joined by attention."""

    config_type = Config
    year = 2017
    paper = "Vaswani et al., arXiv:1706.03762"

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.embedding = nn.Embedding(cfg.vocab_size, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(cfg) for _ in range(cfg.n_layers))
        self.decoder = nn.ModuleList(DecoderLayer(cfg) for _ in range(cfg.n_layers))
        last_norm = nn.LayerNorm if cfg.is_prenorm else nn.Identity
        self.norm_src, self.norm_tgt = last_norm(cfg.d_model), last_norm(cfg.d_model)
        init(self)

    def embed(self, tokens: Int[Tensor, "B N"], start: int = 0) -> Float[Tensor, "B N D"]:
        """Return embeddings × √d plus positions, which begin at `start`."""
        x = self.embedding(tokens) * self.config.d_model**0.5  #                                3.4
        return self.dropout(x + sinusoids(start, start + x.shape[1], x.shape[2]).to(x))  #    3.5

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source in one pass; keep each layer's keys and values of it."""
        x = self.embed(src)
        for layer in self.encoder:
            x = layer(x, src_mask)
        x = self.norm_src(x)
        memory = [layer.src_attention.memory(x) for layer in self.decoder]  # type: ignore
        src_k, src_v = (torch.stack(tensors, 1) for tensors in zip(*memory, strict=True))
        nothing = src_k[:, :, :, :0], src_v[:, :, :, :0]
        return State(src_k, src_v, src_mask, *nothing, torch.zeros_like(src_mask, dtype=x.dtype))

    def write(self, tgt: Int[Tensor, "B N"], state: State) -> tuple[Tensor, State]:
        """Pass target tokens through the decoder, after those that the State holds."""
        x, memory = self.embed(tgt, start=state.tgt_k.shape[3]), []
        for i, layer in enumerate(self.decoder):
            x, k_v, alpha = layer(x, state, i)
            memory.append(k_v)
        tgt_k, tgt_v = (torch.stack(tensors, 1) for tensors in zip(*memory, strict=True))
        logits = self.norm_tgt(x) @ self.embedding.weight.T  #                     tied weights, 3.4
        return logits, state._replace(tgt_k=tgt_k, tgt_v=tgt_v, alpha=alpha)

    def step(self, y: Int[Tensor, " B"], state: State) -> tuple[Float[Tensor, "B V"], State]:
        """Write one token."""
        logits, state = self.write(y.unsqueeze(1), state)
        return logits.squeeze(1), state

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Write all tokens in one masked pass: no loop over time."""
        return self.write(tgt_in, self.encode(src, src_mask))[0]


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

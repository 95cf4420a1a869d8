"""Transformer: attention only; the loop over time disappears.

Paper
    A. Vaswani, N. Shazeer, N. Parmar, J. Uszkoreit, L. Jones, A. N. Gomez, Ł. Kaiser,
    I. Polosukhin: Attention Is All You Need. NIPS 2017, arXiv:1706.03762v7 (eqs., sections).

Before
    Attention mostly sat on top of recurrence, where each state waits for the one before it. ByteNet
    (arXiv:1610.10099) and ConvS2S (arXiv:1705.03122) trained all positions at once by convolutions,
    through which distant words meet only after several layers (section 2).

Idea
    Every position attends to every other in one step, by softmax(Q Kᵀ / √d_k) V: a mean of all
    values, in which those whose keys match the query weigh more; √d_k keeps the softmax of wide
    heads from saturating. Several heads look for different things; a feed-forward network works on
    each position by itself. No position waits for another, so all target words are trained at once,
    behind a mask that hides later ones. Attention sees a set: sinusoids tell the positions apart.

        time      1     2          S                1     2           T       all at once
        read     x_1   x_2   …    x_S              BOS   y_1   …   y_{T-1}    + sinusoids
                  ↓     ↓          ↓                ↓     ↓           ↓
        layers    o  ⇄  o  ⇄ … ⇄   o  ───────────→  o  →  o  → … →    o       →: each o is read
                                                    ↓     ↓           ↓       by all that follow
        write                                      y_1   y_2   …     y_T      L a side, D wide

Symbols
    paper       code      shape        meaning
    Q, K, V     q, k, v   (B,H,N,K)    queries, keys, values of H heads; (B,H,N,Kv) for values
    PE          sinusoids (N,D)        positional encoding

Differs
    1. `is_prenorm` (off) normalises before sublayers and after each stack, as most later code does.
    2. Dropout also acts on attention weights, as in later settings of tensor2tensor (not in 5.4).
    3. AdamW or Muon with linear decay (paper: Adam, inverse square root); label smoothing where a
       task asks for it (paper: 0.1); the best weights, not the mean of the last 5 or 20 (6.1).
    4. The paper does not say how weights start: here Glorot's, and N(0, 1/D) for embeddings.

Cost
    Time O(L ((S+T) D² + (S+T)² D)), and O(S D) numbers from source to target; the keys and
    values kept in writing are O(L (S+T) D). O(1) sequential steps to train, T to write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import SequenceModel, Share, Size
from seqmodels.models.cache import KVCache, fusible, head_width

# ------------------------------------------------------------------------------------- Config


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes; the defaults are the paper's base model."""

    vocab_size: Size
    """Tokens in the shared vocabulary (section 5.1: about 37,000)."""
    d_model: Size = 512
    """Width."""
    d_ff: Size = 2048
    """Inner width of the feed-forward layers."""
    n_heads: Size = 8
    """Heads; d_model is a multiple of it unless d_k and d_v are given."""
    n_layers: Size = 6
    """Layers on each side (N; in shapes, N is the length of a text)."""
    d_k: Size | None = None
    """Width of one head's queries and keys; None: d_model / n_heads."""
    d_v: Size | None = None
    """Width of one head's values; None: d_model / n_heads."""
    is_prenorm: bool = False
    """Normalise before each sublayer instead of after it."""
    dropout: Share = 0.1
    """Dropout probability (table 3: P_drop)."""


BASE = Config(vocab_size=37_000)

# -------------------------------------------------------------------------------------- State


class State(NamedTuple):
    """Keys and values of every decoder layer: all tokens so far; a mask shows each beam its own."""

    memory: KVCache  # the source's; memory[i]: k, v of layer i; memory.mask (B,1,1,S): its words
    tgt: KVCache  # the target's, of J beams; tgt.mask (B,1,J,N) and .lengths: a beam's own


# -------------------------------------------------------------------------------------- Parts


class MultiHeadAttention(nn.Module):
    """3.2.2: H attention heads in parallel, each with its own projections."""

    def __init__(self, cfg: Config):
        super().__init__()
        d_k, d_v = (d or head_width(cfg.d_model, cfg.n_heads) for d in (cfg.d_k, cfg.d_v))
        self.n_heads = cfg.n_heads
        self.W_q = nn.Linear(cfg.d_model, cfg.n_heads * d_k, bias=False)
        self.W_k = nn.Linear(cfg.d_model, cfg.n_heads * d_k, bias=False)
        self.W_v = nn.Linear(cfg.d_model, cfg.n_heads * d_v, bias=False)
        self.W_o = nn.Linear(cfg.n_heads * d_v, cfg.d_model, bias=False)
        self.dropout = nn.Dropout(cfg.dropout)

    def split_heads(self, x: Float[Tensor, "B N _"]) -> Float[Tensor, "B H N _"]:
        """Cut vectors into one part for each head."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def keys_values(self, x: Float[Tensor, "B N D"]) -> tuple[Tensor, Tensor]:
        """Return the keys and values of all heads, (B,H,N,K) and (B,H,N,Kv)."""
        return self.split_heads(self.W_k(x)), self.split_heads(self.W_v(x))

    def attend(self, x: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Float[Tensor, "B N D"]:
        """Attend from x to these keys and values, where the mask is True."""
        return self(self.split_heads(self.W_q(x)), k, v, mask)

    def attention_weights(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Return the weights (B,H,N,M), 0 where the mask is False; takes what `forward` takes."""
        score = q @ k.mT / q.shape[-1] ** 0.5
        return score.masked_fill(~mask, -torch.inf).softmax(-1)  #                           (1)

    @fusible  # a mark: on GPUs, `fuse` puts one kernel in its place
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Float[Tensor, "B N D"]:
        """Return softmax(Q Kᵀ / √d_k) V of all heads, merged with W_o."""
        heads = self.dropout(self.attention_weights(q, k, v, mask)) @ v  #                   (1)
        return self.W_o(heads.transpose(1, 2).flatten(2))  #                               3.2.2


class Residual(nn.Module):
    """3.1 and 5.4: the sum and the normalisation around each sublayer."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(cfg.d_model), nn.Dropout(cfg.dropout)
        self.is_prenorm = cfg.is_prenorm

    def forward(self, x: Tensor, sublayer: Callable[..., Tensor], *args: Any) -> Tensor:
        """Return LayerNorm(x + Dropout(Sublayer(x, …))), or its pre-norm variant."""
        if self.is_prenorm:
            return x + self.dropout(sublayer(self.norm(x), *args))
        return self.norm(x + self.dropout(sublayer(x, *args)))  #                           3.1


class Layer(nn.Module):
    """3.1: self-attention, in the decoder also attention to the source, then feed-forward."""

    def __init__(self, cfg: Config, index: int, is_decoder: bool):
        super().__init__()
        self.index = index
        self.self_attention, self.self_residual = MultiHeadAttention(cfg), Residual(cfg)
        inner, outer = nn.Linear(cfg.d_model, cfg.d_ff), nn.Linear(cfg.d_ff, cfg.d_model)
        self.ff, self.ff_residual = nn.Sequential(inner, nn.ReLU(), outer), Residual(cfg)  #  (2)
        if is_decoder:
            self.src_attention, self.src_residual = MultiHeadAttention(cfg), Residual(cfg)

    def forward(
        self, x: Tensor, mask: Tensor, cache: KVCache | None = None, memory: KVCache | None = None
    ) -> Float[Tensor, "B N D"]:
        """Attend to this text where the mask is True, then to a source's keys and values."""
        x = self.self_residual(x, self.attend_to_text, mask, cache)
        if memory is not None:
            x = self.src_residual(x, self.src_attention.attend, *memory[self.index], memory.mask)
        return self.ff_residual(x, self.ff)

    def attend_to_text(self, x: Tensor, mask: Tensor, cache: KVCache | None) -> Tensor:
        """Attend to the tokens of this text: those in the cache, then those of x."""
        k, v = self.self_attention.keys_values(x)
        if cache is not None:
            k, v = cache.update(self.index, k, v)
        return self.self_attention.attend(x, k, v, mask)


def sinusoids(position: Int[Tensor, "*N"], d_model: int) -> Float[Tensor, "*N D"]:
    """Return positional encodings (section 3.5); an odd d_model leaves out the last cosine."""
    two_i = torch.arange(0, d_model, 2, device=position.device)
    angle = position.unsqueeze(-1) * 1e4 ** (-two_i / d_model)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)[..., :d_model]


# -------------------------------------------------------------------------------------- Model


class Transformer(SequenceModel):
    """Vaswani et al. 2017: two stacks of attention, joined by attention."""

    config_type = Config
    beam_shared_fields = ("memory",)  # of tgt, each beam sees its own slots
    alignment_layers = slice(-1, None)  # `align` reads the last decoder layer

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.embedding = nn.Embedding(cfg.vocab_size, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)
        self.encoder = nn.ModuleList(Layer(cfg, i, is_decoder=False) for i in range(cfg.n_layers))
        self.decoder = nn.ModuleList(Layer(cfg, i, is_decoder=True) for i in range(cfg.n_layers))
        self.cross_attentions = [layer.src_attention for layer in self.decoder]
        last_norm = nn.LayerNorm if cfg.is_prenorm else nn.Identity
        self.norm_src, self.norm_tgt = last_norm(cfg.d_model), last_norm(cfg.d_model)
        init(self)

    def embed(self, tokens: Int[Tensor, "*B"], position: Tensor) -> Float[Tensor, "*B D"]:
        """Return embeddings × √d plus positional encodings."""
        x = self.embedding(tokens) * self.config.d_model**0.5  #                             3.4
        return self.dropout(x + sinusoids(position, self.config.d_model).to(x.dtype))  #     3.5

    def decode(self, x: Tensor, mask: Tensor, tgt: KVCache | None, memory: KVCache) -> Tensor:
        """Return logits of target tokens; mask: which tokens of the target each may attend to."""
        for layer in self.decoder:
            x = layer(x, mask, tgt, memory)
        return self.norm_tgt(x) @ self.embedding.weight.T  #                   tied weights, 3.4

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source in one pass; the target's cache starts empty."""
        x = self.embed(src, torch.arange(src.shape[1], device=src.device))
        for layer in self.encoder:
            x = layer(x, src_mask[:, None, None])  # (B,1,1,S): no word attends to a pad
        x, memory = self.norm_src(x), KVCache(src_mask)  # its mask first: S slots, empty yet
        for i, attention in enumerate(self.cross_attentions):
            memory.update(i, *attention.keys_values(x))
        return State(memory, KVCache.empty(src))

    def step(self, y: Int[Tensor, " R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Write one token in each of R rows: J beams of a source are J queries to its caches."""
        tgt = state.tgt.grow()  # N slots, J of them new, one a beam; the old State stays
        x = self.embed(y, state.tgt.lengths).unflatten(0, (tgt.n_sources, -1))  # (B,J,D)
        logits = self.decode(x, tgt.mask, tgt, state.memory)  # mask (B,1,J,N): a beam's own
        return logits.flatten(0, 1), State(state.memory, tgt)

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Compute all logits in one causal pass, no loop over time; pads are at the end, unseen."""
        position = torch.arange(tgt_in.shape[1], device=src.device)
        causal = position <= position.unsqueeze(1)  #                                      3.2.3
        x, memory = self.embed(tgt_in, position), self.encode(src, src_mask).memory
        return self.decode(x, causal, None, memory)  # the whole text at once needs no cache

    def source_floats(self, n: int) -> int:
        """Return how many numbers about a source of n tokens the paper gives its decoder."""
        return n * self.config.d_model


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

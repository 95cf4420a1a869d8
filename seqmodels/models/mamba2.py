"""Mamba-2: a memory of fixed size that chooses what to forget.

Paper
    T. Dao, A. Gu: Transformers are SSMs: Generalized Models and Efficient Algorithms Through
    Structured State Space Duality. ICML 2024, arXiv:2405.21060. Its ancestor: A. Gu, T. Dao:
    Mamba: Linear-Time Sequence Modeling with Selective State Spaces, arXiv:2312.00752 ("2023").

Before
    Linear attention keeps all that it has ever read in one sum. Recurrent networks forget, but
    each of their steps waits for the one before it. Linear ones can be trained in parallel, by a
    scan (Martin and Cundy, arXiv:1709.04057); S4 (arXiv:2111.00396) derives them from equations of
    continuous time.

Idea
    A memory h of F × K numbers a head that fades and is fed, h_t = a_t h_{t−1} + Δ_t B_t x_tᵀ, read
    as y_t = C_tᵀ h_t: a linear recurrence, whose Δ, B and C each token chooses (2023: selection).
    It comes from a state-space model, dh/dt = −A h + B xᵀ (the paper's A is −A): over a time Δ, h
    decays to exp(−Δ A) h, exactly, so that a = exp(−Δ A), and takes up about Δ B xᵀ (Euler's step).
    A is one number a head. A large Δ forgets and writes, a small one passes a token over. Here x_t
    and y_t are a head's value and output. A block is this alone, 2D wide, times a gate silu(W_z ·)
    of the block's input: it has neither a feed-forward layer (2023, 3.4) nor positions.
    Its gates do not see the state, so that it is linear, and linear recurrences have a parallel
    form: Y = (L ∘ C Bᵀ) Δ X, masked attention without a softmax (the duality), with the mask
    L_ti = a_{i+1} … a_t for i ≤ t, else 0.

        time      1         2                 S + T
        read     x_1       x_2        …        x          source, BOS, target
                  ↓ Δ B     ↓ Δ B              ↓ Δ B
        memory    h   a→    h   a→    …  a→    h          F × K numbers a head
                  ↓ C       ↓ C                ↓ C
        write     –         –         …        y          and skip · v is added, as in S4

Symbols
    paper       code       shape          meaning
    C, B        q, k       (B,1,N,F)      queries and keys (5.3), the same for all heads (7.2)
    X           v          (B,H,N,K)      values; K is 2D/H
    h           s          (R,L,H,F,K)    memory (elsewhere h is a vector)
    Δ           dt         (B,H,N,1)      step size: how much is written
    a           log_a      (B,H,N,1)      −Δ A: how much of the memory is kept, as its logarithm
    —           log_gamma  (B,H,C,1)      a_1 … a_t from the start of the chunk, as its logarithm
    L           fade       (B,H,C,C)      a_{i+1} … a_t: what of token i is left at token t
    code: D     skip       (H,1,1)        how much of the value passes the memory by
    —           window     (R,L,W,2D+2F)  last inputs of the convolution, W = d_conv − 1

Differs
    1. LayerNorm between blocks, tied embeddings, dropout and starting weights as in `gpt.py` (the
       authors' code, state-spaces/mamba: RMSNorm everywhere); no bias in the convolution.
    2. Chunks are read one after another (the paper: the insides of all at once, then the states).
    3. A starts at 1, and Δ at 0.001 … 0.1, spread over the heads: they forget half within 693 to 7
       tokens, ln 2 / (A Δ). The authors draw A from 1 … 16, and Δ log-uniformly: 0.6 to 259 tokens
       in 98 % of heads; so, two seeds had a slightly higher loss (`tasks/translation/README.md`).

Cost
    Time O(L (S+T) (D² + (C + F) D)) to train, L layers, C = CHUNK, in (S+T) / C sequential steps;
    writing takes T steps of O(L (D² + F D)), however long the text is, and memory O(L F D).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import NonNegative, SequenceModel, Share, Size
from seqmodels.models.cache import head_width
from seqmodels.models.memory import Layer, TextModel, convolve, in_float32, join, read_layers

# ------------------------------------------------------------------------------------- Config


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes; the defaults are those of the authors' model of 130 million parameters."""

    vocab_size: Size
    """Tokens in the vocabulary (50,277)."""
    d_model: Size = 768
    """Width; twice as much is a multiple of n_heads."""
    n_heads: Size = 24
    """Heads, whose values are 2 d_model / n_heads wide (authors: 64)."""
    n_layers: Size = 24
    """Blocks."""
    d_state: Size = 128
    """Numbers of the memory for each number of a value (F; the paper's N, 7.2)."""
    d_conv: Size = 4
    """Tokens that a query, key or value is made of, by a short convolution; 1: its own."""
    init_std: NonNegative = 0.02
    """Weights start at N(0, this²), as in GPT; the tasks' narrow models: larger."""
    dropout: Share = 0.0
    """Dropout probability."""


MAMBA2_130M = Config(vocab_size=50_277)
CHUNK = 64
"""Tokens that are read at once."""

# -------------------------------------------------------------------------------------- State


class State(NamedTuple):
    """The memory of every layer, whose size does not depend on the text."""

    s: Float[Tensor, "R L H F K"]  # letters of shapes: see `interface.py`
    window: Float[Tensor, "R L W _"]


# -------------------------------------------------------------------------------------- Parts


def read_token(q: Tensor, k: Tensor, v: Tensor, log_a: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """Write and read one token, as the paper's recurrence; also return the memory."""
    # q, k (B,1,1,F); v, times Δ already, (B,H,1,K); log_a (B,H,1,1); s (B,H,F,K)
    s = log_a.exp() * s + k.mT @ v  #                                                     2.1
    return q @ s, s


@in_float32  # a product in bfloat16 would round its `fade` of 0.999 to 1
def read_chunks(q: Tensor, k: Tensor, v: Tensor, log_a: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """Write and read N tokens, a chunk at a time; return what they read, and the memory."""
    heads, parts = [], (x.split(CHUNK, 2) for x in (q, k, v, log_a))
    for q, k, v, log_a in zip(*parts, strict=True):  # those of a chunk
        log_gamma = log_a.cumsum(2)
        gamma, rest = log_gamma.exp(), (log_gamma[:, :, -1:] - log_gamma).exp()  # γ_t, γ_C / γ_i
        # γ_t / γ_i; above the diagonal, 0 before exp (no overflow) and 0 after it.
        fade = (log_gamma - log_gamma.mT).tril().exp().tril()
        # Read from the memory before the chunk, and from the tokens of the chunk up to each.
        heads.append(gamma * (q @ s) + (fade * (q @ k.mT)) @ v)  #                        5.2, 6
        s = gamma[:, :, -1:] * s + (rest * k).mT @ v  #                                        6
    return torch.cat(heads, 2), s


class MultiHeadAttention(nn.Module):
    """7.2: H state spaces in parallel, as attention whose heads share queries and keys."""

    def __init__(self, cfg: Config):
        super().__init__()
        D, H = cfg.d_model, cfg.n_heads
        self.to_heads = nn.Unflatten(-1, (H, head_width(2 * D, H)))
        self.sizes = sizes = [2 * D, cfg.d_state, cfg.d_state]  # of X, B, C: values, keys, queries
        self.W_qkv, self.W_o = nn.Linear(D, sum(sizes), bias=False), nn.Linear(2 * D, D, bias=False)
        shape = cfg.d_conv, 1, self.W_qkv.out_features  # (W + 1, 1, 2D + 2F), for `convolve`
        self.filter = nn.Parameter(torch.empty(shape)) if cfg.d_conv > 1 else None
        self.W_dt, self.W_z = nn.Linear(D, H), nn.Linear(D, 2 * D, bias=False)
        self.norm, self.skip = nn.RMSNorm(2 * D, eps=1e-5), nn.Parameter(torch.ones(H, 1, 1))
        self.log_A = nn.Parameter(torch.zeros(H))

    def qkv(self, x: Tensor, real: Tensor, window: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return queries C, keys B and all heads' values X, 0 at the pads in front; the window."""
        x, window = convolve(self.W_qkv(x), real, window, self.filter)  # Σ_i f_i x_{t−W+i}
        v, k, q = nn.functional.silu(x).split(self.sizes, -1)  #                           7.3
        q, k, v = q.unsqueeze(1), k.unsqueeze(1), self.to_heads(v).transpose(1, 2)  #      7.2
        return q, k, v, window

    @in_float32
    def gates(self, x: Float[Tensor, "B N D"]) -> tuple[Float[Tensor, "B H N 1"], Tensor]:
        """Return log a and Δ of all heads."""
        dt = nn.functional.softplus(self.W_dt(x)).mT.unsqueeze(-1)  #                2023, 3.2
        return -self.log_A.exp().view(-1, 1, 1) * dt, dt  #                          2023, (4)

    def forward(
        self, x: Float[Tensor, "B N D"], real: Tensor, s: Tensor | None = None,
        window: Tensor | None = None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """Write and read a text with all heads, or one token after a memory; also return it."""
        q, k, v, window = self.qkv(x, real, window)
        log_a, dt = self.gates(x)
        if s is None:
            empty = x.new_zeros(*v.shape[:2], k.shape[3], v.shape[3])  # (B,H,F,K)
            heads, s = read_chunks(q, k, dt * v, log_a, empty)
        else:
            heads, s = read_token(q, k, dt * v, log_a, s)
        heads = (heads + self.skip * v).transpose(1, 2).flatten(2)
        gated = heads * nn.functional.silu(self.W_z(x))  #                           2023, 3.4
        return self.W_o(self.norm(gated)), s, window  #                                    7.1


# -------------------------------------------------------------------------------------- Model


class Mamba2(TextModel):
    """Dao and Gu 2024: linear attention whose memory fades as each token chooses."""

    config_type = Config
    undecayed = ("log_A", "W_dt.bias", "skip")  # by weight decay

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.embedding = nn.Embedding(cfg.vocab_size, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)
        self.decoder = nn.ModuleList(
            Layer(MultiHeadAttention(cfg), cfg, has_feed_forward=False) for _ in range(cfg.n_layers)
        )
        self.norm = nn.LayerNorm(cfg.d_model)
        init(self)

    def read(self, text: Int[Tensor, "B N"], real: Tensor, n_out: int) -> tuple[Tensor, State]:
        """Read a text in one pass; return the logits of its last tokens, and the memory of it."""
        x, memory = read_layers(self.decoder, self.dropout(self.embedding(text)), real, n_out)
        return self.norm(x) @ self.embedding.weight.T, State(*memory)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source as the beginning of the text; all that is left of it is the memory."""
        text, real = join(src, src_mask, src[:, :0])  # pads in front; no target yet
        return self.read(text, real, 1)[1]

    def step(self, y: Int[Tensor, " R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Write one token in each of R rows, after the row's own text."""
        x, real = self.dropout(self.embedding(y)).unsqueeze(1), y.new_ones(len(y), 1)
        x, memory = read_layers(self.decoder, x, real, 1, state)
        return (self.norm(x) @ self.embedding.weight.T).squeeze(1), State(*memory)

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Read source and target as one text, in one pass: no loop over time but over chunks."""
        return self.read(*join(src, src_mask, tgt_in), tgt_in.shape[1])[0]

    def source_floats(self, n: int) -> int:
        """Return how many numbers about a source of n tokens the paper gives its decoder."""
        D, W = self.config.d_model, self.config.d_conv - 1
        return self.config.n_layers * (
            2 * D * self.config.d_state + 2 * (D + self.config.d_state) * W
        )


# --------------------------------------------------------------------------------------- Init


def init(model: SequenceModel) -> None:
    """Start as GPT does, one sublayer a block, with Δ of 0.001 … 0.1 (2023, 3.6); A stays 1."""
    std = model.config.init_std
    for name, p in model.named_parameters():
        if name.endswith("filter"):
            nn.init.uniform_(p, -(len(p) ** -0.5), len(p) ** -0.5)
        elif name.endswith("W_o.weight"):
            nn.init.normal_(p, std=std / model.config.n_layers**0.5)
        elif p.dim() == 2:
            nn.init.normal_(p, std=std)
        elif name.endswith("W_dt.bias"):  # softplus of it: 0.001 … 0.1
            p.data.copy_(torch.logspace(-3, -1, len(p)).expm1().log())
        elif name.endswith("bias"):
            nn.init.zeros_(p)

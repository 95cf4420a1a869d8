"""Linear attention: a memory of fixed size again, read by attention.

Paper
    A. Katharopoulos, A. Vyas, N. Pappas, F. Fleuret: Transformers are RNNs: Fast Autoregressive
    Transformers with Linear Attention. ICML 2020, arXiv:2006.16236v3 (eqs., sections).

Before
    GPT keeps the keys and values of all tokens, and compares each query with every key. Fast weight
    memories (Schmidhuber 1992; Ba et al. 2016, arXiv:1610.06258) add outer products to a matrix.

Idea
    Softmax attention is a weighted mean, Σ sim(q,k_j) v_j / Σ sim(q,k_j) with sim(q,k) =
    exp(q·k/√K) (2, 3). If sim(q,k) = φ(q)·φ(k), keys and values enter through two sums (5), to
    which each token adds its own: attention is a recurrence over a memory of fixed size (16–20).

        time      1        2                 S + T
        read     x_1      x_2       …         x           source, BOS, target
                  ↓ k v    ↓ k v              ↓ k v
        memory   (s,z) →  (s,z) →   … →     (s,z)         F × (K + 1) numbers a head, for any
                  ↓ q      ↓ q                ↓ q         length; in training, a chunk of C tokens
        write     –        –        …         y           is read by C × C scores at once

Symbols
    paper       code      shape        meaning
    φ(Q), φ(K)  q, k      (B,H,N,F)    features of queries and keys; before phi: (B,H,N,K)
    F, D, C, M  —         D, K, F, K   widths of model, query, features, value (C: here, a chunk)
    s           s[…, :K]  (R,L,H,F,K)  attention memory, Σ φ(k_j) v_jᵀ (not a decoder's state)
    z           s[…, K]   (R,L,H,F)    normaliser memory, Σ φ(k_j): the column of a value of ones
    —           window    (R,L,W,3D)   last inputs of the convolution, W = d_conv − 1

Differs
    1. The rest is `gpt.py`: its block and its loop over layers are in `memory.py`. The paper makes
       images, with a mixture of 10 logistics where this has a softmax over tokens, and RAdam.
       Pads come first (`join`): here, one adds nothing, but a convolution would see it, and the
       memories of the next chapters fade. Weights have no dropout: only plots compute them.
    2. Training adds up CHUNK tokens at a time (the authors: a kernel that adds each), and within
       a chunk multiplies all queries and keys: eq. (8) for these, (12) for the tokens before.
    3. The switch `d_conv` (1: off, as published) lets queries, keys, values see earlier tokens.

Cost
    Time O(L (S+T) (D² + C D)) to train, C = CHUNK, in (S+T) / C sequential steps; writing takes T
    steps of O(L D²), however long the text is, and memory O(L D²/H), where GPT has O(L (S+T) D).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import NonNegative, SequenceModel, Share, Size, check_positions
from seqmodels.models.cache import head_width
from seqmodels.models.memory import Layer, TextModel, convolve, in_float32, join, read_layers

# ------------------------------------------------------------------------------------- Config


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes; the defaults are those of the paper's model of its largest images (4.2.1, 4.2.2)."""

    vocab_size: Size
    """Tokens in the vocabulary (images: 256 shades)."""
    d_model: Size = 256
    """Width; a multiple of n_heads."""
    n_heads: Size = 8
    """Heads."""
    n_layers: Size = 16
    """Blocks."""
    n_positions: Size = 3072
    """Longest text, source and target together."""
    d_conv: Size = 1
    """Tokens that a query, key or value is made of, by a short convolution; 1: its own."""
    init_std: NonNegative = 0.02
    """Weights start at N(0, this²), as in GPT; the tasks' narrow models: larger."""
    dropout: Share = 0.1
    """Dropout probability, as in GPT."""


CIFAR = Config(vocab_size=256)
CHUNK = 64
"""Tokens that are read at once."""
TINY = 1e-30
"""Keeps 0 / 0 from being nan: the sum of no weights, at a pad before the first token."""

# -------------------------------------------------------------------------------------- State


class State(NamedTuple):
    """The text's length, and the memory of every layer, whose size does not depend on the text."""

    n: Int[Tensor, " R"]  # letters of shapes: see `interface.py`
    s: Float[Tensor, "R L H F K1"]
    window: Float[Tensor, "R L W _"]


# -------------------------------------------------------------------------------------- Parts


def read_token(q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """Write a token, then read; v ends in a one, so that the last column of s is z."""
    # q, k (B,H,1,F); v (B,H,1,K1); s (B,H,F,K1)
    s = s + k.mT @ v  #                                                              (18), (19)
    return divide(q @ s), s  #                                                             (20)


def read_chunks(q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """Write and read N tokens, a chunk at a time; return what they read, and the memory."""
    heads, parts = [], (x.split(CHUNK, 2) for x in (q, k, v))
    for q, k, v in zip(*parts, strict=True):  # those of a chunk
        score = (q @ k.mT).tril()  # the causal mask: a query sees no later key
        heads.append(score @ v + q @ s)  #                                            (8), (12)
        s = s + k.mT @ v  #                                                          (10), (11)
    return divide(torch.cat(heads, 2)), s


def divide(sums: Float[Tensor, "B H N K1"]) -> Float[Tensor, "B H N K"]:
    """Divide the sums of weighted values by those of the weights, in the last column."""
    return sums[..., :-1] / sums[..., -1:].clamp_min(TINY)


class MultiHeadAttention(nn.Module):
    """3.2: H linear attention heads in parallel; queries, keys and values are from one text."""

    def __init__(self, cfg: Config):
        super().__init__()
        D, H = cfg.d_model, cfg.n_heads
        self.to_heads = nn.Unflatten(-1, (3, H, head_width(D, H)))
        self.W_qkv, self.W_o = nn.Linear(D, 3 * D), nn.Linear(D, D)
        shape = cfg.d_conv, 1, self.W_qkv.out_features  # (W + 1, 1, 3D), for `convolve`
        self.filter = nn.Parameter(torch.empty(shape)) if cfg.d_conv > 1 else None

    @in_float32  # bfloat16 would round an elu(x) just above −1 to −1, a small feature to 0
    def phi(self, x: Float[Tensor, "*B H N K"]) -> Float[Tensor, "*B H N F"]:
        """Return the features of queries or of keys, all positive."""
        return nn.functional.elu(x) + 1  #                                                  (7)

    def qkv(self, x: Tensor, real: Tensor, window: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return features of the queries and keys, the values of all heads, and the window."""
        x, window = convolve(self.W_qkv(x), real, window, self.filter)  # Σ_i f_i x_{t−W+i}
        qk, v = self.to_heads(x).permute(2, 0, 3, 1, 4).split([2, 1])  # from (B,N,3,H,K)
        (q, k), v = self.phi(qk), nn.functional.pad(v[0], (0, 1), value=1.0)  # ends in a one
        return q, k * real[:, None, :, None], v, window  # a pad adds nothing

    def attention_weights(self, x: Tensor, real: Tensor) -> Float[Tensor, "B H N N"]:
        """Return each query's weights over the keys of a whole text, for plots."""
        q, k, *_ = self.qkv(x, real)
        score = (q @ k.mT).tril()  # causal, as above
        return score / score.sum(-1, keepdim=True).clamp_min(TINY)  #                       (8)

    def forward(
        self, x: Float[Tensor, "B N D"], real: Tensor, s: Tensor | None = None,
        window: Tensor | None = None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """Read a text, or a token after a memory; also return this layer's fields of the State."""
        q, k, v, window = self.qkv(x, real, window)
        if s is None:
            empty = k.new_zeros(*v.shape[:2], k.shape[3], v.shape[3])  # (B,H,F,K1)
            heads, s = read_chunks(q, k, v, empty)
        else:
            heads, s = read_token(q, k, v, s)
        return self.W_o(heads.transpose(1, 2).flatten(2)), s, window


# -------------------------------------------------------------------------------------- Model


class LinearAttention(TextModel):
    """Katharopoulos et al. 2020: GPT, with a memory of fixed size."""

    config_type = Config

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.embedding = nn.Embedding(cfg.vocab_size, cfg.d_model)
        self.positions = nn.Embedding(cfg.n_positions, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)
        self.decoder = nn.ModuleList(
            Layer(MultiHeadAttention(cfg), cfg) for _ in range(cfg.n_layers)
        )
        self.cross_attentions = [layer.self_attention for layer in self.decoder]  # for plots
        self.norm = nn.LayerNorm(cfg.d_model)
        init(self)

    def max_target(self, n_source: int) -> int:
        """Return how many target tokens (with BOS) the positions leave room for."""
        return self.config.n_positions - n_source

    def embed(self, tokens: Int[Tensor, "*B"], position: Tensor) -> Float[Tensor, "*B D"]:
        """Return embeddings of tokens and positions."""
        check_positions(position, self.config.n_positions)
        return self.dropout(self.embedding(tokens) + self.positions(position))

    def read(self, text: Int[Tensor, "B N"], real: Tensor, n_out: int) -> tuple[Tensor, State]:
        """Read a text in one pass; return the logits of its last tokens, and the memory of it."""
        x = self.embed(text, (real.cumsum(1) - 1).clamp(min=0))
        x, memory = read_layers(self.decoder, x, real, n_out)  # s, window of all layers (R,L,…)
        return self.norm(x) @ self.embedding.weight.T, State(real.sum(1), *memory)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source as the beginning of the text; all that is left of it is sums."""
        text, real = join(src, src_mask, src[:, :0])  # pads in front; no target yet
        return self.read(text, real, 1)[1]

    def step(self, y: Int[Tensor, " R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Write one token in each of R rows, after the row's own text."""
        x, real = self.embed(y, state.n).unsqueeze(1), y.new_ones(len(y), 1)
        x, memory = read_layers(self.decoder, x, real, 1, state[1:])
        logits = self.norm(x) @ self.embedding.weight.T
        return logits.squeeze(1), State(state.n + 1, *memory)

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Read source and target as one text, in one pass: no loop over time but over chunks."""
        return self.read(*join(src, src_mask, tgt_in), tgt_in.shape[1])[0]

    def source_floats(self, n: int) -> int:
        """Return how many numbers about a source of n tokens the paper gives its decoder."""
        D, W = self.config.d_model, self.config.d_conv - 1
        return self.config.n_layers * (D * (D // self.config.n_heads + 1) + 3 * D * W)


# --------------------------------------------------------------------------------------- Init


def init(model: SequenceModel) -> None:
    """Start as GPT does, and a convolution as in torch."""
    std = model.config.init_std
    for name, p in model.named_parameters():
        if name.endswith("filter"):
            nn.init.uniform_(p, -(len(p) ** -0.5), len(p) ** -0.5)
        elif name.endswith(("W_o.weight", "ff.2.weight")):
            nn.init.normal_(p, std=std / (2 * model.config.n_layers) ** 0.5)
        elif p.dim() == 2:
            nn.init.normal_(p, std=std)
        elif name.endswith("bias"):
            nn.init.zeros_(p)

"""Linear attention: a memory of fixed size again, read by attention.

Paper
    A. Katharopoulos, A. Vyas, N. Pappas, F. Fleuret: Transformers are RNNs: Fast Autoregressive
    Transformers with Linear Attention. ICML 2020, arXiv:2006.16236v3 (eqs., sections).

Before
    GPT keeps the keys and values of all tokens, and compares each query with every key.

Idea
    Softmax attention is a weighted mean, Σ sim(q,k_j) v_j / Σ sim(q,k_j) with sim(q,k) =
    exp(q·k/√K) (2, 3). If sim(q,k) = φ(q)·φ(k), keys and values enter through two sums (5), to
    which each token adds its own: attention is a recurrence over a memory of fixed size (16–20).

Symbols
    paper       code      shape        meaning
    φ(Q), φ(K)  q, k      (B,H,N,F)    features of queries and keys; before phi: (B,H,N,K)
    D           —         K            width of a head; F is K
    s           s         (R,L,H,F,K)  attention memory, Σ φ(k_j) v_jᵀ (not a decoder's state)
    z           z         (R,L,H,F)    normaliser memory, Σ φ(k_j) (not a gate)
    —           window    (R,L,W,3D)   last inputs of the convolution, W = d_conv − 1

Differs
    1. The rest is `gpt.py` (the paper makes images). Attention weights have no dropout: only plots
       compute them.
    2. Training adds up CHUNK tokens at a time (the authors: a kernel that adds each), and within
       a chunk multiplies all queries and keys: eq. (8) for these, (12) for the tokens before.
    3. The switch `d_conv` (1: off, as published) lets queries, keys and values see the tokens
       before their own, as those of later models do.

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
from seqmodels.models.memory import TextModel, convolve, join

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
    """Dropout probability."""

    def source_floats(self, n: int) -> int:
        """Return how many numbers about a source of n tokens the paper gives its decoder."""
        D, W = self.d_model, self.d_conv - 1
        return self.n_layers * (D * (D // self.n_heads + 1) + 3 * D * W)


CIFAR = Config(vocab_size=256)
CHUNK = 64
"""Tokens that are read at once."""
TINY = 1e-30
"""What is divided by at a pad before the first token, which attends to nothing."""

# -------------------------------------------------------------------------------------- State


class State(NamedTuple):
    """The text's length, and the memory of every layer, whose size does not depend on the text."""

    n: Int[Tensor, " R"]
    s: Float[Tensor, "R L H F K"]
    z: Float[Tensor, "R L H F"]
    window: Float[Tensor, "R L W _"]


# -------------------------------------------------------------------------------------- Parts


def read_chunks(tokens: tuple[Tensor, ...], s: Tensor, z: Tensor) -> tuple[Tensor, ...]:
    """Attend with features of N queries, a chunk at a time; return that, and the memory."""
    heads, parts = [], (x.split(CHUNK, 2) for x in tokens)
    for q, k, v in zip(*parts, strict=True):
        score = (q @ k.mT).tril()  # the causal mask: a query sees no later key
        total = score.sum(-1, keepdim=True) + q @ z.unsqueeze(-1)
        heads.append((score @ v + q @ s) / total.clamp_min(TINY))  #                   (8), (12)
        s, z = s + k.mT @ v, z + k.sum(2)  #                                         (10), (11)
    return torch.cat(heads, 2), s, z


class MultiHeadAttention(nn.Module):
    """3.2: H linear attention heads in parallel; queries, keys and values are from one text."""

    def __init__(self, cfg: Config):
        super().__init__()
        D, H = cfg.d_model, cfg.n_heads
        self.to_heads = nn.Unflatten(-1, (3, H, head_width(D, H)))
        self.W_qkv, self.W_o = nn.Linear(D, 3 * D), nn.Linear(D, D)
        shape = cfg.d_conv, 1, self.W_qkv.out_features
        self.filter = nn.Parameter(torch.empty(shape)) if cfg.d_conv > 1 else None

    def phi(self, x: Float[Tensor, "B H N K"], is_query: bool) -> Float[Tensor, "B H N F"]:
        """Return the features of queries or of keys, all positive."""
        above = x.relu()  # elu(x) + 1 is x + 1 above zero and exp(x) below it
        return above + (x - above).exp()  #                                    elu(x) + 1, (7)

    def qkv(self, x: Tensor, real: Tensor, window: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return features of the queries and keys, the values of all heads, and the window."""
        x, window = convolve(self.W_qkv(x), real, window, self.filter)
        q, k, v = self.to_heads(x).permute(2, 0, 3, 1, 4)
        q, k = self.phi(q, True), self.phi(k, False) * real[:, None, :, None]  # a pad has none
        return q, k, v, window

    def attention_weights(self, x: Tensor, real: Tensor) -> Float[Tensor, "B H N N"]:
        """Return each query's weights over the keys, for plots; takes what `forward` takes."""
        q, k, *_ = self.qkv(x, real)
        score = (q @ k.mT).tril()  # causal, as above
        return score / score.sum(-1, keepdim=True).clamp_min(TINY)  #                       (8)

    def forward(self, x: Float[Tensor, "B N D"], real: Tensor) -> tuple[Tensor, ...]:
        """Attend with all heads at all places, chunk by chunk; also return the memory."""
        q, k, v, window = self.qkv(x, real)
        s = k.new_zeros(*v.shape[:2], k.shape[3], v.shape[3])
        z = k.new_zeros(*v.shape[:2], k.shape[3])
        heads, s, z = read_chunks((q, k, v), s, z)
        return self.merge(heads), s, z, window

    def step(self, x: Tensor, s: Tensor, z: Tensor, window: Tensor) -> tuple[Tensor, ...]:
        """Add one token to the memory, then attend to it; also return the memory."""
        q, k, v, window = self.qkv(x, x.new_ones(len(x), 1), window)
        s, z = s + k.mT @ v, z + k.sum(2)  #                                         (18), (19)
        return self.merge(q @ s / (q @ z.unsqueeze(-1))), s, z, window  #                  (20)

    def merge(self, heads: Float[Tensor, "B H N K"]) -> Float[Tensor, "B N D"]:
        """Merge the heads with W_o."""
        heads = heads.transpose(1, 2).flatten(2)
        return self.W_o(heads)


class Layer(nn.Module):
    """As in GPT: self-attention and feed-forward, each after a norm, added to the stream."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(cfg.d_model), nn.LayerNorm(cfg.d_model)
        self.self_attention, self.dropout = MultiHeadAttention(cfg), nn.Dropout(cfg.dropout)
        d_ff = 4 * cfg.d_model
        inner, outer = nn.Linear(cfg.d_model, d_ff), nn.Linear(d_ff, cfg.d_model)
        self.ff = nn.Sequential(inner, nn.GELU(approximate="tanh"), outer)

    def forward(self, x: Tensor, real: Tensor, n_out: int) -> tuple[Tensor, ...]:
        """Attend to this text; return the rows of its last tokens, and the memory of it."""
        heads, *memory = self.self_attention(self.norm_1(x), real)
        x = (x + self.dropout(heads))[:, -n_out:]
        x = x + self.dropout(self.ff(self.norm_2(x)))
        return x, *memory

    def step(self, x: Float[Tensor, "R 1 D"], *memory: Tensor) -> tuple[Tensor, ...]:
        """Read one token; return its row, and the memory."""
        heads, *after = self.self_attention.step(self.norm_1(x), *memory)
        x = x + self.dropout(heads)
        x = x + self.dropout(self.ff(self.norm_2(x)))
        return x, *after


# -------------------------------------------------------------------------------------- Model


class LinearAttention(TextModel):
    """Katharopoulos et al. 2020: GPT, with a memory of fixed size."""

    config_type = Config

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.embedding = nn.Embedding(cfg.vocab_size, cfg.d_model)
        self.positions = nn.Embedding(cfg.n_positions, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)
        self.decoder = nn.ModuleList(Layer(cfg) for _ in range(cfg.n_layers))
        self.cross_attentions = [layer.self_attention for layer in self.decoder]
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
        x, memory = self.embed(text, (real.cumsum(1) - 1).clamp(min=0)), []
        for layer in self.decoder:
            x, *new = layer(x, real, n_out if layer is self.decoder[-1] else x.shape[1])
            memory.append(new)
        state = State(real.sum(1), *(torch.stack(new, 1) for new in zip(*memory, strict=True)))
        return self.norm(x) @ self.embedding.weight.T, state

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source as the beginning of the text; all that is left of it is sums."""
        return self.read(*join(src, src_mask, src[:, :0]), 1)[1]

    def step(self, y: Int[Tensor, " R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Write one token in each of R rows, after the row's own text."""
        x, memory = self.embed(y, state.n).unsqueeze(1), []
        for layer, *old in zip(self.decoder, *(t.unbind(1) for t in state[1:]), strict=True):
            x, *new = layer.step(x, *old)
            memory.append(new)
        state = State(state.n + 1, *(torch.stack(new, 1) for new in zip(*memory, strict=True)))
        return (self.norm(x) @ self.embedding.weight.T).squeeze(1), state

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Read source and target as one text, in one pass: no loop over time but over chunks."""
        return self.read(*join(src, src_mask, tgt_in), tgt_in.shape[1])[0]


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

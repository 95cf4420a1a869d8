"""GPT: decoder only; the source is a prefix.

Paper
    A. Radford, J. Wu, R. Child, D. Luan, D. Amodei, I. Sutskever: Language Models are
    Unsupervised Multitask Learners. OpenAI 2019 (GPT-2); sections by its numbers. Its ancestor:
    A. Radford, K. Narasimhan, T. Salimans, I. Sutskever: Improving Language Understanding by
    Generative Pre-Training. OpenAI 2018 (GPT: the same decoder, normalised after each sublayer).

Before
    The Transformer has two stacks, and needs pairs of texts to train them.

Idea
    Keep the decoder's self-attention alone. Every task is a text to be continued: a source is
    just what stands before the target.

Symbols
    paper       code      shape        meaning
    —           q, k, v   (B,H,N,K)    queries, keys, values of H heads
    W_e         tokens    (V,D)        token embedding, also the output matrix (2018: h_0, P(u))
    W_p         positions (P,D)        learned position embedding
    N           n_layers  L            layers; residual outputs start scaled by 1/√(2N)

Differs
    1. For translation the text is source, BOS, target; pads between them are masked and not
       counted as positions; the loss is on the target alone, the tokens all models are scored on.
    2. GPT-2 has one vocabulary anyway; the other four share it.
    3. `init_std` lets narrow models start from wider weights; its default is the paper's. It is the
       positions' too, for which OpenAI's released code has 0.01.
    4. AdamW with linear decay (2018, section 4.1: Adam with a cosine; 2019 does not say).

Cost
    Time O((S+T) D² + (S+T)² D), memory O(L (S+T) D); training takes O(1) sequential steps,
    writing takes T.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import (
    PAD,
    SequenceModel,
    fused_attention,
    head_width,
    put,
    reserve,
    see_own,
)

# ------------------------------------------------------------------------------------- Config


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes; the defaults are GPT-2 small's (table 2, first row)."""

    vocab_size: int
    """Tokens in the vocabulary (section 2.3: 50,257)."""
    d_model: int = 768
    """Width; a multiple of n_heads."""
    n_heads: int = 12
    """Heads."""
    n_layers: int = 12
    """Blocks."""
    n_positions: int = 1024
    """Longest text, source and target together (section 2.3)."""
    init_std: float = 0.02
    """Weights start at N(0, this²) (2018, section 4.1); narrower models need more to start."""
    dropout: float = 0.1
    """Share of units dropped in training."""


GPT2_SMALL = Config(vocab_size=50_257)

# -------------------------------------------------------------------------------------- State


class State(NamedTuple):
    """Keys and values of every layer, in turn: the source's, then those of all beams."""

    memory: Float[Tensor, "B H L2 N K"]
    seen: Bool[Tensor, "R N"]
    """Which of them belong to a beam's text: real tokens of the source, and its own."""
    alpha: Float[Tensor, "R S"]
    """Weights over the source, mean of all layers' heads; the rest lies on the target."""


# -------------------------------------------------------------------------------------- Parts

Look = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(q, k, v) of new tokens, each (B,H,N,K) -> what the heads of all or the last of them see."""


class CausalSelfAttention(nn.Module):
    """Every token looks at itself and at those before it."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.split = nn.Unflatten(-1, (3, cfg.n_heads, head_width(cfg.d_model, cfg.n_heads)))
        self.W_qkv = nn.Linear(cfg.d_model, 3 * cfg.d_model)
        self.W_o = nn.Linear(cfg.d_model, cfg.d_model)

    def forward(self, x: Float[Tensor, "B N D"], look: Look) -> Float[Tensor, "B M D"]:
        """Return what all heads see."""
        q, k, v = self.split(self.W_qkv(x)).permute(2, 0, 3, 1, 4)
        return self.W_o(look(q, k, v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """2.3: normalise *before* each sublayer, add what it says to the stream."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(cfg.d_model), nn.LayerNorm(cfg.d_model)
        self.attention = CausalSelfAttention(cfg)
        self.W_in = nn.Linear(cfg.d_model, 4 * cfg.d_model)
        self.gelu = nn.GELU(approximate="tanh")
        self.W_out = nn.Linear(4 * cfg.d_model, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)

    def forward(self, x: Float[Tensor, "B N D"], look: Look) -> Float[Tensor, "B M D"]:
        """Return the stream, of the last tokens if `look` looks for these alone."""
        heard = self.attention(self.norm_1(x), look)
        x = x[:, -heard.shape[1] :] + self.dropout(heard)
        return x + self.dropout(self.W_out(self.gelu(self.W_in(self.norm_2(x)))))


# -------------------------------------------------------------------------------------- Model


class GPT(SequenceModel):
    """Radford et al. 2019: one stack that continues a text."""

    config_type = Config
    year = 2019
    paper = "Radford et al., OpenAI (GPT-2)"
    of_source = ("memory",)

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.tokens = nn.Embedding(cfg.vocab_size, cfg.d_model)
        self.positions = nn.Embedding(cfg.n_positions, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layers))
        self.norm = nn.LayerNorm(cfg.d_model)
        init(self)

    def max_target(self, n_source: int) -> int:
        """Return how many target tokens (with BOS) the positions leave room for."""
        return self.config.n_positions - n_source

    def embed(
        self, text: Int[Tensor, "B N"], position: Int[Tensor, "B N"], n: int
    ) -> Float[Tensor, "B N D"]:
        """Return embeddings of tokens and positions; the text has n tokens by now, with pads."""
        if n > self.config.n_positions <= int(position.max()):
            raise ValueError(
                f"source and target need {int(position.max()) + 1} positions, this GPT has "
                f"{self.config.n_positions}; shorten the text or build it with more n_positions"
            )
        return self.dropout(self.tokens(text) + self.positions(position))

    def read(
        self, text: Int[Tensor, "B N"], real: Bool[Tensor, "B N"], n_last: int
    ) -> tuple[Float[Tensor, "B M D"], list[tuple[Tensor, Tensor]]]:
        """Pass a text through all blocks at once; return its last tokens, all keys and values.

        The last block looks for these tokens alone: no one reads what it says of the others.
        """
        causal = torch.ones_like(real[0]).expand(len(real[0]), -1).tril()
        visible, memory = causal & real[:, None, None], []

        def look(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            memory.append((k, v))
            n = n_last if len(memory) == len(self.blocks) else q.shape[2]
            p = self.config.dropout * self.training
            return fused_attention(q[:, :, -n:], k, v, visible[:, :, -n:], p)

        position = (real.cumsum(1) - 1).clamp(min=0)  #               pads are not counted
        x = self.embed(text, position, text.shape[1])
        for block in self.blocks:
            x = block(x, look)
        return self.norm(x), memory

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source as the beginning of the text (prefill)."""
        memory = torch.stack([*chain.from_iterable(self.read(src, src_mask, 1)[1])], 2)
        return State(memory, src_mask, torch.zeros_like(src_mask, dtype=memory.dtype))

    def step(self, y: Int[Tensor, " R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Write one token; the beams of a source stand side by side, like words."""
        memory, seen, (_, S) = state.memory, state.seen, state.alpha.shape
        y, position = (t.unflatten(0, (len(memory), -1)) for t in (y, seen.sum(1)))
        memory, seen = reserve(memory, y.shape[1]), see_own(seen, y.shape[1])
        hidden, alphas = ~seen.unflatten(0, (len(y), 1, -1)), list[Tensor]()

        def look(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            nonlocal memory
            i = 2 * len(alphas)
            memory = put(put(memory, i, k), i + 1, v)
            k, v, q = memory[:, :, i], memory[:, :, i + 1], q / math.sqrt(q.shape[-1])
            score = (k @ q.transpose(-2, -1)).transpose(-2, -1)  # faster than q kᵀ
            alphas.append(score.masked_fill(hidden, -torch.inf).softmax(-1))
            return alphas[-1] @ v

        x = self.embed(y, position, seen.shape[1])
        for block in self.blocks:
            x = block(x, look)
        logits = self.norm(x).flatten(0, 1) @ self.tokens.weight.T
        alpha = torch.stack([alpha[..., :S] for alpha in alphas]).mean((0, 2))
        return logits, State(memory, seen, alpha.flatten(0, 1))

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Read source and target as one text, in one masked pass."""
        real = torch.cat([src_mask, tgt_in != PAD], 1)
        x, _ = self.read(torch.cat([src, tgt_in], 1), real, tgt_in.shape[1])
        return x @ self.tokens.weight.T


# --------------------------------------------------------------------------------------- Init


def init(model: SequenceModel) -> None:
    """Draw weights from N(0, 0.02²), residual outputs smaller by √(2L); biases zero (2.3)."""
    std = model.config.init_std
    for name, p in model.named_parameters():
        if name.endswith(("W_o.weight", "W_out.weight")):
            nn.init.normal_(p, std=std / math.sqrt(2 * model.config.n_layers))
        elif p.dim() == 2:
            nn.init.normal_(p, std=std)
        elif name.endswith("bias"):
            nn.init.zeros_(p)

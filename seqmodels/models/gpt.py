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
    3. `init_std` lets narrow models start from wider weights; its default is the paper's.

Cost
    Time O((S+T) D² + (S+T)² D), memory O(L (S+T) D); training takes O(1) sequential steps,
    writing takes T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import SequenceModel, head_width

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
    """Keys and values of every token so far, source and target alike, of every layer."""

    k: Float[Tensor, "B L H N K"]
    v: Float[Tensor, "B L H N K"]
    mask: Bool[Tensor, "B N"]
    alpha: Float[Tensor, "B S"]
    """Weights over the source, mean of all layers' heads; the rest lies on the target."""


# -------------------------------------------------------------------------------------- Parts


class CausalSelfAttention(nn.Module):
    """Every token looks at itself and at those before it."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.split = nn.Unflatten(-1, (3, cfg.n_heads, head_width(cfg.d_model, cfg.n_heads)))
        self.W_qkv = nn.Linear(cfg.d_model, 3 * cfg.d_model)
        self.W_o = nn.Linear(cfg.d_model, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)

    def forward(
        self,
        x: Float[Tensor, "B N D"],
        past: tuple[Float[Tensor, "B H P K"], Float[Tensor, "B H P K"]],
        mask: Bool[Tensor, "B 1 N M"],
    ) -> tuple[Float[Tensor, "B N D"], tuple[Tensor, Tensor], Float[Tensor, "B H N M"]]:
        """Return the new x, all keys and values (past and new, M = P + N), and the weights."""
        q, k, v = self.split(self.W_qkv(x)).permute(2, 0, 3, 1, 4)
        k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        score = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        alpha = score.masked_fill(~mask, -torch.inf).softmax(-1)
        heads = self.dropout(alpha) @ v
        return self.W_o(heads.transpose(1, 2).flatten(2)), (k, v), alpha


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

    def forward(
        self, x: Float[Tensor, "B N D"], past: tuple[Tensor, Tensor], mask: Tensor
    ) -> tuple[Float[Tensor, "B N D"], tuple[Tensor, Tensor], Tensor]:
        """Return x, all keys and values, and the attention weights."""
        out, k_v, alpha = self.attention(self.norm_1(x), past, mask)
        x = x + self.dropout(out)
        x = x + self.dropout(self.W_out(self.gelu(self.W_in(self.norm_2(x)))))
        return x, k_v, alpha


# -------------------------------------------------------------------------------------- Model


class GPT(SequenceModel):
    """Radford et al. 2019: one stack that continues a text."""

    config_type = Config
    year = 2019
    paper = "Radford et al., OpenAI (GPT-2)"

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

    def read(
        self, text: Int[Tensor, "B N"], real: Bool[Tensor, "B N"], state: State
    ) -> tuple[Float[Tensor, "B N D"], State]:
        """Pass tokens through all blocks, after those that the State holds."""
        n, mask = text.shape[1], torch.cat([state.mask, real], 1)
        position = (mask.cumsum(1)[:, -n:] - 1).clamp(min=0)  #       pads are not counted
        if mask.shape[1] > self.config.n_positions <= int(position.max()):
            raise ValueError(
                f"source and target need {int(position.max()) + 1} positions, this GPT has "
                f"{self.config.n_positions}; shorten the text or build it with more n_positions"
            )
        causal = torch.ones_like(mask[0]).expand(n, -1).tril(mask.shape[1] - n)
        visible = causal & mask[:, None, None]
        x = self.dropout(self.tokens(text) + self.positions(position))
        memory, alphas = [], []
        for i, block in enumerate(self.blocks):
            x, k_v, alpha = block(x, (state.k[:, i], state.v[:, i]), visible)
            memory.append(k_v)
            alphas.append(alpha[:, :, -1, : state.alpha.shape[1]].mean(1))
        k, v = (torch.stack(tensors, 1) for tensors in zip(*memory, strict=True))
        return self.norm(x), State(k, v, mask, torch.stack(alphas, 1).mean(1))

    def empty(self, text: Int[Tensor, "B S"]) -> State:
        """Return the State before any token."""
        cfg, weight = self.config, self.tokens.weight
        width = head_width(cfg.d_model, cfg.n_heads)
        nothing = weight.new_zeros(len(text), cfg.n_layers, cfg.n_heads, 0, width)
        no_mask = torch.zeros(len(text), 0, dtype=torch.bool, device=text.device)
        return State(nothing, nothing, no_mask, weight.new_zeros(text.shape))

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source as the beginning of the text (prefill)."""
        return self.read(src, src_mask, self.empty(src))[1]

    def step(self, y: Int[Tensor, " B"], state: State) -> tuple[Float[Tensor, "B V"], State]:
        """Write one token."""
        real = torch.ones_like(y, dtype=torch.bool)
        x, state = self.read(y.unsqueeze(1), real.unsqueeze(1), state)
        return x.squeeze(1) @ self.tokens.weight.T, state

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Read source and target as one text, in one masked pass."""
        real = torch.cat([src_mask, torch.ones_like(tgt_in, dtype=torch.bool)], 1)
        x, _ = self.read(torch.cat([src, tgt_in], 1), real, self.empty(src))
        return x[:, src.shape[1] :] @ self.tokens.weight.T


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

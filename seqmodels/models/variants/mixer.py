"""GPT's block around any causal mixer of tokens: a module that maps (B,N,D) to (B,N,D).

A subclass makes the mixer; what a package offers as a layer can thus be compared in one line:

    class Mine(MixerGPT):
        make_mixer = staticmethod(lambda d_model: SomeLayer(d_model))

It has no positions of its own, and `step` reads the whole text again for each token, so that any
mixer will do: writing n tokens takes n passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import PAD, SequenceModel


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes of the blocks around a mixer."""

    vocab_size: int
    """Tokens in the vocabulary."""
    d_model: int = 256
    """Width."""
    n_layers: int = 4
    """Blocks."""
    dropout: float = 0.0
    """Dropout probability."""
    init_std: float = 0.08
    """The embedding starts at N(0, this²)."""

    def source_floats(self, n: int) -> int:
        """Return how many numbers of a source of n tokens a step reads: the tokens themselves."""
        return n


class State(NamedTuple):
    """The text so far: source, then target, with pads between them."""

    text: Int[Tensor, "R N"]
    real: Bool[Tensor, "R N"]


class Block(nn.Module):
    """A mixer and a feed-forward layer, each after a norm, added to the residual stream."""

    def __init__(self, cfg: Config, mixer: nn.Module):
        super().__init__()
        D = cfg.d_model
        self.norm_1, self.norm_2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.mixer, self.dropout = mixer, nn.Dropout(cfg.dropout)
        inner, outer = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
        self.ff = nn.Sequential(inner, nn.GELU(approximate="tanh"), outer)

    def forward(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        """Mix tokens, then transform each; of a mixer's several results the first is taken."""
        mixed = self.mixer(self.norm_1(x))
        x = x + self.dropout(mixed[0] if isinstance(mixed, tuple) else mixed)
        return x + self.dropout(self.ff(self.norm_2(x)))


class MixerGPT(SequenceModel):
    """A decoder-only model whose blocks mix tokens as `make_mixer` says."""

    config_type = Config
    make_mixer: ClassVar[Callable[[int], nn.Module]]
    """Returns a causal module (B,N,D) → (B,N,D) for a width D."""

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.embedding = nn.Embedding(cfg.vocab_size, cfg.d_model)
        nn.init.normal_(self.embedding.weight, std=cfg.init_std)
        make = type(self).make_mixer
        self.decoder = nn.ModuleList(Block(cfg, make(cfg.d_model)) for _ in range(cfg.n_layers))
        self.norm = nn.LayerNorm(cfg.d_model)

    def read(
        self, text: Int[Tensor, "R N"], real: Bool[Tensor, "R N"], n_last: int
    ) -> Float[Tensor, "R _ V"]:
        """Read a text in one pass, its pads moved to the end; return the last tokens' logits."""
        order = (~real).long().argsort(dim=1, stable=True)
        x = self.embedding(text.gather(1, order))
        for block in self.decoder:
            x = block(x)
        places = order.argsort(1)[:, -n_last:, None].expand(-1, -1, x.shape[2])
        return self.norm(x.gather(1, places)) @ self.embedding.weight.T

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Keep the source; nothing is computed before the first step."""
        return State(src, src_mask)

    def step(self, y: Int[Tensor, " R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Append a token and read the text again."""
        y = y.unsqueeze(1)
        state = State(torch.cat([state.text, y], 1), torch.cat([state.real, y != PAD], 1))
        return self.read(state.text, state.real, 1)[:, 0], state

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Read source and target as one text, in one pass."""
        text, real = torch.cat([src, tgt_in], 1), torch.cat([src_mask, tgt_in != PAD], 1)
        return self.read(text, real, tgt_in.shape[1])

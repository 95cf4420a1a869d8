"""Gated DeltaNet and Mamba-2 with one layer of attention: the first or the last of their layers.

A memory of fixed size can follow what changes, and loses what it has no room for; attention keeps
all that it has read. Models of 2024 and later put one in place of every fourth to eighth layer of a
memory (Lieber et al. 2024, Jamba, arXiv:2403.19887; Qwen3-Next). Here it is GPT's block, without
positions: the memories tell it the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.models import gated_deltanet, gpt, mamba2
from seqmodels.models.cache import KVCache
from seqmodels.models.gated_deltanet import GatedDeltaNet
from seqmodels.models.mamba2 import Mamba2
from seqmodels.models.memory import TextModel, join

Place = Literal["first", "last"]


@dataclass(frozen=True, kw_only=True)
class DeltaNetConfig(gated_deltanet.Config):
    """Sizes of a Gated DeltaNet, and the place of its attention."""

    attention: Place = "last"
    """Which of at least two layers attends."""


@dataclass(frozen=True, kw_only=True)
class MambaConfig(mamba2.Config):
    """Sizes of a Mamba-2, and the place of its attention."""

    attention: Place = "last"
    """Which of at least two layers attends."""


class State(NamedTuple):
    """The memory of every other layer, and the keys and values of the one that attends."""

    s: Float[Tensor, "R L H F K"]
    window: Float[Tensor, "R L W _"]
    cache: KVCache


class Hybrid(TextModel):
    """What both have in common: how tokens pass through layers of two kinds."""

    decoder: Any
    embedding: nn.Embedding
    dropout: nn.Dropout
    norm: nn.LayerNorm

    def put_attention(self) -> None:
        """Put GPT's block in the place of one layer.

        Raises ValueError if no other layer is left.
        """
        cfg = self.config
        if cfg.n_layers < 2:
            raise ValueError(f"n_layers {cfg.n_layers} leaves no memory; choose at least 2")
        D, H = cfg.d_model, cfg.n_heads
        layer = gpt.Layer(gpt.Config(vocab_size=1, d_model=D, n_heads=H, dropout=cfg.dropout), 0)
        self.decoder[0 if cfg.attention == "first" else -1] = layer
        self.cross_attentions = [layer.self_attention]

    def pass_layers(
        self, x: Tensor, real: Tensor, mask: Tensor, cache: KVCache, n_out: int,
        memory: Sequence[Tensor] = (),
    ) -> tuple[Float[Tensor, "B n_out V"], State]:  # fmt: skip
        """Return the logits of the last tokens, and what is kept of all.

        The layer that attends takes the beams of a source as queries to one cache, where the mask
        is True; to the others each is a row.
        """
        memories = list[list[Tensor]]()
        for layer in self.decoder:
            if isinstance(layer, gpt.Layer):
                together = x.reshape(cache.n_sources, -1, x.shape[-1])
                x = layer.attend(together, mask, cache).view(x.shape)
            else:
                fields = [field[:, len(memories)] for field in memory]
                x, *new = layer.attend(x, real, *fields)
                memories.append(new)
            x = layer.feed_forward(x[:, -n_out:] if layer is self.decoder[-1] else x)
        s, window = (torch.stack(fields, 1) for fields in zip(*memories, strict=True))
        return self.norm(x) @ self.embedding.weight.T, State(s, window, cache)

    def read(self, text: Int[Tensor, "B N"], real: Tensor, n_out: int) -> tuple[Tensor, Any]:
        """Read a text in one pass; return the logits of its last tokens, and what is kept of it."""
        i = torch.arange(text.shape[1], device=text.device)
        cache = KVCache(real)
        mask = (i <= i.unsqueeze(1)) & cache.mask | (i == i.unsqueeze(1))  # a pad sees itself
        return self.pass_layers(self.dropout(self.embedding(text)), real, mask, cache, n_out)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> Any:
        """Read the source as the beginning of the text."""
        text, real = join(src, src_mask, src[:, :0])
        return self.read(text, real, 1)[1]

    def step(self, y: Int[Tensor, " R"], state: Any) -> tuple[Float[Tensor, "R V"], Any]:
        """Write one token in each of R rows, after the row's own text."""
        x, real = self.dropout(self.embedding(y)).unsqueeze(1), y.new_ones(len(y), 1)
        cache = state.cache.grow()
        logits, state = self.pass_layers(x, real, cache.mask, cache, 1, state[:2])
        return logits.squeeze(1), state

    def source_floats(self, n: int) -> int:
        """Return how many numbers about a source of n tokens the decoder is given."""
        cfg: Any = self.config
        memories = super().source_floats(n) * (cfg.n_layers - 1) // cfg.n_layers
        return memories + n * cfg.d_model


class DeltaNetAndAttention(Hybrid, GatedDeltaNet):
    """Gated DeltaNet, one of whose layers attends."""

    config_type = DeltaNetConfig

    def __init__(self, cfg: DeltaNetConfig):
        super().__init__(cfg)
        self.put_attention()
        gated_deltanet.init(self)


class MambaAndAttention(Hybrid, Mamba2):
    """Mamba-2, one of whose layers attends, and works on each token by itself."""

    config_type = MambaConfig

    def __init__(self, cfg: MambaConfig):
        super().__init__(cfg)
        self.put_attention()
        mamba2.init(self)
        for name, p in self.named_parameters():
            if name.endswith("ff.2.weight"):
                nn.init.normal_(p, std=cfg.init_std / cfg.n_layers**0.5)

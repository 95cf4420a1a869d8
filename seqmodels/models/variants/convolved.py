"""Models that see each token together with the two before it: a short causal convolution.

It stands between the embeddings and the first layer, with a filter of its own for each dimension,
after the short convolutions of Arora et al. 2023 (Zoology, arXiv:2312.04927). Source and target are
convolved each on its own. Linear attention has a convolution as a switch, `d_conv`.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from seqmodels.interface import PAD
from seqmodels.models import gpt, transformer
from seqmodels.models.gpt import GPT
from seqmodels.models.variants.positions import TransformerPositions

WIDTH = 3
"""Tokens in a window: the token itself and those before it."""


def pack(tokens: Int[Tensor, "R N"], vocab_size: int) -> Int[Tensor, "R N"]:
    """Return each token and the two before it as one number with the digits of base V.

    So the models take windows where they take tokens. The last digit is the token; windows of PAD
    are PAD.
    """
    padded = F.pad(tokens, (WIDTH - 1, 0), value=PAD)
    windows = torch.zeros_like(tokens)
    for before in padded.unfold(1, WIDTH, 1).unbind(-1):
        windows = windows * vocab_size + before
    return windows.masked_fill(tokens == PAD, PAD)


class ConvolvedEmbedding(nn.Embedding):
    """Embeddings of tokens, convolved over each window."""

    def __init__(self, plain: nn.Embedding):
        super().__init__(plain.num_embeddings, plain.embedding_dim)
        self.weight = plain.weight
        self.filter = nn.Parameter(torch.empty(WIDTH, plain.embedding_dim))
        nn.init.uniform_(self.filter, -(WIDTH**-0.5), WIDTH**-0.5)  # as nn.Conv1d does

    def forward(self, windows: Int[Tensor, "*B"]) -> Float[Tensor, "*B D"]:
        """Return the sum of a window's embeddings, each times its row of the filter."""
        x = torch.zeros((), device=windows.device)
        for row in self.filter:
            token = windows % self.num_embeddings
            is_real = (token != PAD).unsqueeze(-1)
            x = x + row * super().forward(token) * is_real
            windows = windows // self.num_embeddings
        return x


class Convolved:
    """A mixin: encode, step and forward of a model, on windows of tokens in place of tokens."""

    config: Any
    embedding: nn.Embedding
    inner_state: Any
    state_type: Any

    def __init__(self, cfg: Any):
        super().__init__(cfg)  # type: ignore[call-arg]
        self.embedding = ConvolvedEmbedding(self.embedding)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> Any:
        """Read the source; no token precedes the first one of the target."""
        inner = super().encode(pack(src, self.config.vocab_size), src_mask)  # type: ignore[misc]
        return self.state_type(*inner, src.new_full((len(src), WIDTH - 1), PAD))

    def step(self, y: Int[Tensor, " R"], state: Any) -> tuple[Float[Tensor, "R V"], Any]:
        """Take the previous target token, which joins the two before it."""
        *fields, latest = state
        text = torch.cat([latest, y.unsqueeze(1)], 1)
        window, inner = pack(text, self.config.vocab_size)[:, -1], self.inner_state(*fields)
        logits, inner = super().step(window, inner)  # type: ignore[misc]
        return logits, self.state_type(*inner, text[:, 1:])

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of all target tokens."""
        src, tgt_in = (pack(text, self.config.vocab_size) for text in (src, tgt_in))
        return super().forward(src, src_mask, tgt_in)  # type: ignore[misc]


def extend(state: Any) -> Any:
    """Return the type of a State with the latest two target tokens, (R, 2), in addition."""
    return namedtuple("State", [*state._fields, "latest"])


class ConvolvedTransformer(Convolved, TransformerPositions):
    """A Transformer with any positions."""

    inner_state, state_type = transformer.State, extend(transformer.State)

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of all target tokens; `encode`, which it calls, packs the source."""
        windows = pack(tgt_in, self.config.vocab_size)
        return TransformerPositions.forward(self, src, src_mask, windows)


class ConvolvedGPT(Convolved, GPT):
    """GPT."""

    inner_state, state_type = gpt.State, extend(gpt.State)

"""The Transformer with one of the mistakes that are made in writing it.

    score_mask      scores are multiplied by the mask: what is hidden has the score 0, not -∞.
                    `masked_fill(~mask, 1e-9)`, for -1e9, does the same
    weight_mask     weights are multiplied by the mask after the softmax, whose sum has seen all
    finite_mask     what is hidden has the score -10, which learned scores can match
    wrong_axis      the softmax is taken over the queries: the weights of a key sum to 1
    one_projection  W_k is W_q: before a query, q_i·k_j = q_j·k_i
    no_values       no W_v: heads average parts of the states themselves
    no_output       no W_o: heads stand side by side, and nothing mixes them
    no_causal_mask  in training, every target token sees all others
    pads            pads are attended to like words, and attend
    embeddings      the decoder attends to the embeddings of the source, not to the encoder's states
    no_bos          the decoder is given y1 … yT, not BOS y1 … y_{T-1}: what it has to write

In search, each goes through the Transformer's `step`, which is given no future to see. The
Transformer without 1/√d, and without the softmax's sum, are among those of `ablated`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from seqmodels.interface import PAD
from seqmodels.models import transformer
from seqmodels.models.cache import KVCache, head_width, softmax
from seqmodels.models.transformer import Layer, MultiHeadAttention, State, Transformer

Mistake = Literal[
    "score_mask", "weight_mask", "finite_mask", "wrong_axis", "one_projection", "no_values",
    "no_output", "no_causal_mask", "pads", "embeddings", "no_bos",
]  # fmt: skip
FINITE = -10.0
"""The score of what is hidden, in place of -∞."""
AROUND = (None, "no_causal_mask", "pads", "no_bos")
"""With these, layers are the paper's; what they are given is not."""
MISSING = {"no_values": "W_v", "no_output": "W_o"}


@dataclass(frozen=True, kw_only=True)
class Config(transformer.Config):
    """Sizes of a Transformer, and the mistake in it."""

    mistake: Mistake | None = None
    """What is computed in another way than in the paper; None: nothing."""


class MistakenAttention(MultiHeadAttention):
    """Attention whose weights or projections are not the paper's."""

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.mistake = cfg.mistake
        if cfg.mistake == "one_projection":
            del self.W_k
        if cfg.mistake in MISSING:
            if cfg.d_v not in (None, head_width(cfg.d_model, cfg.n_heads)):
                raise ValueError(f"with {cfg.mistake}, d_v is d_model / n_heads; leave it out")
            setattr(self, MISSING[cfg.mistake], nn.Identity())

    def keys_values(self, x: Float[Tensor, "B N D"]) -> tuple[Tensor, Tensor]:
        """Return the keys and values of all heads."""
        W_k = self.W_q if self.mistake == "one_projection" else self.W_k
        return self.split_heads(W_k(x)), self.split_heads(self.W_v(x))

    def attention_weights(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Return each query's weights over the keys."""
        score = q @ k.mT / q.shape[-1] ** 0.5
        if self.mistake == "score_mask":
            return (score * mask).softmax(-1)
        if self.mistake == "weight_mask":
            return score.softmax(-1) * mask
        if self.mistake == "finite_mask":
            return score.masked_fill(~mask, FINITE).softmax(-1)
        if self.mistake == "wrong_axis":  # hidden from all queries, a key has no weights at all
            return score.masked_fill(~mask, -torch.inf).softmax(-2).masked_fill(~mask, 0.0)
        return softmax(score, mask)


class SkippedLayer(Layer):
    """A layer of an encoder whose result is dropped: it returns what it is given."""

    def forward(
        self, x: Tensor, mask: Tensor, cache: KVCache | None = None, memory: KVCache | None = None
    ) -> Float[Tensor, "B N D"]:
        """Return the argument."""
        return x


class MistakenTransformer(Transformer):
    """A Transformer with the mistake that its Config names."""

    config_type = Config

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        if cfg.mistake == "embeddings":
            self.encoder = nn.ModuleList(SkippedLayer(cfg, i, False) for i in range(cfg.n_layers))
        elif cfg.mistake in AROUND:
            return
        else:
            for layer in (*self.encoder, *self.decoder):
                layer.self_attention = MistakenAttention(cfg)
            for layer in self.decoder:
                layer.src_attention = MistakenAttention(cfg)
            self.cross_attentions = [layer.src_attention for layer in self.decoder]
        transformer.init(self)

    def decode(self, x: Tensor, mask: Tensor, tgt: KVCache | None, memory: KVCache) -> Tensor:
        """Return logits of target tokens; without a cache, they are all in x."""
        if self.config.mistake == "no_causal_mask" and tgt is None:
            mask = torch.ones_like(mask)
        return super().decode(x, mask, tgt, memory)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source."""
        if self.config.mistake == "pads":
            src_mask = torch.ones_like(src_mask)
        return super().encode(src, src_mask)

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Compute all logits in one pass."""
        if self.config.mistake == "no_bos":  # the last token, EOS, is not in tgt_in: it is a pad
            tgt_in = F.pad(tgt_in[:, 1:], (0, 1), value=PAD)
        return super().forward(src, src_mask, tgt_in)

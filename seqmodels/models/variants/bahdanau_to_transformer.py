"""The models between Bahdanau et al. 2014 and the Transformer, a few changes a step.

    bahdanau                       the chapter: recurrent encoder and decoder, additive score
    bahdanau_dot                   scaled dot product: the score is q · k / √d, in place of
                                   v_a · tanh(q + k), where q = W_a s_{i-1} and k = U_a h_j
    bahdanau_heads                 several heads: each has a part of q and k, hence weights of its
                                   own, and projects the annotations to values of its own (3.2.2)
    bahdanau_tied                  tied output: its matrix is that of the embeddings, which are
                                   multiplied by √d where they are read (3.4)
    transformer_recurrent_1        residuals: the Transformer's layer (3.1) around a recurrence.
                                   What recurrence, attention to the source and feed-forward network
                                   return is added to what they read, and the sum normalised
    transformer_recurrent          depth: two such layers on each side
    transformer_recurrent_decoder  an encoder of self-attention, with sinusoids as positions
    transformer                    the chapter: a decoder of self-attention and positions as well;
                                   attention to the source has no earlier state to ask with

Sums need one width: from `transformer_recurrent_1` on, embeddings, annotations (two directions of
half the width) and contexts are as wide as the model. The feed-forward network takes the place of
the maxout units. In all but the last, the decoder attends with its state before the update,
s_{i-1}, and updates it with what it has read; a layer's s_0 comes from the first word's annotation.
Recurrent matrices start orthogonal, all others as in the chapter that is varied. Chen et al. 2018
(arXiv:1804.09849) and Domhan 2018 (ACL, P18-1167) compared such mixtures on real text. Sections are
those of arXiv:1706.03762v7.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import SequenceModel, Size
from seqmodels.models import bahdanau, transformer
from seqmodels.models.bahdanau import Attention, Bahdanau, DeepOutput, GatedUnit
from seqmodels.models.cache import KVCache, softmax
from seqmodels.models.transformer import Layer, Transformer

# ---------------------------------------------------------------- Bahdanau with another attention


@dataclass(frozen=True, kw_only=True)
class HeadsConfig(bahdanau.Config):
    """Sizes, and the number of heads."""

    n_heads: Size = 4
    """Heads; d_align and the annotations are cut into as many parts."""


class DotAttention(Attention):
    """Weigh the annotations by the scaled dot product of a query and their keys.

    With several heads, each has values of its own; the matrices that read the context merge them,
    as W_o does in 3.2.2.
    """

    def __init__(self, cfg: bahdanau.Config):
        super().__init__(cfg)
        del self.v_a
        H, D2 = cfg.n_heads if isinstance(cfg, HeadsConfig) else 1, 2 * cfg.d_model
        if cfg.d_align % H or D2 % H:
            raise ValueError(
                f"d_align {cfg.d_align} and annotations of width {D2} cannot be cut into {H} equal "
                "heads"
            )
        self.to_heads = nn.Unflatten(-1, (H, -1))
        self.W_v = nn.Linear(D2, D2, bias=False) if H > 1 else nn.Identity()

    def attention_weights(self, state: bahdanau.State) -> Float[Tensor, "B H J S"]:
        """Return each head's weights for each decoder state s_{i-1}."""
        q = self.W_a(state.s).unflatten(0, (len(state.keys), -1))
        q, k = (self.to_heads(x).transpose(1, 2) for x in (q, state.keys))
        return softmax(q @ k.mT / q.shape[-1] ** 0.5, state.src_mask[:, None, None])

    def forward(self, state: bahdanau.State) -> Float[Tensor, "R D2"]:
        """Return the heads' weighted values side by side."""
        v = self.to_heads(state.h).transpose(1, 2)
        heads = (self.attention_weights(state) @ v).transpose(1, 2)  # (B,J,H,_)
        return heads.flatten(2).flatten(0, 1)


class DotBahdanau(Bahdanau):
    """RNNsearch with the Transformer's score; its State has values in place of annotations."""

    def __init__(self, cfg: bahdanau.Config):
        super().__init__(cfg)
        self.attention: DotAttention = DotAttention(cfg)
        self.cross_attentions = [self.attention]
        bahdanau.init(self)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> bahdanau.State:
        """Annotate each word of the source; keep its keys and values."""
        state = super().encode(src, src_mask)
        return state._replace(h=self.attention.W_v(state.h))


class HeadsBahdanau(DotBahdanau):
    """The same with several heads."""

    config_type = HeadsConfig


class ScaledEmbedding(nn.Embedding):
    """Embeddings × √d."""

    def forward(self, tokens: Int[Tensor, "*B"]) -> Float[Tensor, "*B E"]:
        """Return the embeddings of tokens."""
        return super().forward(tokens) * self.embedding_dim**0.5

    def compare(self, x: Float[Tensor, "*B E"]) -> Float[Tensor, "*B V"]:
        """Return logits."""
        return x @ self.weight.T


class TiedBahdanau(HeadsBahdanau):
    """The same, with d_embed maxout units that are compared with the embeddings."""

    def __init__(self, cfg: HeadsConfig):
        super().__init__(cfg)
        self.embed = ScaledEmbedding(cfg.vocab_size, cfg.d_embed)
        self.output = DeepOutput(replace(cfg, d_maxout=cfg.d_embed))
        del self.output.W_o
        self.output.W_o = self.embed.compare  # type: ignore[assignment]
        bahdanau.init(self)


# -------------------------------------------------------------- The Transformer with recurrences


class State(NamedTuple):
    """All that the decoder knows: keys and values of the source, and a state for each layer."""

    memory: KVCache
    s: Float[Tensor, "R L D"]


class RecurrentDecoderLayer(Layer):
    """A layer of the decoder with the recurrence of RNNsearch, which attends with s_{i-1}."""

    def __init__(self, cfg: transformer.Config, index: int):
        super().__init__(cfg, index, is_decoder=True)
        del self.self_attention
        self.W_s = nn.Linear(cfg.d_model, cfg.d_model)
        self.W = nn.Linear(cfg.d_model, 3 * cfg.d_model)
        self.C = nn.Linear(cfg.d_model, 3 * cfg.d_model, bias=False)
        self.unit = GatedUnit(cfg.d_model)

    def forward(  # type: ignore[override]  # a state in place of a mask and a cache
        self, x: Float[Tensor, "R N D"], s: Float[Tensor, "R D"], memory: KVCache
    ) -> tuple[Float[Tensor, "R N D"], Float[Tensor, "R D"]]:
        """Return what the layer makes of N tokens, one after the other, and its last state."""
        states, contexts = [s], list[Tensor]()

        def recur(x: Tensor) -> Tensor:
            for x_t in self.W(x).unbind(1):
                query = states[-1].unflatten(0, (memory.n_sources, -1))  # J beams of each source
                c = self.src_attention.attend(query, *memory[self.index], memory.mask).flatten(0, 1)
                states.append(self.unit(x_t + self.C(c), states[-1]))
                contexts.append(c)
            return torch.stack(states[1:], 1)

        x = self.self_residual(x, recur)
        x = self.src_residual(x, lambda _: torch.stack(contexts, 1))
        return self.ff_residual(x, self.ff), states[-1]


class RecurrentDecoder(Transformer):
    """A Transformer with a recurrent decoder, which needs no positions."""

    beam_shared_fields = ("memory",)

    def __init__(self, cfg: transformer.Config):
        super().__init__(cfg)
        self.decoder = nn.ModuleList(RecurrentDecoderLayer(cfg, i) for i in range(cfg.n_layers))
        self.cross_attentions = [layer.src_attention for layer in self.decoder]
        init(self)

    def embed(
        self, tokens: Int[Tensor, "*B"], position: Tensor | None = None
    ) -> Float[Tensor, "*B D"]:
        """Return embeddings × √d, plus encodings of positions if these are given."""
        if position is not None:
            return super().embed(tokens, position)
        return self.dropout(self.embedding(tokens) * self.config.d_model**0.5)

    def encode(  # type: ignore[override]  # another State
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]
    ) -> State:
        """Annotate the source; each layer's s_0 comes from the annotation of the first word."""
        h = self.embed(src, torch.arange(src.shape[1], device=src.device))
        memory = KVCache(src_mask)
        for layer in self.encoder:
            h = layer(h, memory.mask)
        h = self.norm_src(h)
        for i, attention in enumerate(self.cross_attentions):
            memory.update(i, *attention.keys_values(h))
        s = [torch.tanh(layer.W_s(h[:, 0])) for layer in self.decoder]  # type: ignore[operator]
        return State(memory, torch.stack(s, 1))

    def advance(
        self, tokens: Int[Tensor, "R N"], state: State
    ) -> tuple[Float[Tensor, "R N V"], State]:
        """Return the logits after each of N tokens, and the State after all of them."""
        x, states = self.embed(tokens), []
        for layer, s in zip(self.decoder, state.s.unbind(1), strict=True):
            x, s = layer(x, s, state.memory)
            states.append(s)
        logits = self.norm_tgt(x) @ self.embedding.weight.T
        return logits, state._replace(s=torch.stack(states, 1))

    def step(  # type: ignore[override]
        self, y: Int[Tensor, " R"], state: State
    ) -> tuple[Float[Tensor, "R V"], State]:
        """Write one token."""
        logits, state = self.advance(y.unsqueeze(1), state)
        return logits.squeeze(1), state

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Compute all logits: in each layer, each token waits for the one before it."""
        return self.advance(tgt_in, self.encode(src, src_mask))[0]


class RecurrentEncoderLayer(Layer):
    """A layer of the encoder that reads in both directions, each with half of its width."""

    def __init__(self, cfg: transformer.Config, index: int):
        super().__init__(cfg, index, is_decoder=False)
        del self.self_attention
        half = bahdanau.Config(vocab_size=1, d_model=cfg.d_model // 2, d_embed=cfg.d_model)
        self.recurrence = bahdanau.Encoder(half)

    def attend_to_text(self, x: Tensor, mask: Tensor, cache: KVCache | None) -> Tensor:
        """Return both states of each word, in place of self-attention."""
        return self.recurrence(x, mask.flatten(1))


class RecurrentTransformer(RecurrentDecoder):
    """A Transformer with recurrences in place of self-attention and positions."""

    def __init__(self, cfg: transformer.Config):
        super().__init__(cfg)
        self.encoder = nn.ModuleList(RecurrentEncoderLayer(cfg, i) for i in range(cfg.n_layers))
        init(self)

    def embed(
        self, tokens: Int[Tensor, "*B"], position: Tensor | None = None
    ) -> Float[Tensor, "*B D"]:
        """Return embeddings × √d, whatever their positions."""
        return super().embed(tokens)


def init(model: SequenceModel) -> None:
    """Start as the Transformer does, with orthogonal recurrent matrices."""
    transformer.init(model)
    for unit in model.modules():
        if isinstance(unit, GatedUnit):
            for weight in (unit.U_zr.weight, unit.U.weight):
                for block in weight.data.split(weight.shape[1]):  # U_zr holds two square matrices
                    nn.init.orthogonal_(block)

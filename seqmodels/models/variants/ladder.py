"""The LSTM of Sutskever et al. on its way to attention, step by step (Luong, Pham, Manning 2015).

    last        every step is also given the encoder's last output as its context vector c; Cho et
                al. 2014 give each step such a vector
    dot         c is the mean of all outputs h̄_s of the encoder, weighted by the softmax of h · h̄_s
    general     the same, with h · W_a h̄_s
    additive    the same, with v_a · tanh(W_a h + U_a h̄_s), which the paper calls concat: the score
                of Bahdanau et al. 2014, but with the state after the update

The word is written from h̃ = tanh(W_c [c; h]) (eq. 5). With input feeding, h̃ is also
read with the next word, so that the decoder knows where it has looked (section 3.3). Equations and
sections are those of arXiv:1508.04025v5. The source is read backwards, as in the paper's systems.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.models import lstm_seq2seq
from seqmodels.models.lstm_seq2seq import DeepLSTM, LSTMSeq2Seq


@dataclass(frozen=True, kw_only=True)
class Config(lstm_seq2seq.Config):
    """Sizes of an LSTM, and what its decoder has of the source."""

    attention: Literal["last", "dot", "general", "additive"] = "last"
    """Where the context vector of a step comes from."""
    is_input_feeding: bool = False
    """Whether h̃ is read with the next word (section 3.3)."""


class State(NamedTuple):
    """All that the decoder knows; the memory has S vectors with attention, else one."""

    h: Float[Tensor, "R L D"]
    c: Float[Tensor, "R L D"]
    fed: Float[Tensor, "R F"]
    """h̃ of the step before; F = 0 without input feeding."""
    memory: Float[Tensor, "B M D"]
    keys: Float[Tensor, "B M D"]
    memory_mask: Bool[Tensor, "B M"]


class GlobalAttention(nn.Module):
    """Section 3.1: weigh the memory by how well it fits the decoder's *current* output."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.kind, D = cfg.attention, cfg.d_model
        if self.kind in ("general", "additive"):
            self.W_a = nn.Linear(D, D, bias=False)
        if self.kind == "additive":
            self.U_a = nn.Linear(D, D, bias=False)
            self.v_a = nn.Linear(D, 1, bias=False)

    def keys(self, memory: Float[Tensor, "B M D"]) -> Float[Tensor, "B M D"]:
        """Return what the decoder's outputs are compared to: computed once per source."""
        if self.kind == "general":
            return self.W_a(memory)
        return self.U_a(memory) if self.kind == "additive" else memory

    def attention_weights(self, h: Float[Tensor, "R N D"], state: State) -> Float[Tensor, "B J M"]:
        """Return the weights for the J outputs of each source: those of its beams or N words."""
        h = h.reshape(len(state.memory), -1, h.shape[-1])
        if self.kind == "additive":
            hidden = torch.tanh(self.W_a(h).unsqueeze(2) + state.keys.unsqueeze(1))
            score = self.v_a(hidden).squeeze(-1)
        else:  # to the last output alone, any score gives the weight 1
            score = h @ state.keys.mT
        return score.masked_fill(~state.memory_mask.unsqueeze(1), -torch.inf).softmax(-1)  # eq. (7)

    def forward(self, h: Float[Tensor, "R N D"], state: State) -> Float[Tensor, "R N D"]:
        """Return the context vectors c."""
        return (self.attention_weights(h, state) @ state.memory).reshape(h.shape)


class Ladder(LSTMSeq2Seq):
    """An LSTM whose decoder has of the source what its Config says."""

    config_type = Config
    beam_shared_fields = ("memory", "keys", "memory_mask")

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        if cfg.is_input_feeding:
            self.decoder = DeepLSTM(replace(cfg, d_embed=cfg.d_embed + cfg.d_model))
        self.attention = GlobalAttention(cfg)
        self.W_c = nn.Linear(2 * cfg.d_model, cfg.d_model, bias=False)
        if cfg.attention != "last":
            self.cross_attentions = [self.attention]
        lstm_seq2seq.init(self)

    def encode(  # type: ignore[override]  # another State
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]
    ) -> State:
        """Read the source; keep all outputs, each in the place of its word, or the last.

        Reading order swaps pairs of places, so that it is its own inverse.
        """
        cfg, order = self.config, torch.arange(src.shape[1], device=src.device).expand_as(src)
        if cfg.is_reversed:
            order = lstm_seq2seq.reverse(src, src_mask)
        empty = self.embed.weight.new_zeros(len(src), cfg.n_layers, cfg.d_model)
        start = lstm_seq2seq.State(empty, empty)
        n = src_mask.sum(1)
        outputs, (h, c) = self.encoder(self.embed(src.gather(1, order)), start, n)
        last = outputs[torch.arange(len(src), device=src.device), n - 1]  # pads come after it
        memory, mask = last.unsqueeze(1), src_mask[:, :1]
        if cfg.attention != "last":
            memory, mask = outputs.gather(1, order.unsqueeze(-1).expand_as(outputs)), src_mask
        fed = h.new_zeros(len(src), cfg.d_model if cfg.is_input_feeding else 0)
        return State(h, c, fed, memory, self.attention.keys(memory), mask)

    def advance(
        self, e: Float[Tensor, "R N E"], state: State
    ) -> tuple[Float[Tensor, "R N D"], State]:
        """Return the vectors from which N words are written; N is 1 if the first is fed back."""
        cfg, fed = self.config, state.fed.unsqueeze(1).expand(-1, e.shape[1], -1)
        before = lstm_seq2seq.State(state.h, state.c)
        h, (h_last, c_last) = self.decoder(torch.cat([e, fed], -1), before)
        h = torch.tanh(self.W_c(torch.cat([self.attention(h, state), h], -1)))  #          eq. (5)
        fed = h[:, -1] if cfg.is_input_feeding else state.fed
        return h, state._replace(h=h_last, c=c_last, fed=fed)

    def step(  # type: ignore[override]
        self, y: Int[Tensor, " R"], state: State
    ) -> tuple[Float[Tensor, "R V"], State]:
        """Write one token: update the state, then attend with it."""
        h, state = self.advance(self.embed(y.unsqueeze(1)), state)
        return self.output(h.squeeze(1)), state  #                                         eq. (6)

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Attend with all outputs at once; with input feeding, each waits for the one before."""
        state, e, outputs = self.encode(src, src_mask), self.embed(tgt_in), []
        for e_t in e.split(1 if self.config.is_input_feeding else e.shape[1], 1):
            h, state = self.advance(e_t, state)
            outputs.append(h)
        return self.output(torch.cat(outputs, 1))

    def source_floats(self, n: int) -> int:
        """Return how many numbers pass: the memory, or the last state."""
        has_all = self.config.attention != "last"
        return n * self.config.d_model if has_all else super().source_floats(n)

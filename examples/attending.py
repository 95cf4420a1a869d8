"""A model of one's own that attends to the source: `seqmodels check examples/attending.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from seqmodels.interface import SequenceModel


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes."""

    vocab_size: int
    d_model: int = 128


class State(NamedTuple):
    """All that the decoder knows."""

    h: Tensor
    src_mask: Tensor
    s: Tensor


class Attention(nn.Module):
    """Weigh the embeddings of the source by their product with the decoder's state."""

    def attention_weights(self, s: Tensor, h: Tensor, src_mask: Tensor) -> Tensor:
        """Return the weights of one target token over the source (rows, 1, S)."""
        scores = (s.unsqueeze(1) @ h.mT).masked_fill(~src_mask.unsqueeze(1), -torch.inf)
        return scores.softmax(-1)

    def forward(self, s: Tensor, h: Tensor, src_mask: Tensor) -> Tensor:
        """Return the context of each row."""
        return (self.attention_weights(s, h, src_mask) @ h).squeeze(1)


class Attending(SequenceModel):
    """Attention to the embeddings of the words, and a recurrent decoder."""

    config_type = Config

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.embed = nn.Embedding(cfg.vocab_size, cfg.d_model)
        self.attention = Attention()
        self.unit = nn.GRUCell(2 * cfg.d_model, cfg.d_model)
        self.output = nn.Linear(cfg.d_model, cfg.vocab_size)
        self.cross_attentions = [self.attention]

    def encode(self, src: Tensor, src_mask: Tensor) -> State:
        """Read the source."""
        h = self.embed(src)
        return State(h, src_mask, torch.zeros_like(h[:, 0]))

    def step(self, y: Tensor, state: State) -> tuple[Tensor, State]:
        """Attend with the state before the token, then write one."""
        c = self.attention(state.s, state.h, state.src_mask)
        s = self.unit(torch.cat([self.embed(y), c], 1), state.s)
        return self.output(s), state._replace(s=s)

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        """Compute all logits, one step after the other."""
        state, logits = self.encode(src, src_mask), []
        for y in tgt_in.unbind(1):
            logits_t, state = self.step(y, state)
            logits.append(logits_t)
        return torch.stack(logits, 1)

    def source_floats(self, n: int) -> int:
        """Return how many numbers pass from a source of n tokens to the decoder."""
        return n * self.config.d_model

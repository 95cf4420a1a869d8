"""LSTM seq2seq: deep, reversed, and still one vector.

Paper
    I. Sutskever, O. Vinyals, Q. V. Le: Sequence to Sequence Learning with Neural Networks.
    NIPS 2014, arXiv:1409.3215v3 (first version 10 September 2014). The unit is that of
    A. Graves, arXiv:1308.0850, eqs. (7)–(11), without peepholes.

Before
    The encoder–decoder of June 2014 only rescored phrases. In a recurrent network, an error passes
    back through every step between a word and the one that it depends on.

Idea
    Depth and memory: four LSTM layers on each side, the encoder's last state handed over layer by
    layer. Why LSTM: at each step its cell c is scaled by a gate and added to, and passes through no
    matrix; while the forget gate is near 1, a gradient survives a long way back (Hochreiter and
    Schmidhuber 1997; forget gate: Gers et al. 2000). And one trick: read the source backwards, so
    that the first words of both languages are close together (the last ones are further apart).
    With four layers of width 1,000, it "did not have difficulty on long sentences" (abstract).

        time      1            S           1       2            T
        read     x_S    …     x_1         BOS     y_1   …    y_{T-1}
                  ↓            ↓           ↓       ↓            ↓
        layer 1  h, c → … →  h, c   →    h, c →  h, c → … →   h, c      two vectors, D wide,
                  ↓ h          ↓ h         ↓ h     ↓ h          ↓ h     in each of L layers
        layer L  h, c → … →  h, c   →    h, c →  h, c → … →   h, c
        write                             y_1     y_2   …      y_T

Symbols
    paper       code    shape      meaning
    x_t, y_t    src, y  (B,)       token
    i f g o     i f g o (B,D)      input gate, forget gate, new cell content, output gate
    h           h       (B,L,D)    output of each layer
    c           c       (B,L,D)    cell of each layer (not a summary of the source)
    v           (h, c)             "the fixed-dimensional representation" of the source

Differs
    1. The unit of Graves, which the paper names, has peephole weights; they are left out here. They
       would be 24,000 of its 64 M recurrent parameters (2 × 4 layers × 8 M).
    2. One vocabulary and one embedding serve both languages, as in all models here.
    3. AdamW or Muon (paper: SGD at 0.7, halved); dropout is ours; no ensemble (paper: of five).
    4. `init_range` and `forget_bias` (Gers et al. 2000; Jozefowicz et al., ICML 2015) can be set;
       the defaults are the paper's. In the tasks it has one layer, which starts from a wider range
       and, in most, with a bias of 2.
    5. The first word is written after reading BOS. In the paper (figure 1) it is written where the
       source's end-of-sequence token is read, and there is no BOS; here each task decides whether
       sources end with that token, which stays at the end of a reversed source.

Cost
    Time O((S+T) L D²), and O(L D) numbers from source to target for any S; S + T sequential steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import EOS, NonNegative, SequenceModel, Share, Size
from seqmodels.models.cache import fusible

# ------------------------------------------------------------------------------------- Config


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes; the defaults are the paper's."""

    vocab_size: Size
    """Tokens in the shared vocabulary (paper: 160,000 source and 80,000 target words)."""
    d_model: Size = 1000
    """Cells in each layer (section 3.4)."""
    d_embed: Size = 1000
    """Width of an embedding (section 3.4)."""
    n_layers: Size = 4
    """LSTM layers on each side (section 3.4)."""
    is_reversed: bool = True
    """Read the source from its last word to its first (section 3.3)."""
    init_range: NonNegative = 0.08
    """Parameters start uniformly in ± this (section 3.4); the tasks' narrow layers: wider."""
    forget_bias: float = 0.0
    """Added to the forget gates' biases at the start, so that cells remember (paper: 0)."""
    dropout: Share = 0.0
    """Dropout probability of each layer's input and of the top output (paper: none)."""


PAPER = Config(vocab_size=80_000)

# -------------------------------------------------------------------------------------- State


class State(NamedTuple):
    """All that the decoder knows: its size does not depend on the source's length."""

    h: Float[Tensor, "R L D"]  # letters: see `interface.py`; _ is any width
    c: Float[Tensor, "R L D"]


# -------------------------------------------------------------------------------------- Parts


class LSTMLayer(nn.Module):
    """One layer: a cell that is added to, not overwritten, and three gates around it."""

    def __init__(self, d_in: int, d_model: int):
        super().__init__()
        self.W = nn.Linear(d_in, 4 * d_model)
        self.U = nn.Linear(d_model, 4 * d_model, bias=False)

    def unit(
        self, x: Float[Tensor, "R D4"], h: Float[Tensor, "R D"], c: Float[Tensor, "R D"]
    ) -> tuple[Float[Tensor, "R D"], Float[Tensor, "R D"]]:
        """Take one step; the caller computes x, W times what comes from below."""
        i, f, g, o = (x + self.U(h)).chunk(4, -1)
        i, f, o = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o)  #  Graves (7), (8), (10)
        c = f * c + i * torch.tanh(g)  #                                             Graves (9)
        h = o * torch.tanh(c)  #                                                    Graves (11)
        return h, c

    @fusible  # a mark: on CPUs, `fuse` puts one kernel in its place
    def forward(
        self, x: Float[Tensor, "R N _"], h: Tensor, c: Tensor, n: Int[Tensor, " R"] | None
    ) -> tuple[Float[Tensor, "R N D"], Float[Tensor, "R D"], Float[Tensor, "R D"]]:
        """Return all outputs, and h and c after n > 0 words (None: after all)."""
        hs, cs = [], []
        for x_t in self.W(x).unbind(1):
            h, c = self.unit(x_t, h, c)
            hs.append(h)
            cs.append(c)
        outputs = torch.stack(hs, 1)
        if n is not None:
            row = torch.arange(len(n), device=n.device)
            h, c = outputs[row, n - 1], torch.stack(cs, 1)[row, n - 1]
        return outputs, h, c


class DeepLSTM(nn.Module):
    """A stack of layers; the whole sequence passes through one layer, then through the next."""

    def __init__(self, cfg: Config):
        super().__init__()
        widths = [cfg.d_embed] + [cfg.d_model] * (cfg.n_layers - 1)
        self.layers = nn.ModuleList(LSTMLayer(d_in, cfg.d_model) for d_in in widths)
        self.dropout = nn.Dropout(cfg.dropout)

    def forward(
        self, x: Float[Tensor, "R N E"], state: State, n: Int[Tensor, " R"] | None = None
    ) -> tuple[Float[Tensor, "R N D"], State]:
        """Return the top layer's outputs, and the State after n > 0 words (None: after all)."""
        hs, cs = [], []
        for layer, h, c in zip(self.layers, state.h.unbind(1), state.c.unbind(1), strict=True):
            x, h, c = layer(self.dropout(x), h, c, n)
            hs.append(h)
            cs.append(c)
        return self.dropout(x), State(torch.stack(hs, 1), torch.stack(cs, 1))


def reverse(src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> Int[Tensor, "B S"]:
    """Return the places of each source's tokens as they are read, a b c EOS PAD as 2 1 0 3 4."""
    n_tokens = src_mask.sum(1, keepdim=True)
    ends_with_eos = src.gather(1, n_tokens - 1) == EOS
    n = n_tokens - ends_with_eos.long()  # words, which change places
    t = torch.arange(src.shape[1], device=src.device).expand_as(src)
    return torch.where(t < n, n - 1 - t, t)


# -------------------------------------------------------------------------------------- Model


class LSTMSeq2Seq(SequenceModel):
    """Sutskever et al. 2014: one deep LSTM reads, another one writes."""

    config_type = Config

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.embed = nn.Embedding(cfg.vocab_size, cfg.d_embed)
        self.encoder = DeepLSTM(cfg)
        self.decoder = DeepLSTM(cfg)
        self.output = nn.Linear(cfg.d_model, cfg.vocab_size)
        init(self)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source, last word first; all that is left of it is (h, c)."""
        if self.config.is_reversed:
            src = src.gather(1, reverse(src, src_mask))  #                                   3.3
        empty = self.embed.weight.new_zeros(len(src), self.config.n_layers, self.config.d_model)
        _, state = self.encoder(self.embed(src), State(empty, empty), src_mask.sum(1))
        return state

    def step(self, y: Int[Tensor, " R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Write one token: a sequence of length one."""
        top, state = self.decoder(self.embed(y.unsqueeze(1)), state)
        return self.output(top.squeeze(1)), state

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Start the decoder where the encoder stopped; the loop over time is in LSTMLayer."""
        top, _ = self.decoder(self.embed(tgt_in), self.encode(src, src_mask))
        return self.output(top)  #                                                    eq. (1)

    def source_floats(self, n: int) -> int:
        """Return how many numbers about a source of n tokens the paper gives its decoder."""
        return 2 * self.config.n_layers * self.config.d_model


# --------------------------------------------------------------------------------------- Init


def init(model: SequenceModel) -> None:
    """Draw every parameter from the uniform distribution on ±0.08, or as configured (3.4)."""
    for p in model.parameters():
        nn.init.uniform_(p, -model.config.init_range, model.config.init_range)
    for name, p in model.named_parameters():
        if name.endswith("W.bias"):
            _, f, _, _ = p.data.chunk(4)  # i, f, g, o
            f.add_(model.config.forget_bias)

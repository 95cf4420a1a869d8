"""RNN encoder–decoder: the whole source in one vector.

Paper
    K. Cho, B. van Merriënboer, C. Gulcehre, D. Bahdanau, F. Bougares, H. Schwenk, Y. Bengio:
    Learning Phrase Representations using RNN Encoder–Decoder for Statistical Machine Translation.
    EMNLP 2014, arXiv:1406.1078v3. Equations by its numbers, A.x by its appendix.

Before
    Translation looked up phrases in tables of counts, each scored by itself. Feed-forward networks
    needed inputs of one fixed length. Forcada and Ñeco (1997) had trained small recurrent networks
    as encoder and decoder; Kalchbrenner and Blunsom (2013) read a sentence into a vector by
    convolutions.

Idea
    One recurrent network reads the source and ends in a vector c; a second one writes the target
    from c. A new gated unit, later named GRU, learns what to keep and what to forget.

        time      1       2            S              1       2            T
        read     x_1     x_2    …     x_S            BOS     y_1   …    y_{T-1}
                  ↓       ↓            ↓              ↓       ↓            ↓
        state    h<1> →  h<2> → … →  h<S> →  c  →   h'<1> → h'<2> → … →  h'<T>    D wide
                                             └────────┴───────┴────────────┘      c to each step
        write                                        y_1     y_2   …      y_T     and output

Symbols
    paper       code    shape      meaning
    x_t, y_t    src, y  (B,)       token
    e(x)        e       (B,E)      embedding
    h<t>        h       (B,D)      encoder state
    c           c       (B,D)      summary of the source
    h'<t>       s       (B,D)      decoder state (s as in `bahdanau`)
    z, r        z, r    (B,D)      update gate, reset gate
    s'          pairs   (B,2O)     inputs of the maxout units
    s           maxout  (B,O)      maxout units (not the code's s): the larger of each pair
    W, U, C, V  W, U, C, V         as in the paper (in shapes, V is the vocabulary)
    U_z, U_r    U_zr    (2D,D)     in one matrix; U is apart, because r acts before it
    V'          V_start            from c to the decoder's first state
    O_h         U_o     (2O,D)     output weights of the state, named as in `bahdanau`
    O_y, O_c    V_o, C_o           output weights of the previous word and of the summary
    G           W_o     (V,O)      output matrix (paper: of rank 100)

Differs
    1. The authors' code (lisa-groundhog/GroundHog) differs from the paper: there z lets the new
       state in (the gate's sign is flipped), and c = h<S>. Here, as in the paper, z keeps the old
       state, eq. (7), and c = tanh(V h<S>), A.1.1.
    2. The paper contradicts itself. In the decoder r acts on the state alone, as in eq. (8) and
       their code; A.1.2 prints it around U' h' + C c.
    3. One vocabulary and one embedding serve both languages, as in all models here.
    4. Sizes are those of 4.1.1; A.1.1 embeds words in 500 numbers, and A.1.2 prints a G of rank
       500. Here W_o has full rank (4.1.1: rank 100). AdamW or Muon (paper: Adadelta); dropout is
       ours; non-recurrent weights start at N(0, 1/fan-in) (paper: N(0, 0.01²), for width 1000).
    5. It translates whole sentences by itself (paper: rescores phrases of another system).
    6. The first word is written after reading BOS (A.1.2: e(y_0) is a vector of zeros). The authors
       end each source with an end-of-sequence token; here each task decides.

Cost
    Time O((S+T) D²), and O(D) numbers from source to target for any S; S + T sequential steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import SequenceModel, Share, Size

# ------------------------------------------------------------------------------------- Config


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes; the defaults are the paper's."""

    vocab_size: Size
    """Tokens in the shared vocabulary (paper: 15,000 words per language)."""
    d_model: Size = 1000
    """Width of encoder and decoder state (section 4.1.1)."""
    d_embed: Size = 100
    """Width of an embedding (section 4.1.1: rank-100 matrices)."""
    d_maxout: Size = 500
    """Maxout units of the output layer, each the larger of two inputs (section 4.1.1)."""
    dropout: Share = 0.0
    """Dropout probability of embeddings and output units (paper: none)."""


PAPER = Config(vocab_size=15_000)

# -------------------------------------------------------------------------------------- State


class State(NamedTuple):
    """All that the decoder knows: its size does not depend on the source's length."""

    c: Float[Tensor, "R D"]  # R: rows of a step, B × beams; other letters: `interface.py`
    s: Float[Tensor, "R D"]


# -------------------------------------------------------------------------------------- Parts


class GatedUnit(nn.Module):
    """Section 2.3: a reset gate r and an update gate z; the caller computes x = W e (+ C c)."""

    def __init__(self, d_model: int):
        super().__init__()
        self.U_zr = nn.Linear(d_model, 2 * d_model, bias=False)
        self.U = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Float[Tensor, "R D3"], h: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        """Return the next state."""
        # x (R,3D) holds the inputs of z, r and h_new side by side.
        x_zr, x_h = x.split([2 * h.shape[-1], h.shape[-1]], -1)
        z, r = torch.sigmoid(x_zr + self.U_zr(h)).chunk(2, -1)  #                      (6), (5)
        h_new = torch.tanh(x_h + self.U(r * h))  #                                          (8)
        return z * h + (1 - z) * h_new  #                                                   (7)


class Encoder(nn.Module):
    """Read the source from left to right."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.d_model = cfg.d_model
        self.W = nn.Linear(cfg.d_embed, 3 * cfg.d_model)
        self.unit = GatedUnit(cfg.d_model)

    def forward(
        self, e: Float[Tensor, "B S E"], src_mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B D"]:
        """Return the state after the last word; pads come after it."""
        h = e.new_zeros(len(e), self.d_model)
        states = [h]  # after 0, 1, 2, … words, so that n words are at index n
        for x_t in self.W(e).unbind(1):
            h = self.unit(x_t, h)
            states.append(h)
        n = src_mask.sum(1)  # words of each source; row b: the state after its n[b] words
        return torch.stack(states, 1)[torch.arange(len(n), device=n.device), n]


class DeepOutput(nn.Module):
    """A.1.2: the next word from state, previous word and summary, through maxout units."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.U_o = nn.Linear(cfg.d_model, 2 * cfg.d_maxout)
        self.V_o = nn.Linear(cfg.d_embed, 2 * cfg.d_maxout, bias=False)
        self.C_o = nn.Linear(cfg.d_model, 2 * cfg.d_maxout, bias=False)
        self.W_o = nn.Linear(cfg.d_maxout, cfg.vocab_size)
        self.dropout = nn.Dropout(cfg.dropout)

    def forward(
        self, s: Float[Tensor, "*B D"], e: Float[Tensor, "*B E"], c: Float[Tensor, "*#B D"]
    ) -> Float[Tensor, "*B V"]:
        """Return logits; over many steps one c serves all, and its axis of time is 1."""
        pairs = self.U_o(s) + self.V_o(e) + self.C_o(c)
        maxout = pairs.unflatten(-1, (-1, 2)).amax(-1)  #                         maxout, A.1.2
        return self.W_o(self.dropout(maxout))


# -------------------------------------------------------------------------------------- Model


class RNNEncDec(SequenceModel):
    """Cho et al. 2014: read the source into c, write the target from c."""

    config_type = Config

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.embed = nn.Embedding(cfg.vocab_size, cfg.d_embed)
        self.dropout = nn.Dropout(cfg.dropout)
        self.encoder = Encoder(cfg)
        self.V = nn.Linear(cfg.d_model, cfg.d_model)
        self.V_start = nn.Linear(cfg.d_model, cfg.d_model)
        self.W = nn.Linear(cfg.d_embed, 3 * cfg.d_model)
        self.C = nn.Linear(cfg.d_model, 3 * cfg.d_model, bias=False)
        self.unit = GatedUnit(cfg.d_model)
        self.output = DeepOutput(cfg)
        init(self)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source; all that is left of it is c."""
        h = self.encoder(self.dropout(self.embed(src)), src_mask)
        c = torch.tanh(self.V(h))  #                                                     A.1.1
        return State(c, torch.tanh(self.V_start(c)))  #                           h'<0>, A.1.2

    def step(self, y: Int[Tensor, " R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Write one token: c is read by the state and by the output at every step."""
        e = self.dropout(self.embed(y))
        c = state.c
        s = self.unit(self.W(e) + self.C(c), state.s)  #                                   2.2
        return self.output(s, e, c), state._replace(s=s)

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Loop over `step`'s recurrence; what does not depend on the state is computed first."""
        state = self.encode(src, src_mask)
        e = self.dropout(self.embed(tgt_in))
        c = state.c.unsqueeze(1)
        x = self.W(e) + self.C(c)
        s = state.s
        states = []
        for x_t in x.unbind(1):
            s = self.unit(x_t, s)
            states.append(s)
        return self.output(torch.stack(states, 1), e, c)

    def source_floats(self, n: int) -> int:
        """Return how many numbers about a source of n tokens the paper gives its decoder."""
        return self.config.d_model


# --------------------------------------------------------------------------------------- Init


def init(model: SequenceModel) -> None:
    """Make recurrent matrices orthogonal, all others N(0, 1/fan-in), biases zero."""
    for name, p in model.named_parameters():
        if "unit" in name:  # U and U_zr
            for block in p.data.split(p.shape[1]):  # U_zr holds two square matrices
                nn.init.orthogonal_(block)
        elif p.dim() == 2:
            nn.init.normal_(p, std=p.shape[1] ** -0.5)
        else:
            nn.init.zeros_(p)

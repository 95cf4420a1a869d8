"""Attention: one annotation per source word; look again at every step.

Paper
    D. Bahdanau, K. Cho, Y. Bengio: Neural Machine Translation by Jointly Learning to Align and
    Translate. ICLR 2015, arXiv:1409.0473v7 (v1: 1 September 2014; equations, A.x: appendix).

Before
    The RNN encoder–decoder reads every source into one vector, in which the authors suspect a
    bottleneck: its BLEU fell with length (Cho et al. 2014, arXiv:1409.1259). Graves (2013,
    arXiv:1308.0850) generated handwriting from a text by a soft window that moves only forwards.

Idea
    Keep one annotation per source word, read in both directions. Before each target word, score all
    annotations against the decoder's state and read their weighted mean: a soft alignment.

        time      1        2            S              i-1         i
        read     x_1      x_2    …     x_S           y_{i-2}    y_{i-1}
                  ↓        ↓            ↓               ↓          ↓
        state    h_1  ⇄   h_2  ⇄ … ⇄   h_S           s_{i-1}  →   s_i            h 2D, s D wide
        weight  α_i1     α_i2    …    α_iS    ←  score  ┘          ↑             Σ_j α_ij = 1
        mean      └────────┴────────────┴─────────────────→  Σ_j α_ij h_j = c_i
        write                                             s_i, c_i, y_{i-1}  →  y_i

Symbols
    paper       code    shape      meaning
    x_t, y_i    src, y  (B,)       token
    E y_i       e       (B,E)      embedding; E is the paper's matrix, in shapes its width
    h_j         h       (B,S,2D)   annotations: forward and backward state side by side
    U_a h_j     keys    (B,S,A)    the half of the score that does not depend on the step
    s_i         s       (B,D)      decoder state
    alpha_ij    —       (B,J,S)    in step i: of each beam, weights over source words j = 1 … S
    c_i         c       (B,2D)     this step's summary of the source
    t_i         maxout  (B,O)      maxout units of the output

Differs
    1. None in the unit: z lets the new state in (A.1.1), opposite to `rnn_encdec` (Cho's eq. 7).
    2. The output reads s_i, as in eq. (4); A.2.2 prints s_{i-1}. In the authors' code, the score
       uses a state that has already read y_{i-1}; in A.1.2, and here, it uses s_{i-1}.
    3. One vocabulary and one embedding serve both languages, as in all models here.
    4. AdamW or Muon (paper: Adadelta); dropout is ours; weights that are neither recurrent nor in
       the score start at N(0, 1/fan-in) (paper: N(0, 0.01²), for width 1000).
    5. The first word is written after BOS (authors' code: zeros); a task decides on a source's EOS.

Cost
    Time O((S+T) D² + S T (A + D)), and O(S D) numbers from source to target; S + T steps in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import NonNegative, SequenceModel, Share, Size

# ------------------------------------------------------------------------------------- Config


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes; the defaults are the paper's."""

    vocab_size: Size
    """Tokens in the shared vocabulary (paper: 30,000 words per language)."""
    d_model: Size = 1000
    """Width of decoder state and of each encoder direction (A.2.3: n)."""
    d_embed: Size = 620
    """Width of an embedding (A.2.3: m)."""
    d_maxout: Size = 500
    """Maxout units of the output layer, each the larger of two inputs (A.2.3: l)."""
    d_align: Size = 1000
    """Hidden units of the alignment model (A.2.3: n')."""
    std_align: NonNegative = 0.001
    """Standard deviation of W_a and U_a before training (B.1)."""
    v_align: float = 0.0
    """Value of every element of v_a before training (B.1)."""
    dropout: Share = 0.0
    """Dropout probability of embeddings and output units (paper: none)."""


PAPER = Config(vocab_size=30_000)

# -------------------------------------------------------------------------------------- State


class State(NamedTuple):
    """All that the decoder knows: it grows with the source, one annotation per word."""

    h: Float[Tensor, "B S D2"]  # letters of shapes: see `interface.py`
    keys: Float[Tensor, "B S A"]
    src_mask: Bool[Tensor, "B S"]
    s: Float[Tensor, "R D"]


# -------------------------------------------------------------------------------------- Parts


class GatedUnit(nn.Module):
    """A.1.1: a reset gate r and an update gate z; the caller computes x = W e (+ C c)."""

    def __init__(self, d_model: int):
        super().__init__()
        self.U_zr = nn.Linear(d_model, 2 * d_model, bias=False)
        self.U = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Float[Tensor, "R D3"], h: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        """Return the next state; z lets the new one in; that of `rnn_encdec` keeps the old."""
        # x (R,3D) holds the inputs of z, r and h_new side by side.
        x_zr, x_h = x.split([2 * h.shape[-1], h.shape[-1]], -1)
        z, r = torch.sigmoid(x_zr + self.U_zr(h)).chunk(2, -1)  #                         A.1.1
        h_new = torch.tanh(x_h + self.U(r * h))  #                                        A.1.1
        return (1 - z) * h + z * h_new  #                                                 A.1.1


class Encoder(nn.Module):
    """Read the source in both directions; from the right, pads come first: the state stays 0."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.d_model = cfg.d_model
        self.W = nn.Linear(cfg.d_embed, 3 * cfg.d_model)
        self.unit = GatedUnit(cfg.d_model)
        self.W_back = nn.Linear(cfg.d_embed, 3 * cfg.d_model)
        self.unit_back = GatedUnit(cfg.d_model)

    def forward(
        self, e: Float[Tensor, "B S E"], src_mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D2"]:
        """Return an annotation for every word: its forward and its backward state."""
        h = h_back = e.new_zeros(len(e), self.d_model)
        forward_states, backward_states = [], []
        for x_t in self.W(e).unbind(1):
            h = self.unit(x_t, h)
            forward_states.append(h)  # at pads, any state: attention masks it
        x, is_word = self.W_back(e), src_mask.unsqueeze(-1).to(e.dtype)
        for j in reversed(range(e.shape[1])):
            h_back = is_word[:, j] * self.unit_back(x[:, j], h_back)
            backward_states.append(h_back)
        states = torch.stack(forward_states, 1), torch.stack(backward_states[::-1], 1)
        return torch.cat(states, -1)  #                                                     (7)


class Attention(nn.Module):
    """A.1.2: weigh the annotations by how well they fit the decoder's *previous* state."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.W_a = nn.Linear(cfg.d_model, cfg.d_align, bias=False)
        self.U_a = nn.Linear(2 * cfg.d_model, cfg.d_align, bias=False)
        self.v_a = nn.Linear(cfg.d_align, 1, bias=False)

    def attention_weights(self, state: State) -> Float[Tensor, "B J S"]:
        """Return alpha_i for each state s_{i-1}; J rows share a source: 1, or its beams."""
        Wa_s = self.W_a(state.s).unflatten(0, (len(state.h), -1, 1))  # (R,A) → (B,J,1,A)
        Ua_h = state.keys.unsqueeze(1)  # (B,1,S,A)
        score = self.v_a(torch.tanh(Wa_s + Ua_h)).squeeze(-1)  #                          A.1.2
        return score.masked_fill(~state.src_mask.unsqueeze(1), -torch.inf).softmax(-1)  #   (6)

    def forward(self, state: State) -> Float[Tensor, "R D2"]:
        """Return c_i, the expected annotation."""
        return (self.attention_weights(state) @ state.h).flatten(0, 1)  #                   (5)


class DeepOutput(nn.Module):
    """A.2.2: the next word from state, previous word and summary, through maxout units."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.U_o = nn.Linear(cfg.d_model, 2 * cfg.d_maxout)
        self.V_o = nn.Linear(cfg.d_embed, 2 * cfg.d_maxout, bias=False)
        self.C_o = nn.Linear(2 * cfg.d_model, 2 * cfg.d_maxout, bias=False)
        self.W_o = nn.Linear(cfg.d_maxout, cfg.vocab_size)
        self.dropout = nn.Dropout(cfg.dropout)

    def forward(
        self, s: Float[Tensor, "*B D"], e: Float[Tensor, "*B E"], c: Float[Tensor, "*B D2"]
    ) -> Float[Tensor, "*B V"]:
        """Return logits."""
        pairs = self.U_o(s) + self.V_o(e) + self.C_o(c)
        maxout = pairs.unflatten(-1, (-1, 2)).amax(-1)  #                         maxout, A.2.2
        return self.W_o(self.dropout(maxout))


# -------------------------------------------------------------------------------------- Model


class Bahdanau(SequenceModel):
    """Bahdanau et al. 2014 (RNNsearch): align and translate."""

    config_type = Config
    beam_shared_fields = ("h", "keys", "src_mask")  # for search

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.embed = nn.Embedding(cfg.vocab_size, cfg.d_embed)
        self.dropout = nn.Dropout(cfg.dropout)
        self.encoder = Encoder(cfg)
        self.W_s = nn.Linear(cfg.d_model, cfg.d_model)
        self.attention = Attention(cfg)
        self.cross_attentions = [self.attention]  # for plots
        self.W = nn.Linear(cfg.d_embed, 3 * cfg.d_model)
        self.C = nn.Linear(2 * cfg.d_model, 3 * cfg.d_model, bias=False)
        self.unit = GatedUnit(cfg.d_model)
        self.output = DeepOutput(cfg)
        init(self)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Annotate each word of the source; s_0 comes from the first word's backward state."""
        h = self.encoder(self.dropout(self.embed(src)), src_mask)
        s = torch.tanh(self.W_s(h[:, 0, self.config.d_model :]))  #                  s_0, A.2.2
        keys = self.attention.U_a(h)
        return State(h.to(keys.dtype), keys, src_mask, s)  # in bfloat16: cast once, not each step

    def step(self, y: Int[Tensor, " R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Write one token: attend with s_{i-1}, then update the state with what was read."""
        e = self.dropout(self.embed(y))
        c = self.attention(state)
        s = self.unit(self.W(e) + self.C(c), state.s)  #                               s_i, A.2.2
        return self.output(s, e, c), state._replace(s=s)

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Loop over `step`'s recurrence; what does not depend on the state is computed first."""
        state = self.encode(src, src_mask)
        e = self.dropout(self.embed(tgt_in))
        x = self.W(e)
        states, contexts = [], []
        for x_t in x.unbind(1):
            c = self.attention(state)
            state = state._replace(s=self.unit(x_t + self.C(c), state.s))
            states.append(state.s)
            contexts.append(c)
        return self.output(torch.stack(states, 1), e, torch.stack(contexts, 1))

    def source_floats(self, n: int) -> int:
        """Return how many numbers about a source of n tokens the paper gives its decoder."""
        return n * 2 * self.config.d_model


# --------------------------------------------------------------------------------------- Init


def init(model: SequenceModel) -> None:
    """Make recurrent matrices orthogonal and the score small (B.1), all others N(0, 1/fan-in)."""
    for name, p in model.named_parameters():
        if name.endswith(("W_a.weight", "U_a.weight")):
            nn.init.normal_(p, std=model.config.std_align)
        elif name.endswith("v_a.weight"):
            nn.init.constant_(p, model.config.v_align)
        elif "unit" in name:  # U and U_zr
            for block in p.data.split(p.shape[1]):  # U_zr holds two square matrices
                nn.init.orthogonal_(block)
        elif p.dim() == 2:
            nn.init.normal_(p, std=p.shape[1] ** -0.5)
        else:
            nn.init.zeros_(p)

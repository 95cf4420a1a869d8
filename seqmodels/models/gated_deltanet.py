"""Gated DeltaNet: a memory of fixed size that is corrected, not only added to.

Paper
    S. Yang, J. Kautz, A. Hatamizadeh: Gated Delta Networks: Improving Mamba2 with Delta Rule.
    ICLR 2025, arXiv:2412.06464v3. Its parents: the delta rule as a memory, I. Schlag, K. Irie, J.
    Schmidhuber: Linear Transformers Are Secretly Fast Weight Programmers, ICML 2021,
    arXiv:2102.11174; its parallel form, S. Yang et al., NeurIPS 2024, arXiv:2406.06484
    ("2024"); the gate α, `mamba2.py`.

Before
    Linear attention adds every pair of key and value to one matrix: pairs whose keys are similar
    disturb each other, and a new value of a key is mixed with its old one. Mamba-2 forgets, but
    all that it remembers at once.

Idea
    Before writing a value, read what the memory holds under its key, and write the difference:
    S_t = α_t (I − β_t k_t k_tᵀ) S_{t−1} + β_t k_t v_tᵀ (10, transposed), a gradient step on
    |v_t − Sᵀ k_t|² / 2 at a rate β_t that each token chooses. α_t, also chosen, lets all fade.
    With rows for vectors, as in the code: S_t = α_t S_{t−1} + k_tᵀ u_t, where token t writes
    u_t = β_t (v_t − α_t k_t S_{t−1}). With S_0 before a chunk, faded by γ_t at token t, and what
    the tokens i < t of the chunk have written, each faded by Γ_ti, this is
    u_t = β_t (v_t − γ_t k_t S_0 − Σ_{i<t} Γ_ti (k_t·k_i) u_i), a triangular system, solved at once.

        time      t                                               t + 1
        read     x_t                                             x_{t+1}
                  ↓ k, v                                           ↓ k, v
        memory    S → α S → − β kᵀ (k α S) → + β kᵀ v → S    →     …        F × K numbers a head
                      fades   found: taken    new       ↓ q
        write                                           y

Symbols
    paper       code       shape        meaning
    q, k, v     q, k, v    (B,H,N,K)    queries; keys of length 1: at β = 1 a value is replaced
    S           s          (R,L,H,F,K)  memory, read as q S (the paper's is transposed); F is K
    α           log_a      (B,H,N,1)    how much of the memory is kept, as its logarithm
    β           beta       (B,H,N,1)    how much of the difference is written
    γ           log_gamma  (B,H,C,1)    α_1 … α_t from the start of the chunk, as its logarithm
    Γ           fade       (B,H,C,C)    α_{i+1} … α_t: what of token i is left at t (3.3: also M)
    (3.3)       u          (B,H,C,K)    what each token of a chunk writes (paper: Ũ − W⃖ Sᵀ)
    —           window     (R,L,W,3D)   last inputs of the convolution, W = d_conv − 1

Differs
    1. The rest is `gpt.py` without positions (the paper: RMSNorm, SwiGLU); keys, values and the
       output's gate are as wide as the model (NVlabs/GatedDeltaNet: 0.75, 1.5 and 1.5 times).
    2. The switches: without `is_gated` it is DeltaNet (2024), but for the output's gate; without
       `is_delta`, values are added; without both, it is linear attention with features of length
       1, values times β, unnormalised. `beta_max` 2 lets I − β k kᵀ be a mirror (arXiv:2411.12537).
    3. α starts at half-lives of 693 to 7 tokens that are spread over the heads, as in `mamba2.py`;
       the authors draw them as Mamba-2's, with A from 0 … 16: 0.6 to 931 in 98 % of heads.

Cost
    Time O(L (S+T) (D² + C D)) to train, C = CHUNK, in (S+T) / C sequential steps; writing takes T
    steps of O(L D²), however long the text is, and memory O(L D²/H), where GPT has O(L (S+T) D).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import NonNegative, Positive, SequenceModel, Share, Size
from seqmodels.models.cache import head_width
from seqmodels.models.memory import Layer, TextModel, convolve, in_float32, join, read_layers

# ------------------------------------------------------------------------------------- Config


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes; the defaults are those of the authors' model of 1.3 billion parameters."""

    vocab_size: Size
    """Tokens in the vocabulary (section 4: 32,000)."""
    d_model: Size = 2400
    """Width; a multiple of n_heads."""
    n_heads: Size = 12
    """Heads; keys are 2400 / 12 = 200 wide, as those of the authors' 9 heads, 0.75 × 2400 / 9."""
    n_layers: Size = 16
    """Blocks."""
    d_conv: Size = 4
    """Tokens that a query, key or value is made of, by a short convolution; 1: its own."""
    is_gated: bool = True
    """Whether the memory fades, by α."""
    is_delta: bool = True
    """Whether a value replaces what its key finds, or is added to it."""
    beta_max: Positive = 1.0
    """The largest β: 1, or up to 2 (2.2)."""
    init_std: NonNegative = 0.02
    """Weights start at N(0, this²), as in GPT; the tasks' narrow models: larger."""
    dropout: Share = 0.0
    """Dropout probability."""


LARGE = Config(vocab_size=32_000)
CHUNK = 32
"""Tokens read at once; 64, as elsewhere, was 1.1 times as slow on a CPU (no record is kept)."""

# -------------------------------------------------------------------------------------- State


class State(NamedTuple):
    """The memory of every layer, whose size does not depend on the text."""

    s: Float[Tensor, "R L H F K"]  # letters of shapes: see `interface.py`
    window: Float[Tensor, "R L W _"]


# -------------------------------------------------------------------------------------- Parts


def read_token(
    q: Tensor, k: Tensor, v: Tensor, gates: Tensor, s: Tensor, is_delta: bool
) -> tuple[Tensor, Tensor]:
    """Write and read one token, as the paper's recurrence; also return the memory."""
    # q, k (B,H,1,F); v (B,H,1,K); log_a, beta (B,H,1,1); s (B,H,F,K)
    log_a, beta = gates
    s = log_a.exp() * s  # all fades
    if is_delta:
        v = v - k @ s  # what k finds is taken away
    s = s + k.mT @ (beta * v)  #                                                          (10)
    return q @ s, s


@in_float32
def read_chunks(
    q: Tensor, k: Tensor, v: Tensor, gates: Tensor, s: Tensor, is_delta: bool
) -> tuple[Tensor, Tensor]:
    """Write and read N tokens, a chunk at a time; return what they read, and the memory."""
    heads, parts = [], (x.split(CHUNK, -2) for x in (q, k, v, gates))  # gates (2,B,H,N,1)
    for q, k, v, (log_a, beta) in zip(*parts, strict=True):
        log_gamma = log_a.cumsum(2)
        gamma, rest = log_gamma.exp(), (log_gamma[:, :, -1:] - log_gamma).exp()  # γ_t, γ_C / γ_i
        # γ_t / γ_i; above the diagonal, 0 before exp (no overflow) and 0 after it.
        fade = (log_gamma - log_gamma.mT).tril().exp().tril()
        u = beta * v
        if is_delta:  # (I + lower) U = β (V − γ K S_0)
            lower = beta * fade * (k @ k.mT)  # its diagonal is not read: 1
            u = u - beta * gamma * (k @ s)
            u = torch.linalg.solve_triangular(lower, u, upper=False, unitriangular=True)  #  3.3
        heads.append(gamma * (q @ s) + (fade * (q @ k.mT)) @ u)  #                           3.3
        s = gamma[:, :, -1:] * s + (rest * k).mT @ u  #                                      3.3
    return torch.cat(heads, 2), s


class MultiHeadAttention(nn.Module):
    """3.4: H memories in parallel; queries, keys and values are from one text."""

    def __init__(self, cfg: Config):
        super().__init__()
        D, H = cfg.d_model, cfg.n_heads
        self.to_heads = nn.Unflatten(-1, (3, H, head_width(D, H)))
        self.W_qkv, self.W_o = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        shape = cfg.d_conv, 1, self.W_qkv.out_features  # (W + 1, 1, 3D), for `convolve`
        self.filter = nn.Parameter(torch.empty(shape)) if cfg.d_conv > 1 else None
        self.W_beta, self.W_g = nn.Linear(D, H, bias=False), nn.Linear(D, D, bias=False)
        self.norm, self.cfg = nn.RMSNorm(D // H, eps=1e-5), cfg
        if cfg.is_gated:
            self.W_alpha, self.log_A = nn.Linear(D, H), nn.Parameter(torch.zeros(H))

    def qkv(self, x: Tensor, real: Tensor, window: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return queries (length 1/√K), keys (1) and values, 0 at the pads in front; the window."""
        x, window = convolve(self.W_qkv(x), real, window, self.filter)  # Σ_i f_i x_{t−W+i}
        q, k, v = self.to_heads(nn.functional.silu(x)).permute(2, 0, 3, 1, 4)
        q, k = (t * (t.square().sum(-1, keepdim=True) + 1e-6).rsqrt() for t in (q, k))
        return q / q.shape[-1] ** 0.5, k, v, window  # √K as in softmax; but for ε, `norm` undoes it

    @in_float32
    def gates(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "2 B H N 1"]:
        """Return log α and β of all heads."""
        beta = self.cfg.beta_max * self.W_beta(x).sigmoid()  #                             3.4
        log_a = torch.zeros_like(beta)
        if self.cfg.is_gated:
            log_a = -self.log_A.exp() * nn.functional.softplus(self.W_alpha(x))  #         3.4
        return torch.stack([log_a, beta]).mT.unsqueeze(-1)

    def forward(
        self, x: Float[Tensor, "B N D"], real: Tensor, s: Tensor | None = None,
        window: Tensor | None = None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """Write and read a text with all heads, or one token after a memory; also return it."""
        q, k, v, window = self.qkv(x, real, window)
        tokens = q, k, v, self.gates(x)
        if s is None:
            empty = x.new_zeros(*v.shape[:2], k.shape[3], v.shape[3])  # (B,H,F,K)
            heads, s = read_chunks(*tokens, empty, self.cfg.is_delta)
        else:
            heads, s = read_token(*tokens, s, self.cfg.is_delta)
        heads = self.norm(heads).transpose(1, 2).flatten(2)  #                             3.4
        return self.W_o(heads * nn.functional.silu(self.W_g(x))), s, window  #             3.4


# -------------------------------------------------------------------------------------- Model


class GatedDeltaNet(TextModel):
    """Yang, Kautz and Hatamizadeh 2024: linear attention that corrects its memory."""

    config_type = Config
    undecayed = ("log_A", "W_alpha.bias")  # by weight decay

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.embedding = nn.Embedding(cfg.vocab_size, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)
        self.decoder = nn.ModuleList(
            Layer(MultiHeadAttention(cfg), cfg) for _ in range(cfg.n_layers)
        )
        self.norm = nn.LayerNorm(cfg.d_model)
        init(self)

    def read(self, text: Int[Tensor, "B N"], real: Tensor, n_out: int) -> tuple[Tensor, State]:
        """Read a text in one pass; return the logits of its last tokens, and the memory of it."""
        x, memory = read_layers(self.decoder, self.dropout(self.embedding(text)), real, n_out)
        return self.norm(x) @ self.embedding.weight.T, State(*memory)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source as the beginning of the text; all that is left of it is the memory."""
        text, real = join(src, src_mask, src[:, :0])  # pads in front; no target yet
        return self.read(text, real, 1)[1]

    def step(self, y: Int[Tensor, " R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Write one token in each of R rows, after the row's own text."""
        x, real = self.dropout(self.embedding(y)).unsqueeze(1), y.new_ones(len(y), 1)
        x, memory = read_layers(self.decoder, x, real, 1, state)
        return (self.norm(x) @ self.embedding.weight.T).squeeze(1), State(*memory)

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Read source and target as one text, in one pass: no loop over time but over chunks."""
        return self.read(*join(src, src_mask, tgt_in), tgt_in.shape[1])[0]

    def source_floats(self, n: int) -> int:
        """Return how many numbers about a source of n tokens the paper gives its decoder."""
        D, W = self.config.d_model, self.config.d_conv - 1
        return self.config.n_layers * (D * (D // self.config.n_heads) + 3 * D * W)


# --------------------------------------------------------------------------------------- Init


def init(model: SequenceModel) -> None:
    """Start as GPT does, with half-lives of the memories of 693 to 7 tokens."""
    std = model.config.init_std
    for name, p in model.named_parameters():
        if name.endswith("filter"):
            nn.init.uniform_(p, -(len(p) ** -0.5), len(p) ** -0.5)
        elif name.endswith(("W_o.weight", "ff.2.weight")):
            nn.init.normal_(p, std=std / (2 * model.config.n_layers) ** 0.5)
        elif p.dim() == 2:
            nn.init.normal_(p, std=std)
        elif name.endswith("W_alpha.bias"):  # softplus of it: 0.001 … 0.1
            p.data.copy_(torch.logspace(-3, -1, len(p)).expm1().log())
        elif name.endswith("bias"):
            nn.init.zeros_(p)

"""Linear attention: a memory of fixed size again, read by attention.

Paper
    A. Katharopoulos, A. Vyas, N. Pappas, F. Fleuret: Transformers are RNNs: Fast Autoregressive
    Transformers with Linear Attention. ICML 2020, arXiv:2006.16236v3 (eqs., sections). FAVOR+: K.
    Choromanski et al.: Rethinking Attention with Performers. ICLR 2021, arXiv:2009.14794 ("2021").

Before
    GPT keeps the keys and values of all tokens, and compares each query with every key.

Idea
    Softmax attention is a weighted mean, Σ sim(q,k_j) v_j / Σ sim(q,k_j) with sim(q,k) =
    exp(q·k/√K) (2, 3). If sim(q,k) = φ(q)·φ(k), keys and values enter through two sums (5), to
    which each token adds its own: attention is a recurrence over a memory of fixed size (16–20).

Symbols
    paper       code      shape        meaning
    φ(Q), φ(K)  q, k      (B,H,N,F)    features of queries and keys; before phi: (B,H,N,K)
    D           —         K            width of a head; F is K for elu, n_draws × K for FAVOR+
    s           s         (R,L,H,F,K)  attention memory, Σ φ(k_j) v_jᵀ (not a decoder's state)
    z           z         (R,L,H,F)    normaliser memory, Σ φ(k_j) (not a gate)
    2021: ω     omega     (F,K)        random directions of FAVOR+

Differs
    1. The rest is `gpt.py` (the paper makes images). Attention weights have no dropout: `step`
       never computes them.
    2. Training computes all N² products φ(q)·φ(k): it is written for short texts.
    3. FAVOR+ draws ω once (2021, 4.2: periodically), does not subtract from the keys' log φ its
       maximum over the text, which `step` cannot know, and limits log φ to ±60.

Cost
    Time O(L ((S+T) D² + (S+T)² D)) to train, in O(1) sequential steps; writing takes T steps of
    O(L D²) each, however long the text is, and memory O(L F D), where GPT has O(L (S+T) D).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import PAD, NonNegative, SequenceModel, Share, Size
from seqmodels.models.cache import head_width

# ------------------------------------------------------------------------------------- Config


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes; the defaults are those of the paper's model of its largest images (4.2.1, 4.2.2)."""

    vocab_size: Size
    """Tokens in the vocabulary (images: 256 shades)."""
    d_model: Size = 256
    """Width; a multiple of n_heads."""
    n_heads: Size = 8
    """Heads."""
    n_layers: Size = 16
    """Blocks."""
    n_positions: Size = 3072
    """Longest text, source and target together."""
    feature_map: str = "elu"
    """elu: elu(x) + 1; favor: positive orthogonal random features (2021)."""
    n_draws: Size = 1
    """favor: features of a head, in multiples of its width; elu: 1."""
    init_std: NonNegative = 0.02
    """Weights start at N(0, this²), as in GPT; the tasks' narrow models: larger."""
    dropout: Share = 0.1
    """Dropout probability."""

    def source_floats(self, n: int) -> int:
        """Return how many numbers about a source of n tokens the paper gives its decoder."""
        return self.n_layers * self.n_draws * self.d_model * (self.d_model // self.n_heads + 1)


CIFAR = Config(vocab_size=256)

# -------------------------------------------------------------------------------------- State


class State(NamedTuple):
    """The memory of every layer, whose size does not depend on the text, and the text's length."""

    s: Float[Tensor, "R L H F K"]
    z: Float[Tensor, "R L H F"]
    n: Int[Tensor, " R"]


# -------------------------------------------------------------------------------------- Parts


class MultiHeadAttention(nn.Module):
    """3.2: H linear attention heads in parallel; queries, keys and values are from one text."""

    def __init__(self, cfg: Config):
        super().__init__()
        width, kind, n = head_width(cfg.d_model, cfg.n_heads), cfg.feature_map, cfg.n_draws
        if not ((kind == "favor" and n >= 1) or (kind == "elu" and n == 1)):
            raise ValueError(f"feature_map {kind!r}, n_draws {n}; choose 'elu' and 1, or 'favor'")
        self.to_heads = nn.Unflatten(-1, (3, cfg.n_heads, width))
        self.W_qkv = nn.Linear(cfg.d_model, 3 * cfg.d_model)
        self.W_o = nn.Linear(cfg.d_model, cfg.d_model)
        self.omega = nn.Buffer(torch.empty(n * width, width)) if kind == "favor" else None

    def phi(self, x: Float[Tensor, "B H N K"], is_query: bool) -> Float[Tensor, "B H N F"]:
        """Return the features of queries or keys, all positive."""
        if self.omega is None:
            above = x.relu()  # elu(x) + 1 is x + 1 above zero and exp(x) below it
            return above + (x - above).exp()  #                                elu(x) + 1, (7)
        x = x / x.shape[-1] ** 0.25
        log_phi = x @ self.omega.T - x.square().sum(-1, keepdim=True) / 2  #           2021, (7)
        if is_query:  # a factor common to its features cancels in (8)
            log_phi = log_phi - log_phi.amax(-1, keepdim=True)
        return log_phi.clamp(-60, 60).exp() / len(self.omega) ** 0.5  #                2021, (5)

    def qkv(self, x: Float[Tensor, "B N D"]) -> tuple[Tensor, Tensor, Tensor]:
        """Return features of the queries and keys, and the values of all heads."""
        q, k, v = self.to_heads(self.W_qkv(x)).permute(2, 0, 3, 1, 4)
        return self.phi(q, True), self.phi(k, False), v

    def scores(self, q: Tensor, k: Tensor) -> Float[Tensor, "B H N M"]:
        """Compare the queries of the last N of M tokens with the keys up to their own."""
        return (q @ k.mT).tril(k.shape[2] - q.shape[2])

    def attention_weights(self, q: Tensor, k: Tensor, v: Tensor) -> Float[Tensor, "B H N M"]:
        """Return each query's weights over the keys, for plots; takes what `forward` takes."""
        score = self.scores(q, k)
        return score / score.sum(-1, keepdim=True)  #                                       (8)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Float[Tensor, "B N D"]:
        """Attend with all heads at all places at once, then merge them with W_o."""
        score = self.scores(q, k)
        heads = score @ v / score.sum(-1, keepdim=True)  #                                  (8)
        return self.W_o(heads.transpose(1, 2).flatten(2))

    def step(self, q: Tensor, s: Tensor, z: Tensor) -> Float[Tensor, "B N D"]:
        """Attend by way of the memory: the same numbers, without keys and values."""
        heads = q @ s / (q @ z.unsqueeze(-1))  #                                           (12)
        return self.W_o(heads.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """As in GPT: self-attention and feed-forward, each after a norm, added to the stream."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(cfg.d_model), nn.LayerNorm(cfg.d_model)
        self.self_attention, self.dropout = MultiHeadAttention(cfg), nn.Dropout(cfg.dropout)
        d_ff = 4 * cfg.d_model
        inner, outer = nn.Linear(cfg.d_model, d_ff), nn.Linear(d_ff, cfg.d_model)
        self.ff = nn.Sequential(inner, nn.GELU(approximate="tanh"), outer)

    def forward(self, x: Tensor, real: Tensor, n_out: int) -> tuple[Tensor, Tensor, Tensor]:
        """Attend to this text; return the rows of its last tokens, and the sums over it."""
        q, k, v = self.self_attention.qkv(self.norm_1(x))
        k = k * real[:, None, :, None]  # a pad has no features
        x, q = x[:, -n_out:], q[:, :, -n_out:]
        x = x + self.dropout(self.self_attention(q, k, v))
        return x + self.dropout(self.ff(self.norm_2(x))), k.mT @ v, k.sum(2)  #      (10), (11)

    def step(self, x: Tensor, s: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Add one token to the memory, then attend to it; return its row, and the memory."""
        q, k, v = self.self_attention.qkv(self.norm_1(x))
        s, z = s + k.mT @ v, z + k.sum(2)  #                                         (18), (19)
        x = x + self.dropout(self.self_attention.step(q, s, z))  #                         (20)
        return x + self.dropout(self.ff(self.norm_2(x))), s, z


# -------------------------------------------------------------------------------------- Model


class LinearAttention(SequenceModel):
    """Katharopoulos et al. 2020: GPT, with a memory of fixed size."""

    config_type = Config

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.embedding = nn.Embedding(cfg.vocab_size, cfg.d_model)
        self.positions = nn.Embedding(cfg.n_positions, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)
        self.decoder = nn.ModuleList(Layer(cfg) for _ in range(cfg.n_layers))
        self.cross_attentions = [layer.self_attention for layer in self.decoder]
        self.norm = nn.LayerNorm(cfg.d_model)
        init(self)

    def max_target(self, n_source: int) -> int:
        """Return how many target tokens (with BOS) the positions leave room for."""
        return self.config.n_positions - n_source

    def embed(
        self, tokens: Int[Tensor, "*B"], position: Tensor, n: int | None = None
    ) -> Float[Tensor, "*B D"]:
        """Return embeddings of tokens and positions; n: length of the text with pads, if known."""
        longest = self.config.n_positions
        if (n is None or n > longest) and int(position.max()) >= longest:
            raise ValueError(
                f"source and target need {int(position.max()) + 1} positions, this model has "
                f"{longest}; shorten the text or build it with more n_positions"
            )
        return self.dropout(self.embedding(tokens) + self.positions(position))

    def read(self, text: Int[Tensor, "B N"], real: Tensor, n_out: int) -> tuple[Tensor, State]:
        """Read a text in one pass; return the logits of its last tokens, and the memory of it."""
        position, memory = (real.cumsum(1) - 1).clamp(min=0), []
        x = self.embed(text, position, text.shape[1])
        for layer in self.decoder:
            x, *sums = layer(x, real, n_out if layer is self.decoder[-1] else x.shape[1])
            memory.append(sums)
        s, z = (torch.stack(sums, 1) for sums in zip(*memory, strict=True))
        return self.norm(x) @ self.embedding.weight.T, State(s, z, real.sum(1))

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source as the beginning of the text; all that is left of it is sums."""
        return self.read(src, src_mask, 1)[1]

    def step(self, y: Int[Tensor, " R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Write one token in each of R rows, after the row's own text."""
        x, memory = self.embed(y, state.n).unsqueeze(1), []
        for layer, s, z in zip(self.decoder, state.s.unbind(1), state.z.unbind(1), strict=True):
            assert isinstance(layer, Layer)  # for the type checker
            x, *sums = layer.step(x, s, z)
            memory.append(sums)
        s, z = (torch.stack(sums, 1) for sums in zip(*memory, strict=True))
        return (self.norm(x) @ self.embedding.weight.T).squeeze(1), State(s, z, state.n + 1)

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Read source and target as one text, in one pass: no loop over time."""
        text, real = torch.cat([src, tgt_in], 1), torch.cat([src_mask, tgt_in != PAD], 1)
        return self.read(text, real, tgt_in.shape[1])[0]

    def text_logits(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B S+T V"]:
        """Do the same, but return all logits, for a loss on the source as well (2018, 3.2)."""
        text, real = torch.cat([src, tgt_in], 1), torch.cat([src_mask, tgt_in != PAD], 1)
        return self.read(text, real, text.shape[1])[0]


# --------------------------------------------------------------------------------------- Init


def init(model: SequenceModel) -> None:
    """Start as GPT does; draw random directions, orthogonal and as long as Gaussian ones."""
    std = model.config.init_std
    for name, p in model.named_parameters():
        if name.endswith(("W_o.weight", "ff.2.weight")):
            nn.init.normal_(p, std=std / (2 * model.config.n_layers) ** 0.5)
        elif p.dim() == 2:
            nn.init.normal_(p, std=std)
        elif name.endswith("bias"):
            nn.init.zeros_(p)
    for omega in model.buffers():
        for block in omega.split(omega.shape[1]):
            nn.init.orthogonal_(block)  #                                              2021, 2.4
        omega *= torch.empty_like(omega).normal_().norm(dim=1, keepdim=True)

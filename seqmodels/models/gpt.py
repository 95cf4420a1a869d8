"""GPT: decoder only; the source is a prefix.

Paper
    A. Radford, J. Wu, R. Child, D. Luan, D. Amodei, I. Sutskever: Language Models are
    Unsupervised Multitask Learners. OpenAI 2019 (GPT-2); sections by its numbers. Its ancestor:
    A. Radford, K. Narasimhan, T. Salimans, I. Sutskever: Improving Language Understanding by
    Generative Pre-Training. OpenAI 2018 (GPT: the same decoder, normalised after each sublayer).
    "2017" is the paper of `transformer.py`.

Before
    The Transformer has two stacks, and needs pairs of texts to train them. Liu et al. (2018,
    arXiv:1801.10198) kept the decoder alone and joined source and target into one text; McCann et
    al. (2018, arXiv:1806.08730) stated ten tasks as questions about a text.

Idea
    Keep only the decoder's self-attention. Every task is a text to continue: a source is just
    what comes before the target.

        time      1      2           S      S+1     S+2        S+T       all at once
        read     x_1    x_2    …    x_S     BOS     y_1   …  y_{T-1}     + learned positions
                  ↓      ↓           ↓       ↓       ↓          ↓
        layers    o  →   o  → … →    o   →   o   →   o  → … →   o        L layers, D wide
                  ↓      ↓           ↓       ↓       ↓          ↓
        write    x_2    x_3    …            y_1     y_2   …    y_T       x if `source_loss`

Symbols
    paper       code      shape        meaning
    —           q, k, v   (B,H,N,K)    queries, keys, values of H heads
    W_e         embedding (V,D)        token embedding, also the output matrix (2018: h_0, P(u))
    W_p         positions (P,D)        learned position embedding
    N           2 n_layers             residual layers, two a block (in shapes: length of a text)

Differs
    1. For translation the text is source, BOS, target; pads between them are masked and not
       counted as positions; the loss is on the target only, on which every model is scored,
       unless the training's `source_loss` adds the source's (2018, 3.2: L_3 = L_2 + λ L_1).
    2. `init_std` lets narrow models start from larger weights; its default is 2018's. It also
       applies to positions, for which OpenAI's released code (openai/gpt-2) uses 0.01.
    3. Heads and dropout are those of 2018 (4.1); 2019 states neither.
    4. AdamW or Muon with linear decay (2018, 4.1: Adam with a cosine; 2019 does not say).

Cost
    Time O(L ((S+T) D² + (S+T)² D)), memory O(L (S+T) D); training takes O(1) sequential
    steps, writing takes T.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import PAD, NonNegative, SequenceModel, Share, Size, check_positions
from seqmodels.models.cache import KVCache, fusible, head_width

# ------------------------------------------------------------------------------------- Config


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes; the defaults are GPT-2 small's: its width and layers are table 2's, first row."""

    vocab_size: Size
    """Tokens in the vocabulary (section 2.3: 50,257)."""
    d_model: Size = 768
    """Width; a multiple of n_heads."""
    n_heads: Size = 12
    """Heads (2018, section 4.1)."""
    n_layers: Size = 12
    """Blocks."""
    n_positions: Size = 1024
    """Longest text, source and target together (section 2.3)."""
    init_std: NonNegative = 0.02
    """Weights start at N(0, this²) (2018, section 4.1); the tasks' narrow models: larger."""
    dropout: Share = 0.1
    """Dropout probability (2018, section 4.1)."""


GPT2_SMALL = Config(vocab_size=50_257)

# -------------------------------------------------------------------------------------- State


class State(NamedTuple):
    """Keys and values of every layer: the source's, then the target's."""

    cache: KVCache  # letters of shapes: see `interface.py`


# -------------------------------------------------------------------------------------- Parts


class MultiHeadAttention(nn.Module):
    """2017: H attention heads in parallel; queries, keys and values are from one text."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.to_heads = nn.Unflatten(-1, (3, cfg.n_heads, head_width(cfg.d_model, cfg.n_heads)))
        self.W_qkv = nn.Linear(cfg.d_model, 3 * cfg.d_model)
        self.W_o = nn.Linear(cfg.d_model, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)

    def qkv(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "3 B H N K"]:
        """Return the queries, keys and values of all heads."""
        return self.to_heads(self.W_qkv(x)).permute(2, 0, 3, 1, 4)  # from (B,N,3,H,K)

    def attention_weights(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Return the weights (B,H,N,M), 0 where the mask is False; takes what `forward` takes."""
        score = q @ k.mT / q.shape[-1] ** 0.5
        return score.masked_fill(~mask, -torch.inf).softmax(-1)  #                     2017, (1)

    @fusible  # a mark: on GPUs, `fuse` puts one kernel in its place
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Float[Tensor, "B N D"]:
        """Return softmax(Q Kᵀ / √d_k) V of all heads, merged with W_o."""
        heads = self.dropout(self.attention_weights(q, k, v, mask)) @ v  #             2017, (1)
        return self.W_o(heads.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """2.3: self-attention and feed-forward, each after a norm, added to the residual stream."""

    def __init__(self, cfg: Config, index: int):
        super().__init__()
        self.index = index
        self.norm_1, self.norm_2 = nn.LayerNorm(cfg.d_model), nn.LayerNorm(cfg.d_model)
        self.self_attention, self.dropout = MultiHeadAttention(cfg), nn.Dropout(cfg.dropout)
        d_ff = 4 * cfg.d_model
        inner, outer = nn.Linear(cfg.d_model, d_ff), nn.Linear(d_ff, cfg.d_model)
        self.ff = nn.Sequential(inner, nn.GELU(approximate="tanh"), outer)

    def attend(self, x: Tensor, mask: Tensor, cache: KVCache) -> Float[Tensor, "B N D"]:
        """Attend to the tokens in the cache, then to those of x, where the mask is True."""
        q, k, v = self.self_attention.qkv(self.norm_1(x))
        k, v = cache.update(self.index, k, v)
        return x + self.dropout(self.self_attention(q, k, v, mask))  #                      2.3

    def feed_forward(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        """Work on each token by itself."""
        return x + self.dropout(self.ff(self.norm_2(x)))  #                                 2.3


# -------------------------------------------------------------------------------------- Model


class GPT(SequenceModel):
    """Radford et al. 2019: one stack that continues a text."""

    config_type = Config

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.embedding = nn.Embedding(cfg.vocab_size, cfg.d_model)
        self.positions = nn.Embedding(cfg.n_positions, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)
        self.decoder: Any = nn.ModuleList(Layer(cfg, i) for i in range(cfg.n_layers))
        self.cross_attentions = [layer.self_attention for layer in self.decoder]  # for plots
        self.norm = nn.LayerNorm(cfg.d_model)
        init(self)

    def max_target(self, n_source: int) -> int:
        """Return how many target tokens (with BOS) the positions leave room for."""
        return self.config.n_positions - n_source

    def embed(self, tokens: Int[Tensor, "*B"], position: Tensor, n: int) -> Float[Tensor, "*B D"]:
        """Return embeddings of tokens and of their positions, which are all below n."""
        if n > self.config.n_positions:  # if not, none is too large; a check waits for the GPU
            check_positions(position, self.config.n_positions)
        return self.dropout(self.embedding(tokens) + self.positions(position))  #     2018, (2)

    def decode(self, x: Tensor, mask: Tensor, cache: KVCache, n_out: int) -> Tensor:
        """Pass tokens through all layers; return the logits of the last ones."""
        for layer in self.decoder:
            x = layer.attend(x, mask, cache)
            if layer is self.decoder[-1]:
                x = x[:, -n_out:]  # nothing reads the others any more
            x = layer.feed_forward(x)
        return self.norm(x) @ self.embedding.weight.T  #                              2018, (2)

    def read(self, text: Int[Tensor, "B N"], real: Tensor, cache: KVCache, n_out: int) -> Tensor:
        """Read a text in one pass, behind a causal mask; return the logits of the last tokens."""
        i = torch.arange(text.shape[1], device=text.device)
        causal = i <= i.unsqueeze(1)  # a query sees no later key
        position = (real.cumsum(1) - 1).clamp(min=0)  # pads take no position
        x = self.embed(text, position, text.shape[1])
        return self.decode(x, causal & cache.mask, cache, n_out)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> State:
        """Read the source as the beginning of the text (prefill)."""
        cache = KVCache(src_mask)  # its mask first; keys and values come layer by layer
        self.read(src, src_mask, cache, 1)  # fills the cache; `step` gives the first logits
        return State(cache)

    def step(self, y: Int[Tensor, " R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Write one token in each of R rows: J beams of a source are J queries to its cache."""
        cache = state.cache.grow()  # J slots longer, one a beam; the old State stays
        x = self.embed(y, state.cache.lengths, cache.visible.shape[1])  # ≥ any text's length
        x = x.unflatten(0, (cache.n_sources, -1))  # (B,J,D)
        logits = self.decode(x, cache.mask, cache, x.shape[1])  # of all J beams
        return logits.flatten(0, 1), State(cache)

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Read source and target as one text, in one pass: no loop over time."""
        text, real = torch.cat([src, tgt_in], 1), torch.cat([src_mask, tgt_in != PAD], 1)
        return self.read(text, real, KVCache(real), tgt_in.shape[1])

    def text_logits(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B S+T V"]:
        """Do the same, but return all logits, for a loss on the source as well (2018, 3.2)."""
        text, real = torch.cat([src, tgt_in], 1), torch.cat([src_mask, tgt_in != PAD], 1)
        return self.read(text, real, KVCache(real), text.shape[1])

    def source_floats(self, n: int) -> int:
        """Return how many numbers about a source of n tokens the paper gives its decoder."""
        return n * self.config.n_layers * self.config.d_model  # k and v are made from one D-vector


# --------------------------------------------------------------------------------------- Init


def init(model: SequenceModel) -> None:
    """Draw weights from N(0, 0.02²) (2018), residual outputs smaller by √(2L) (2.3)."""
    std = model.config.init_std
    for name, p in model.named_parameters():
        if name.endswith(("W_o.weight", "ff.2.weight")):  # ff.2: the outer matrix
            nn.init.normal_(p, std=std / (2 * model.config.n_layers) ** 0.5)
        elif p.dim() == 2:
            nn.init.normal_(p, std=std)
        elif name.endswith("bias"):
            nn.init.zeros_(p)

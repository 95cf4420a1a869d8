"""Attention on one sentence: every number of one head, and the same in code, in five steps.

The code: one head by hand, causal, several heads in a loop, all heads at once, and the
Transformer's own attention with projections that change nothing. numbers.js computes the tables
again when a reader changes a weight.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lesson.source import parse_lines
from seqmodels.models.transformer import Config, MultiHeadAttention

WORDS = ["the", "fat", "cat", "sat", "on", "the", "mat"]
FEATURES = ("article", "noun", "position")
"""What is known of each word; positions are counted from the middle of the sentence."""
X = torch.tensor([
    [word == "the", word in ("cat", "mat"), i - len(WORDS) // 2] for i, word in enumerate(WORDS)
]).float()  # fmt: skip
WEIGHTS = {
    "W_q": torch.tensor([[2, 0], [0, 0], [0, 0.5]]),
    "W_k": torch.tensor([[0.0, 0], [3, 0], [0, 1]]),
    "W_v": torch.tensor([[0.0, 0], [1, 0], [0, 1]]),
}
"""An article asks for a noun, and all words ask for words on their side of the sentence."""
N_HEADS = 2


def one_head(
    q: Float[Tensor, "N K"], k: Float[Tensor, "N K"], v: Float[Tensor, "N K"]
) -> Float[Tensor, "N K"]:
    """Compare one query with one key at a time; return the weighted means of the values."""
    means = []
    for q_i in q:
        score = torch.stack([q_i @ k_j for k_j in k]) / len(q_i) ** 0.5
        alpha = score.exp() / score.exp().sum()
        means.append(torch.stack([a * v_j for a, v_j in zip(alpha, v, strict=True)]).sum(0))
    return torch.stack(means)


def causal_head(
    q: Float[Tensor, "N K"], k: Float[Tensor, "N K"], v: Float[Tensor, "N K"]
) -> Float[Tensor, "N K"]:
    """Compare all queries with all keys in one product, and hide the words that come later."""
    score = q @ k.T / q.shape[-1] ** 0.5
    later = torch.ones_like(score).bool().triu(1)
    return score.masked_fill(later, -torch.inf).softmax(-1) @ v


def looped_heads(
    q: Float[Tensor, "N D"], k: Float[Tensor, "N D"], v: Float[Tensor, "N D"]
) -> Float[Tensor, "N D"]:
    """Give each head its part of the width, one head after the other."""
    parts = zip(*(x.chunk(N_HEADS, -1) for x in (q, k, v)), strict=True)
    return torch.cat([causal_head(*part) for part in parts], -1)


def reshaped_heads(
    q: Float[Tensor, "N D"], k: Float[Tensor, "N D"], v: Float[Tensor, "N D"]
) -> Float[Tensor, "N D"]:
    """Make the heads a dimension of their own, and compute all of them in one product."""
    q, k, v = (x.unflatten(-1, (N_HEADS, -1)).transpose(0, 1) for x in (q, k, v))
    score = q @ k.mT / q.shape[-1] ** 0.5
    later = torch.ones_like(score).bool().triu(1)
    heads = score.masked_fill(later, -torch.inf).softmax(-1) @ v
    return heads.transpose(0, 1).flatten(1)


def chapter_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute the same with the Transformer's attention, whose projections change nothing here."""
    attention = MultiHeadAttention(Config(vocab_size=1, d_model=q.shape[-1], n_heads=N_HEADS))
    nn.init.eye_(attention.W_o.weight)
    heads = (attention.split_heads(x.unsqueeze(0)) for x in (q, k, v))
    causal = torch.ones(len(q), len(q)).bool().tril()
    return attention.eval()(*heads, causal)[0].detach()


def describe() -> dict[str, Any]:
    """Return the content of the page."""
    return {
        "words": WORDS,
        "features": FEATURES,
        "X": X.tolist(),
        "weights": {name: W.tolist() for name, W in WEIGHTS.items()},
        "tables": compute_tables(),
        "steps": compute_steps(),
    }


def compute_tables() -> dict[str, list[list[float]]]:
    """Return what one head computes for WORDS, by the names that the page has for each table."""
    q, k, v = (X @ W for W in WEIGHTS.values())
    scores = q @ k.T
    scaled = scores / q.shape[-1] ** 0.5
    masked = scaled.masked_fill(torch.ones_like(scores).bool().triu(1), -torch.inf)
    tables = {"q": q, "k": k, "v": v, "scores": scores, "scaled": scaled, "masked": masked}
    tables |= {"weights": scaled.softmax(-1), "causal": masked.softmax(-1)}
    tables |= {"means": tables["weights"] @ v, "causal_means": tables["causal"] @ v}
    return {name: table.tolist() for name, table in tables.items()}


class Step(NamedTuple):
    """A step: its code, and its result for WORDS."""

    title: str
    note: str
    code: list[str]
    rows: list[list[float]]
    is_same: list[bool]
    """True for each row that equals the one of the step before."""


def compute_steps() -> list[Step]:
    """Return the steps in order."""
    functions = {
        "One head, by hand": one_head,
        "Causal": causal_head,
        "Heads in a loop": looped_heads,
        "Heads as a dimension": reshaped_heads,
        "In the chapter": chapter_attention,
    }
    q, k, v = (X @ W for W in WEIGHTS.values())
    steps, before = [], torch.full_like(v, torch.nan)
    for title, function in functions.items():
        after = function(q, k, v)
        is_same = ((after - before).abs().amax(1) < 1e-6).tolist()
        code = [line.text for line in parse_lines(inspect.getsource(function))]
        steps.append(Step(title, inspect.getdoc(function) or "", code, after.tolist(), is_same))
        before = after
    return steps

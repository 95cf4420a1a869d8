"""What the preset `constants` measures besides scores: gradients of attention, and positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from seqmodels.data.batches import Example, collate
from seqmodels.experiments.task import Rows
from seqmodels.interface import Batch, SequenceModel, device_of
from seqmodels.models.gpt import GPT
from seqmodels.models.transformer import Transformer, sinusoids

N_SENTENCES = 50
"""How many sentences gradients are measured on."""
SHARE = 0.95
"""The share of the variance of positions for which directions are counted."""


def score_gradients(model: SequenceModel, batch: Batch) -> list[tuple[Tensor, Tensor]]:
    """Return the weights (B,H,N,M) of each layer of attention, and the gradients of their scores.

    The loss is the mean over the target. With weights w = softmax(e) and their gradient g, that of
    the scores is w ∘ (g − Σ w ∘ g).
    """
    attending: list[Any] = [m for m in model.modules() if hasattr(m, "attention_weights")]
    attending.remove(model)
    seen = []
    for module in attending:

        def watch(*args: Tensor, compute: Any = module.attention_weights) -> Tensor:
            weights: Tensor = compute(*args)
            weights.retain_grad()
            seen.append(weights)
            return weights

        module.attention_weights = watch
    with torch.enable_grad():
        logits = model(batch.src, batch.src_mask, batch.tgt_in)
        F.cross_entropy(logits.flatten(0, 1), batch.tgt_out.flatten()).backward()
    for module in attending:
        del module.attention_weights
    model.zero_grad()
    found = [(w.detach(), w.grad) for w in seen if w.grad is not None]
    return [(w, w * (g - (w * g).sum(-1, keepdim=True))) for w, g in found]


def measure_scores(model: SequenceModel, start: SequenceModel, examples: Sequence[Example]) -> Rows:
    """Return a row before and after training: the largest weight of a query, and the gradients.

    largest: mean over queries; median: of the gradients of scores, without their sign. Sentences
    are read one at a time, so that none has pads; scores that a mask hides do not count.
    """
    rows: Rows = []
    for name, each in (("start", start), ("end", model)):
        batches = (collate([example], device_of(each)) for example in examples[:N_SENTENCES])
        found = [pair for batch in batches for pair in score_gradients(each, batch)]
        largest = torch.cat([w.amax(-1).flatten() for w, _ in found]).mean()
        median = torch.cat([s[w > 0].abs() for w, s in found]).median()
        rows.append({"when": name, "largest": float(largest), "median": float(median)})
    return rows


def measure_overlap(model: SequenceModel, start: SequenceModel, n: int) -> Rows:
    """Return a row before and after training: how much of the tokens lies where positions do.

    directions: principal ones that hold SHARE of the variance of the first n positions; tokens: the
    share of the embeddings' variance in them; chance: that of vectors of random directions.
    """
    rows: Rows = []
    for name, each in (("start", start), ("end", model)):
        if isinstance(each, GPT):
            places = each.positions.weight[:n].detach()
        elif isinstance(each, Transformer):
            places = sinusoids(torch.arange(n), each.config.d_model)
        else:
            return []
        tokens: Tensor = each.embedding.weight.detach().cpu()
        if tokens.shape[1] != places.shape[1]:  # side by side
            return []
        _, sizes, axes = torch.linalg.svd(places.cpu() - places.cpu().mean(0), full_matrices=False)
        held = sizes.square().cumsum(0) / sizes.square().sum()
        n_axes = int((held < SHARE).sum()) + 1
        tokens = tokens - tokens.mean(0)
        share = (tokens @ axes[:n_axes].T).square().sum() / tokens.square().sum()
        about = {"directions": n_axes, "tokens": float(share), "chance": n_axes / tokens.shape[1]}
        rows.append({"when": name, **about})
    return rows

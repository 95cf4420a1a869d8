"""Measure what a Transformer or a GPT loses without some heads, and where its parameters are.

A head is silenced where it is merged: it gives zero, as in Michel et al. 2019 (arXiv:1905.10650).
`remove_each`, `prune_greedily` and `count_parameters` are analyses of a task; a model without heads
has no rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from seqmodels.analysis.heads import Attention, Rows, attentions
from seqmodels.data.batches import Example
from seqmodels.evaluation.evaluate import teacher_forced
from seqmodels.interface import SequenceModel
from seqmodels.utils.watch import silenced


def loss(
    model: SequenceModel, examples: Sequence[Example], without: Sequence[tuple[Attention, int]]
) -> dict[str, float]:
    """Return nats per token and the share of right tokens, without these heads (from 1)."""
    device = str(next(model.parameters()).device)
    heads = [(a.module.W_o, head - 1) for a, head in without]
    with silenced(heads, getattr(model.config, "n_heads", 1)):
        rows = teacher_forced(model, examples, device, "without heads")
    n = sum(row["n_tokens"] for row in rows)
    nats, right = (sum(row[key] for row in rows) / n for key in ("nats", "n_correct"))
    return {"nats": nats, "accuracy": 100 * right}


def heads_of(model: SequenceModel) -> list[tuple[Attention, int]]:
    """Return all heads, counted from 1 in each attention."""
    return [(a, h) for a in attentions(model) for h in range(1, model.config.n_heads + 1)]


def remove_each(model: SequenceModel, _: SequenceModel, examples: Sequence[Example]) -> Rows:
    """Return nats and accuracy (%) without each head alone; head 0: without all of its attention.

    The first row, removed 0, is of the whole model.
    """
    heads = heads_of(model)
    rows: Rows = [{"removed": 0, **loss(model, examples, [])}] if heads else []
    for a in attentions(model):
        own = [one for one in heads if one[0] == a]
        for head, gone in enumerate([own, *([one] for one in own)]):
            rows.append({"removed": len(gone), **a.named(head), **loss(model, examples, gone)})
    return rows


def prune_greedily(
    model: SequenceModel,
    _: SequenceModel,
    choose: Sequence[Example],
    report: Sequence[Example],
) -> Rows:
    """Remove the head whose removal costs least, again and again; return a row per step.

    It is chosen by the loss on some examples; the loss in the row is that on others.
    """
    left = heads_of(model)
    gone: list[tuple[Attention, int]] = []
    rows: Rows = [{"removed": 0, **loss(model, report, [])}] if left else []
    while left:
        costs = [loss(model, choose, [*gone, head])["nats"] for head in left]
        gone.append(left.pop(costs.index(min(costs))))
        a, head = gone[-1]
        rows.append({"removed": len(gone), **a.named(head), **loss(model, report, gone)})
    return rows


def count_parameters(model: SequenceModel, _: SequenceModel) -> Rows:
    """Return the number of parameters in each part of a model with heads; they sum to all."""
    inside = {id(p) for a in attentions(model) for p in a.module.parameters()}
    parts = dict.fromkeys(("attention", "feed-forward", "embeddings", "norms"), 0)
    kinds = {nn.Embedding: "embeddings", nn.LayerNorm: "norms"}
    for module in model.modules():
        for p in module.parameters(recurse=False):
            part = kinds.get(type(module), "attention" if id(p) in inside else "feed-forward")
            parts[part] += p.numel()
    return [{"part": part, "n": n} for part, n in parts.items()] if inside else []

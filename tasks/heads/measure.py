"""Measure what the heads of a Transformer or a GPT attend to, and what it loses without them.

A head is silenced where it is merged: it gives zero, as in Michel et al. 2019 (arXiv:1905.10650).
A model without heads has no rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from seqmodels.data.batches import Example, batches_by_length, collate
from seqmodels.evaluation.evaluate import BATCH_TOKENS, score_teacher_forced
from seqmodels.evaluation.external import RATES, Link, Links, link_counts
from seqmodels.interface import EOS, PAD, SequenceModel, watch_attention

Rows = list[dict[str, float | str]]
OFFSETS = {"previous": -1, "own": 0, "next": 1}
"""The tokens of its own text, seen from a query, whose weight is measured."""
READINGS = {"aer_written": 0, "aer_read": 1}
"""Which row of weights aligns target word t: the one that writes it, or the next, which reads it
(Chen et al. 2020, arXiv:2004.14837)."""


class Attention(NamedTuple):
    """One module with several heads."""

    kind: str
    """encoder or decoder, where it attends to its own text; source."""
    layer: int
    """From 1."""
    module: Any

    def named(self, head: int) -> dict[str, float | str]:
        """Return the columns that name one of its heads, counted from 1."""
        return {"attention": self.kind, "layer": self.layer, "head": head}


def list_attentions(model: nn.Module) -> list[Attention]:
    """Return the modules that merge heads with a W_o, from the source to the target."""
    modules = []
    for path, module in model.named_modules():
        if hasattr(module, "attention_weights") and hasattr(module, "W_o"):
            stack, layer, name = path.split(".")
            kind = "source" if name == "src_attention" else stack
            modules.append(Attention(kind, int(layer) + 1, module))
    return sorted(modules, key=lambda a: ("encoder", "decoder", "source").index(a.kind))


# --------------------------------------------------------------------------------- the weights


def entropy(weights: Float[Tensor, "*B M"]) -> Float[Tensor, "*B"]:
    """Return the entropy of each distribution, in nats; 0 log 0 is 0."""
    return -torch.xlogy(weights, weights).sum(-1)


def weigh_offset(
    weights: Float[Tensor, "B H N M"], real: Bool[Tensor, "B N"], offset: int
) -> tuple[Float[Tensor, "B H N"], Bool[Tensor, "B N"]]:
    """Return each query's weight on the token `offset` places on, and which queries have one.

    The queries are the last N of M tokens.
    """
    N, M = weights.shape[-2:]
    n = torch.arange(N, device=weights.device)
    exists = (n + offset >= 0) & (n + offset < real.sum(1, keepdim=True))
    place = (M - N + n + offset).clamp(0, M - 1).view(N, 1).expand(*weights.shape[:2], N, 1)
    return weights.gather(-1, place).squeeze(-1), real & exists


def links_of(
    weights: Float[Tensor, "T S"], src: Sequence[int], n_words: int, shift: int
) -> frozenset[Link]:
    """Link each target word to the source word of the largest weight; none if that is EOS."""
    best = weights[shift : shift + n_words, : len(src)].argmax(-1).tolist()
    return frozenset((s, t) for t, s in enumerate(best) if src[s] != EOS)


def error_rate(predicted: Sequence[frozenset[Link]], gold: Sequence[Sequence[Link]]) -> float:
    """Return the alignment error rate over all sentences (%); all gold links are sure."""
    ours, true = ([Links(frozenset(a), frozenset(a)) for a in side] for side in (predicted, gold))
    return float(RATES["aer"].of(link_counts(ours, true).sum(0, keepdims=True))[0])


def with_mean(weights: Float[Tensor, "B H N M"]) -> Float[Tensor, "B H1 N M"]:
    """Return the mean of all heads as head 0, then the heads."""
    return torch.cat([weights.mean(1, keepdim=True), weights], 1)


def collect_weights(
    model: SequenceModel, modules: Sequence[nn.Module], examples: Sequence[Example]
) -> Iterator[tuple[list[int], Any, list[Tensor]]]:
    """Yield batches: which examples, the batch, and each module's weights (B,H,N,M)."""
    device = next(model.parameters()).device
    for run in batches_by_length(examples, BATCH_TOKENS):
        batch = collate([examples[i] for i in run], str(device))
        with watch_attention(modules) as calls:
            model(batch.src, batch.src_mask, batch.tgt_in)
        yield run, batch, [weights for (weights,) in calls]


@torch.inference_mode()
def compute_statistics(
    model: SequenceModel, a: Attention, examples: Sequence[Example]
) -> dict[str, list[float]]:
    """Return the mean over all real queries of what `describe_heads` names, per row of it."""
    sums: dict[str, Tensor] = {}
    for _, batch, (w,) in collect_weights(model, [a.module], examples):
        real = batch.src_mask if a.kind == "encoder" else batch.tgt_in != PAD
        w = with_mean(w)[:, :, -real.shape[1] :]  # GPT's queries begin with the source's
        parts = {"entropy": (entropy(w), real)}
        if a.kind != "source":
            parts |= {key: weigh_offset(w, real, offset) for key, offset in OFFSETS.items()}
        for key, (values, valid) in parts.items():
            total = (values * valid.unsqueeze(1)).sum((0, 2))
            sums[key] = sums.get(key, 0) + torch.cat([total, valid.sum().view(1)])
    return {key: (total[:-1] / total[-1]).tolist() for key, total in sums.items()}


@torch.inference_mode()
def error_rates(
    model: SequenceModel, a: Attention, examples: Sequence[Example], gold: Sequence[Sequence[Link]]
) -> dict[str, list[float]]:
    """Return the alignment error rates (%) over the source, per row of `describe_heads`."""
    links_by_row: dict[str, list[list[frozenset[Link]]]] = {key: [] for key in READINGS}
    order: list[int] = []
    for run, batch, (w,) in collect_weights(model, [a.module], examples):
        w, order = with_mean(w)[:, :, -batch.tgt_in.shape[1] :], order + run
        for i, heads in zip(run, w, strict=True):
            src, n_words = examples[i].src, len(examples[i].tgt) - 1  # without EOS
            for key, shift in READINGS.items():
                links_by_row[key].append([links_of(head, src, n_words, shift) for head in heads])
    true = [gold[i] for i in order]
    return {
        key: [error_rate(links, true) for links in zip(*sentences, strict=True)]
        for key, sentences in links_by_row.items()
    }


def describe_heads(
    model: SequenceModel,
    _: SequenceModel,
    examples: Sequence[Example],
    gold: Sequence[Sequence[Link]],
) -> Rows:
    """Return a row for each head, and for each attention one for the mean of its heads: head 0.

    Columns: entropy (nats); the mean weight on the previous, own and next token of the same text;
    over the source, AER (%) by the row that writes a word and by the row that reads it.
    """
    rows: Rows = []
    for a in list_attentions(model):
        columns = compute_statistics(model, a, examples)
        if a.module in model.src_attentions:
            columns |= error_rates(model, a, examples, gold)
        for head, values in enumerate(zip(*columns.values(), strict=True)):
            rows.append(a.named(head) | dict(zip(columns, values, strict=True)))
    return rows


@torch.inference_mode()
def map_heads(model: SequenceModel, _: SequenceModel, example: Example) -> Rows:
    """Return a row for each query of each head in one example: its weights, in percent."""
    merging, rows = list_attentions(model), []
    for _run, _batch, maps in (
        collect_weights(model, [a.module for a in merging], [example]) if merging else ()
    ):
        for a, weights in zip(merging, maps, strict=True):
            for head, queries in enumerate(weights[0], 1):
                for n, keys in enumerate(queries):
                    text = " ".join(f"{100 * w:.0f}" for w in keys.tolist())
                    rows.append(a.named(head) | {"query": n, "weights": text})
    return rows


# ---------------------------------------------------------------------------- without some heads


def compute_loss(
    model: SequenceModel, examples: Sequence[Example], without: Sequence[tuple[Attention, int]]
) -> dict[str, float]:
    """Return nats per token and the share of right tokens, without these heads (from 1)."""
    device = str(next(model.parameters()).device)
    heads = [(a.module.W_o, head - 1) for a, head in without]
    with silenced(heads, getattr(model.config, "n_heads", 1)):
        rows = score_teacher_forced(model, examples, device, "without heads")
    n = sum(row["n_tokens"] for row in rows)
    nats, right = (sum(row[key] for row in rows) / n for key in ("nats", "n_correct"))
    return {"nats": nats, "accuracy": 100 * right}


def heads_of(model: SequenceModel) -> list[tuple[Attention, int]]:
    """Return all heads, counted from 1 in each attention."""
    return [(a, h) for a in list_attentions(model) for h in range(1, model.config.n_heads + 1)]


def remove_each(model: SequenceModel, _: SequenceModel, examples: Sequence[Example]) -> Rows:
    """Return nats and accuracy (%) without each head alone; head 0: without all of its attention.

    The first row, removed 0, is of the whole model.
    """
    heads = heads_of(model)
    rows: Rows = [{"removed": 0, **compute_loss(model, examples, [])}] if heads else []
    for a in list_attentions(model):
        own = [one for one in heads if one[0] == a]
        for head, gone in enumerate([own, *([one] for one in own)]):
            rows.append(
                {"removed": len(gone), **a.named(head), **compute_loss(model, examples, gone)}
            )
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
    rows: Rows = [{"removed": 0, **compute_loss(model, report, [])}] if left else []
    while left:
        costs = [compute_loss(model, choose, [*gone, head])["nats"] for head in left]
        gone.append(left.pop(costs.index(min(costs))))
        a, head = gone[-1]
        rows.append({"removed": len(gone), **a.named(head), **compute_loss(model, report, gone)})
    return rows


def count_parameters(model: SequenceModel, _: SequenceModel) -> Rows:
    """Return the number of parameters in each part of a model with heads; they sum to all."""
    inside = {id(p) for a in list_attentions(model) for p in a.module.parameters()}
    parts = dict.fromkeys(("attention", "feed-forward", "embeddings", "norms"), 0)
    kinds = {nn.Embedding: "embeddings", nn.LayerNorm: "norms"}
    for module in model.modules():
        for p in module.parameters(recurse=False):
            part = kinds.get(type(module), "attention" if id(p) in inside else "feed-forward")
            parts[part] += p.numel()
    return [{"part": part, "n": n} for part, n in parts.items()] if inside else []


@contextmanager
def silenced(heads: Iterable[tuple[nn.Module, int]], n_heads: int) -> Iterator[None]:
    """Let these heads give zero inside the context, as if their columns of W_o were zero.

    A head is the module that merges it, called with (B, N, H × K), and its number from 0.
    """
    with ExitStack() as hooks:
        for W_o, head in heads:

            def silence(_: Any, args: tuple[Tensor], head: int = head) -> Tensor:
                is_kept = torch.arange(n_heads, device=args[0].device) != head
                return (args[0].unflatten(-1, (n_heads, -1)) * is_kept.unsqueeze(1)).flatten(-2)

            hooks.enter_context(W_o.register_forward_pre_hook(silence))
        yield

"""Measure what the heads of a Transformer or GPT look for, and which words change without one.

The grammar says what each word of a `Sample` is, and on which it depends. Other models have no
rows. Shares and explained variance are in percent.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.interface import PAD, SequenceModel, mute_heads, watch_attention

from ..analyses import (
    Attention,
    Rows,
    Sample,
    batch_of,
    compare_translations,
    list_attentions,
    name_head,
    translate,
)
from .pairs import NOUN_OF, OTHERS, Grid, make_grid

FAR = 4
"""Words from which all distances are one group."""


# ----------------------------------------------------------------------------------- the weights


def heads_of(model: SequenceModel, kind: str | None = None) -> list[tuple[Attention, int]]:
    """Return all heads, or those of this kind of attention, numbered from 1 in each layer."""
    n_heads = range(1, 1 + getattr(model.config, "n_heads", 0))
    return [(a, head) for a in list_attentions(model) if kind in (None, a.kind) for head in n_heads]


@torch.inference_mode()
def collect_weights(model: SequenceModel, sample: Sample) -> dict[str, Float[Tensor, "B H N M"]]:
    """Return the weights of all heads of each attention, layer by layer; none for other models.

    They are computed in double precision, in which even tiny weights have a logarithm. GPT's are
    those of source and target as one text, without the pads between them.
    """
    if not list_attentions(model):
        return {}
    attentions = list_attentions(double := copy.deepcopy(model).double().eval())
    batch = batch_of(model, sample.examples)
    is_text = attentions[0].kind == "text"
    with watch_attention([a.module for a in attentions]) as calls:
        (double.text_logits if is_text else double)(batch.src, batch.src_mask, batch.tgt_in)
    weights = {
        kind: torch.cat(
            [w.cpu() for a, (w,) in zip(attentions, calls, strict=True) if a.kind == kind], 1
        )
        for kind in dict.fromkeys(a.kind for a in attentions)
    }
    if is_text:
        real = torch.cat([batch.src_mask, batch.tgt_in != PAD], 1).cpu()
        order = real.sort(stable=True, descending=True).indices[:, None, : int(real.sum(1).max())]
        moved = weights["text"].take_along_dim(order.unsqueeze(3), 2)
        weights["text"] = moved.take_along_dim(order.unsqueeze(2), 3)
    return weights


def share(weights: Float[Tensor, "B H N M"], pair: Bool[Tensor, "B N M"]) -> Float[Tensor, " H"]:
    """Return the weight (%) on the keys of a kind of pair, averaged over queries that have one."""
    on_pair = (weights * pair.unsqueeze(1)).sum(-1).transpose(0, 1)
    return 100 * on_pair[:, pair.any(-1)].mean(-1)


def predict_weights(
    weights: Float[Tensor, "B H N M"], group: Int[Tensor, "B N M"], visible: Bool[Tensor, "B N M"]
) -> Float[Tensor, "B H N M"]:
    """Return weights in proportion to each group's mean weight; each query's sum to 1."""
    members = F.one_hot(group[visible], int(group.max()) + 1).double()
    means = members.T @ weights.transpose(0, 1)[:, visible].T / members.sum(0).unsqueeze(1)
    predicted = means.nan_to_num()[group].movedim(-1, 1) * visible.unsqueeze(1)
    return predicted / predicted.sum(-1, keepdim=True).clamp_min(1e-30)


def centre(x: Float[Tensor, "*B N M"], visible: Bool[Tensor, "*B N M"]) -> Tensor:
    """Subtract each query's mean over its keys; the others are 0."""
    mean = (x * visible).sum(-1, keepdim=True) / visible.sum(-1, keepdim=True).clamp_min(1)
    return (x - mean) * visible


def explain_scores(weights: Float[Tensor, "B H N M"], grid: Grid) -> dict[str, list[float]]:
    """Return how much variance (%) of each head's scores is explained by groups of pairs.

    Scores are those before the softmax, less their mean over the query's keys: the logarithms of
    the weights are. They are fitted by least squares to an effect for each pair of parts of speech,
    for each offset, and for both.
    """
    visible = grid.visible
    y = centre(weights.clamp_min(1e-300).log(), visible.unsqueeze(1)).transpose(0, 1)
    groups = grid.by_kinds, grid.by_offset
    sizes = [int(group.max()) + 1 for group in groups]
    n_kinds, n = sizes[0], sum(sizes)
    gram, moments = torch.zeros(n, n).double(), torch.zeros(n, len(y)).double()
    for b in range(len(visible)):
        effects = [F.one_hot(group[b], size) for group, size in zip(groups, sizes, strict=True)]
        x = centre(torch.cat(effects, -1).movedim(-1, 0).double(), visible[b]).flatten(1)
        gram += x @ x.T
        moments += x @ y[:, b].flatten(1).T
    columns = {"kinds": slice(0, n_kinds), "offset": slice(n_kinds, n), "both": slice(n)}
    explained = {}
    for name, own in columns.items():
        fit = torch.linalg.pinv(gram[own, own], hermitian=True, rtol=1e-9) @ moments[own]
        share = (fit * moments[own]).sum(0) / y.flatten(1).square().sum(1)
        explained[name] = (100 * share).tolist()
    return explained


# ---------------------------------------------------------------------------------- the analyses


def list_shares(w: Float[Tensor, "B H N M"], grid: Grid) -> dict[str, dict[str, Tensor]]:
    """Return `share` for each kind of pair, and the same of predicted weights, by head."""
    each = {
        "share": w,
        "by_offset": predict_weights(w, grid.by_offset, grid.visible),
        "by_part_of_speech": predict_weights(w, grid.by_key, grid.visible),
    }
    return {
        name: {key: share(weights, pair) for key, weights in each.items()}
        for name, pair in grid.pairs.items()
    }


def describe_attentions(
    model: SequenceModel, _: SequenceModel, sample: Sample, describe: Callable[..., Rows]
) -> Rows:
    """Return what `describe_heads` or `describe_scores` returns, of all kinds of attention."""
    rows: Rows = []
    for kind, w in collect_weights(model, sample).items():
        rows += describe(heads_of(model, kind), w, make_grid(kind, sample.parses))
    return rows


def describe_heads(
    heads: Sequence[tuple[Attention, int]], w: Float[Tensor, "B H N M"], grid: Grid
) -> Rows:
    """Return a row for each kind of pair and each head.

    Columns: the queries that have a key of this kind; the share of their weight (%) on such keys;
    the same share of weights that are predicted by the offset alone, and by the key's part of
    speech alone, in proportion to the head's mean weights.
    """
    rows: Rows = []
    for name, columns in list_shares(w, grid).items():
        n = int(grid.pairs[name].any(-1).sum())
        for i, (a, head) in enumerate(heads):
            own = {key: round(values[i].item(), 3) for key, values in columns.items()}
            rows.append({**name_head(a, head), "pair": name, "n": n, **own})
    return rows


def describe_scores(
    heads: Sequence[tuple[Attention, int]], w: Float[Tensor, "B H N M"], grid: Grid
) -> Rows:
    """Return a row for each head: what of its scores' variance (%) `explain_scores` explains."""
    explained = explain_scores(w, grid)
    return [
        name_head(a, head) | {key: round(values[i], 3) for key, values in explained.items()}
        for i, (a, head) in enumerate(heads)
    ]


def describe_distances(model: SequenceModel, _: SequenceModel, sample: Sample) -> Rows:
    """Return rows by distance, for two encoder heads: the best at "article → noun", at CLOSEST.

    GPT, in which no article sees its noun, has the second alone.
    Columns: the share of weight (%) on the key of this pair, and on the others of its kind: other
    nouns, or other occurrences of "the". The last distance is FAR words or more.
    """
    rows: Rows = []
    if not (weights := collect_weights(model, sample)):
        return rows
    kind = next(iter(weights))
    grid = make_grid(kind, sample.parses)
    distance = grid.offset.abs().clamp_max(FAR)
    for name, other in (pair for pair in OTHERS.items() if pair[0] in grid.pairs):
        best = int(share(weights[kind], grid.pairs[name]).argmax())
        w, place = weights[kind][:, best : best + 1], heads_of(model, kind)[best]
        for d in range(1, FAR + 1):
            near = grid.pairs[name] & (distance == d)
            has_near = near.any(-1, keepdim=True)
            others = share(w, grid.pairs[other] & has_near | near) - share(w, near)
            own = {"share": round(share(w, near).item(), 3), "others": round(others.item(), 3)}
            n = int(has_near.sum())
            rows.append({**name_head(*place), "pair": name, "distance": d, "n": n, **own})
    return rows


# ------------------------------------------------------------------------------- without one head


def muted(W_o: nn.Linear, head: int, n_heads: int) -> AbstractContextManager[None]:
    """Let a head, counted from 1, give zero in the context, as if its columns of W_o were zero."""
    mask = torch.ones(1, n_heads, device=W_o.weight.device)
    mask[0, head - 1] = 0
    return mute_heads([W_o], mask)


def mute_each(model: SequenceModel, _: SequenceModel, sample: Sample) -> Rows:
    """Return a row of `compare_translations` for each muted head; the first is the whole model."""
    heads = heads_of(model)
    if not heads:
        return []
    whole, n = translate(model, sample), {"n": len(sample.parses)}
    nobody: dict[str, float | str] = {"attention": "none", "layer": 0, "head": 0}
    rows: Rows = [{**nobody, **n, **compare_translations(sample, whole, whole)}]
    for a, head in heads:
        with muted(a.module.W_o, head, model.config.n_heads):
            found = translate(model, sample)
        rows.append({**name_head(a, head), **n, **compare_translations(sample, whole, found)})
    return rows


def describe_article_heads(model: SequenceModel, untrained: SequenceModel, sample: Sample) -> Rows:
    """Return a row for the head with the largest share of NOUN_OF, in each attention that has it.

    Columns: its share and the predicted ones (see `describe_heads`), its share before training and
    the largest of any head then; exact translations by the whole model and without the head, and
    the words that change (see `compare_translations`).
    """
    rows: Rows = []
    if not (after := collect_weights(model, sample)):
        return rows
    before, whole = collect_weights(untrained, sample), translate(model, sample)
    n_exact = compare_translations(sample, whole, whole)["exact"]
    for kind in [kind for kind in NOUN_OF if kind in after]:
        name = NOUN_OF[kind]
        grid = make_grid(kind, sample.parses)
        columns = list_shares(after[kind], grid)[name]
        best, start = int(columns["share"].argmax()), share(before[kind], grid.pairs[name])
        a, head = heads_of(model, kind)[best]
        with muted(a.module.W_o, head, model.config.n_heads):
            found = compare_translations(sample, whole, translate(model, sample))
        shares = {key: values[best] for key, values in columns.items()}
        shares |= {"before": start[best], "largest_before": start.max()}
        own = {key: round(value.item(), 3) for key, value in shares.items()}
        n = {"n": len(whole), "whole": n_exact}
        rows.append({**name_head(a, head), "pair": name, **own, **n, **found})
    return rows


def map_article_heads(model: SequenceModel, untrained: SequenceModel, sample: Sample) -> Rows:
    """Return the weights (%) of these heads in one sentence, before and after training.

    A row is one query: its word (in the encoder that which asks, else the target word that is
    written), the source words with EOS, the weights on them, the place of the article's noun or -1.
    """
    rows: Rows = []
    after, before = (collect_weights(each, sample) for each in (model, untrained))
    shown = max(
        range(len(sample.parses)),
        key=lambda b: (
            8 <= (p := sample.parses[b]).sentence.n_words <= 12, p.en.kinds.count("article"),
        ),
    )  # fmt: skip
    sentence = sample.parses[shown].sentence
    keys = [*sentence.en, "<eos>"]
    for kind in [kind for kind in NOUN_OF if kind in after]:
        pair = make_grid(kind, sample.parses).pairs[NOUN_OF[kind]]
        best = int(share(after[kind], pair).argmax())
        queries = keys if kind == "encoder" else [*sentence.de, "<eos>"]
        first = len(keys) if kind == "text" else 0
        for when, weights in (("before", before), ("after", after)):
            for i, query in enumerate(queries, first):
                own = weights[kind][shown, best, i, : len(keys)].tolist()
                text = " ".join(f"{100 * w:.0f}" for w in own)
                nouns = pair[shown, i].nonzero().flatten().tolist()
                words = {"query": query, "keys": " ".join(keys), "weights": text}
                place = name_head(*heads_of(model, kind)[best])
                rows.append({"when": when, **place, **words, "noun": nouns[0] if nouns else -1})
    return rows


# ------------------------------------------------------------------------------------ two heads

SHOWN = {"model": "transformer", "seed": 1, "attention": "encoder", "layer": 2}
"""The layer whose first two heads are drawn."""


def measure_distances(
    w: Float[Tensor, "B H N M"], visible: Bool[Tensor, "B N M"]
) -> Float[Tensor, "H+1 H+1"]:
    """Return the mean total variation between each two heads; the last one has equal weights."""
    equal = visible / visible.sum(-1, keepdim=True).clamp_min(1)
    rows = torch.cat([w, equal.unsqueeze(1)], 1).transpose(1, 2)[visible.sum(-1) > 1]
    return torch.cdist(rows, rows, p=1).mean(0) / 2


def compare_heads(model: SequenceModel, sample: Sample, about: Mapping[str, Any]) -> list[Any]:
    """Return a row for each layer: the distances of its pairs of heads, and to equal weights.

    SHOWN has the weights (%) of its first two heads in the first sentence as well.
    """
    rows: list[Any] = []
    n_heads, n = model.config.n_heads, len(sample.examples[0].src)
    for attention, w in collect_weights(model, sample).items():
        distances = measure_distances(w, make_grid(attention, sample.parses).visible)
        for first in range(0, w.shape[1], n_heads):
            own = distances[first : first + n_heads]
            pairs = own[:, first:][*torch.triu_indices(n_heads, n_heads, 1)]
            row = {**about, "attention": attention, "layer": 1 + first // n_heads}
            each = {"pairs": pairs, "equal": own[:, -1]}
            row |= {name: [round(d, 3) for d in ds.tolist()] for name, ds in each.items()}
            if row.items() >= SHOWN.items():
                row["maps"] = (100 * w[0, first : first + 2, :n, :n]).round().int().tolist()
            rows.append(row)
    return rows

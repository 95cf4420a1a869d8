"""Measure what the heads of a Transformer or GPT look for, and which words change without one."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seqmodels.experiments.task import Rows
from seqmodels.interface import PAD, SequenceModel, watch_attention

from ..analyses import batch_of
from .pairs import Grid, make_grid
from .reader import Reader, Sample, heads_of, list_attentions, read

N_MEASURED = 200
"""Sentences."""
Weights = Float[Tensor, "B H N M"]


@torch.inference_mode()
def collect_weights(model: SequenceModel, sample: Sample) -> dict[str, Weights]:
    """Return the weights of all heads of each attention, layer by layer; none for other models.

    They are computed in double precision, in which even tiny weights have a logarithm. GPT's are
    those of source and target as one text, without the pads between them.
    """
    attentions = list_attentions(double := copy.deepcopy(model).double().eval())
    if not attentions:
        return {}
    batch = batch_of(model, sample.examples)
    with watch_attention([a.module for a in attentions]) as calls:
        read(double, batch)
    weights = {
        kind: torch.cat(
            [w.cpu() for a, (w,) in zip(attentions, calls, strict=True) if a.kind == kind], 1
        )
        for kind in dict.fromkeys(a.kind for a in attentions)
    }
    if "text" in weights:
        real = torch.cat([batch.src_mask, batch.tgt_in != PAD], 1).cpu()
        order = real.sort(stable=True, descending=True).indices[:, None, : int(real.sum(1).max())]
        moved = weights["text"].take_along_dim(order.unsqueeze(3), 2)
        weights["text"] = moved.take_along_dim(order.unsqueeze(2), 3)
    return weights


def share(weights: Weights, pair: Bool[Tensor, "B N M"]) -> Float[Tensor, " H"]:
    """Return the weight (%) on the keys of a kind of pair, averaged over queries that have one."""
    on_pair = (weights * pair.unsqueeze(1)).sum(-1).transpose(0, 1)
    return 100 * on_pair[:, pair.any(-1)].mean(-1)


def predict_weights(
    weights: Weights, group: Int[Tensor, "B N M"], visible: Bool[Tensor, "B N M"]
) -> Weights:
    """Return weights in proportion to each group's mean weight; each query's sum to 1."""
    members = F.one_hot(group[visible], int(group.max()) + 1).double()
    means = members.T @ weights.transpose(0, 1)[:, visible].T / members.sum(0).unsqueeze(1)
    predicted = means.nan_to_num()[group].movedim(-1, 1) * visible.unsqueeze(1)
    return predicted / predicted.sum(-1, keepdim=True).clamp_min(1e-30)


def list_shares(w: Weights, grid: Grid) -> dict[str, dict[str, Tensor]]:
    """Return `share` for each kind of pair, and the same of predicted weights, by head.

    Predicted by the offset alone, and by the key's part of speech alone.
    """
    each = {
        "share": w,
        "by_offset": predict_weights(w, grid.by_offset, grid.visible),
        "by_part_of_speech": predict_weights(w, grid.by_key, grid.visible),
    }
    return {
        name: {key: share(weights, pair) for key, weights in each.items()}
        for name, pair in grid.pairs.items()
    }


def describe_heads(reader: Reader) -> Rows:
    """Return a row for each kind of pair and each head: what `list_shares` returns.

    `n`: the queries that have a key of this kind; `before`: the share before training.
    """
    rows: Rows = []
    some = reader.take(N_MEASURED)
    untrained = collect_weights(reader.untrained, some)
    for kind, w in collect_weights(reader.model, some).items():
        grid = make_grid(kind, some.parses)
        for name, columns in list_shares(w, grid).items():
            n = int(grid.pairs[name].any(-1).sum())
            columns["before"] = share(untrained[kind], grid.pairs[name])
            for i, (a, head) in enumerate(heads_of(reader.model, kind)):
                own = {key: values[i].item() for key, values in columns.items()}
                rows.append({**a.name_head(head), "pair": name, "n": n, **own})
    return rows


# --------------------------------------------------------------------------------- Scores by groups


def centre(x: Float[Tensor, "*B N M"], visible: Bool[Tensor, "*B N M"]) -> Tensor:
    """Subtract each query's mean over its keys; the others are 0."""
    mean = (x * visible).sum(-1, keepdim=True) / visible.sum(-1, keepdim=True).clamp_min(1)
    return (x - mean) * visible


def explain_scores(weights: Weights, grid: Grid) -> dict[str, list[float]]:
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
        explained[name] = 100 * (fit * moments[own]).sum(0) / y.flatten(1).square().sum(1)
    return {name: values.tolist() for name, values in explained.items()}


def describe_scores(reader: Reader) -> Rows:
    """Return a row for each head: what of its scores' variance (%) `explain_scores` explains."""
    rows: Rows = []
    some = reader.take(N_MEASURED)
    for kind, w in collect_weights(reader.model, some).items():
        explained = explain_scores(w, make_grid(kind, some.parses))
        for i, (a, head) in enumerate(heads_of(reader.model, kind)):
            rows.append(
                {**a.name_head(head), **{key: values[i] for key, values in explained.items()}}
            )
    return rows


MEASURES: dict[str, Callable[[Reader], Rows]] = {
    "heads": describe_heads,
    "scores": describe_scores,
}

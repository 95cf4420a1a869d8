"""Measure attention as kernel smoothing, with the queries and keys of a Transformer or GPT.

softmax(q·k_j / √d_k) is the estimator of Nadaraya and Watson (1964) with a Gaussian kernel of
bandwidth h = d_k^¼, in which the key k_j has the prior weight exp(|k_j|² / 2h²):

    -|q - k_j|² / 2h² + |k_j|² / 2h²  =  q·k_j / √d_k - |q|² / 2h²

and the last term is common to all keys. For keys of equal length, the prior weights cancel.

Weights are replaced at test time; nothing is trained again. A model without such attention has no
rows, and one with other scores has only those of `measure_lengths`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from seqmodels.data.batches import Example
from seqmodels.evaluation.evaluate import score_teacher_forced
from seqmodels.interface import PAD, Batch, SequenceModel
from seqmodels.models import build, gpt, transformer
from seqmodels.models.transformer import softmax
from seqmodels.models.variants.favor import RandomFeatures

from ..analyses import Attention, Rows, batches_of, list_attentions, name_head, watch

EXACT = (transformer.MultiHeadAttention, gpt.MultiHeadAttention)
"""Attention with the scores q·k / √d_k."""
Weigh = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Returns weights (B,H,N,M) from queries, keys and a mask."""
FACTORS = [2 ** (i / 2) for i in range(-4, 5)]
"""Multiples of the bandwidth."""
N_FEATURES = [2**i for i in range(3, 11)]
N_DRAWS = 5


class Call(NamedTuple):
    """What an attention compares in a batch."""

    attention: Attention
    q: Float[Tensor, "B H N K"]
    k: Float[Tensor, "B H M K"]
    mask: Bool[Tensor, ...]
    queries: Bool[Tensor, "B N"]
    """Which queries are not pads."""
    keys: Bool[Tensor, "B M"]


def list_smoothers(model: SequenceModel) -> list[Attention]:
    """Return a model's attentions that have a chapter's scores."""
    return [a for a in list_attentions(model) if type(a.module) in EXACT]


@torch.inference_mode()
def collect_calls(
    model: SequenceModel, attentions: Sequence[Attention], examples: Sequence[Example]
) -> list[Call]:
    """Return what each of these attentions compares in each batch."""
    calls: list[Call] = []
    for _, batch in batches_of(model, examples):
        with watch(a.module for a in attentions) as each:
            model(batch.src, batch.src_mask, batch.tgt_in)
        calls += [
            Call(a, q, k, mask, *find_tokens(a, batch, q.shape[2]))
            for a, own in zip(attentions, each, strict=True)
            for (q, k, _, mask), _ in own
        ]
    return calls


def find_tokens(a: Attention, batch: Batch, n: int) -> tuple[Tensor, Tensor]:
    """Return which of n queries of an attention are not pads, and which of its keys."""
    src, tgt = batch.src_mask, batch.tgt_in != PAD
    if a.kind == "text":  # in the last layer, the target alone has queries
        text = torch.cat([src, tgt], 1)
        return text[:, -n:], text
    return src if a.kind == "encoder" else tgt, tgt if a.kind == "decoder" else src


@contextmanager
def replace_weights(weights: Mapping[nn.Module, Weigh]) -> Iterator[None]:
    """Let these attentions average their values by other weights inside the context."""

    def attend(module: Any, args: Any, _: Tensor) -> Tensor:
        q, k, v, mask = args
        return module.W_o((weights[module](q, k, mask) @ v).transpose(1, 2).flatten(2))

    with ExitStack() as hooks:
        for module in weights:
            hooks.enter_context(module.register_forward_hook(attend))
        yield


def average(
    calls: Sequence[Call], value: Callable[[Call], Float[Tensor, "B H N *C"]]
) -> dict[Attention, Float[Tensor, " H *C"]]:
    """Return the mean of a value of each head over all queries that are not pads."""
    values: dict[Attention, list[Tensor]] = {}
    for call in calls:
        values.setdefault(call.attention, []).append(value(call).transpose(1, 2)[call.queries])
    return {a: torch.cat(parts).double().mean(0) for a, parts in values.items()}


def compute_loss(model: SequenceModel, examples: Sequence[Example]) -> float:
    """Return nats per token, teacher-forced."""
    rows = score_teacher_forced(model, examples)
    return float(sum(row["nats"] for row in rows) / sum(row["n_tokens"] for row in rows))


def mean_of(values: Mapping[Attention, Tensor]) -> float:
    """Return the mean over all heads."""
    return torch.stack([*values.values()]).mean().item()


# -------------------------------------------------------------------------------------- Lengths


def mean_visible(x: Float[Tensor, "B H N M"], mask: Tensor) -> Float[Tensor, "B H N 1"]:
    """Return the mean over the keys that each query can see."""
    visible = mask.expand(x.shape).to(x)
    return (x * visible).sum(-1, keepdim=True) / visible.sum(-1, keepdim=True)


def split_scores(q: Tensor, k: Tensor, mask: Tensor) -> list[Float[Tensor, "B H N M"]]:
    """Return q·k_j; then if the keys had their mean length; then if they had their mean cosine."""
    length = k.norm(dim=-1).unsqueeze(-2).expand(*q.shape[:3], -1)
    projected = q @ F.normalize(k, dim=-1).mT
    return [
        projected * length,
        projected * mean_visible(length, mask),
        mean_visible(projected, mask) * length,
    ]


def spread_of_scores(call: Call) -> Float[Tensor, "B H N 3"]:
    """Return the variance over the keys of each of `split_scores`."""
    variances = []
    for score in split_scores(call.q, call.k, call.mask):
        square = (score - mean_visible(score, call.mask)).square()
        variances.append(mean_visible(square, call.mask).squeeze(-1))
    return torch.stack(variances, -1)


def measure_lengths(
    model: SequenceModel, untrained: SequenceModel, examples: Sequence[Example]
) -> Rows:
    """Return a row per head before and after training: how long its queries and keys are.

    Columns: mean and standard deviation of the lengths; the variance of a query's scores if only
    the angles, or only the keys' lengths, differed, in percent of that as it is.
    """
    rows: Rows = []
    for when, each in {"before": untrained, "after": model}.items():
        attentions = list_attentions(each)
        calls = collect_calls(each, attentions, examples)
        spreads = average(calls, spread_of_scores)
        for a in attentions:
            own = [call for call in calls if call.attention == a]
            q, k = (
                torch.cat([x.norm(dim=-1).transpose(1, 2)[real] for x, real in side]).double()
                for side in ([(c.q, c.queries) for c in own], [(c.k, c.keys) for c in own])
            )
            both, angles, lengths = spreads[a].unbind(-1)
            columns = {
                "q_mean": q.mean(0), "q_std": q.std(0), "k_mean": k.mean(0), "k_std": k.std(0),
                "angles": 100 * angles / both, "lengths": 100 * lengths / both,
            }  # fmt: skip
            for head in range(q.shape[1]):
                values = {name: column[head].item() for name, column in columns.items()}
                rows.append({"when": when, **name_head(a, head + 1), **values})
    return rows


# --------------------------------------------------------------------------------------- Kernel


def softmax_weights(q: Tensor, k: Tensor, mask: Tensor, factor: float = 1) -> Tensor:
    """Return the chapter's weights, with this multiple of its bandwidth."""
    return softmax(q @ k.mT / (q.shape[-1] ** 0.5 * factor**2), mask)


def kernel_weights(
    q: Float[Tensor, "B H N K"], k: Float[Tensor, "B H M K"], mask: Tensor, has_prior: bool
) -> Float[Tensor, "B H N M"]:
    """Return Nadaraya and Watson's weights, with a Gaussian kernel of bandwidth d_k^¼.

    With the prior weights exp(|k_j|² / 2h²) of the keys, they are the chapter's.
    """
    h = q.shape[-1] ** 0.25
    log_kernel = -torch.cdist(q, k).square() / (2 * h**2)
    log_prior = k.square().sum(-1).unsqueeze(-2) / (2 * h**2)
    return softmax(log_kernel + log_prior * has_prior, mask)


def equal_weights(q: Tensor, k: Tensor, mask: Tensor) -> Float[Tensor, "B H N M"]:
    """Return the chapter's weights if all keys that a query sees had their mean length."""
    return softmax(split_scores(q, k, mask)[1] / q.shape[-1] ** 0.5, mask)


def try_weights(
    model: SequenceModel,
    examples: Sequence[Example],
    calls: Sequence[Call],
    weights: Mapping[nn.Module, Weigh],
) -> tuple[float, dict[Attention, Float[Tensor, " H"]]]:
    """Return the loss with other weights, and their total variation from the softmax, per head.

    The distance is measured at the queries and keys of the unchanged model, `calls`.
    """

    def distance(c: Call) -> Tensor:
        other = weights[c.attention.module](c.q, c.k, c.mask)
        return (other - softmax_weights(c.q, c.k, c.mask)).abs().sum(-1) / 2

    distances = average(calls, distance)
    with replace_weights(weights):
        return compute_loss(model, examples), distances


def measure_kernel(model: SequenceModel, _: SequenceModel, examples: Sequence[Example]) -> Rows:
    """Return the loss with the learned weights, the kernel alone, and keys of equal length.

    Then a row per head: the total variation distance of the kernel alone from the learned weights.
    """
    if not (calls := collect_calls(model, attentions := list_smoothers(model), examples)):
        return []
    alone = {a.module: partial(kernel_weights, has_prior=False) for a in attentions}
    kernel, distances = try_weights(model, examples, calls, alone)
    with replace_weights({a.module: equal_weights for a in attentions}):
        equal = compute_loss(model, examples)
    losses = {"softmax": compute_loss(model, examples), "kernel": kernel, "equal lengths": equal}
    rows: Rows = [{"weights": name, "nats": nats} for name, nats in losses.items()]
    for a, own in distances.items():
        rows += [name_head(a, i) | {"kernel": value} for i, value in enumerate(own.tolist(), 1)]
    return rows


def entropy(call: Call, factor: float) -> Float[Tensor, "B H N"]:
    """Return the entropy of each query's weights, in nats, with a multiple of the bandwidth."""
    weights = softmax_weights(call.q, call.k, call.mask, factor)
    return -torch.xlogy(weights, weights).sum(-1)


def measure_bandwidth(model: SequenceModel, _: SequenceModel, examples: Sequence[Example]) -> Rows:
    """Return a row per multiple of the bandwidth: the loss, and the mean entropy of the weights.

    A bandwidth of f h divides the scores by f² √d_k: f² is a temperature. The entropy is that at
    the queries and keys of the unchanged model.
    """
    if not (calls := collect_calls(model, attentions := list_smoothers(model), examples)):
        return []
    rows: Rows = []
    for factor in FACTORS:
        weigh = partial(softmax_weights, factor=factor)
        with replace_weights({a.module: weigh for a in attentions}):
            loss = compute_loss(model, examples)
        spread = mean_of(average(calls, partial(entropy, factor=factor)))
        rows.append({"factor": factor, "nats": loss, "entropy": spread})
    return rows


# --------------------------------------------------------------------------------------- FAVOR+


def draw_features(n_layers: int, d_k: int, n_features: int, seed: int) -> list[RandomFeatures]:
    """Return attentions whose `phi` has this many positive orthogonal random features."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = build(
            "linear_attention_favor", 4, d_model=d_k, n_heads=1, n_layers=n_layers, n_positions=1,
            n_draws=-(-n_features // d_k),
        )  # fmt: skip
    drawn = [layer.self_attention for layer in model.decoder]
    for attention in drawn:
        attention.omega = attention.omega[:n_features]
    return drawn


def favor_weights(
    features: RandomFeatures, q: Tensor, k: Tensor, mask: Tensor
) -> Float[Tensor, "B H N M"]:
    """Return φ(q)·φ(k) where the mask is True, normalised over the keys."""
    score = (features.phi(q, True) @ features.phi(k, False).mT) * mask
    return score / score.sum(-1, keepdim=True)


def measure_favor(model: SequenceModel, _: SequenceModel, examples: Sequence[Example]) -> Rows:
    """Return a row per number of random features and draw: loss, mean distance from the softmax.

    The first row is of the exact weights: no features, no draw.
    """
    if not (calls := collect_calls(model, attentions := list_smoothers(model), examples)):
        return []
    rows: Rows = [{"features": 0, "draw": 0, "nats": compute_loss(model, examples), "distance": 0}]
    q = calls[0].q
    for n, draw in product(N_FEATURES, range(1, N_DRAWS + 1)):
        drawn = [one.to(q) for one in draw_features(len(attentions), q.shape[-1], n, draw)]
        weights = {
            a.module: partial(favor_weights, features)
            for a, features in zip(attentions, drawn, strict=True)
        }
        loss, distances = try_weights(model, examples, calls, weights)
        distance = mean_of(distances)
        rows.append({"features": n, "draw": draw, "nats": loss, "distance": distance})
    return rows


# ------------------------------------------------------------------------------ Before training


def measure_start(model: SequenceModel, batch: Batch) -> dict[str, float]:
    """Return what is measured in one batch, over all heads and all queries with several keys.

    Columns: the standard deviation of a query's scores (the root of the mean variance); its largest
    weight (mean); the norm of the loss's gradient with respect to its scores (median, and root mean
    square); that with respect to all W_q and W_k, over their own norm.
    """
    calls: list[tuple[Attention, Tensor, Tensor]] = []

    def weigh(a: Attention, q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        score = q @ k.mT / (q.shape[-1] ** 0.5 if type(a.module) in EXACT else 1)
        calls.append((a, score, mask.expand_as(score)))
        return softmax(score, mask)

    with replace_weights({a.module: partial(weigh, a) for a in list_attentions(model)}):
        logits = model(batch.src, batch.src_mask, batch.tgt_in)
    loss = F.cross_entropy(logits.transpose(1, 2), batch.tgt_out, ignore_index=PAD)
    names = ("W_q.weight", "W_k.weight", "W_qkv.weight")
    weights = [p for name, p in model.named_parameters() if name.endswith(names)]
    grads = torch.autograd.grad(loss, [*weights, *(score for _, score, _ in calls)])
    gradient, size = (  # the last third of W_qkv makes values
        torch.cat([x[: 2 * x.shape[1]].flatten() for x in own]).norm()
        for own in (grads[: len(weights)], weights)
    )
    values = []
    for (a, score, mask), grad in zip(calls, grads[len(weights) :], strict=True):
        is_real = find_tokens(a, batch, score.shape[2])[0].unsqueeze(1)
        variance = mean_visible((score - mean_visible(score, mask)).square(), mask).squeeze(-1)
        each = variance, softmax(score, mask).amax(-1), grad.norm(dim=-1)
        values.append(torch.stack(each)[:, is_real & (mask.sum(-1) > 1)])
    variance, largest, norm = torch.cat(values, 1)
    found = {
        "spread": variance.mean().sqrt(), "largest": largest.mean(), "median": norm.median(),
        "root_mean_square": norm.square().mean().sqrt(), "relative": gradient / size,
    }  # fmt: skip
    return {name: float(f"{value.item():.4g}") for name, value in found.items()}

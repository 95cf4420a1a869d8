"""What several tasks measure in trained models: heads of attention, gradients, linear probes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.data.batches import Example, collate
from seqmodels.interface import Batch, SequenceModel, device_of
from seqmodels.models.gpt import GPT
from seqmodels.models.transformer import Transformer

Rows = list[dict[str, float | str]]
"""Rows of an analysis, as a record holds them."""
QUARTILES = {"low": 0.25, "median": 0.5, "high": 0.75}
N_FEATURES = 256
"""Inputs of every probe: random combinations of what a model has."""
RIDGE = 0.01
"""Penalty of the probe's squared weights, per row."""


def batch_of(model: SequenceModel, examples: Sequence[Example]) -> Batch:
    """Collate examples on the model's device."""
    return collate(examples, device_of(model))


# ------------------------------------------------------------------------------------- Attentions


class Attention(NamedTuple):
    """One module with several heads."""

    kind: str
    """encoder or decoder, where it attends to its own text; source; text: GPT's only one."""
    layer: int
    """From 1."""
    module: Any


def list_attentions(model: SequenceModel) -> list[Attention]:
    """Return the attentions of a Transformer or GPT; of another model, none."""
    if isinstance(model, GPT):
        return [
            Attention("text", i, layer.self_attention) for i, layer in enumerate(model.decoder, 1)
        ]
    if not isinstance(model, Transformer):
        return []
    stacks = {"encoder": model.encoder, "decoder": model.decoder, "source": model.decoder}
    return [
        Attention(kind, i, layer.src_attention if kind == "source" else layer.self_attention)
        for kind, stack in stacks.items()
        for i, layer in enumerate(stack, 1)
    ]


def name_head(a: Attention, head: int) -> dict[str, float | str]:
    """Return the columns that name a head."""
    return {"attention": a.kind, "layer": a.layer, "head": head}


# -------------------------------------------------------------------------------------- Gradients
#
# All sources have the same length S, all targets the same length T; target token t comes t places
# after the source.


def gradient_norms(model: SequenceModel, batch: Batch) -> Float[Tensor, "B T S"]:
    """Return the norm of ∂ loss_t / ∂ e_j for target token t and source token j.

    It is divided by the norm of ∂ loss_t / ∂ logits_t: otherwise, a token of which the model is
    sure would hardly count.
    """
    logits, embedded = source_embeddings(model, batch.src, batch.src_mask, batch.tgt_in)
    nats = F.cross_entropy(logits.transpose(1, 2), batch.tgt_out, reduction="none").sum(0)
    grads = [torch.autograd.grad(loss, embedded, retain_graph=True)[0] for loss in nats]
    one_hot = F.one_hot(batch.tgt_out, logits.shape[-1])
    error = (logits.detach().softmax(-1) - one_hot).norm(dim=-1, keepdim=True)
    return torch.stack(grads, 1)[:, :, : batch.src.shape[1]].norm(dim=-1) / error


def by_distance(norms: Float[Tensor, "B T S"]) -> Rows:
    """Return a row per distance: quartiles of the norms, over the median of all of them.

    A gradient that does not depend on the distance is 1 everywhere.
    """
    T, S = norms.shape[1:]
    relative = norms / norms.median()
    distance = S + torch.arange(T).view(T, 1) - torch.arange(S)
    rows: Rows = []
    for d in range(1, S + T):
        norms_at_d = relative[:, (distance == d).to(norms.device)].flatten().double()
        quantiles = {name: norms_at_d.quantile(q).item() for name, q in QUARTILES.items()}
        rows.append({"distance": d, **quantiles})
    return rows


def measure_gradients(
    model: SequenceModel, untrained: SequenceModel, examples: Sequence[Example]
) -> Rows:
    """Return the rows of `by_distance` before and after training."""
    models = {"before": untrained, "after": model}
    return [
        {"when": when, **row}
        for when, each in models.items()
        for row in by_distance(gradient_norms(each, batch_of(each, examples)))
    ]


def source_embeddings(
    model: nn.Module,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B S"],
    tgt_in: Int[Tensor, "B T"],
) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B N E"]]:
    """Return the logits of one forward pass and the embeddings that begin with the source's.

    They are in the graph of the logits: gradients reach them. GPT's go on with the target's.
    """
    outputs: list[Tensor] = []

    def watch(_: Any, args: tuple[Tensor], out: Tensor) -> None:
        if args[0].dim() == 2 and torch.equal(args[0][:, : src.shape[1]], src):
            outputs.append(out)

    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    with ExitStack() as hooks:
        for table in tables:
            hooks.enter_context(table.register_forward_hook(watch))
        logits = model(src, src_mask, tgt_in)
    (embedded,) = outputs
    return logits, embedded


# ------------------------------------------------------------------------------------------ Probes
#
# Probes have one size, whatever the width of what they read.


def mix_features(features: Float[Tensor, "N D"]) -> Float[Tensor, "N F"]:
    """Return N_FEATURES random combinations of the standardised columns, and a constant."""
    features = features.double().cpu()
    features = (features - features.mean(0)) / (features.std(0) + 1e-6)
    mix = torch.Generator().manual_seed(0)
    weights = torch.randn(features.shape[1], N_FEATURES, generator=mix, dtype=torch.float64)
    return torch.cat(
        [features @ weights / features.shape[1] ** 0.5, torch.ones(len(features), 1)], 1
    )


def fit_ridge(x: Float[Tensor, "N F"], y: Float[Tensor, "N O"]) -> Float[Tensor, "F O"]:
    """Return the weights of the linear probes of several labels, in closed form."""
    penalty = RIDGE * len(x) * torch.eye(x.shape[1], dtype=x.dtype)
    return torch.linalg.solve(x.T @ x + penalty, x.T @ y)

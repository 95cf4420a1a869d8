"""Measure how the loss of a target token depends on a source token, by their distance.

All sources have the same length S, all targets the same length T; target token t comes t places
after the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.data.batches import Example, collate
from seqmodels.interface import Batch, SequenceModel

Rows = list[dict[str, float | str]]
QUARTILES = {"low": 0.25, "median": 0.5, "high": 0.75}


def batch_of(model: SequenceModel, examples: Sequence[Example]) -> Batch:
    """Collate examples on the model's device."""
    return collate(examples, str(next(model.parameters()).device))


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

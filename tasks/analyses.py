"""What several tasks measure in trained models: calls of modules, and gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from seqmodels.data.batches import Example, batches_by_length, collate
from seqmodels.evaluation.evaluate import BATCH_TOKENS
from seqmodels.experiments.task import TestSet
from seqmodels.interface import Batch, SequenceModel, device_of
from seqmodels.models.memory import rotate

Rows = list[dict[str, float | str]]
"""Rows of an analysis, as a record holds them."""


def batch_of(model: SequenceModel, examples: Sequence[Example]) -> Batch:
    """Collate examples on the model's device."""
    return collate(examples, device_of(model))


def batches_of(model: SequenceModel, examples: Sequence[Example]) -> Iterator[tuple[Any, Batch]]:
    """Yield batches of examples of similar lengths: their indices, and the batch."""
    for indices in batches_by_length(examples, BATCH_TOKENS):
        yield indices, batch_of(model, [examples[i] for i in indices])


@contextmanager
def watch(modules: Iterable[nn.Module]) -> Iterator[list[list[tuple[Any, Any]]]]:
    """Collect the arguments and the output of each call of these modules inside the context."""
    calls: list[list[tuple[Any, Any]]] = []
    with ExitStack() as hooks:
        for module in modules:
            own: list[tuple[Any, Any]] = []
            calls.append(own)
            note = partial(lambda own, _, args, out: own.append((args, out)), own)
            hooks.enter_context(module.register_forward_hook(note))
        yield calls


# -------------------------------------------------------------------------------------- Gradients
#
# All sources have the same length S, all targets the same length T; target token t comes t places
# after the source.


def pick_equally_long(test: TestSet) -> list[Example]:
    """Return the test sentences, nearly as long as trained, whose source has the commonest length.

    Their targets are cut to the length of the shortest one.
    """
    longest = min(test.max_train_length or 0, max(test.x))
    near = [e for e, n in zip(test.examples, test.x, strict=True) if longest - 10 < n <= longest]
    ((n_source, _),) = Counter(len(e.src) for e in near).most_common(1)
    equal = [e for e in near if len(e.src) == n_source]
    n_target = min(len(e.tgt) for e in equal)
    return [e._replace(tgt=e.tgt[:n_target]) for e in equal]


def gradient_norms(model: SequenceModel, batch: Batch) -> Float[Tensor, "B T S"]:
    """Return the norm of ∂ loss_t / ∂ e_j for target token t and source token j.

    It is divided by the norm of ∂ loss_t / ∂ logits_t: otherwise, a token of which the model is
    sure would hardly count.
    """
    logits, embedded = source_embeddings(model, batch)
    nats = F.cross_entropy(logits.transpose(1, 2), batch.tgt_out, reduction="none").sum(0)
    grads = [torch.autograd.grad(loss, embedded, retain_graph=True)[0] for loss in nats]
    one_hot = F.one_hot(batch.tgt_out, logits.shape[-1])
    error = (logits.detach().softmax(-1) - one_hot).norm(dim=-1, keepdim=True)
    return torch.stack(grads, 1)[:, :, : batch.src.shape[1]].norm(dim=-1) / error


def measure_gradients(
    model: SequenceModel, untrained: SequenceModel, examples: Sequence[Example]
) -> Rows:
    """Return the rows of `by_distance` before and after training."""
    return [
        {"when": when, **row}
        for when, each in {"before": untrained, "after": model}.items()
        for row in by_distance(gradient_norms(each, batch_of(each, examples)))
    ]


def by_distance(norms: Float[Tensor, "B T S"]) -> Rows:
    """Return a row per distance: quartiles of the norms, over the median of all of them.

    A gradient that does not depend on the distance is 1 everywhere.
    """
    T, S = norms.shape[1:]
    distance = S + torch.arange(T).view(T, 1) - torch.arange(S)
    relative, rows = (norms / norms.median()).double().cpu(), list[dict[str, float | str]]()
    for d in range(1, S + T):
        quartiles = relative[:, distance == d].quantile(torch.tensor([0.25, 0.5, 0.75]).double())
        names = "distance", "low", "median", "high"
        rows.append(dict(zip(names, (d, *quartiles.tolist()), strict=True)))
    return rows


def source_embeddings(
    model: nn.Module, batch: Batch
) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B N E"]]:
    """Return the logits of one forward pass and the embeddings that begin with the source's.

    They are in the graph of the logits: gradients reach them. GPT's go on with the target's; those
    of a model whose memory has a fixed size begin with the source's pads.
    """
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    with watch(tables) as calls:
        logits = model(batch.src, batch.src_mask, batch.tgt_in)
    orders = batch.src, rotate(batch.src, batch.src_mask.sum(1))
    (embedded,) = (
        out
        for own in calls
        for (ids,), out in own
        if ids.dim() == 2 and any(torch.equal(ids[:, : order.shape[1]], order) for order in orders)
    )
    return logits, embedded

"""Measure attention as kernel smoothing, with the queries and keys of a Transformer or GPT.

softmax(q·k_j / √d_k) is the estimator of Nadaraya and Watson (1964) with a Gaussian kernel of
bandwidth h = d_k^¼, in which the key k_j has the prior weight exp(|k_j|² / 2h²):

    -|q - k_j|² / 2h² + |k_j|² / 2h²  =  q·k_j / √d_k - |q|² / 2h²

and the last term is common to all keys. For keys of equal length, the prior weights cancel.

Weights are replaced at test time; nothing is trained again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from seqmodels.data.batches import Example
from seqmodels.evaluation.evaluate import score_teacher_forced
from seqmodels.experiments.task import Rows
from seqmodels.interface import SequenceModel
from seqmodels.models import gpt, transformer
from seqmodels.models.cache import softmax

from .reader import Attention, Reader, list_attentions

N_MEASURED = 200
"""Sentences."""
EXACT = (transformer.MultiHeadAttention, gpt.MultiHeadAttention)
"""Attention with the scores q·k / √d_k."""
Weigh = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Returns weights (B,H,N,M) from queries, keys and a mask."""


def list_smoothers(model: SequenceModel) -> list[Attention]:
    """Return a model's attentions that have a chapter's scores; none for other models."""
    return [a for a in list_attentions(model) if type(a.module) in EXACT]


@contextmanager
def replace_weights(attentions: Sequence[Attention], weigh: Weigh) -> Iterator[None]:
    """Let these attentions average their values by other weights inside the context."""

    def attend(module: Any, args: Any, _: Tensor) -> Tensor:
        q, k, v, mask = args
        return module.W_o((weigh(q, k, mask) @ v).transpose(1, 2).flatten(2))

    with ExitStack() as hooks:
        for a in attentions:
            hooks.enter_context(a.module.register_forward_hook(attend))
        yield


def compute_loss(model: SequenceModel, examples: Sequence[Example]) -> float:
    """Return nats per token, teacher-forced."""
    rows = score_teacher_forced(model, examples)
    return float(sum(row["nats"] for row in rows) / sum(row["n_tokens"] for row in rows))


def softmax_weights(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    """Return the chapter's weights."""
    return softmax(q @ k.mT / q.shape[-1] ** 0.5, mask)


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
    length = k.norm(dim=-1).unsqueeze(-2)
    visible = mask.expand(*q.shape[:3], k.shape[2]).to(q)
    mean = (length * visible).sum(-1, keepdim=True) / visible.sum(-1, keepdim=True)
    return softmax(q @ F.normalize(k, dim=-1).mT * mean / q.shape[-1] ** 0.5, mask)


def measure_kernel(reader: Reader) -> Rows:
    """Return the loss with the learned weights, the kernel alone, and keys of equal length."""
    if not (attentions := list_smoothers(reader.model)):
        return []
    examples = reader.take(N_MEASURED).examples
    weights: dict[str, Weigh] = {
        "softmax": softmax_weights,
        "kernel": partial(kernel_weights, has_prior=False),
        "equal lengths": equal_weights,
    }
    rows: Rows = []
    for name, weigh in weights.items():
        with replace_weights(attentions, weigh):
            rows.append({"weights": name, "nats": compute_loss(reader.model, examples)})
    return rows


MEASURES: dict[str, Callable[[Reader], Rows]] = {"kernel": measure_kernel}

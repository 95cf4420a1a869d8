"""Measure how far back a model reaches: gradients by distance and by depth, and what a probe reads.

`measure_depth` and `probe_states` are analyses of a task, as is `measure_gradients` of
tasks/analyses.py. All sources have the same length S, in `measure_depth` by group;
source and target are one text, in which target token t comes t places after the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from seqmodels.data.batches import Example
from seqmodels.interface import SequenceModel
from seqmodels.models.cache import KVCache

from ..analyses import Rows, batch_of, fit_ridge, gradient_norms, mix_features

DEPTHS = {"n_layers": range(1, 6), "forget_bias": (0.0, 2.0)}
"""Fields of a Config that are varied before training."""
N_STARTS = 3
"""Untrained models of each depth."""


# ---------------------------------------------------------------------------------------- depth


def ends_by_length(model: SequenceModel, when: str, groups: Sequence[Sequence[Example]]) -> Rows:
    """Return a row per length: the gradients at the last and first source token, and their ratio.

    They are those of the first target token, whose path leads through the source alone; medians
    over texts, in float64: they can be tiny. The ratio is far over near.
    """
    own = {name: getattr(model.config, name) for name in DEPTHS if hasattr(model.config, name)}
    rows: Rows = []
    for examples in groups:
        first = [e._replace(tgt=e.tgt[:1]) for e in examples]
        norms = gradient_norms(model, batch_of(model, first))[:, 0]
        near, far = norms[:, -1], norms[:, 0]
        ends = {"near": near, "far": far, "ratio": far / near}
        medians = {name: values.median().item() for name, values in ends.items()}
        rows.append({"when": when, **own, "length": norms.shape[1], **medians})
    return rows


def measure_depth(
    model: SequenceModel, _: SequenceModel, groups: Sequence[Sequence[Example]]
) -> Rows:
    """Return the rows of `ends_by_length`, before training for every depth of DEPTHS.

    The untrained models are as wide as the trained one, which has its own depth. A Config without
    one of these fields keeps what it has.
    """
    rows: Rows = []
    fields = {name: DEPTHS[name] for name in DEPTHS if hasattr(model.config, name)}
    for seed, *values in product(range(1, N_STARTS + 1), *fields.values()):
        config = replace(model.config, **dict(zip(fields, values, strict=True)))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            start = type(model)(config).eval().double()
        rows += [row | {"start": seed} for row in ends_by_length(start, "before", groups)]
    return rows + ends_by_length(deepcopy(model).double(), "after", groups)


# ---------------------------------------------------------------------------------------- probe


def state_at_last_token(state: Any, n_source: int) -> Float[Tensor, "B F"]:
    """Return what a State has of the source's last token, or all of it if its size is fixed."""
    pairs = [pair for field in state if isinstance(field, KVCache) for pair in field.layers]
    places = [t[:, :, n_source - 1] for pair in pairs for t in pair]
    tensors = [t for t in state if isinstance(t, Tensor) and t.is_floating_point()]
    places += [t[:, -1] for t in tensors if t.dim() == 3 and t.shape[1] == n_source]
    return torch.cat([t.flatten(1) for t in places or tensors], 1)


def score_probes(
    x: Float[Tensor, "N F"], labels: Int[Tensor, "N S"], n_fit: int, is_control: bool
) -> Float[Tensor, " S"]:
    """Fit probes on the first texts and return their accuracy (%) on the others.

    The control is fitted on the labels of other texts.
    """
    order = torch.randperm(n_fit, generator=torch.Generator().manual_seed(0))
    fitted_labels = labels[:n_fit][order] if is_control else labels[:n_fit]
    one_hot = F.one_hot(fitted_labels, int(labels.max()) + 1).to(x)
    weights = fit_ridge(x[:n_fit], one_hot.flatten(1)).unflatten(1, one_hot.shape[1:])
    predicted = torch.einsum("nf,fsv->nsv", x[n_fit:], weights).argmax(-1)
    return 100 * (predicted == labels[n_fit:]).double().mean(0)


@torch.inference_mode()
def probe_states(model: SequenceModel, _: SequenceModel, examples: Sequence[Example]) -> Rows:
    """Return a row per source token, counted back from the last: accuracy and control (%).

    Probes read random combinations of what passes to the decoder at the last place.
    """
    batch = batch_of(model, examples)
    state = model.encode(batch.src, batch.src_mask)
    x = mix_features(state_at_last_token(state, batch.src.shape[1]))
    labels, n_fit = torch.tensor([e.src for e in examples]), 2 * len(examples) // 3
    accuracy, control = (score_probes(x, labels, n_fit, is_control) for is_control in (False, True))
    S = labels.shape[1]
    return [
        {"back": S - j, "accuracy": accuracy[j].item(), "control": control[j].item()}
        for j in reversed(range(S))
    ]

"""Fit linear probes of one size in closed form, whatever the width of what they read."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

N_FEATURES = 256
"""Inputs of every probe: random combinations of what a model has."""
RIDGE = 0.01
"""Penalty of the probe's squared weights, per row."""


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

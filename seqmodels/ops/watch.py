"""Look at what a module computes on the way, without a line in the pass that computes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


def weights_of(
    model: nn.Module,
    attentions: Sequence[nn.Module],
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B S"],
    tgt_in: Int[Tensor, "B T"],
) -> Float[Tensor, "B L H T S"]:
    """Return the weights over the source in each of these modules during one forward pass.

    A module's `weights` is called with what the module itself is: once for all target tokens or
    once a token, with an axis of heads or without one. GPT's are of source and target.
    """
    found: list[list[Tensor]] = [[] for _ in attentions]
    hooks = []
    for module, alphas in zip(attentions, found, strict=True):

        def watch(module: Any, args: Any, _: Any, alphas: list[Tensor] = alphas) -> None:
            alphas.append(module.weights(*args))

        hooks.append(module.register_forward_hook(watch))
    try:
        model(src, src_mask, tgt_in)
    finally:
        for hook in hooks:
            hook.remove()
    layers = [torch.cat(alphas, -2)[..., -tgt_in.shape[1] :, : src.shape[1]] for alphas in found]
    return torch.stack([layer if layer.dim() == 4 else layer.unsqueeze(1) for layer in layers], 1)

"""Read intermediate results of a module, without a line in its forward pass."""

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

    A module's `weights` is called with the same arguments as the module: once for all target tokens
    or once per token, with or without an axis of heads. GPT's weights cover source and target.
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

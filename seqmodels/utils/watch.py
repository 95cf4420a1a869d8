"""Read or change intermediate results of a module, without a line in its forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


@contextmanager
def watched(attentions: Sequence[nn.Module]) -> Iterator[list[list[Tensor]]]:
    """Collect the weights of each of these modules inside the context, one tensor per call.

    A module's `weights` is called with the same arguments as the module.
    """
    found: list[list[Tensor]] = [[] for _ in attentions]
    with ExitStack() as hooks:
        for module, alphas in zip(attentions, found, strict=True):

            def watch(module: Any, args: Any, _: Any, alphas: list[Tensor] = alphas) -> None:
                alphas.append(module.weights(*args))

            hooks.enter_context(module.register_forward_hook(watch))
        yield found


def weights_by_call(
    model: nn.Module,
    attentions: Sequence[nn.Module],
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B S"],
    tgt_in: Int[Tensor, "B T"],
) -> list[list[Tensor]]:
    """Return the weights of each of these modules, one tensor per call, in one forward pass."""
    with watched(attentions) as found:
        model(src, src_mask, tgt_in)
    return found


def weights_of(
    model: nn.Module,
    attentions: Sequence[nn.Module],
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B S"],
    tgt_in: Int[Tensor, "B T"],
) -> Float[Tensor, "B L H T S"]:
    """Return the weights over the source in each of these modules during one forward pass.

    A module is called once for all target tokens or once per token, and its weights are with or
    without an axis of heads. GPT's weights cover source and target.
    """
    found = weights_by_call(model, attentions, src, src_mask, tgt_in)
    layers = [torch.cat(alphas, -2)[..., -tgt_in.shape[1] :, : src.shape[1]] for alphas in found]
    return torch.stack([layer if layer.dim() == 4 else layer.unsqueeze(1) for layer in layers], 1)

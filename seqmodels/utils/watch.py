"""Read or change intermediate results of a module, without a line in its forward pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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


@contextmanager
def silenced(heads: Iterable[tuple[nn.Module, int]], n_heads: int) -> Iterator[None]:
    """Let these heads give zero inside the context, as if their columns of W_o were zero.

    A head is the module that merges it, called with (B, N, H × K), and its number from 0.
    """
    with ExitStack() as hooks:
        for W_o, head in heads:

            def silence(_: Any, args: tuple[Tensor], head: int = head) -> Tensor:
                kept = torch.arange(n_heads, device=args[0].device) != head
                return (args[0].unflatten(-1, (n_heads, -1)) * kept.unsqueeze(1)).flatten(-2)

            hooks.enter_context(W_o.register_forward_pre_hook(silence))
        yield


def source_embeddings(
    model: nn.Module,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B S"],
    tgt_in: Int[Tensor, "B T"],
) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B N E"]]:
    """Return the logits of one forward pass and the embeddings that begin with the source's.

    They are in the graph of the logits: gradients reach them. GPT's go on with the target's.
    """
    found: list[Tensor] = []

    def watch(_: Any, args: tuple[Tensor], out: Tensor) -> None:
        if args[0].dim() == 2 and torch.equal(args[0][:, : src.shape[1]], src):
            found.append(out)

    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    with ExitStack() as hooks:
        for table in tables:
            hooks.enter_context(table.register_forward_hook(watch))
        logits = model(src, src_mask, tgt_in)
    (embedded,) = found
    return logits, embedded

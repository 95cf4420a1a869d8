"""Faster ways to compute the same numbers: tests hold each equal to what it replaces."""

from __future__ import annotations

from copy import copy
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


def attend(
    q: Float[Tensor, "B H N K"],
    k: Float[Tensor, "B H M K"],
    v: Float[Tensor, "B H M Kv"],
    mask: Bool[Tensor, ...],
    dropout: float = 0.0,
) -> Float[Tensor, "B H N Kv"]:
    """Compute dropout(softmax(q kᵀ / √K)) v, where the mask is True.

    torch's fused kernel does not store the weights. On CPUs, separate products are faster than it
    in bfloat16, where k qᵀ is faster than q kᵀ, and in float32 for a few queries.
    """
    is_bfloat16, is_search = q.dtype == torch.bfloat16, not torch.is_grad_enabled()
    if q.is_cuda or not (is_bfloat16 or (is_search and q.shape[2] <= FEW)):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
    q = q / q.shape[-1] ** 0.5
    score = (k @ q.mT).mT if is_bfloat16 else q @ k.mT
    weights = torch.where(mask, score, -torch.inf).softmax(-1)
    return F.dropout(weights, dropout) @ v if dropout else weights @ v


FEW = 16
"""Queries per text in a search, at most: its beams."""


class _Tanh(torch.autograd.Function):
    """tanh x = 1 - 2 σ(-2x)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return tanh x."""
        y = (-2 * x).sigmoid_().mul_(-2).add_(1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Return grad (1 - tanh² x)."""
        return torch.ops.aten.tanh_backward(grad, *ctx.saved_tensors)


def tanh(x: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """Compute tanh x to within 2e-7: on CPUs torch's float32 sigmoid is six times as fast."""
    if x.is_cuda or x.dtype != torch.float32:
        return torch.tanh(x)
    return _Tanh.apply(x)


class PackedLinear(nn.Module):
    """Compute what an `nn.Linear` computes, with the weight in oneDNN's layout."""

    def __init__(self, linear: nn.Linear, n_rows: int):
        super().__init__()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight, n_rows)
        self.bias = linear.bias

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D2"]:
        """Return W x + b."""
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")


def can_pack(weight: Tensor) -> bool:
    """Return whether oneDNN can use this weight packed: on CPUs, with operators of torch.

    These are private, so they can be missing.
    """
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    is_bfloat16 = weight.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return weight.dtype == torch.float32 or is_bfloat16


def prepack(module: M, n_rows: int) -> M:
    """Return a copy that computes the same with packed weights, fastest for `n_rows` rows.

    Unpacked weights are packed again in every product. The module itself is not changed.
    """
    twin = copy(module)
    twin._modules = {
        name: PackedLinear(part, n_rows)
        if isinstance(part, nn.Linear) and can_pack(part.weight)
        else prepack(part, n_rows)
        for name, part in module.named_children()
    }
    return twin


def head_width(d_model: int, n_heads: int) -> int:
    """Return the width of one of `n_heads` equal heads.

    Raises ValueError if they do not fill the model.
    """
    if n_heads < 1 or d_model % n_heads:
        raise ValueError(f"d_model {d_model} is not a multiple of n_heads {n_heads}")
    return d_model // n_heads

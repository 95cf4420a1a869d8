"""What makes the chapters fast: the same numbers in fewer steps, held equal by tests.

To a chapter `attend` is its equation, `tanh` is tanh, and a `KVCache` is `torch.cat` along the
tokens. `B` sources, `R` = B × J rows, the J beams of each source.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

FEW = 16
"""Queries per text in a search, at most: its beams."""

# ---------------------------------------------------------------------------------- Functions


def head_width(d_model: int, n_heads: int) -> int:
    """Return the width of one of `n_heads` equal heads.

    Raises ValueError if they do not fill the model.
    """
    if n_heads < 1 or d_model % n_heads:
        raise ValueError(f"d_model {d_model} is not a multiple of n_heads {n_heads}")
    return d_model // n_heads


def attend(
    q: Float[Tensor, "B H N K"],
    k: Float[Tensor, "B H M K"],
    v: Float[Tensor, "B H M Kv"],
    mask: Bool[Tensor, ...] | Float[Tensor, ...],
    dropout: float = 0.0,
) -> Float[Tensor, "B H N Kv"]:
    """Compute dropout(softmax(q kᵀ / √K)) v, where the mask is True; numbers are added to scores.

    torch's fused kernel does not store the weights. On CPUs, separate products are faster than it
    in bfloat16, where k qᵀ is faster than q kᵀ, and in float32 for a few queries of each of several
    texts. A mask that is one value, expanded, hides nothing and is left out.
    """
    is_bfloat16 = q.dtype == torch.bfloat16
    is_search = len(q) > 1 and q.shape[2] <= FEW and not torch.is_grad_enabled()
    bias = mask if any(mask.stride()) else None
    if q.device.type != "cpu" or not (is_bfloat16 or is_search):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout)
    q = q / q.shape[-1] ** 0.5
    score = (k @ q.mT).mT if is_bfloat16 else q @ k.mT
    if bias is not None:
        score = torch.where(bias, score, -torch.inf) if bias.dtype == torch.bool else score + bias
    weights = score.softmax(-1)
    return F.dropout(weights, dropout) @ v if dropout else weights @ v


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
    if x.device.type != "cpu" or x.dtype != torch.float32:
        return torch.tanh(x)
    return _Tanh.apply(x)


# ---------------------------------------------------------------------------- Direct calls


@cache
def direct_class(kind: type[nn.Module], training: bool) -> type[nn.Module]:
    """Return a subclass that is called without hooks; in evaluation, dropout returns its input."""
    call = (lambda _, x: x) if kind is nn.Dropout and not training else kind.forward
    return type(kind.__name__, (kind,), {"__call__": call})


def direct(module: Any) -> Any:
    """Return a module that computes the same from the same weights with less overhead, in a search.

    A call of it is a call of `forward`, and its parts and weights are plain attributes: for one
    row, `nn.Module` takes longer than most products. What has hooks stays as it is.
    """
    if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module):
        return module
    parts = {name: direct(part) for name, part in module._modules.items()}
    if type(module) is nn.ModuleList:
        return [*parts.values()]
    kind: Any = type(module)
    twin = object.__new__(direct_class(kind, module.training))
    weights = {name: p if p is None else p.detach() for name, p in module._parameters.items()}
    vars(twin).update({**vars(module), **module._buffers, **weights, **parts, "_modules": parts})
    return twin


# ------------------------------------------------------------------------------------- The cache


class KVCache:
    """Keys and values of every layer, and which of them each row sees.

    `grow` and `reorder` do not change it, but return another one; `update` fills a new one. It
    hides from the model that

    - buffers have room for more tokens, so that writing one does not copy the others;
    - the beams of a source write into the same buffer, and `visible` says which slots each beam
      sees, so that a search reorders beams without copying keys or values;
    - caches that grew from one another share buffers; growing the same one twice copies.
    """

    def __init__(
        self,
        visible: Bool[Tensor, "R N"],
        n_sources: int | None = None,
        layers: Sequence[tuple[Tensor, Tensor]] = (),
        n_written: list[int] | None = None,
    ):
        if not torch.is_grad_enabled() and visible.device.type == "cpu" and visible.all():
            visible = visible.new_ones(()).expand(visible.shape)  # `attend` then needs no mask
        self.visible = visible
        self.n_sources = len(visible) if n_sources is None else n_sources
        self.layers = list(layers)
        """Keys (B,H,M,K) and values (B,H,M,Kv) of each layer, M ≥ N slots."""
        self.n_written = [visible.shape[1]] if n_written is None else n_written
        """One number for all caches that share the buffers: how many slots are taken."""

    @property
    def mask(self) -> Bool[Tensor, "B 1 J N"]:
        """The slots that each row sees, the rows of one source side by side."""
        return self.visible.unflatten(0, (self.n_sources, 1, -1))

    @property
    def lengths(self) -> Int[Tensor, " R"]:
        """The number of tokens that each row sees: the position of its next one."""
        return self.visible.sum(1)

    @property
    def tensors(self) -> list[Tensor]:
        """All that is cached, without the spare room."""
        n = self.visible.shape[1]
        return [self.visible, *(t[:, :, :n] for layer in self.layers for t in layer)]

    def __getitem__(self, layer: int) -> tuple[Float[Tensor, "B H N K"], Float[Tensor, "B H N Kv"]]:
        """Return a layer's keys and values."""
        k, v = self.layers[layer]
        n = self.visible.shape[1]
        return k.narrow(2, 0, n), v.narrow(2, 0, n)

    def grow(self) -> KVCache:
        """Return this cache with a slot for one more token of every row, which it alone sees.

        `update` fills the slots: by `torch.cat` if gradients are enabled, otherwise in place. The
        first call of `grow` gets the spare room behind the cache, the next one a copy.
        """
        n, width = self.visible.shape[1], len(self.visible) // self.n_sources
        own = self.visible.new_ones(self.n_sources, 1)
        if width > 1:
            own = torch.eye(width, dtype=torch.bool, device=own.device).repeat(self.n_sources, 1)
        if torch.is_grad_enabled():
            return KVCache(torch.cat([self.visible, own], 1), self.n_sources, self.layers)
        if self.n_written == [n] and all(k.shape[2] >= n + width for k, _ in self.layers):
            self.n_written[0] = n + width
            visible = torch.cat([self.visible, own], 1)
            return KVCache(visible, self.n_sources, self.layers, self.n_written)
        seen = self.mask.any(2)  # (B,1,N), by any beam; other slots are not copied
        n = int(seen.sum(-1).max())
        slots = seen.sort(stable=True, descending=True).indices[..., :n]
        visible = self.mask.take_along_dim(slots.unsqueeze(2), 3).flatten(0, 2)
        room = max(2 * n, n + 16 * width)
        layers = [(copy_with_room(k, slots, room), copy_with_room(v, slots, room))
                  for k, v in self.layers]  # fmt: skip
        return KVCache(torch.cat([visible, own], 1), self.n_sources, layers)

    def update(
        self, layer: int, k: Float[Tensor, "B H n K"], v: Float[Tensor, "B H n Kv"]
    ) -> tuple[Float[Tensor, "B H N K"], Float[Tensor, "B H N Kv"]]:
        """Put keys and values of the last n tokens into a layer; return all of the layer's."""
        if layer == len(self.layers):
            if not torch.is_grad_enabled():  # otherwise every product of a search copies them
                k, v = k.contiguous(), v.contiguous()
            self.layers.append((k, v))
            return k, v
        old_k, old_v = self.layers[layer]
        n = self.visible.shape[1] - k.shape[2]
        if torch.is_grad_enabled():
            self.layers[layer] = (
                torch.cat([old_k[:, :, :n], k], 2),
                torch.cat([old_v[:, :, :n], v], 2),
            )
            return self.layers[layer]
        old_k.narrow(2, n, k.shape[2]).copy_(k)
        old_v.narrow(2, n, k.shape[2]).copy_(v)
        return self[layer]

    def reorder(
        self, rows: Int[Tensor, " R2"], sources: Int[Tensor, " B2"] | None = None
    ) -> KVCache:
        """Return the cache whose row i continues the old row `rows[i]`.

        Keys and values are kept for the given sources (None: all, uncopied).
        """
        visible = self.visible.index_select(0, rows)
        if sources is None:
            return KVCache(visible, self.n_sources, self.layers, self.n_written)
        written = [self[layer] for layer in range(len(self.layers))]
        layers = [(k.index_select(0, sources), v.index_select(0, sources)) for k, v in written]
        return KVCache(visible, len(sources), layers)


def tensors_of(state: Iterable[Tensor | KVCache]) -> list[Tensor]:
    """Return all tensors that a State holds."""
    tensors = []
    for field in state:
        tensors += [field] if isinstance(field, Tensor) else field.tensors
    return tensors


def copy_with_room(
    t: Float[Tensor, "B H M K"], slots: Int[Tensor, "B 1 n"], room: int
) -> Float[Tensor, "B H M2 K"]:
    """Copy these slots of each source to the beginning of a buffer of `room` slots."""
    B, H, M, K = t.shape
    rows = slots + M * torch.arange(B * H, device=t.device).view(B, H, 1)
    buffer = t.new_empty(B, H, room, K)
    buffer[:, :, : rows.shape[2]] = F.embedding(rows, t.flatten(0, 2))
    return buffer

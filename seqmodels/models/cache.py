"""Fast attention and recurrence: the same numbers in fewer steps, held equal by tests.

To a chapter a `KVCache` is `torch.cat` along the tokens. `B` sources, `R` = B × J rows, the J beams
of each source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

# -------------------------------------------------------------------------------- Torch's kernels


def head_width(d_model: int, n_heads: int) -> int:
    """Return the width of one of `n_heads` equal heads.

    Raises ValueError if they do not fill the model.
    """
    if n_heads < 1 or d_model % n_heads:
        raise ValueError(f"d_model {d_model} is not a multiple of n_heads {n_heads}")
    return d_model // n_heads


def softmax(score: Float[Tensor, "B H N M"], mask: Tensor) -> Float[Tensor, "B H N M"]:
    """Return the softmax over the keys where the mask is True; the other weights are zero."""
    return score.masked_fill(~mask, -torch.inf).softmax(-1)


def fusible(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a `forward` that `fuse` may replace by one of torch's kernels."""
    forward.is_fusible = True  # type: ignore[attr-defined]
    return forward


def fuse(model: nn.Module, kernel: Callable[..., Any]) -> None:
    """Let a kernel of torch compute what chapters mark; variants that weigh otherwise keep theirs.

    `attend_fused` saves time and memory on GPUs, `read_fused` time on CPUs.
    """
    part = {attend_fused: "attention_weights", read_fused: "unit"}[kernel]
    for module in model.modules():
        home = getattr(getattr(module, part, None), "__module__", "")
        if home == module.forward.__module__ and hasattr(module.forward, "is_fusible"):
            module.forward = partial(kernel, module)


def attend_fused(attention: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Return what a chapter's `MultiHeadAttention` returns; no weights are kept."""
    dropout = attention.dropout.p * attention.training
    heads = F.scaled_dot_product_attention(q, k, v, mask, dropout)
    return attention.W_o(heads.transpose(1, 2).flatten(2))


def read_fused(
    layer: Any, x: Tensor, h: Tensor, c: Tensor, n: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what a chapter's `LSTMLayer` returns: at pads, i = 0 and f = 1 hold the cell."""
    W, bias, row = layer.W.weight, layer.W.bias, torch.arange(len(x), device=x.device)
    n = torch.full_like(row, x.shape[1]) if n is None else n
    if n.min() < x.shape[1]:
        pads = torch.arange(x.shape[1], device=x.device) >= n.unsqueeze(1)
        to_gates = W.new_tensor([[-1e4], [1e4], [0], [0]]).repeat_interleave(h.shape[1], 0)
        x, W = torch.cat([x, pads.unsqueeze(2)], 2), torch.cat([W, to_gates], 1)
    weights = [W, layer.U.weight, bias, torch.zeros_like(bias)]
    options = True, 1, 0.0, torch.is_grad_enabled(), False, True
    outputs, _, c = torch.lstm(x, (h.unsqueeze(0), c.unsqueeze(0)), weights, *options)
    return outputs, outputs[row, n - 1], c[0]


# ------------------------------------------------------------------------------------- The cache


@dataclass
class Buffer:
    """Slots for the keys and values of tokens in every layer, which several caches can share."""

    layers: list[tuple[Tensor, Tensor]]
    """Keys (B,H,M,K) and values (B,H,M,Kv) of each layer, in M slots."""
    n_taken: int
    """How many slots are in use, from the first on; the others are spare room."""


class KVCache:
    """Keys and values of every layer, and which of them each row sees: a view of a `Buffer`.

    `grow` and `reorder` return another view and leave this one as it is; `update` fills the slots
    that `grow` has added. With gradients, `update` is `torch.cat`. In a search:

        slots             0   1   2 | 3 | 4   5   6
        a                 x   x   x                   covers 3 slots of a buffer that has room
        b = a.grow()      x   x   x   x               1. takes the next slot and copies nothing;
                                                         without room, it copies all to a larger
                                                         buffer
        a.reorder(rows)   x   x   x                   2. shares the buffer: `visible` says which
                                                         slots each beam sees, and is reordered
        c = a.grow()      x   x   x   x'              3. copies: slot 3 is b's
        a.reorder(rows, sources)                      4. copies the slots of these sources
    """

    def __init__(
        self, visible: Bool[Tensor, "R N"], n_sources: int | None = None,
        buffer: Buffer | None = None,
    ):  # fmt: skip
        self.visible = visible
        self.n_sources = len(visible) if n_sources is None else n_sources
        self.buffer = Buffer([], visible.shape[1]) if buffer is None else buffer

    @classmethod
    def empty(cls, src: Int[Tensor, "B S"]) -> KVCache:
        """Return a cache for these sources that has no token yet."""
        return cls(torch.ones(len(src), 0, dtype=torch.bool, device=src.device))

    @property
    def mask(self) -> Bool[Tensor, "B 1 J N"]:
        """The slots that each row sees, (R,N) cut into B sources of J rows, alike for all heads."""
        return self.visible.unflatten(0, (self.n_sources, 1, -1))

    @property
    def lengths(self) -> Int[Tensor, " R"]:
        """The number of tokens that each row sees: the position of its next one."""
        return self.visible.sum(1)

    @property
    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """Keys (B,H,N,K) and values (B,H,N,Kv) of each layer, without the spare room."""
        return [self[layer] for layer in range(len(self.buffer.layers))]

    def __getitem__(self, layer: int) -> tuple[Float[Tensor, "B H N K"], Float[Tensor, "B H N Kv"]]:
        """Return a layer's keys and values."""
        k, v = self.buffer.layers[layer]
        n = self.visible.shape[1]
        return k.narrow(2, 0, n), v.narrow(2, 0, n)

    def grow(self) -> KVCache:
        """Return this cache with a slot for one more token of every row, which it alone sees."""
        n, n_beams = self.visible.shape[1], len(self.visible) // self.n_sources
        own = self.visible.new_ones(self.n_sources, 1)
        if n_beams > 1:
            own = torch.eye(n_beams, dtype=torch.bool, device=own.device).repeat(self.n_sources, 1)
        visible, buffer = self.visible, self.buffer
        if torch.is_grad_enabled():
            buffer = Buffer([*buffer.layers], n + n_beams)
        elif buffer.n_taken == n and all(k.shape[2] >= n + n_beams for k, _ in buffer.layers):
            buffer.n_taken += n_beams
        else:
            visible, buffer = self.copy_with_room(n_beams)
        return KVCache(torch.cat([visible, own], 1), self.n_sources, buffer)

    def copy_with_room(self, n_beams: int) -> tuple[Bool[Tensor, "R N"], Buffer]:
        """Copy the slots that any beam sees to a larger buffer, in which the next ones are taken.

        Returns which of them each row sees, and the buffer.
        """
        seen = self.mask.any(2)  # (B,1,N)
        n = int(seen.sum(-1).max())
        slots = seen.sort(stable=True, descending=True).indices[..., :n]
        room = max(2 * n, n + 16 * n_beams)
        layers = [
            (copy_slots(k, slots, room), copy_slots(v, slots, room)) for k, v in self.buffer.layers
        ]
        visible = self.mask.take_along_dim(slots.unsqueeze(2), 3).flatten(0, 2)
        return visible, Buffer(layers, n + n_beams)

    def update(
        self, layer: int, k: Float[Tensor, "B H n K"], v: Float[Tensor, "B H n Kv"]
    ) -> tuple[Float[Tensor, "B H N K"], Float[Tensor, "B H N Kv"]]:
        """Put keys and values of the last n tokens into a layer; return all of the layer's."""
        layers, is_search = self.buffer.layers, not torch.is_grad_enabled()
        if layer == len(layers):
            if is_search:  # otherwise every product of a search copies them
                k, v = k.contiguous(), v.contiguous()
            layers.append((k, v))
            return k, v
        old_k, old_v = layers[layer]
        n = self.visible.shape[1] - k.shape[2]
        if is_search:
            old_k.narrow(2, n, k.shape[2]).copy_(k)
            old_v.narrow(2, n, k.shape[2]).copy_(v)
            return self[layer]
        layers[layer] = torch.cat([old_k[:, :, :n], k], 2), torch.cat([old_v[:, :, :n], v], 2)
        return layers[layer]

    def reorder(
        self, rows: Int[Tensor, " R2"], sources: Int[Tensor, " B2"] | None = None
    ) -> KVCache:
        """Return the cache whose row i continues the old row `rows[i]`.

        Keys and values are kept for the given sources (None: all, uncopied).
        """
        visible, n_sources, buffer = self.visible.index_select(0, rows), self.n_sources, self.buffer
        if sources is not None:
            kept = [
                (k.index_select(0, sources), v.index_select(0, sources)) for k, v in self.layers
            ]
            n_sources, buffer = len(sources), Buffer(kept, visible.shape[1])
        return KVCache(visible, n_sources, buffer)


def tensors_of(state: Iterable[Tensor | KVCache]) -> list[Tensor]:
    """Return all tensors that a State holds."""
    tensors = []
    for field in state:
        if isinstance(field, KVCache):
            tensors += [field.visible, *(t for layer in field.layers for t in layer)]
        else:
            tensors.append(field)
    return tensors


def copy_slots(
    t: Float[Tensor, "B H M K"], slots: Int[Tensor, "B 1 n"], room: int
) -> Float[Tensor, "B H M2 K"]:
    """Copy these slots of each source to the beginning of a buffer of `room` slots."""
    B, H, M, K = t.shape
    rows = slots + M * torch.arange(B * H, device=t.device).view(B, H, 1)
    buffer = t.new_empty(B, H, room, K)
    buffer[:, :, : rows.shape[2]] = F.embedding(rows, t.flatten(0, 2))
    return buffer

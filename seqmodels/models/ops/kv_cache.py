"""A cache of keys and values: to a model it is `torch.cat` along the tokens.

`B` sources, `R` = B × W rows, the W beams of each source. What it hides from the model:

    buffers   have room for more tokens, so that writing one does not copy the others
    beams     of one source write into the same buffer; `visible` says which slots each beam sees,
              so that a search can reorder beams without copying keys or values
    sharing   caches that grew from one another share buffers; growing the same one twice copies
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


class KVCache:
    """Keys and values of every layer, and which of them each row sees.

    `grow` and `reorder` do not change it, but return another one; `update` fills a new one.
    """

    def __init__(
        self,
        visible: Bool[Tensor, "R N"],
        n_sources: int | None = None,
        layers: Sequence[tuple[Tensor, Tensor]] = (),
        n_written: list[int] | None = None,
    ):
        self.visible = visible
        self.n_sources = len(visible) if n_sources is None else n_sources
        self.layers = list(layers)
        """Keys (B,H,M,K) and values (B,H,M,Kv) of each layer, M ≥ N slots."""
        self.n_written = [visible.shape[1]] if n_written is None else n_written
        """One number for all caches that share the buffers: how many slots are taken."""

    @property
    def mask(self) -> Bool[Tensor, "B 1 W N"]:
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
        if width == 1:
            visible = F.pad(self.visible, (0, 1), value=True)
        else:
            own = torch.eye(width, dtype=torch.bool, device=self.visible.device)
            visible = torch.cat([self.visible, own.repeat(self.n_sources, 1)], 1)
        if torch.is_grad_enabled():
            return KVCache(visible, self.n_sources, self.layers)
        n_slots = min((k.shape[2] for k, _ in self.layers), default=n + width)
        if self.n_written != [n] or n + width > n_slots:
            roomy = [(_with_room(k, n, width), _with_room(v, n, width)) for k, v in self.layers]
            return KVCache(visible, self.n_sources, roomy)
        self.n_written[0] = n + width
        return KVCache(visible, self.n_sources, self.layers, self.n_written)

    def update(
        self, layer: int, k: Float[Tensor, "B H n K"], v: Float[Tensor, "B H n Kv"]
    ) -> tuple[Float[Tensor, "B H N K"], Float[Tensor, "B H N Kv"]]:
        """Put keys and values of the last n tokens into a layer; return all of the layer's."""
        if layer == len(self.layers):
            self.layers.append((k, v))
            return k, v
        old = self.layers[layer]
        n = self.visible.shape[1] - k.shape[2]
        if torch.is_grad_enabled():
            new_k, new_v = (
                torch.cat([t[:, :, :n], new], 2) for t, new in zip(old, (k, v), strict=True)
            )
            self.layers[layer] = new_k, new_v
            return new_k, new_v
        for buffer, new in zip(old, (k, v), strict=True):
            buffer.narrow(2, n, new.shape[2]).copy_(new)
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
        kept = [self[layer] for layer in range(len(self.layers))]
        layers = [(k.index_select(0, sources), v.index_select(0, sources)) for k, v in kept]
        return KVCache(visible, len(sources), layers)


def tensors_of(state: Iterable[Tensor | KVCache]) -> list[Tensor]:
    """Return all tensors that a State holds."""
    found = []
    for field in state:
        found += [field] if isinstance(field, Tensor) else field.tensors
    return found


def _with_room(t: Tensor, n: int, width: int) -> Tensor:
    """Copy the first n slots into a buffer with room for as many again, and for 16 tokens a row."""
    size = list(t.shape)
    size[2] = 2 * (n + 16 * width)
    room = t.new_empty(size)
    room[:, :, :n] = t[:, :, :n]
    return room

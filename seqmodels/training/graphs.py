"""CUDA graphs: the loss and gradient of a batch as one launch.

A recurrent model runs thousands of small kernels for a batch, each of which takes longer to launch
than to run. A graph launches them all at once. It is recorded once for each shape, so batches are
padded to a few shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seqmodels.interface import BOS, PAD, Batch


def round_up(n: int) -> int:
    """Return the next multiple of 8, or of the power of two below n / 2 if that is larger."""
    step = max(8, 2 ** (n.bit_length() - 3))
    return -(-n // step) * step


Recorded = tuple[torch.cuda.CUDAGraph, Batch, Float[Tensor, ""]]
"""A graph, the batch that it reads and the loss that it writes."""


class BackwardGraphs:
    """Computes gradients by the graph of a batch's padded shape."""

    def __init__(self, loss_of: Callable[[Batch], Tensor], parameters: Iterable[nn.Parameter]):
        self.loss_of, self.parameters = loss_of, [*parameters]
        self.recorded: dict[tuple[int, int, int], Recorded] = {}
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Batch) -> Float[Tensor, ""]:
        """Replace the gradients by those of this batch; return its loss.

        Both are overwritten by the next call.
        """
        rows, n_src, n_tgt = (round_up(n) for n in (*batch.src.shape, batch.tgt_in.shape[1]))
        if (rows, n_src, n_tgt) not in self.recorded:
            self.recorded[rows, n_src, n_tgt] = self.record(rows, n_src, n_tgt, batch)
        graph, static, loss = self.recorded[rows, n_src, n_tgt]
        fill(static, batch)
        graph.replay()
        return loss

    def record(self, rows: int, n_src: int, n_tgt: int, batch: Batch) -> Recorded:
        """Record the graph of a shape.

        The first pass is not recorded: it allocates the gradients that all graphs write, those of
        the parameters that the loss depends on.
        """
        shapes = (rows, n_src), (rows, n_src), (rows, n_tgt), (rows, n_tgt)
        static = Batch(*(t.new_empty(shape) for t, shape in zip(batch, shapes, strict=True)))
        fill(static, batch)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.loss_of(static).backward()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            torch._foreach_zero_([p.grad for p in self.parameters if p.grad is not None])
            loss = self.loss_of(static)
            loss.backward()
            loss = loss.detach()
        return graph, static, loss


def fill(static: Batch, batch: Batch) -> None:
    """Copy a batch into a larger one, whose other rows have a source of one token and no target."""
    for whole, part, first in zip(static, batch, (BOS, True, BOS, PAD), strict=True):
        whole.fill_(PAD)
        whole[:, 0] = first
        whole[: part.shape[0], : part.shape[1]] = part

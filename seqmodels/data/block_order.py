"""The order of batches of a corpus whose order does not fit into memory.

A corpus is cut into blocks of BLOCK neighbouring examples. In each epoch the blocks are shuffled,
and POOLED of them at a time form a pool: its examples are shuffled, sorted by length and cut into
batches, which are shuffled as well. How many batches a pool has follows from how often each length
occurs in it, so that training resumes at any batch without drawing the ones before it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np

BLOCK = 2**13
"""Neighbouring examples that are shuffled together: their lengths are read at once."""
POOLED = 16
"""Blocks in a pool, from all over the corpus."""

ReadLengths = Callable[[int, int], np.ndarray]
"""Return the number of tokens of sources and targets from one example to before another: (n, 2)."""


def permutation(n: int, key: str) -> np.ndarray:
    """Return 0 … n-1 in an order that depends only on the key, whatever NumPy's version."""
    draw = np.random.PCG64(random.Random(key).getrandbits(128))
    return np.argsort(draw.random_raw(n), kind="stable")


def batch_ends(sizes: np.ndarray, batch_tokens: int) -> list[int]:
    """Return where batches end if rows, the shortest first, fill up `batch_tokens` in turn.

    A batch counts its rows times its longest row, and holds at least one. Rows of the same size are
    counted, not walked.
    """
    ends, at, n_open = [], 0, 0
    for size, n in enumerate(np.bincount(sizes).tolist()):
        if n == 0:
            continue
        most = max(1, batch_tokens // max(size, 1))
        if n_open > most:
            ends.append(at)
            n_open = 0
        ends += range(at + most - n_open, at + n, most)
        n_open = (n_open + n - 1) % most + 1
        at += n
    return [*ends, at]


class BlockOrder:
    """Batches of indices of n examples, in an order that depends only on (seed, epoch)."""

    def __init__(self, read_lengths: ReadLengths, n: int, batch_tokens: int):
        self.read_lengths, self.n, self.batch_tokens = read_lengths, n, batch_tokens

    def pools(self, seed: int, epoch: int) -> list[np.ndarray]:
        """Return the blocks of each pool of an epoch."""
        blocks = permutation(-(-self.n // BLOCK), f"{seed}/{epoch}")
        return np.split(blocks, range(POOLED, len(blocks), POOLED))

    def lengths_of(self, blocks: np.ndarray) -> np.ndarray:
        """Return the lengths of a pool's examples: (n, 2)."""
        spans = [(b * BLOCK, min((b + 1) * BLOCK, self.n)) for b in blocks.tolist()]
        return np.concatenate([self.read_lengths(*span) for span in spans])

    def counts(self, seed: int, epoch: int) -> Iterator[int]:
        """Yield the number of batches of each pool of an epoch."""
        for blocks in self.pools(seed, epoch):
            yield len(batch_ends(self.lengths_of(blocks).max(1), self.batch_tokens))

    def batches(self, seed: int, epoch: int, first: int = 0) -> Iterator[list[int]]:
        """Yield an epoch's batches, from any of them on."""
        n_left = first
        for i, blocks in enumerate(self.pools(seed, epoch)):
            n_tokens = self.lengths_of(blocks)
            if n_left:
                n_batches = len(batch_ends(n_tokens.max(1), self.batch_tokens))
                if n_left >= n_batches:
                    n_left -= n_batches
                    continue
            runs = self.pool_batches(blocks, n_tokens, f"{seed}/{epoch}/{i}")
            yield from runs[n_left:]
            n_left = 0

    def pool_batches(self, blocks: np.ndarray, n_tokens: np.ndarray, key: str) -> list[list[int]]:
        """Return the batches of a pool, shuffled."""
        rows = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
        rows, n_src, sizes = rows[rows < self.n], n_tokens[:, 0], n_tokens.max(1)
        order = permutation(len(rows), key)
        order = order[np.lexsort((n_src[order], sizes[order]))]
        ends = batch_ends(sizes, self.batch_tokens)
        starts = [0, *ends[:-1]]
        return [
            rows[order[starts[i] : ends[i]]].tolist() for i in permutation(len(ends), f"{key}/")
        ]

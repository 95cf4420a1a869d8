"""Windows of running text on disk: what a model reads, and what it has to predict."""

from __future__ import annotations

import numpy as np

from seqmodels.data.batches import Example, LazyExamples
from seqmodels.data.store import TokenStream
from seqmodels.interface import BOS


def contexts(longest: int) -> list[int]:
    """Return the context lengths 0, 8, 16, 32, … and the longest."""
    doubled = [8 * 2**i for i in range(20) if 8 * 2**i < longest]
    return [0, *doubled, longest] if longest else [0]


class ContextWindows(LazyExamples):
    """Targets of one length, each after a context of random length: its source, or only BOS.

    Short contexts are as frequent as long ones: as many windows have no context as have 1 to 8
    tokens, 9 to 16, 17 to 32 and so on (see `contexts`). A window's context depends on the seed.
    """

    def __init__(
        self, ids: TokenStream, starts: range, n_target: int, context: int = 0, seed: int = 0
    ):
        self.ids, self.starts, self.n_target = ids, starts, n_target
        rng, n = np.random.default_rng(seed), len(starts) if context else 1
        most = np.array(contexts(context), np.int32)
        least = np.append(0, most[:-1] + 1)
        kind = rng.integers(len(most), size=n)
        self.contexts = rng.integers(least[kind], most[kind] + 1, dtype=np.int32)  # 0 if none

    @property
    def lengths(self) -> np.ndarray:
        """Return the number of tokens of each source and each target: (n, 2)."""
        n_source = np.maximum(self.contexts, 1)  # BOS is a token
        both = np.stack([n_source, np.full_like(n_source, self.n_target)], 1)
        return np.broadcast_to(both, (len(self), 2))

    def __len__(self) -> int:
        return len(self.starts)

    def at(self, i: int) -> Example:
        """Return an example."""
        start = self.starts[i]
        begin = start - int(self.contexts[i % len(self.contexts)])
        src = self.ids.slice(begin, start) or [BOS]
        return Example(src, self.ids.slice(start, start + self.n_target), line=self.ids.line(begin))


class SlidingWindow(LazyExamples):
    """Every token of a text, or of its first n, scored once, in blocks that begin after BOS.

    A block scores the `stride` tokens that the previous one did not; it repeats others unscored.
    """

    def __init__(self, ids: TokenStream, block: int, stride: int, n: int | None = None):
        self.ids, self.block, self.stride = ids, block, stride
        self.n = len(ids) if n is None else min(n, len(ids))

    @property
    def lengths(self) -> np.ndarray:
        """Return the number of tokens of each source and each target: (n, 2)."""
        return np.broadcast_to([1, min(self.block, self.n)], (len(self), 2))

    def __len__(self) -> int:
        return 1 + max(0, -(-(self.n - self.block) // self.stride))

    def end(self, i: int) -> int:
        """Return where a block ends."""
        return min(self.block + i * self.stride, self.n)

    def at(self, i: int) -> Example:
        """Return an example."""
        start, end = max(0, self.end(i) - self.block), self.end(i)
        unscored = range(self.end(i - 1) - start) if i else ()
        return Example([BOS], self.ids.slice(start, end), frozenset(unscored), self.ids.line(start))

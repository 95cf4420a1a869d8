"""Windows of running text on disk: what a model reads, and what it has to predict."""

from __future__ import annotations

import numpy as np

from seqmodels.data.batches import LARGE, Example, LazyExamples
from seqmodels.data.tokens import TokenStream
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
        self.ids, self.starts, self.n_target, self.seed = ids, starts, n_target, seed
        self.most = np.array(contexts(context), np.int32)
        self.least = np.append(0, self.most[:-1] + 1)
        self.contexts = None if len(starts) > LARGE else self._draw_all()

    def _draw_all(self) -> np.ndarray:
        rng = np.random.default_rng(self.seed)
        kind = rng.integers(len(self.most), size=len(self))
        return rng.integers(self.least[kind], self.most[kind] + 1, dtype=np.int32)

    def contexts_between(self, start: int, end: int) -> np.ndarray:
        """Return the lengths of the contexts of the windows from `start` to before `end`.

        Those of more than LARGE windows are not kept: each follows from a number of its own.
        """
        if self.contexts is not None:
            return self.contexts[start:end]
        raw = np.random.PCG64(self.seed).advance(start).random_raw(end - start)
        kind, rest = raw % np.uint64(len(self.most)), (raw >> np.uint64(32)).astype(np.int64)
        least = self.least[kind]
        return (least + rest % (self.most[kind] - least + 1)).astype(np.int32)

    @property
    def lengths(self) -> np.ndarray:
        """Return the number of tokens of each source and each target: (n, 2)."""
        return self.lengths_between(0, len(self))

    @property
    def longest(self) -> tuple[int, int]:
        """Return the number of tokens of the longest source, and of the longest target.

        Of more than LARGE windows, some have the longest context.
        """
        most = self.most[-1] if self.contexts is None else self.contexts.max()
        return max(int(most), 1), self.n_target

    def lengths_between(self, start: int, end: int) -> np.ndarray:
        """Return the `lengths` of the examples from `start` to before `end`."""
        n_source = np.maximum(self.contexts_between(start, end), 1)  # BOS is a token
        return np.stack([n_source, np.full_like(n_source, self.n_target)], 1)

    def __len__(self) -> int:
        return len(self.starts)

    def at(self, i: int) -> Example:
        """Return an example."""
        start = self.starts[i]
        begin = start - int(self.contexts_between(i, i + 1)[0])
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

"""Tokens on disk, in shards: only those being read are in memory. `shards` writes them."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np

from seqmodels.data.batches import Example, LazyExamples
from seqmodels.data.shards import LINE_EVERY, index_path, pieces, shard_path
from seqmodels.utils.files import read_json

N_OPEN = 32
"""Shards that are open at a time; the memory that maps take is given back when they are closed."""


class Ids:
    """The token ids of a shard. They are not a map, whose pages would stay in memory."""

    def __init__(self, path: Path, dtype: str):
        self.dtype = np.dtype(dtype)
        self.file = open(path, "rb", 0)  # noqa: SIM115
        finalize(self, self.file.close)

    def slice(self, start: int, end: int) -> list[int]:
        """Return the ids from `start` to before `end`."""
        size = self.dtype.itemsize
        self.file.seek(start * size)
        return np.frombuffer(self.file.read((end - start) * size), self.dtype).tolist()


# --------------------------------------------------------------------------------------- Pairs


class PairShard(NamedTuple):
    """Some pairs on disk."""

    ids: Ids
    ends: np.ndarray
    """0, then where each source and each target ends."""
    line: np.ndarray


def open_pairs(path: Path, dtype: str, i: int) -> PairShard:
    """Open a shard of pairs."""
    ends, line = (np.load(shard_path(path, i, f".{kind}.npy"), "r") for kind in ("ends", "line"))
    return PairShard(Ids(shard_path(path, i, ".ids"), dtype), ends, line)


class TokenizedPairs(LazyExamples):
    """Examples on disk."""

    def __init__(self, path: Path):
        self.path, index = path, read_json(index_path(path))
        self.n, self.per_shard = int(index["n"]), int(index["shard"])
        self._longest = int(index["longest"][0]), int(index["longest"][1])
        self.most_words = int(index["most_words"])
        """Words of the longest source."""
        self.shard = lru_cache(N_OPEN)(partial(open_pairs, path, index["dtype"]))

    @property
    def lengths(self) -> np.ndarray:
        """Return the number of tokens of each source and each target: (n, 2)."""
        return self.lengths_between(0, self.n)

    def lengths_between(self, start: int, end: int) -> np.ndarray:
        """Return the `lengths` of the examples from `start` to before `end`."""
        found = [np.empty((0, 2), np.int32)]
        for a, b in pieces(start, end - start, self.per_shard):
            shard, first = divmod(start + a, self.per_shard)
            ends = self.shard(shard).ends[2 * first : 2 * (first + b - a) + 1]
            found.append(np.diff(ends).astype(np.int32).reshape(-1, 2))
        return np.concatenate(found)

    @property
    def longest(self) -> tuple[int, int]:
        """Return the number of tokens of the longest source, and of the longest target."""
        return self._longest

    def __len__(self) -> int:
        return self.n

    def at(self, i: int) -> Example:
        """Return an example."""
        shard, j = self.shard(i // self.per_shard), i % self.per_shard
        start, middle, end = shard.ends[2 * j : 2 * j + 3].tolist()
        ids = shard.ids.slice(start, end)
        return Example(ids[: middle - start], ids[middle - start :], line=int(shard.line[j]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pass the path to another process."""
        return TokenizedPairs, (self.path,)


# -------------------------------------------------------------------------------- Running text


class TokenShard(NamedTuple):
    """Some tokens of running text on disk."""

    ids: Ids
    lines: np.ndarray
    """The line of every LINE_EVERY-th token."""


def open_tokens(path: Path, dtype: str, i: int) -> TokenShard:
    """Open a shard of running text."""
    lines = np.load(shard_path(path, i, ".lines.npy"), "r")
    return TokenShard(Ids(shard_path(path, i, ".ids"), dtype), lines)


class TokenStream:
    """Token ids of running text on disk."""

    def __init__(self, path: Path):
        self.path, index = path, read_json(index_path(path))
        self.n, self.per_shard = int(index["n"]), int(index["shard"])
        self.shard = lru_cache(N_OPEN)(partial(open_tokens, path, index["dtype"]))

    def __len__(self) -> int:
        return self.n

    def slice(self, start: int, end: int) -> list[int]:
        """Return the tokens from `start` to before `end`."""
        end, found = min(end, self.n), list[int]()
        for a, b in pieces(start, end - start, self.per_shard):
            shard, first = divmod(start + a, self.per_shard)
            found += self.shard(shard).ids.slice(first, first + b - a)
        return found

    def line(self, i: int) -> int:
        """Return the line of a token, or of one shortly before it; 0: unknown."""
        return int(self.shard(i // self.per_shard).lines[i % self.per_shard // LINE_EVERY])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pass the path to another process."""
        return TokenStream, (self.path,)

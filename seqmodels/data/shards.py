"""Writing tokens into shards: files of a size that disks and people can handle.

What is known of all shards together, such as the longest pair, is in an index of a few bytes, so
that nobody has to read them to find it out. `store` reads what is written here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np

from seqmodels.utils import files

SHARD_PAIRS = 2**20
"""Pairs in a shard."""
SHARD_TOKENS = 2**26
"""Tokens of running text in a shard."""
LINE_EVERY = 32
"""The line is stored for every token of running text whose index is a multiple of this."""


def index_path(path: Path) -> Path:
    """Return the path of the index of the shards at a path."""
    return path.with_suffix(".index.json")


def shard_path(path: Path, i: int, suffix: str) -> Path:
    """Return the path of a file of a shard."""
    return path.with_suffix(f".{i:05}{suffix}")


def pieces(n_before: int, n: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield where n more items have to be cut, so that each piece is in one shard of that size."""
    for start, end in pairwise([0, *range(-n_before % size, n, size), n]):
        if start < end:
            yield start, end


class _Writer:
    """Writes one shard after the other, then the index."""

    def __init__(self, path: Path, dtype: Any, shard: int):
        self.path, self.dtype, self.shard = path, np.dtype(dtype), shard
        self.n = 0
        self.file: IO[bytes] | None = None
        self.kept: dict[str, list[np.ndarray]] = {}
        """Columns, which are written as arrays when their shard is complete."""
        self.index: dict[str, Any] = {}

    def _write(self, ids: np.ndarray, n: int, **kept: np.ndarray) -> None:
        """Write n items that belong to the same shard."""
        if self.n % self.shard == 0:
            self._end_shard()
            path = shard_path(self.path, self.n // self.shard, ".ids")
            self.file = open(path, "wb")  # noqa: SIM115 (closed by _end_shard)
            self.kept = {kind: [] for kind in kept}
        assert self.file is not None
        self.file.write(ids.astype(self.dtype, copy=False).data)
        for kind, values in kept.items():
            self.kept[kind].append(values)
        self.n += n

    def _end_shard(self) -> None:
        if self.file is not None:
            self.file.close()
            for kind, values in self.kept.items():
                path = shard_path(self.path, (self.n - 1) // self.shard, f".{kind}.npy")
                np.save(path, self._packed(kind, np.concatenate(values)))
        self.file = None

    def _packed(self, kind: str, values: np.ndarray) -> np.ndarray:
        """Return what is saved, in as few bytes as it needs."""
        return values.astype(np.min_scalar_type(values.max(initial=0)))

    def __exit__(self, *_: object) -> None:
        self._end_shard()
        index = {"n": self.n, "dtype": self.dtype.name, "shard": self.shard, **self.index}
        files.write(index_path(self.path), json.dumps(index))


class PairWriter(_Writer):
    """Writes pairs; `store.TokenizedPairs` reads them."""

    def __init__(self, path: Path, dtype: Any = np.uint32):
        super().__init__(path, dtype, SHARD_PAIRS)
        self.index = {"longest": [0, 0], "most_words": 0}

    def __enter__(self) -> PairWriter:
        return self

    def add(
        self, sizes: np.ndarray, ids: np.ndarray, line: np.ndarray, n_words: np.ndarray
    ) -> None:
        """Write pairs: their tokens (n, 2), all ids in order, their lines, words of each source."""
        if not len(sizes):
            return
        ends = np.append(0, sizes.sum(1, dtype=np.int64).cumsum())
        for start, end in pieces(self.n, len(sizes), self.shard):
            kept = {"ends": sizes[start:end].ravel(), "line": line[start:end]}
            self._write(ids[ends[start] : ends[end]], end - start, **kept)
        longest = np.maximum(self.index["longest"], sizes.max(0)).tolist()
        most_words = max(self.index["most_words"], int(n_words.max()))
        self.index = {"longest": longest, "most_words": most_words}

    def _packed(self, kind: str, values: np.ndarray) -> np.ndarray:
        is_size = kind == "ends"
        return super()._packed(
            kind, np.append(0, values.cumsum(dtype=np.int64)) if is_size else values
        )


class TokenWriter(_Writer):
    """Writes running text; `store.TokenStream` reads it."""

    def __init__(self, path: Path, dtype: Any, first_line: int):
        super().__init__(path, dtype, SHARD_TOKENS)
        self.line = first_line

    def __enter__(self) -> TokenWriter:
        return self

    def add(self, ids: np.ndarray, n_feeds: np.ndarray) -> None:
        """Write tokens, each of which has a number of line feeds."""
        passed = n_feeds.cumsum(dtype=np.int64)
        for start, end in pieces(self.n, len(ids), self.shard):
            places = slice(start + -self.n % LINE_EVERY, end, LINE_EVERY)
            lines = self.line + passed[places] - n_feeds[places]
            self._write(ids[start:end], end - start, lines=lines)
        self.line += int(passed[-1]) if len(ids) else 0

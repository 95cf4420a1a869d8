"""Token ids in Arrow files: memory-mapped, so that a corpus need not fit into memory.

`prepare` writes them. A split is the file SPLIT.arrow, whose record batches are read here without
copying: as NumPy arrays that view the file.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from seqmodels.data.batches import Example, LazyExamples
from seqmodels.data.cache import MADE
from seqmodels.utils.files import read_json

LINE_EVERY = 32
"""The line is stored for every token of a row of text whose index is a multiple of this."""


class Lists(NamedTuple):
    """A column of lists of one record batch."""

    ends: np.ndarray
    """Where each list begins, and where the last one ends."""
    values: np.ndarray


def view_lists(column: pa.ListArray) -> Lists:
    """Return a column of lists as arrays."""
    return Lists(column.offsets.to_numpy(), column.values.to_numpy())


class ArrowRows:
    """The record batches of a split on disk."""

    def __init__(self, folder: Path, split: str):
        self.folder, self.split = folder, split
        stream = pa.ipc.open_stream(pa.memory_map(str(folder / f"{split}.arrow")))
        self.chunks: list[pa.RecordBatch] = stream.read_all().to_batches()
        self.lists = cache(self._view)

    def _view(self, i: int, column: str) -> Lists:
        return view_lists(self.chunks[i].column(column))

    def texts(self) -> list[tuple[str, str]]:
        """Return source and target of each example as text, which is kept of test alone."""
        return [
            pair
            for chunk in self.chunks
            for pair in zip(
                *(chunk.column(side).to_pylist() for side in ("source", "target")), strict=True
            )
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pass the path to another process."""
        return type(self), (self.folder, self.split)


class TokenizedPairs(ArrowRows, LazyExamples):
    """Examples on disk."""

    def __init__(self, folder: Path, split: str):
        super().__init__(folder, split)
        self.starts = np.cumsum([0, *(len(chunk) for chunk in self.chunks)]).tolist()
        self.lines = cache(lambda i: self.chunks[i].column("line").to_numpy())
        longest = read_json(folder / MADE)["longest"][split]
        self._longest = int(longest["src"]), int(longest["tgt"])
        self.most_words = int(longest["n_words"])
        """Words of the longest source."""

    @property
    def lengths(self) -> np.ndarray:
        """Return the number of tokens of each source and each target: (n, 2)."""
        return self.lengths_between(0, len(self))

    def lengths_between(self, start: int, end: int) -> np.ndarray:
        """Return the `lengths` of the examples from `start` to before `end`."""
        parts = [np.empty((0, 2), np.int32)]
        while start < end:
            i, first = self.place(start)
            last = min(end - self.starts[i], len(self.chunks[i]))
            sizes = [np.diff(self.lists(i, side).ends[first : last + 1]) for side in ("src", "tgt")]
            parts.append(np.stack(sizes, 1))
            start = self.starts[i] + last
        return np.concatenate(parts)

    @property
    def longest(self) -> tuple[int, int]:
        """Return the number of tokens of the longest source, and of the longest target."""
        return self._longest

    def place(self, i: int) -> tuple[int, int]:
        """Return the record batch of an example, and its row there."""
        chunk = bisect_right(self.starts, i) - 1
        return chunk, i - self.starts[chunk]

    def __len__(self) -> int:
        return int(self.starts[-1])

    def at(self, i: int) -> Example:
        """Return an example."""
        chunk, row = self.place(i)
        src, tgt = self.lists(chunk, "src"), self.lists(chunk, "tgt")
        return Example(
            src.values[src.ends[row] : src.ends[row + 1]].tolist(),
            tgt.values[tgt.ends[row] : tgt.ends[row + 1]].tolist(),
            line=int(self.lines(chunk)[row]),
        )


class TokenStream(ArrowRows):
    """Token ids of running text on disk."""

    def __init__(self, folder: Path, split: str):
        super().__init__(folder, split)
        sizes = [self.lists(i, "ids").ends[-1] for i in range(len(self.chunks))]
        self.starts = np.cumsum([0, *sizes]).tolist()

    def __len__(self) -> int:
        return int(self.starts[-1])

    def slice(self, start: int, end: int) -> list[int]:
        """Return the tokens from `start` to before `end`."""
        end, ids = min(end, len(self)), list[int]()
        while start < end:
            i = bisect_right(self.starts, start) - 1
            first = start - self.starts[i]
            ids += self.lists(i, "ids").values[first : end - self.starts[i]].tolist()
            start = self.starts[i + 1]
        return ids

    def line(self, i: int) -> int:
        """Return the line of a token, or of one shortly before it; 0: unknown."""
        chunk = bisect_right(self.starts, i) - 1
        ends, lines = self.lists(chunk, "ids").ends, self.lists(chunk, "lines")
        row = int(np.searchsorted(ends, i - self.starts[chunk], "right")) - 1
        return int(
            lines.values[lines.ends[row] + (i - self.starts[chunk] - ends[row]) // LINE_EVERY]
        )

"""Examples, in memory and on disk, and their batches.

A batch has at most a given number of tokens, and examples of similar length. The order of batches
depends only on (seed, epoch).
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqmodels.interface import BOS, PAD, Batch
from seqmodels.utils.files import read_json

FACTS_FILE = "made.json"
"""File in the folder of a prepared corpus that is written last: the type of its ids, and counts."""

# ------------------------------------------------------------------------------------- Examples


class Example(NamedTuple):
    """One source and one target as token ids; the target ends with EOS where its text ends."""

    src: Sequence[int]
    tgt: Sequence[int]
    unscored: frozenset[int] = frozenset()
    """Positions in the target that are not scored, such as the words of a question."""

    def scored(self) -> list[int]:
        """Return the target tokens that are scored."""
        return [token for token in self.tgt_out() if token != PAD]

    def tgt_out(self) -> Sequence[int]:
        """Return the target with PAD at the positions that are not scored."""
        if not self.unscored:
            return self.tgt
        return [PAD if i in self.unscored else token for i, token in enumerate(self.tgt)]


class LazyExamples(Sequence[Example]):
    """Examples that are built on access, because all of them may not fit into memory."""

    @abstractmethod
    def lengths(self) -> np.ndarray:
        """Return the source and target lengths of all examples: (n, 2)."""

    @abstractmethod
    def build(self, i: int) -> Example:
        """Return one example, 0 ≤ i < n."""

    def __getitem__(self, i: Any) -> Any:
        """Return one example, or a list of some; raises IndexError."""
        index = range(len(self))[i]
        return self.build(index) if isinstance(index, int) else [self.build(j) for j in index]


def lengths(examples: Sequence[Example]) -> np.ndarray:
    """Return the source and target lengths of examples: (n, 2)."""
    if isinstance(examples, LazyExamples):
        return examples.lengths()
    return np.array([(len(e.src), len(e.tgt)) for e in examples]).reshape(-1, 2)


def longest(examples: Sequence[Example]) -> tuple[int, int]:
    """Return the length of the longest source and that of the longest target, in tokens."""
    src, tgt = lengths(examples).max(0).tolist()
    return src, tgt


# ---------------------------------------------------------------------------- Examples on disk
#
# `prepare` writes the tokens of a split as arrays of numbers, which are mapped into memory.


class Mapped:
    """Arrays of numbers in the files of a split, SPLIT.KIND, mapped into memory."""

    def __init__(self, folder: Path, split: str):
        self.folder, self.split = folder, split

    def map(self, kind: str, dtype: Any = None) -> np.ndarray:
        """Map a file into memory; without a dtype, its numbers are ids."""
        path = self.folder / f"{self.split}.{kind}"
        dtype = dtype or read_json(self.folder / FACTS_FILE)["dtype"]
        return (
            np.asarray(np.memmap(path, dtype, "r")) if path.stat().st_size else np.empty(0, dtype)
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Pass the path to another process."""
        return type(self), (self.folder, self.split)


class TokenizedPairs(Mapped, LazyExamples):
    """Tokenized pairs on disk: ids in SPLIT.src and SPLIT.tgt, offsets in SPLIT.ends.

    The offsets are those of sources and targets: (n + 1, 2).
    """

    def __init__(self, folder: Path, split: str):
        super().__init__(folder, split)
        self.src, self.tgt = self.map("src"), self.map("tgt")
        self.ends = self.map("ends", np.int64).reshape(-1, 2)

    def lengths(self) -> np.ndarray:
        """Return the source and target lengths of all examples: (n, 2)."""
        return np.diff(self.ends, axis=0)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def build(self, i: int) -> Example:
        """Return an example."""
        (src, tgt), (src_end, tgt_end) = self.ends[i : i + 2].tolist()
        return Example(self.src[src:src_end].tolist(), self.tgt[tgt:tgt_end].tolist())


class TokenStream(Mapped):
    """Running text on disk: SPLIT.ids are its tokens."""

    def __init__(self, folder: Path, split: str):
        super().__init__(folder, split)
        self.ids = self.map("ids")

    def __len__(self) -> int:
        return len(self.ids)

    def slice(self, start: int, end: int) -> list[int]:
        """Return the tokens from `start` to before `end`."""
        return self.ids[start:end].tolist()


# -------------------------------------------------------------------------------------- Batches


def pad(rows: Sequence[Sequence[int]]) -> Tensor:
    """Return the rows as one int64 tensor, padded with PAD on the right."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    filled = np.full((len(rows), lengths.max()), PAD)
    filled[np.arange(lengths.max()) < lengths[:, None]] = np.fromiter(chain(*rows), np.int64)
    return torch.from_numpy(filled)


def collate(examples: Sequence[Example], device: str = "cpu") -> Batch:
    """Collate examples into one padded Batch."""
    src = pad([e.src for e in examples]).to(device)
    tgt_out = pad([e.tgt_out() for e in examples]).to(device)
    tgt_in = pad([[BOS, *e.tgt[:-1]] for e in examples]).to(device)
    return Batch(src, src != PAD, tgt_in, tgt_out)


def cut_into_batches(rows: np.ndarray, n_tokens: np.ndarray, batch_tokens: int) -> list[list[int]]:
    """Sort rows by their number of tokens, (n, 2), and cut them into batches.

    A batch counts its rows times its longest row, and holds at least one.
    """
    sizes = n_tokens.max(1)
    by_length = np.lexsort((n_tokens[:, 0], sizes))
    batches: list[list[int]] = [[]]
    for row, size in zip(rows[by_length].tolist(), sizes[by_length].tolist(), strict=True):
        if batches[-1] and size * (len(batches[-1]) + 1) > batch_tokens:
            batches.append([])
        batches[-1].append(row)
    return batches


def batches_by_length(examples: Sequence[Example], batch_tokens: int) -> list[list[int]]:
    """Return batches of indices, shortest first: for evaluation, where order does not matter."""
    return cut_into_batches(np.arange(len(examples)), lengths(examples), batch_tokens)


# --------------------------------------------------------------------------- Order of training

BATCHES_PER_POOL = 50
"""Batches in a pool, whose examples are sorted by length together."""


SECTION = 1_000_000
"""Examples whose batches are made and shuffled at a time: of more, no list fits into memory."""


def shuffled_batches(
    examples: Sequence[Example], batch_tokens: int, seed: int, epoch: int, first: int = 0
) -> Iterator[list[int]]:
    """Yield one epoch's batches of indices, from any of them on.

    All examples are shuffled; pools of about BATCHES_PER_POOL batches are sorted by length and cut;
    then the batches are shuffled, those of each SECTION examples together. A batch thus has similar
    lengths, and no two epochs have the same batches.
    """
    rng = random.Random(f"{seed}/{epoch}")
    n_tokens, order = lengths(examples), shuffle(len(examples), rng)
    size = max(1, BATCHES_PER_POOL * batch_tokens * len(order) // int(n_tokens.max(1).sum()))
    for section in np.split(order, range(SECTION, len(order), SECTION)):
        batches: list[list[int]] = []
        for pool in np.split(section, range(size, len(section), size)):
            batches += cut_into_batches(pool, n_tokens[pool], batch_tokens)
        rng.shuffle(batches)
        yield from islice(batches, first, None)
        first = max(0, first - len(batches))


def shuffle(n: int, rng: random.Random) -> np.ndarray:
    """Return the indices 0 … n-1 in random order; NumPy draws the order of many, for speed."""
    if n > SECTION:
        return np.random.default_rng(rng.getrandbits(64)).permutation(n)
    order = list(range(n))
    rng.shuffle(order)
    return np.array(order)


def batch_indices(
    examples: Sequence[Example], batch_tokens: int, seed: int, epoch: int = 0, batch: int = 0
) -> Iterator[tuple[int, int, list[int]]]:
    """Yield training batches without end, epoch after epoch, starting from any batch.

    Of each: its epoch, its number in the epoch, and the indices of its examples.
    """
    while True:
        batches = shuffled_batches(examples, batch_tokens, seed, epoch, batch)
        for i, rows in enumerate(batches, batch):
            yield epoch, i, rows
        epoch, batch = epoch + 1, 0

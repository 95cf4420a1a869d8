"""Batches by token budget and length, in an order that depends only on (seed, epoch)."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple, overload

import numpy as np
import torch
from torch import Tensor

from seqmodels.interface import BOS, PAD, Batch

LARGE = 2**21
"""Examples above which batches are in `BlockOrder`, which does not hold the order in memory."""
POOL = 50
"""Batches in a pool, whose examples are sorted by length together."""
SHARD = 1_000_000
"""Examples whose batches are made and shuffled at a time."""


class Example(NamedTuple):
    """One source and one target as token ids; the target ends with EOS where its text ends."""

    src: Sequence[int]
    tgt: Sequence[int]
    unscored: frozenset[int] = frozenset()
    """Positions in the target that are not scored, such as the words of a question."""
    line: int = 0
    """Its line in its file, or its number among its kind, from 1, for messages. 0: unknown."""

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

    @property
    @abstractmethod
    def lengths(self) -> np.ndarray:
        """Return the number of tokens of each source and each target: (n, 2)."""

    @property
    def longest(self) -> tuple[int, int]:
        """Return the number of tokens of the longest source, and of the longest target."""
        src, tgt = self.lengths.max(0).tolist()
        return src, tgt

    def lengths_between(self, start: int, end: int) -> np.ndarray:
        """Return the `lengths` of the examples from `start` to before `end`."""
        return self.lengths[start:end]

    @abstractmethod
    def at(self, i: int) -> Example:
        """Return one example, 0 ≤ i < n."""

    @overload
    def __getitem__(self, i: int) -> Example: ...
    @overload
    def __getitem__(self, i: slice) -> list[Example]: ...
    def __getitem__(self, i: int | slice) -> Example | list[Example]:
        """Return one example, or a list of some; raises IndexError."""
        places = range(len(self))[i]
        return self.at(places) if isinstance(places, int) else [self.at(place) for place in places]


def lengths(examples: Sequence[Example]) -> np.ndarray:
    """Return the number of tokens of each source and each target: (n, 2)."""
    if isinstance(examples, LazyExamples):
        return examples.lengths
    return np.array([(len(e.src), len(e.tgt)) for e in examples]).reshape(-1, 2)


def longest(examples: Sequence[Example]) -> tuple[int, int]:
    """Return the number of tokens of the longest source, and of the longest target."""
    if isinstance(examples, LazyExamples):
        return examples.longest
    return max(len(e.src) for e in examples), max(len(e.tgt) for e in examples)


def block_order(examples: Sequence[Example], batch_tokens: int) -> BlockOrder:
    """Return the order of the batches of more than LARGE examples."""

    def read_lengths(start: int, end: int) -> np.ndarray:
        if isinstance(examples, LazyExamples):
            return examples.lengths_between(start, end)
        return lengths(examples[start:end])

    return BlockOrder(read_lengths, len(examples), batch_tokens)


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


def batch_by_tokens(order: np.ndarray, sizes: np.ndarray, batch_tokens: int) -> list[list[int]]:
    """Cut the order into batches of at most `batch_tokens`: rows × size of the longest row."""
    runs: list[list[int]] = [[]]
    longest = 0
    for i, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        longest = max(longest, size)
        if runs[-1] and longest * (len(runs[-1]) + 1) > batch_tokens:
            runs.append([])
            longest = size
        runs[-1].append(i)
    return runs


def batches_by_length(examples: Sequence[Example], batch_tokens: int) -> list[list[int]]:
    """Return batches of indices, shortest first: for evaluation, where order does not matter."""
    n_tokens = lengths(examples)
    n_src, sizes = n_tokens[:, 0], n_tokens.max(1)
    return batch_by_tokens(np.lexsort((n_src, sizes)), sizes, batch_tokens)


def shuffled_batches(
    examples: Sequence[Example], batch_tokens: int, seed: int, epoch: int, first: int = 0
) -> Iterator[list[int]]:
    """Yield one epoch's batches of indices, from any of them on.

    All examples are shuffled; pools of about POOL batches are sorted by length and cut; then the
    batches are shuffled, those of each SHARD examples together. A batch thus has similar lengths,
    and no two epochs have the same batches. More than LARGE examples are in `BlockOrder`.
    """
    if len(examples) > LARGE:
        return block_order(examples, batch_tokens).batches(seed, epoch, first)
    return islice(_shuffled_batches(examples, batch_tokens, seed, epoch), first, None)


def _shuffled_batches(
    examples: Sequence[Example], batch_tokens: int, seed: int, epoch: int
) -> Iterator[list[int]]:
    rng = random.Random(f"{seed}/{epoch}")
    n_tokens = lengths(examples)
    n_src, sizes = n_tokens[:, 0], n_tokens.max(1)
    order = shuffle(len(examples), rng)
    pool = max(1, POOL * batch_tokens * len(sizes) // int(sizes.sum()))
    for shard in np.split(order, range(SHARD, len(order), SHARD)):
        runs: list[list[int]] = []
        for start in range(0, len(shard), pool):
            chunk = shard[start : start + pool]
            chunk = chunk[np.lexsort((n_src[chunk], sizes[chunk]))]
            runs += batch_by_tokens(chunk, sizes, batch_tokens)
        rng.shuffle(runs)
        yield from runs


def shuffle(n: int, rng: random.Random) -> np.ndarray:
    """Return 0 … n-1 in random order, from NumPy where Python would take many seconds."""
    if n > SHARD:
        return np.random.default_rng(rng.getrandbits(64)).permutation(n)
    order = list(range(n))
    rng.shuffle(order)
    return np.array(order)


class BatchIndices(NamedTuple):
    """The examples of one training batch, and which batch of which epoch it is."""

    epoch: int
    batch: int
    rows: list[int]


def batch_indices(
    examples: Sequence[Example], batch_tokens: int, seed: int, epoch: int = 0, batch: int = 0
) -> Iterator[BatchIndices]:
    """Yield training batches without end, epoch after epoch, starting from any batch."""
    while True:
        runs = shuffled_batches(examples, batch_tokens, seed, epoch, batch)
        for i, rows in enumerate(runs, batch):
            yield BatchIndices(epoch, i, rows)
        epoch, batch = epoch + 1, 0


def place_of(examples: Sequence[Example], batch_tokens: int, seed: int, n: int) -> tuple[int, int]:
    """Return the epoch and the batch in it that come after n training batches, n ≥ 1.

    After the last batch of an epoch, it is the one after the last.
    """
    epoch = 0
    while True:
        if len(examples) > LARGE:
            counts = block_order(examples, batch_tokens).counts(seed, epoch)
        else:
            counts = (1 for _ in shuffled_batches(examples, batch_tokens, seed, epoch))
        n_epoch = 0
        for count in counts:
            n_epoch += count
            if n_epoch >= n:
                return epoch, n
        epoch, n = epoch + 1, n - n_epoch


def training_batches(examples: Sequence[Example], batch_tokens: int, seed: int) -> Iterator[Batch]:
    """Yield training batches without end, padded."""
    for draw in batch_indices(examples, batch_tokens, seed):
        yield collate([examples[i] for i in draw.rows])


# ------------------------------------------- The order of a corpus that does not fit into memory
#
# A corpus is cut into blocks of BLOCK neighbouring examples. In each epoch the blocks are shuffled,
# and POOLED of them at a time form a pool: its examples are shuffled, sorted by length and cut into
# batches, which are shuffled as well. How many batches a pool has follows from how often each
# length occurs in it, so that training resumes at any batch without drawing the ones before it.

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

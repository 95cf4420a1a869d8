"""From pieces of a corpus to token ids: what several processes do, and how it is put together.

A process reads its piece itself, cleans and encodes it, and returns arrays. What depends on other
pieces, such as whether a pair is repeated, is decided where they are put together, in the order of
the corpus: the same bytes, however many processes there are. No torch: processes start quickly.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from seqmodels.data import tokenizers
from seqmodels.data.clean import PrepareConfig, Seen, is_blank, is_unequal, lowered, mark
from seqmodels.data.corpus import SPLITS, Draw, PairReader, ParallelCorpus, cut
from seqmodels.data.shards import PairWriter, TokenWriter
from seqmodels.data.text_corpus import TextReader
from seqmodels.data.tokenizers import EOS, UNK, Tokenizer
from seqmodels.utils.files import write
from seqmodels.utils.workers import Workers

TOKENIZER, HELD_OUT, TEST_TEXTS = "tokenizer.json", "held_out.txt", "test.jsonl"
"""Files in the folder of a prepared corpus."""


@lru_cache(1)
def tokenizer_in(folder: Path) -> Tokenizer:
    """Return the tokenizer of a folder, which a process loads once."""
    return tokenizers.load(folder / TOKENIZER)


@lru_cache(1)
def held_out_in(folder: Path) -> frozenset[str]:
    """Return the sources of valid and test, which a process loads once."""
    return frozenset(json.loads((folder / HELD_OUT).read_text("utf-8")))


def id_type(tokenizer: Tokenizer) -> np.dtype:
    """Return the smallest type of integers for a tokenizer's ids."""
    return np.min_scalar_type(tokenizer.vocab_size - 1)


# --------------------------------------------------------------------------------------- Pairs


class EncodedPairs(NamedTuple):
    """Pairs without a blank side, as arrays with a row for each."""

    split: np.ndarray
    """Its index in SPLITS."""
    sizes: np.ndarray
    """Tokens of source and target: (n, 2)."""
    ids: np.ndarray
    """All tokens, one after the other."""
    line: np.ndarray
    n_words: np.ndarray
    """Words of the source."""
    mark: np.ndarray
    """See `clean.mark`."""
    is_unequal: np.ndarray
    is_held_out: np.ndarray
    """Whether it is in train, and its source in valid or test."""
    n_unknown: np.ndarray
    texts: list[tuple[str, str]]
    """Source and target of the rows of test."""
    held_out: set[str]
    """Training sources that also occur in valid or test."""
    n_blank: Counter[str]
    """Pairs with a blank side, by split."""


def encode_pairs(folder: Path, config: PrepareConfig, draw: Draw, read: PairReader) -> EncodedPairs:
    """Clean and encode a piece of a split, or of all, as `draw` says."""
    tokenizer, known = tokenizer_in(folder), held_out_in(folder)
    end = [EOS] if config.has_source_eos else []
    rows, ids, texts, found = list[tuple[int, ...]](), list[int](), [], set()
    n_blank: Counter[str] = Counter()
    for pair in read():
        split = draw.split_of(pair.src)
        pair = lowered(pair) if config.is_lowercase else pair
        if is_blank(pair):
            n_blank[split] += 1
            continue
        src, tgt = [*tokenizer.encode(pair.src), *end], [*tokenizer.encode(pair.tgt), EOS]
        is_held_out = split == "train" and pair.src in known
        n_unknown = src.count(UNK) + tgt.count(UNK)
        row = len(src), len(tgt), pair.line, len(pair.src.split()), mark(pair), is_unequal(pair)
        rows.append((SPLITS.index(split), *row, is_held_out, n_unknown))
        ids += src
        ids += tgt
        if is_held_out:
            found.add(pair.src)
        if split == "test":
            texts.append((pair.src, pair.tgt))
    table = [np.array(column) for column in zip(*rows, strict=True)] or [np.empty(0, int)] * 9
    split_of, n_src, n_tgt, line, n_words, marks, is_long, is_known, n_odd = table
    return EncodedPairs(
        split_of.astype(np.uint8), np.stack([n_src, n_tgt], 1), np.array(ids, id_type(tokenizer)),
        line, n_words.astype(np.uint32), marks.astype(np.uint64), is_long.astype(bool),
        is_known.astype(bool), n_odd.astype(np.uint32), texts, found, n_blank,
    )  # fmt: skip


class Merger:
    """Writes encoded pairs in their order, and counts them."""

    def __init__(self, config: PrepareConfig, writers: Mapping[str, PairWriter]):
        self.config, self.writers = config, writers
        self.counts: Counter[str] = Counter()
        self.seen = {split: Seen() for split in SPLITS}
        self.in_train: set[str] = set()
        """Sources of valid and test that were found in train."""
        self.texts: list[tuple[str, str]] = []
        """Source and target of each test pair."""

    def add(self, made: EncodedPairs) -> None:
        """Write a piece."""
        self.in_train |= made.held_out
        self.counts.update({f"n_blank_{split}": n for split, n in made.n_blank.items()})
        for split in SPLITS:
            rows = np.flatnonzero(made.split == SPLITS.index(split))
            if len(rows):
                kept = self.kept(split, made, rows)
                self.write(split, made, rows[kept])
                if split == "test":
                    self.texts += [made.texts[i] for i in np.flatnonzero(kept)]

    def kept(self, split: str, made: EncodedPairs, rows: np.ndarray) -> np.ndarray:
        """Count the faults of some rows; return which of them are kept."""
        is_repeated = self.seen[split].add(made.mark[rows])
        faults = is_repeated, made.is_unequal[rows], made.is_held_out[rows]
        for fault, is_so in zip(("duplicate", "unequal", "held_out"), faults, strict=True):
            self.counts[f"n_{fault}_{split}"] += int(is_so.sum())
        is_kept = np.ones(len(rows), bool)
        if self.config.is_cleaned and split == "train":
            is_kept = ~np.logical_or.reduce(faults)
        is_long = made.sizes[rows].max(1) > self.config.limit(split)
        self.counts[f"n_too_long_{split}"] += int((is_kept & is_long).sum())
        return is_kept & ~is_long

    def write(self, split: str, made: EncodedPairs, rows: np.ndarray) -> None:
        """Write some rows."""
        sizes, ids = made.sizes[rows], made.ids
        if len(rows) < len(made.split):
            is_written = np.zeros(len(made.split), bool)
            is_written[rows] = True
            ids = ids[np.repeat(is_written, made.sizes.sum(1))]
        self.writers[split].add(sizes, ids, made.line[rows], made.n_words[rows])
        self.counts[f"n_{split}"] += len(rows)
        self.counts[f"n_tokens_{split}"] += int(sizes.sum())
        self.counts[f"n_unknown_{split}"] += int(made.n_unknown[rows].sum())


def write_pairs(
    folder: Path, corpus: ParallelCorpus, config: PrepareConfig, workers: Workers
) -> Counter[str]:
    """Encode and write all pairs and the texts of test; return all counts."""
    dtype, draw = id_type(tokenizer_in(folder)), corpus.draw()
    with ExitStack() as stack:
        writers = {s: stack.enter_context(PairWriter(folder / s, dtype)) for s in SPLITS}
        merger = Merger(config, writers)
        bar = stack.enter_context(
            tqdm(desc="preparing", unit=" pairs", leave=False, disable=None, unit_scale=True)
        )
        for split, reader in corpus.splits.items():
            split_draw = draw if split == "train" else Draw((split,))
            work = partial(encode_pairs, folder, config, split_draw)
            for made in workers.map(work, cut(reader)):
                merger.add(made)
                bar.update(len(made.split))
    texts = "".join(json.dumps(pair, ensure_ascii=False) + "\n" for pair in merger.texts)
    write(folder / TEST_TEXTS, texts)
    n_test_in_train = sum(src in merger.in_train for src, _ in merger.texts)
    merger.counts["n_test_sources_in_train"] = n_test_in_train
    return merger.counts


# -------------------------------------------------------------------------------- Running text


def encode_text(folder: Path, piece: str) -> np.ndarray:
    """Return the ids of a piece of text."""
    tokenizer = tokenizer_in(folder)
    return np.array(tokenizer.encode(piece), id_type(tokenizer))


def write_text(
    path: Path, texts: TextReader, workers: Workers, see: Callable[[str], None] = lambda piece: None
) -> tuple[int, int]:
    """Encode and write a text with the tokenizer in the same folder, piece by piece.

    Each piece is passed to `see` as well. Return the number of tokens, and of UNKs among them.
    """

    def seen() -> Iterator[str]:
        for piece in texts():
            see(piece)
            yield piece

    tokenizer = tokenizer_in(path.parent)
    feeds = [tokenizer.decode([i]).count("\n") for i in range(tokenizer.vocab_size)]
    n_feeds, n_unknown = np.array(feeds, np.uint16), 0
    with (
        TokenWriter(path, id_type(tokenizer), int(n_feeds.any())) as writer,
        tqdm(desc=path.name, unit=" tokens", unit_scale=True, leave=False, disable=None) as bar,
    ):
        for ids in workers.map(partial(encode_text, path.parent), seen()):
            writer.add(ids, n_feeds[ids])
            n_unknown += int((ids == UNK).sum())
            bar.update(len(ids))
    return writer.n, n_unknown

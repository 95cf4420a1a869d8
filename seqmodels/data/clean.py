"""Cleaning pairs: what is lower-cased, left out and counted. No torch: processes start quickly."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from seqmodels.data.corpus import Draw, Pair, PairReader, ParallelCorpus, cut
from seqmodels.utils.workers import Workers

MAX_LENGTH_RATIO = 9.0
"""Ratio of the sides' words above which a pair is not a translation (as in Moses)."""


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """How to prepare a corpus."""

    tokenizer: str = "bpe"
    """One of presets.TOKENIZERS."""
    vocab_size: int = 4_000
    """Maximum number of ids, for the tokenizers whose size can be chosen."""
    is_lowercase: bool = False
    """Lower-case both sides."""
    is_cleaned: bool = False
    """Leave out of train the faulty pairs that `Cleaner` otherwise only counts."""
    max_tokens: int = 200
    """On each side, including a source's EOS, in train and valid, and twice as many in test; longer
    pairs are left out and counted."""
    has_source_eos: bool = True
    """End each source with EOS, like each target."""

    def limit(self, split: str) -> int:
        """Return the most tokens that a side can have in a split."""
        return 2 * self.max_tokens if split == "test" else self.max_tokens


FAULTS = ("duplicate", "unequal", "held_out")
FAULT_LABELS = {
    "duplicate": "repeated",
    "unequal": f"with one side {MAX_LENGTH_RATIO:.0f} times as long as the other",
    "held_out": "with a source that is in valid or test",
}  # fmt: skip


def lowered(pair: Pair) -> Pair:
    """Return a pair in lower case."""
    return pair._replace(src=pair.src.lower(), tgt=pair.tgt.lower())


def is_blank(pair: Pair) -> bool:
    """Return whether a side has only white space."""
    return not pair.src.strip() or not pair.tgt.strip()


def is_unequal(pair: Pair) -> bool:
    """Return whether one side has MAX_LENGTH_RATIO times as many words as the other."""
    n_src, n_tgt = len(pair.src.split()), len(pair.tgt.split())
    return max(n_src, n_tgt) > MAX_LENGTH_RATIO * min(n_src, n_tgt)


def mark(pair: Pair) -> int:
    """Return a 64-bit hash of both sides, the same in every process."""
    both = f"{len(pair.src)} {pair.src}{pair.tgt}".encode()
    return int.from_bytes(hashlib.blake2b(both, digest_size=8).digest(), "little")


class Seen:
    """The marks of pairs that have been seen, 8 bytes each, in a few sorted runs."""

    def __init__(self) -> None:
        self.runs: list[np.ndarray] = []

    def add(self, marks: np.ndarray) -> np.ndarray:
        """Add marks; return which of them had been seen, or are repeated among them."""
        unique, first = np.unique(marks, return_index=True)
        is_known = np.zeros(len(unique), bool)
        for run in self.runs:
            at = np.searchsorted(run, unique)
            is_known |= run[np.minimum(at, len(run) - 1)] == unique
        is_repeated = np.ones(len(marks), bool)
        is_repeated[first[~is_known]] = False
        new = unique[~is_known]
        while self.runs and len(self.runs[-1]) <= len(new):
            new = np.sort(np.concatenate([self.runs.pop(), new]), kind="stable")
        self.runs += [new] if len(new) else []
        return is_repeated


def held_out_sources(
    corpus: ParallelCorpus, config: PrepareConfig, workers: Workers | None = None
) -> set[str]:
    """Return the sources of valid and test."""
    workers, draw, found = workers or Workers(), corpus.draw(), set[str]()
    for split, reader in corpus.splits.items():
        if split != "train" or draw.splits:
            work = partial(_held_out, config, draw if split == "train" else Draw((split,)))
            for sources in workers.map(work, cut(reader)):
                found |= sources
    return found


def _held_out(config: PrepareConfig, draw: Draw, read: PairReader) -> set[str]:
    pairs = (pair for pair in read() if draw.split_of(pair.src) != "train")
    made = map(lowered, pairs) if config.is_lowercase else pairs
    return {pair.src for pair in made if not is_blank(pair)}


class Cleaner:
    """Lower-case, filter and count pairs.

    Pairs with a blank side are always left out. Three faults are counted in every split, and
    training pairs with one are left out if `is_cleaned`: the pair is repeated, one side has
    MAX_LENGTH_RATIO times as many words as the other, or the source is also in valid or test.
    """

    def __init__(self, corpus: ParallelCorpus, config: PrepareConfig, held_out: Collection[str]):
        self.corpus, self.config, self.held_out = corpus, config, held_out
        self.counts: Counter[str] = Counter()

    def pairs(self, *splits: str) -> Iterator[tuple[str, Pair]]:
        """Yield the pairs of some splits that are kept."""
        seen: dict[str, set[int]] = {split: set() for split in splits}
        for split, pair in self.corpus.pairs(*splits):
            if self.config.is_lowercase:
                pair = lowered(pair)
            if is_blank(pair):
                self.counts[f"n_blank_{split}"] += 1
                continue
            faults = self.faults(split, pair, seen[split])
            self.counts.update(f"n_{fault}_{split}" for fault in faults)
            if not (self.config.is_cleaned and split == "train" and faults):
                yield split, pair

    def faults(self, split: str, pair: Pair, seen: set[int]) -> list[str]:
        """Return the faults of a pair."""
        key = mark(pair)
        is_found = key in seen, is_unequal(pair), split == "train" and pair.src in self.held_out
        seen.add(key)
        return [fault for fault, is_so in zip(FAULTS, is_found, strict=True) if is_so]


def checksum(corpus: ParallelCorpus) -> str:
    """Return the checksum of all pairs, the same in both directions."""
    digests = hashlib.sha256(), hashlib.sha256()
    for reader in corpus.splits.values():
        if update := getattr(reader, "update", None):
            update(digests)
            continue
        for pair in reader():
            for digest, side in zip(digests, pair[:2], strict=True):
                digest.update(f"{side}\n".encode())
    return hashlib.sha256(b"".join(sorted(d.digest() for d in digests))).hexdigest()

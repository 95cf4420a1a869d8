"""Tokens on disk: written once, and read where they are needed."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np
from tqdm import tqdm

from seqmodels.data.batches import Example, LazyExamples
from seqmodels.data.text_corpus import TextReader
from seqmodels.data.tokenizers import Tokenizer
from seqmodels.interface import UNK

# --------------------------------------------------------------------------------------- Pairs


class TokenizedPairs(LazyExamples):
    """Examples on disk; only those being read are in memory."""

    def __init__(self, path: Path):
        self.path = path
        self.ids = open(path.with_suffix(".ids"), "rb", 0)  # noqa: SIM115 (a map's pages would stay)
        finalize(self, self.ids.close)
        self.ends, self.line, self.n_words = (
            np.load(path.with_suffix(f".{kind}.npy"), mmap_mode="r")
            for kind in ("ends", "line", "n_words")
        )

    @property
    def lengths(self) -> np.ndarray:
        """Return the number of tokens of each source and each target: (n, 2)."""
        return np.diff(self.ends, prepend=0).astype(np.int32).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self.line)

    def at(self, i: int) -> Example:
        """Return an example."""
        start = int(self.ends[2 * i - 1]) if i else 0
        middle, end = self.ends[2 * i : 2 * i + 2].tolist()
        self.ids.seek(4 * start)
        ids = np.frombuffer(self.ids.read(4 * (end - start)), np.uint32).tolist()
        return Example(ids[: middle - start], ids[middle - start :], line=int(self.line[i]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pass the path to another process."""
        return TokenizedPairs, (self.path,)


class PairWriter:
    """Writes pairs one by one; `TokenizedPairs` reads them."""

    def __init__(self, path: Path):
        self.path = path
        self.ids = open(path.with_suffix(".ids"), "wb")  # noqa: SIM115 (closed by __exit__)
        self.ends, self.line, self.n_words = array("q"), array("q"), array("i")
        self.end = 0

    def add(self, src: Sequence[int], tgt: Sequence[int], line: int, n_words: int) -> None:
        """Write a source of `n_words` words and its target."""
        self.ids.write(np.array([*src, *tgt], np.uint32).tobytes())
        middle = self.end + len(src)
        self.end = middle + len(tgt)
        self.ends.extend((middle, self.end))
        self.line.append(line)
        self.n_words.append(n_words)

    def __enter__(self) -> PairWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.ids.close()
        for kind in ("ends", "line", "n_words"):
            np.save(self.path.with_suffix(f".{kind}.npy"), np.asarray(getattr(self, kind)))


# -------------------------------------------------------------------------------- Running text

LINE_EVERY = 32
"""The line is stored for every token whose index is a multiple of this."""


class TokenStream:
    """Token ids of running text on disk; only those being read are in memory."""

    def __init__(self, path: Path, vocab_size: int):
        self.path, self.vocab_size = path, vocab_size
        self.ids = _memmap(path.with_suffix(".ids"), np.min_scalar_type(vocab_size - 1))
        self.lines = np.load(path.with_suffix(".lines.npy"), mmap_mode="r")

    def __len__(self) -> int:
        return len(self.ids)

    def slice(self, start: int, end: int) -> list[int]:
        """Return the tokens from `start` to before `end`."""
        return self.ids[start:end].tolist()

    def line(self, i: int) -> int:
        """Return the line of a token, or of one shortly before it; 0: unknown."""
        return int(self.lines[i // LINE_EVERY])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pass the path to another process."""
        return TokenStream, (self.path, self.vocab_size)


def _memmap(path: Path, dtype: Any) -> np.ndarray:
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)


def write_token_stream(path: Path, texts: TextReader, tokenizer: Tokenizer) -> tuple[int, int]:
    """Write a text for `TokenStream`, piece by piece; return its number of tokens and of UNKs."""
    dtype = np.min_scalar_type(tokenizer.vocab_size - 1)
    feeds = np.array([tokenizer.decode([i]).count("\n") for i in range(tokenizer.vocab_size)])
    lines, line, n, n_unknown = array("q"), int(feeds.any()), 0, 0
    with (
        open(path.with_suffix(".ids"), "wb") as file,
        tqdm(desc=path.name, unit=" tokens", unit_scale=True, leave=False, disable=None) as bar,
    ):
        for piece in texts():
            ids = np.array(tokenizer.encode(piece), dtype)
            file.write(ids.tobytes())
            passed = feeds[ids]
            lines.extend((line + passed.cumsum() - passed)[-n % LINE_EVERY :: LINE_EVERY].tolist())
            line, n = line + int(passed.sum()), n + len(ids)
            n_unknown += int((ids == UNK).sum())
            bar.update(len(ids))
    np.save(path.with_suffix(".lines.npy"), np.asarray(lines))
    return n, n_unknown

"""Running text from files, without Project Gutenberg's headers and footers, cut into splits.

Text is not held in memory, but read again whenever it is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import NamedTuple

from seqmodels.data.cache import fingerprint
from seqmodels.data.readers import TABLES, preview, text_chunks
from seqmodels.utils.terminal import one_line

TextReader = Callable[[], Iterator[str]]
"""Read a split, chunk by chunk, from its beginning."""
SHARES = {"train": (0.0, 0.9), "valid": (0.9, 0.95), "test": (0.95, 1.0)}
"""Where each split of a text without splits begins and ends."""


class TextCorpus(NamedTuple):
    """Running text: three splits, each of which can be read any number of times."""

    name: str
    splits: Mapping[str, TextReader]
    key: str
    """Changes whenever the content does; known without reading it."""
    is_valid_tested: bool = False
    """There is no third split: test is valid."""
    n_left_out: Callable[[], int] = int
    """Count the characters of headers and footers that are left out."""
    origin: str = ""
    """Where it is read from."""
    whole: TextReader | None = None
    """Read all splits one after the other, if they are cut from one text."""

    def first_line(self) -> str:
        """Describe where the text is read from and how it begins."""
        read = self.whole or self.splits["train"]
        lines = (line for chunk in read() for line in chunk.split("\n"))
        first = next((line for line in lines if line.strip()), "")
        return f"text: {one_line(self.origin)}, first line: {preview(first)}"


def read_texts(
    paths: Sequence[Path], shares: Mapping[str, tuple[float, float]] = SHARES
) -> TextCorpus:
    """Open text files, which are read one after the other, and cut them into splits."""
    if tables := [str(path) for path in paths if path.suffix in TABLES]:
        raise ValueError(f"{tables[0]} is a table; several files must all be text files")
    key = " ".join([*map(fingerprint, paths), str(shares)])
    name = paths[0].name + (f" and {len(paths) - 1} more" if paths[1:] else "")
    books = [Book(path) for path in paths]
    whole = partial(_concatenate, [book.chunks for book in books])
    return TextCorpus(
        name,
        split_by_share(whole, shares),
        key,
        shares["valid"] == shares["test"],
        lambda: sum(book.count_boilerplate() for book in books),
        origin=str(paths[0]) + name.removeprefix(paths[0].name),
        whole=whole,
    )


BOILERPLATE = re.compile(
    r"^(?:\*\*\* ?(START|END) OF TH|End of (?:the )?Project Gutenberg)[^\n]*\n?", re.MULTILINE
)
"""A line that begins or ends a book of Project Gutenberg."""


class Book:
    """A text file, without Project Gutenberg's headers and licences if it has any."""

    def __init__(self, path: Path):
        self.path = path

    @cached_property
    def has_boilerplate(self) -> bool:
        """Whether the file has a header of Project Gutenberg, or several."""
        return any(
            mark[1] == "START"
            for chunk in text_chunks(self.path)
            if "START OF TH" in chunk
            for mark in BOILERPLATE.finditer(chunk)
        )

    def chunks(self) -> Iterator[str]:
        """Yield the text."""
        return (without_boilerplate if self.has_boilerplate else text_chunks)(self.path)

    def count_boilerplate(self) -> int:
        """Count the characters that are left out."""
        if not self.has_boilerplate:
            return 0
        return sum(map(len, text_chunks(self.path))) - sum(map(len, self.chunks()))


def without_boilerplate(path: Path) -> Iterator[str]:
    """Yield the books of a file, piece by piece, without Project Gutenberg's text.

    Pieces end where every tokenizer splits a text, so that the tokens are those of whole books.
    """
    is_in, book = False, ""
    for piece in text_chunks(path):
        start = 0
        for found in BOILERPLATE.finditer(piece):
            if is_in:
                yield book + piece[start : found.start()]
            is_in, start, book = found[1] == "START", found.end(), ""
        if is_in:
            book += piece[start:]
            end = last_break(book)
            yield book[:end]
            book = book[end:]
    if is_in:
        yield book


def last_break(text: str) -> int:
    """Return where the last line begins that nothing joins to the line before it; 0: nowhere."""
    end = len(text) - 1
    while (end := text.rfind("\n", 1, end)) > 0:
        if not text[end - 1].isspace() and not text[end + 1].isspace() and text[end + 1] != "/":
            return end + 1
    return 0


def _concatenate(files: Sequence[TextReader]) -> Iterator[str]:
    """Yield the pieces of several files; each but the last ends in a line feed."""
    last = "\n"
    for read in files:
        if not last.endswith("\n"):
            yield "\n"
        for piece in read():
            yield piece
            last = piece


def split_by_share(
    texts: TextReader, shares: Mapping[str, tuple[float, float]]
) -> dict[str, TextReader]:
    """Cut a text into splits, each a share of its characters."""
    size: Callable[[], int] = cache(lambda: sum(map(len, texts())))
    return {split: partial(_text_between, texts, size, *share) for split, share in shares.items()}


def _text_between(
    texts: TextReader, size: Callable[[], int], low: float, high: float
) -> Iterator[str]:
    start, end, at = int(low * size()), int(high * size()), 0
    for piece in texts():
        if part := piece[max(0, start - at) : max(0, end - at)]:
            yield part
        at += len(piece)
        if at >= end:
            return

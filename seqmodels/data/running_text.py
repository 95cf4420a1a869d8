"""Running text, in splits: from files, tables and datasets, by name.

A text is not held in memory, but read from its beginning whenever it is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from seqmodels.data import tables
from seqmodels.data.cache import fingerprint
from seqmodels.data.corpora import SHARES, TEXT, download, local_path, offline_hint
from seqmodels.data.tables import TABLES
from seqmodels.data.text import ending_of, preview, text_chunks
from seqmodels.utils.terminal import one_line

TextReader = Callable[[], Iterator[str]]
"""Read a split, chunk by chunk, from its beginning."""
Shares = Mapping[str, tuple[float, float]]
TEXT_COLUMNS = ("text", "sentence")
"""Names by which the text column is found."""
IDENTIFIER = re.compile(r"(.*[_-])?(id|idx|index|key|hash|uuid|url|path|file)", re.I).fullmatch
"""Matches the name of a column that is no text, even if it is the only one."""


class TextCorpus(NamedTuple):
    """Running text: three splits, each of which can be read any number of times."""

    name: str
    splits: Mapping[str, TextReader]
    key: str
    """Changes whenever the content does; known without reading it."""
    origin: str
    """Its path, its id on the hub, or several paths."""
    whole: TextReader
    """Read the text, or train if it has splits of its own."""
    is_valid_tested: bool = False
    """Whether test is the valid split, for want of a third one."""
    n_left_out: Callable[[], int] = int
    """Count the characters of headers and footers that are left out."""

    def first_line(self) -> str:
        """Describe the origin and the first line of the text."""
        all_lines = (line for chunk in self.whole() for line in chunk.split("\n"))
        first = next((line for line in all_lines if line.strip()), "")
        return f"text: {one_line(self.origin)}, first line: {preview(first)}"


def open_text(
    data: Sequence[str], column: str | None = None, limit: int | None = None
) -> TextCorpus:
    """Open running text by its name here, or as `read_text_corpus` does."""
    name = data[0]
    preset = TEXT.get(name) if len(data) == 1 else None
    if preset is None:
        return read_text_corpus(data, column, limit)
    path = local_path(preset)
    if path is None and preset.is_on_hub:
        try:
            return read_text_corpus([preset.source], column, limit)._replace(name=name)
        except ValueError as fault:
            raise ValueError(f"{fault}; {offline_hint(name, preset)}") from fault
    if path is None:
        sha256 = None if preset.is_gutenberg else preset.sha256
        path = download(preset.source, f"{name}.txt", offline_hint(name, preset), sha256)
    return read_text_corpus([path], column, limit, preset.shares)._replace(name=name)


def read_text_corpus(
    data: Sequence[str | Path],
    column: str | None = None,
    limit: int | None = None,
    shares: Shares = SHARES,
) -> TextCorpus:
    """Open running text.

    data     text files, which are read one after the other; or one of: a file .tsv .csv .jsonl
             .parquet; a folder of such files; OWNER/NAME or OWNER/NAME:CONFIG, a dataset on the
             hub: each row is a document
    column   the text column; None: `text` or `sentence`, or the only one
    limit    rows of train to stream from a table, shuffled, instead of reading all of it
    shares   where each split begins and ends, in characters, for data without splits

    If a dataset has no valid or no test, the other one serves as both. Raises ValueError.
    """
    paths = [Path(what) for what in data]
    first = paths[0]
    if len(data) == 1 and (ending_of(first) in TABLES or first.is_dir() or not first.exists()):
        return read_documents(str(data[0]), column, limit, shares)
    for flag, given in (("limit", limit), ("column", column)):
        if given:
            raise ValueError(
                f"a {flag} applies only to a table or the hub; text files are read whole"
            )
    if named := [str(path) for path in paths if ending_of(path) in TABLES]:
        raise ValueError(f"{named[0]} is a table; several files must all be text files")
    key = " ".join([*map(fingerprint, paths), str(shares)])
    more = f" and {len(paths) - 1} more" if paths[1:] else ""
    chunks = [partial(text_chunks, path) for path in paths]
    books = [partial(read_book, path) for path in paths]
    whole = partial(concatenate, books)
    return TextCorpus(
        first.name + more, split_by_share(whole, shares), key, f"{first}{more}", whole,
        shares["valid"] == shares["test"],
        lambda: sum(map(count_characters, chunks)) - sum(map(count_characters, books)),
    )  # fmt: skip


def read_documents(data: str, column: str | None, limit: int | None, shares: Shares) -> TextCorpus:
    """Open a table or a dataset, each row of which is a document."""
    table = tables.open_table(data, [column], limit, min_common=1)
    only = [name for name in table.columns if len(table.columns) == 1 and not IDENTIFIER(name)]
    wanted = [column] if column else [*TEXT_COLUMNS, *only]
    name = next((name for name in wanted if name in table.columns), None)
    if name is None:
        listed = ", ".join(map(repr, table.columns)) or "none"
        raise ValueError(
            f"{data} has no text column {' or '.join(map(repr, wanted))}, but {listed}; choose one "
            "with --column"
        )

    def read(split: str) -> Iterator[str]:
        for _, row in table.splits[split]():
            if (text := row[name]) is not None:
                yield text if text.endswith("\n") else f"{text}\n"

    splits: Mapping[str, TextReader] = {split: partial(read, split) for split in table.splits}
    train, held_out = splits["train"], [splits[split] for split in splits if split != "train"]
    key, is_valid_tested = f"{table.key} {name}", len(held_out) == 1
    if not held_out:
        splits = split_by_share(train, shares)
        key, is_valid_tested = f"{key} {shares}", shares["valid"] == shares["test"]
    elif is_valid_tested:
        splits = {"train": train, "valid": held_out[0], "test": held_out[0]}
    origin = f"{data}, column {name}"
    return TextCorpus(table.name, splits, key, origin, train, is_valid_tested)


def concatenate(texts: Sequence[TextReader]) -> Iterator[str]:
    """Yield the pieces of several texts; each but the last ends in a line feed."""
    last = "\n"
    for read in texts:
        if not last.endswith("\n"):
            yield "\n"
        for piece in read():
            yield piece
            last = piece


def count_characters(text: TextReader) -> int:
    """Return the number of characters of a text."""
    return sum(map(len, text()))


def split_by_share(text: TextReader, shares: Shares) -> dict[str, TextReader]:
    """Cut a text into splits, each a share of its characters."""
    size = cache(partial(count_characters, text))

    def read(low: float, high: float) -> Iterator[str]:
        start, end, n = int(low * size()), int(high * size()), 0
        for piece in text():
            if part := piece[max(0, start - n) : max(0, end - n)]:
                yield part
            n += len(piece)
            if n >= end:
                return

    return {split: partial(read, *share) for split, share in shares.items()}


BOILERPLATE = re.compile(
    r"^(?:\*\*\* ?(START|END) OF TH|End of (?:the )?Project Gutenberg)[^\n]*\n?", re.MULTILINE
)
"""A line that begins or ends a book of Project Gutenberg."""


def read_book(path: Path) -> Iterator[str]:
    """Yield a text; if it has headers of Project Gutenberg, only its books, each whole."""
    marks = (m for chunk in text_chunks(path) if "START OF TH" in chunk
             for m in BOILERPLATE.findall(chunk))  # fmt: skip
    return read_marked(path) if "START" in marks else text_chunks(path)


def read_marked(path: Path) -> Iterator[str]:
    """Yield the books of a file without headers and licences, one in memory at a time."""
    book: list[str] | None = None  # outside of a book
    for chunk in text_chunks(path):
        start = 0
        for mark in BOILERPLATE.finditer(chunk):
            if book is not None:
                yield "".join([*book, chunk[start : mark.start()]])
            book, start = [] if mark[1] == "START" else None, mark.end()
        if book is not None:
            book.append(chunk[start:])
    if book is not None:
        yield "".join(book)

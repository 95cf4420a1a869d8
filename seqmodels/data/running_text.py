"""Running text, in splits: from files, tables and datasets, by name.

A text is not held in memory, but read from its beginning whenever it is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from seqmodels.data import tables
from seqmodels.data.cache import fingerprint
from seqmodels.data.corpora import SHARES, TEXT, locate
from seqmodels.data.names import group_by_split
from seqmodels.data.scripts import count_words
from seqmodels.data.tables import N_SNIFFED, table_ending
from seqmodels.data.text import preview, text_chunks
from seqmodels.utils.terminal import one_line

TextReader = Callable[[], Iterator[str]]
"""Read a split, chunk by chunk, from its beginning."""
Shares = Mapping[str, tuple[float, float]]
TEXT_COLUMNS = ("text", "sentence")
"""Names by which the text column is found."""


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
    preset = TEXT.get(data[0]) if len(data) == 1 else None
    if preset is None:
        return read_text_corpus(data, column, limit)
    place = [locate(data[0], preset)]
    return read_text_corpus(place, column, limit, preset.shares)._replace(name=data[0])


def read_text_corpus(
    data: Sequence[str | Path],
    column: str | None = None,
    limit: int | None = None,
    shares: Shares = SHARES,
) -> TextCorpus:
    """Open running text.

    data     text files, the splits if their names say so, else read one after the other; or one
             of: a file .tsv .csv .jsonl .parquet; a folder of such files; OWNER/NAME or
             OWNER/NAME:CONFIG, a dataset on the hub: each row is a document
    column   the text column; None: `text` or `sentence`, or the only one, if it `is_prose`
    limit    rows of train to stream from a table, shuffled, instead of reading all of it
    shares   where each split begins and ends, in characters, for data without splits

    If a dataset has no valid or no test, the other one serves as both. Raises ValueError.
    """
    paths = [Path(what) for what in data]
    first = paths[0]
    if len(paths) == 1 and (not first.is_file() or table_ending(first)):
        return read_documents(str(data[0]), column, limit, shares)
    for flag, given in (("limit", limit), ("column", column)):
        if given:
            raise ValueError(
                f"a {flag} applies only to a table or the hub; text files are read whole"
            )
    if refused := [str(path) for path in paths if table_ending(path)]:
        raise ValueError(f"{refused[0]} is a table; several files must all be text files")
    if len({path.resolve() for path in paths}) < len(paths):
        raise ValueError(f"{first} and the others: a file is given twice")
    chunks = [partial(text_chunks, path) for path in paths]
    books = {path: partial(read_book, path) for path in paths}
    splits = {
        split: partial(concatenate, [books[path] for path in group])
        for split, group in name_splits(paths).items()
    }
    more = f" and {len(paths) - 1} more" if paths[1:] else ""
    key = " ".join(map(fingerprint, paths))
    opened = TextCorpus(
        first.name + more, splits, key, f"{first}{more}", splits["train"],
        n_left_out=lambda: sum(map(count_characters, chunks))
        - sum(map(count_characters, books.values())),
    )  # fmt: skip
    return complete_splits(opened, shares)


def name_splits(paths: Sequence[Path]) -> dict[str, list[Path]]:
    """Return the files of each split if they are named by train and another one; else train."""
    named = group_by_split(paths, lambda path: path.name)
    if not (named["train"] and (named["valid"] or named["test"])):
        return {"train": [*paths]}
    if unclear := named[""]:
        raise ValueError(f"{unclear[0]}: name it by its split, train, valid or test, like others")
    return {split: group for split, group in named.items() if group}


def read_documents(data: str, column: str | None, limit: int | None, shares: Shares) -> TextCorpus:
    """Open a table or a dataset, each row of which is a document."""
    table = tables.open_table(data, [column], limit, min_common=1)
    only = [name for name in table.columns if len(table.columns) == 1 and is_prose(table, name)]
    wanted = [column] if column else [*TEXT_COLUMNS, *only]
    name = next((name for name in wanted if name in table.columns), None)
    if name is None:
        listed = ", ".join(map(repr, table.columns)) or "none"
        raise ValueError(
            f"{data} has no text column {' or '.join(map(repr, wanted))}, but {listed}; choose one "
            "with --column"
        )

    def read(split: str) -> Iterator[str]:
        for (text,) in table.read(split, name):
            if text is not None:
                yield text if text.endswith("\n") else f"{text}\n"

    splits = {split: partial(read, split) for split in table.splits}
    key, origin = f"{table.key} {name}", f"{data}, column {name}"
    return complete_splits(TextCorpus(table.name, splits, key, origin, splits["train"]), shares)


def is_prose(table: tables.Table, column: str) -> bool:
    """Return whether most of a column's first texts have several words: identifiers have one."""
    rows = islice(table.read("train", column), N_SNIFFED)
    n_words = [count_words(text or "") for (text,) in rows]
    return 2 * sum(n > 1 for n in n_words) > len(n_words)


def complete_splits(opened: TextCorpus, shares: Shares) -> TextCorpus:
    """Return a text with three splits: cut if it has none of its own; one can be both others."""
    train, held_out = opened.splits["train"], [*opened.splits.values()][1:]
    if not held_out:
        splits, key = split_by_share(train, shares), f"{opened.key} {shares}"
        is_valid_tested = shares["valid"] == shares["test"]
        return opened._replace(splits=splits, key=key, is_valid_tested=is_valid_tested)
    splits = {"train": train, "valid": held_out[0], "test": held_out[-1]}
    return opened._replace(splits=splits, is_valid_tested=len(held_out) == 1)


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

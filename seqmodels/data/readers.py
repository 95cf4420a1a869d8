"""Read lines, text and table rows from files in all the shapes that users have.

Lines end at a line feed and nowhere else. U+0085, U+2028 and form feeds occur inside sentences, and
`str.splitlines`, which splits there, shifts every later pair of a parallel corpus. Anything that is
not text is refused, naming file and line.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any, NamedTuple

from seqmodels.data.languages import LANGUAGES
from seqmodels.utils import files
from seqmodels.utils.terminal import one_line

CHUNK_BYTES = 2**20
"""Bytes of running text that are read at a time, plus the rest of the last line."""
MAX_LINE_BYTES = 2**24
"""Limit of a line, in bytes."""


def preview(text: str) -> str:
    """Return the beginning of a text on one line, with unprintable characters escaped."""
    line = one_line(text[:1_000])
    return f"{line[:79]}…" if len(line) > 80 else line or "(blank)"


# ----------------------------------------------------------------------------------- Text files


@contextmanager
def _opened(path: str | Path, takes_pipe: bool = False) -> Iterator[IO[bytes]]:
    """Open a text file; raise ValueError that names it if it cannot be read."""
    try:
        with files.opened(Path(path), takes_pipe) as file:
            yield file
    except FileNotFoundError as fault:
        raise ValueError(f"{path} does not exist; give the path of a UTF-8 text file") from fault
    except OSError as fault:
        raise ValueError(f"{path} cannot be read: {fault.strerror}") from fault


def lines(path: str | Path, takes_pipe: bool = False) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, without their LF or CRLF and without a byte-order mark.

    Raises ValueError that names file and line for anything that is not text.
    """
    with _opened(path, takes_pipe) as file:
        for n in count(1):
            raw = file.readline(MAX_LINE_BYTES + 1)
            if n == 1:
                raw = raw.removeprefix(codecs.BOM_UTF8)
            if not raw and n == 1:
                raise ValueError(f"{path} is empty")
            if not raw:
                return
            yield _decode_line(path, n, raw)


def _decode_line(path: str | Path, n: int, raw: bytes) -> str:
    """Return a line's text."""
    if len(raw) > MAX_LINE_BYTES:
        raise ValueError(f"{path}, line {n}: more than {MAX_LINE_BYTES:,} bytes")
    text = _decode(path, n, raw, lambda raw, _: raw.decode())
    return text.removesuffix("\n").removesuffix("\r")


def read_lines(path: str | Path, takes_pipe: bool = False) -> list[str]:
    """Return the `lines` of a file."""
    return list(lines(path, takes_pipe))


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file, with LF for CRLF and without a byte-order mark."""
    return "".join(text_chunks(path))


def text_chunks(path: str | Path) -> Iterator[str]:
    """Yield the text of a UTF-8 file, with LF for CRLF and without a byte-order mark.

    Chunks end where lines do, unless a line is longer than CHUNK_BYTES. Raises ValueError that
    names file and line for anything that is not text.
    """
    decode, n, is_empty = codecs.getincrementaldecoder("utf-8-sig")().decode, 1, True
    with _opened(path) as file:
        while raw := file.read(CHUNK_BYTES) + file.readline(CHUNK_BYTES):
            raw += file.read(1) if raw.endswith(b"\r") else b""
            text = _decode(path, n, raw, decode)
            is_empty, n = is_empty and not text, n + text.count("\n")
            yield text.replace("\r\n", "\n")
        _decode(path, n, b"", decode)
    if is_empty:
        raise ValueError(f"{path} is empty")


def _decode(path: str | Path, n: int, raw: bytes, decode: Callable[[bytes, bool], str]) -> str:
    """Return the text of a piece that begins in line n; no bytes mean the end of the file."""
    try:
        text = decode(raw, not raw)
    except UnicodeDecodeError as fault:
        n += fault.object.count(b"\n", 0, fault.start)
        byte = fault.object[fault.start]
        raise ValueError(f"{path}, line {n}: not UTF-8 (byte 0x{byte:02x})") from fault
    if (start := text.find("\0")) >= 0:
        n += text.count("\n", 0, start)
        raise ValueError(f"{path}, line {n}: a zero byte, which is not text; is it UTF-16?")
    if n == 1 and "\n" not in text and text.find("\r", 0, -1) >= 0:
        raise ValueError(f"{path}, line 1: no line feed, only carriage returns; convert its lines")
    return text


def count_lines(path: str | Path) -> int:
    """Return the number of lines of a file, without decoding them."""
    n, last = 0, b"\n"
    with _opened(path) as file:
        while chunk := file.read(CHUNK_BYTES):
            n, last = n + chunk.count(b"\n"), chunk[-1:]
    return n + (last != b"\n")


def sha256(chunks: Iterable[str]) -> str:
    """Return the checksum of texts in order, each followed by a line feed.

    For the lines of an LF file it is what the `sha256sum` command prints.
    """
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(f"{chunk}\n".encode())
    return digest.hexdigest()


# ---------------------------------------------------------------------------------- Tables

TABLES = (".tsv", ".csv", ".jsonl", ".json", ".parquet")
"""Endings of files with a pair, or a text, in each row."""
TEXT_TABLES = (".tsv", ".csv", ".jsonl")
"""Endings of tables that are text; `hub` reads the others."""


class Header(NamedTuple):
    """The names of the columns of a table."""

    names: list[str]
    is_in_file: bool
    """Whether the first line is a header, if perhaps with other names, or the first row."""


NAMES = (
    "source target src tgt trg translation text sentence eng deu ger fra fre spa ita por rus nld "
    "ces pol tur ara zho chi jpn kor vie english german french spanish italian portuguese russian "
    "dutch czech polish turkish arabic chinese japanese korean vietnamese"
)
KNOWN_COLUMNS = LANGUAGES.union(NAMES.split())
"""Names of columns, in lower case, by which a header is recognised."""


def header(path: Path, columns: Sequence[str | None], n_known: int = 2) -> Header:
    """Return the names of the columns of a TSV or CSV file.

    The first line is a header if one of its cells is asked for by name, or `n_known` of them are
    KNOWN. Columns that are asked for by number are named 1, 2, … Raises ValueError if it is unclear
    whether there is a header: a row taken for a header would be lost, and a header taken for a row
    would be trained on.
    """
    first = next((cells for _, cells in _cells(path) if any(cells)), [])
    is_in_file = any(name in first for name in columns)
    is_in_file |= sum(cell.strip().lower() in KNOWN_COLUMNS for cell in first) >= n_known
    if any(name is not None and name.isdecimal() and name not in first for name in columns):
        return Header([str(i) for i in range(1, len(first) + 1)], is_in_file)
    if not is_in_file and len(first) >= n_known:
        flags = ("--source", "--target") if n_known == 2 else ("--column",)
        numbered = " ".join(f"{flag} {i}" for i, flag in enumerate(flags, 1))
        raise ValueError(
            f"{path} begins with {preview(' | '.join(first))}; if these are column names, choose "
            f"with {' and '.join(flags)}; if not, give column numbers: {numbered}"
        )
    if len(set(first)) < len(first):
        raise ValueError(f"{path}, line 1: duplicate names in the header; {NO_HEADER}")
    return Header(first, True)


def rows(path: Path, header: Header | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line and the cells of each row of a TSV, CSV or JSONL file.

    TSV has no quoting. Blank lines are skipped. Raises ValueError that names file and line.
    """
    if header is None:
        yield from _json_rows(path)
        return
    names, is_in_file = header
    for line, row in _cells(path):
        if not any(row):
            continue
        if is_in_file:
            is_in_file = False
            continue
        if len(row) != len(names):
            raise ValueError(
                f"{path}, line {line}: {len(row)} columns, but the first line has {len(names)}"
            )
        yield line, dict(zip(names, row, strict=True))


def _cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    return _tsv_rows(path) if path.suffix == ".tsv" else _csv_rows(path)


def _tsv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    return enumerate((line.split("\t") for line in lines(path)), start=1)


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((f"{line}\n" for line in lines(path)), strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as fault:
        raise ValueError(f"{path}, line {reader.line_num}: {fault}") from fault


NO_HEADER = "if a file has no header, give column numbers: --source 1 --target 2"


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for n, line in enumerate(lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as fault:
            raise ValueError(f"{path}, line {n}: not JSON: {fault}") from fault
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {n}: not an object with names and texts")
        if SURROGATE.search(line) and not is_utf8(json.dumps(row, ensure_ascii=False)):
            raise ValueError(f"{path}, line {n}: a lone surrogate, which is not a character")
        yield n, row


SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""A surrogate as JSON escapes it."""


def is_utf8(text: str) -> bool:
    """Return whether UTF-8 can encode a text: not a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

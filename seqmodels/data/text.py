"""Read lines and text from files.

Lines end at LF or CRLF and nowhere else. U+0085, U+2028 and form feeds occur inside sentences, and
`str.splitlines`, which splits there, shifts every later pair of a parallel corpus. Anything that is
not UTF-8 is refused, naming file and line, and the program that converts it.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from seqmodels.utils import files
from seqmodels.utils.terminal import one_line

CHUNK = 2**20
"""Characters of a chunk of text, plus the rest of its last line."""
MAX_LINE = 2**24
"""Limit of a line, in bytes: a longer one is text, in parts, and not a line."""
CONVERT = "convert it to UTF-8, such as with iconv -f WINDOWS-1252 -t UTF-8"


def preview(text: str) -> str:
    """Return the beginning of a text on one line, with unprintable characters escaped."""
    line = one_line(text[:1_000])
    return f"{line[:79]}…" if len(line) > 80 else line or "(blank)"


@contextmanager
def open_readable(path: Path) -> Iterator[IO[bytes]]:
    """Open a regular file; raise ValueError with the cause if it cannot be opened or read."""
    try:
        with files.open_regular(path) as file:
            yield file
    except FileNotFoundError as fault:
        raise ValueError(f"{path} does not exist; give the path of a UTF-8 text file") from fault
    except OSError as fault:
        reason = getattr(fault, "strerror", None) or fault
        raise ValueError(f"{path} cannot be read: {one_line(str(reason))[:300]}") from fault


def raw_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, as `decode_lines` does.

    Raises ValueError for a file that is empty, and as `open_readable` and `decode_lines` do.
    """
    is_empty = True
    with open_readable(Path(path)) as file:
        for line in decode_lines(file, path):
            is_empty = False
            yield line
    if is_empty:
        raise ValueError(f"{path} is empty")


def decode_lines(file: Any, name: str | Path) -> Iterator[str]:
    """Yield the lines of an open file, with LF for CRLF; those above MAX_LINE bytes in parts.

    Byte-order marks are left out, wherever a line begins with one: files have been concatenated.
    Raises ValueError that gives the file's name and the line for anything that is not text.
    """
    decode, n, raw = codecs.getincrementaldecoder("utf-8-sig")().decode, 1, b"\n"
    while raw:
        raw = file.readline(MAX_LINE)
        raw += file.read(1) if raw.endswith(b"\r") else b""  # a line feed, if it is cut there
        try:
            line = decode(raw.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n"), not raw)
        except UnicodeDecodeError as fault:
            byte = f"byte 0x{fault.object[fault.start]:02x}"
            raise ValueError(f"{name}, line {n}: not UTF-8 ({byte}); {CONVERT}") from fault
        if "\0" in line:
            raise ValueError(f"{name}, line {n}: a zero byte, not text; {CONVERT}")
        if n == 1 and "\r" in line[:-1] and not line.endswith("\n"):
            raise ValueError(f"{name} has lines that end in CR; convert it with tr '\\r' '\\n'")
        n += line.endswith("\n")
        if line:
            yield line


def text_chunks(path: str | Path) -> Iterator[str]:
    """Yield a text in chunks of whole lines; raises as `raw_lines` does."""
    chunk, size = [], 0
    for line in raw_lines(path):
        chunk.append(line)
        size += len(line)
        if size >= CHUNK:
            yield "".join(chunk)
            chunk, size = [], 0
    if chunk:
        yield "".join(chunk)


def lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, without their LF or CRLF.

    Raises ValueError for lines above MAX_LINE bytes, and as `raw_lines` does.
    """
    is_whole = True
    for n, line in enumerate(raw_lines(path)):
        if not is_whole:
            raise ValueError(f"{path}, line {n}: more than {MAX_LINE:,} bytes")
        is_whole = line.endswith("\n")
        yield line.removesuffix("\n").removesuffix("\r")


def read_lines(path: str | Path) -> list[str]:
    """Return the `lines` of a file."""
    return list(lines(path))


def sha256(chunks: Iterable[str]) -> str:
    """Return the checksum of texts in order, each followed by a line feed.

    For the lines of an LF file it is what the `sha256sum` command prints.
    """
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(f"{chunk}\n".encode())
    return digest.hexdigest()

"""Read lines and text from files.

Lines end at LF or CRLF and nowhere else. U+0085, U+2028 and form feeds occur inside sentences, and
`str.splitlines`, which splits there, shifts every later pair of a parallel corpus. Anything that is
not UTF-8 is refused, naming file and line, and the program that converts it.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from seqmodels.utils import files
from seqmodels.utils.terminal import one_line

Open = Callable[[Path], AbstractContextManager[IO[bytes]]]
CHUNK = 2**20
"""Characters of a chunk of text, plus the rest of its last line."""
MAX_LINE = 2**24
"""Limit of a line, in bytes: a longer one is text, in parts, and not a line."""
MARKUP = re.compile(
    r"\s*(<\?xml|<!doctype|<(srcset|refset|tstset|mteval|html|tmx|doc|url)\b|"
    r"WEBVTT|1\s+[\d:,]+ -->)",
    re.IGNORECASE,
)
"""How files begin that do not have a sentence on each line."""
TAKE_SEGMENTS = r"sed -n 's|.*<seg[^>]*>\(.*\)</seg>.*|\1|p'"
CONVERT = (
    "unpack what is compressed (gzip aside) or archived; convert another encoding, such as with "
    "iconv -f UTF-16 -t UTF-8"
)


def preview(text: str) -> str:
    """Return the beginning of a text on one line, with unprintable characters escaped."""
    line = one_line(text[:1_000])
    return f"{line[:79]}…" if len(line) > 80 else line or "(blank)"


def ending_of(path: Path) -> str:
    """Return the ending of a file before that of its compression: `.tsv` of `pairs.tsv.gz`."""
    return next((end for end in map(str.lower, reversed(path.suffixes)) if end != ".gz"), "")


def stem_of(path: Path) -> str:
    """Return the name of a file without its ending and that of its compression."""
    return Path(path.stem).stem if path.suffix == ".gz" else path.stem


@contextmanager
def open_bytes(path: str | Path, open_file: Open) -> Iterator[Any]:
    """Open a file, which may be compressed by gzip; raise ValueError if it cannot be read."""
    try:
        with open_file(Path(path)) as file:
            is_gzip = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            yield gzip.GzipFile(fileobj=file) if is_gzip else file
    except FileNotFoundError as fault:
        raise ValueError(f"{path} does not exist; give the path of a UTF-8 text file") from fault
    except (OSError, EOFError, zlib.error) as fault:
        reason = getattr(fault, "strerror", None) or fault
        raise ValueError(f"{path} cannot be read: {reason}") from fault


def raw_lines(path: str | Path, open_file: Open = files.open_regular) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, with LF for CRLF; those above MAX_LINE bytes in parts.

    Raises ValueError that names file and line for anything that is not text.
    """
    decode, n, is_empty, raw = codecs.getincrementaldecoder("utf-8-sig")().decode, 1, True, b"\n"
    with open_bytes(path, open_file) as file:
        while raw:
            raw = file.readline(MAX_LINE)
            raw += file.read(1) if raw.endswith(b"\r") else b""  # a line feed, if it is cut there
            try:
                line = decode(raw.replace(b"\r\n", b"\n"), not raw)
            except UnicodeDecodeError as fault:
                byte = f"byte 0x{fault.object[fault.start]:02x}"
                raise ValueError(f"{path}, line {n}: not UTF-8 ({byte}); {CONVERT}") from fault
            if "\0" in line:
                raise ValueError(f"{path}, line {n}: a zero byte, not text; {CONVERT}")
            if n == 1 and "\r" in line[:-1] and not line.endswith("\n"):
                raise ValueError(f"{path} has lines that end in CR; convert it with tr '\\r' '\\n'")
            n += line.endswith("\n")
            if line:
                is_empty = False
                yield line
    if is_empty:
        raise ValueError(f"{path} is empty")


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


def lines(path: str | Path, open_file: Open = files.open_regular) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, without their LF or CRLF.

    Raises ValueError for markup and for lines above MAX_LINE bytes, and as `raw_lines` does.
    """
    rows, is_whole = raw_lines(path, open_file), True
    first = [*islice(rows, 10)]
    if MARKUP.match(start := "".join(first)):
        raise ValueError(
            f"{path} has markup ({preview(start[:60])}), not a sentence per line; take the "
            f"sentences out, those of <seg> with {TAKE_SEGMENTS}"
        )
    for n, line in enumerate(chain(first, rows)):
        if not is_whole:
            raise ValueError(f"{path}, line {n}: more than {MAX_LINE:,} bytes")
        is_whole = line.endswith("\n")
        yield line.removesuffix("\n").removesuffix("\r")


def read_lines(path: str | Path) -> list[str]:
    """Return the `lines` of a file."""
    return list(lines(path))


def count_lines(path: str | Path) -> int:
    """Return the number of lines of a file."""
    return sum(1 for _ in lines(path))


def sha256(chunks: Iterable[str]) -> str:
    """Return the checksum of texts in order, each followed by a line feed.

    For the lines of an LF file it is what the `sha256sum` command prints.
    """
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(f"{chunk}\n".encode())
    return digest.hexdigest()

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
from pathlib import Path
from typing import IO, Any

from seqmodels.utils import files
from seqmodels.utils.terminal import one_line

Open = Callable[[Path], AbstractContextManager[IO[bytes]]]
CHUNK_BYTES = 2**20
"""Bytes of text that are read at a time, plus the rest of the last line."""
MAX_LINE = 2**24
"""Limit of a line, in characters."""
MARKUP = re.compile(
    r"\s*(<\?xml|<!doctype|<(srcset|refset|tstset|mteval|html|tmx|doc|url)\b|"
    r"WEBVTT|1\s+[\d:,]+ -->)",
    re.IGNORECASE,
)
"""How files begin that do not have a sentence on each line."""
TAKE_SEGMENTS = r"sed -n 's|.*<seg[^>]*>\(.*\)</seg>.*|\1|p'"
GZIP = b"\x1f\x8b"
NOT_READ = {
    b"PK\x03\x04": "a zip archive; unpack it with unzip",
    b"7z\xbc\xaf": "a 7z archive; unpack it with 7z x",
    b"BZh": "compressed with bzip2; unpack it with bunzip2",
    b"\xfd7zXZ\0": "compressed with xz; unpack it with unxz",
    b"\x28\xb5\x2f\xfd": "compressed with Zstandard; unpack it with unzstd",
    codecs.BOM_UTF16_LE: "in UTF-16; convert it with iconv -f UTF-16 -t UTF-8",
    codecs.BOM_UTF16_BE: "in UTF-16; convert it with iconv -f UTF-16 -t UTF-8",
}
"""What is not read, by its first bytes."""


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


def check_kind(path: str | Path, raw: bytes) -> None:
    """Raise ValueError for the first bytes of a file that is not read, naming what converts it."""
    for magic, kind in NOT_READ.items():
        if raw.startswith(magic):
            raise ValueError(f"{path} is {kind}")
    if raw[257:262] == b"ustar":
        raise ValueError(f"{path} is an archive; unpack it with tar -xf")
    if b"\r" in raw[:-1] and b"\n" not in raw:
        raise ValueError(f"{path} has lines that end in CR; convert it with tr '\\r' '\\n'")


@contextmanager
def open_bytes(path: str | Path, open_file: Open) -> Iterator[Any]:
    """Open a file, which may be compressed by gzip.

    Raises ValueError if it cannot be read, or is not read.
    """
    try:
        with open_file(Path(path)) as raw:
            is_gzip = raw.read(2) == GZIP
            raw.seek(0)
            file: Any = gzip.GzipFile(fileobj=raw) if is_gzip else raw
            check_kind(path, file.read(CHUNK_BYTES))
            file.seek(0)
            yield file
    except FileNotFoundError as fault:
        raise ValueError(f"{path} does not exist; give the path of a UTF-8 text file") from fault
    except (OSError, EOFError, zlib.error) as fault:
        reason = getattr(fault, "strerror", None) or fault
        raise ValueError(f"{path} cannot be read: {reason}") from fault


def text_chunks(path: str | Path, open_file: Open = files.open_regular) -> Iterator[str]:
    """Yield the chunks of a UTF-8 file, with LF for CRLF and without a byte-order mark.

    Chunks end where lines do, unless a line is longer than CHUNK_BYTES or ends in a carriage
    return. Raises ValueError that names file and line for anything that is not text.
    """
    decode = codecs.getincrementaldecoder("utf-8-sig")().decode
    n, is_empty, is_last = 1, True, False
    with open_bytes(path, open_file) as file:
        while not is_last:
            raw = file.read(CHUNK_BYTES) + file.readline(CHUNK_BYTES)
            raw += file.read(1) if raw.endswith(b"\r") else b""
            is_last = not raw
            try:
                text = decode(raw.replace(b"\r\n", b"\n"), is_last)
            except UnicodeDecodeError as fault:
                n += fault.object.count(b"\n", 0, fault.start)
                byte = fault.object[fault.start]
                raise ValueError(f"{path}, line {n}: not UTF-8 (byte 0x{byte:02x})") from fault
            if (zero := text.find("\0")) >= 0:
                n += text.count("\n", 0, zero)
                hint = "if it is UTF-16, convert it with iconv -f UTF-16LE -t UTF-8"
                raise ValueError(f"{path}, line {n}: a zero byte, not text; {hint}")
            n += text.count("\n")
            if text:
                is_empty = False
                yield text
    if is_empty:
        raise ValueError(f"{path} is empty")


def lines(path: str | Path, open_file: Open = files.open_regular) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, without their LF or CRLF.

    Raises ValueError for markup, and as `text_chunks` does.
    """
    n, rest = 0, ""
    for chunk in text_chunks(path, open_file):
        if not (n or rest) and MARKUP.match(chunk):
            raise ValueError(
                f"{path} has markup ({preview(chunk[:60])}), not a sentence per line; take the "
                f"sentences out, those of <seg> with {TAKE_SEGMENTS}"
            )
        *complete, rest = (rest + chunk).split("\n")
        yield from complete
        n += len(complete)
        if len(rest) > MAX_LINE:
            raise ValueError(f"{path}, line {n + 1}: more than {MAX_LINE:,} characters")
    if rest:
        yield rest.removesuffix("\r")


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

"""Read lines, text and table rows from files in all the shapes that users have.

Lines end at a line feed and nowhere else, or at carriage returns where a file has no line feed.
U+0085, U+2028 and form feeds occur inside sentences, and `str.splitlines`, which splits there,
shifts every later pair of a parallel corpus. Anything that is not text is refused, naming file and
line.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import hashlib
import io
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from html import unescape
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from seqmodels.data.presets import LANGUAGES, fingerprint
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
SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.IGNORECASE | re.DOTALL)


def open_zstd(raw: Any) -> Any:
    """Return the decompressed file of one in Zstandard, for which Python 3.11 has no module."""
    import pyarrow  # takes longer to import than to read a small file

    return io.BufferedReader(pyarrow.CompressedInputStream(raw, "zstd"))


COMPRESSED: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open,
    b"\x28\xb5\x2f\xfd": open_zstd,
}  # fmt: skip
"""Functions that open compressed files, by the first bytes of a file."""
UNREAD = {b"PK\x03\x04": "zip", b"7z\xbc\xaf": "7z"}


def preview(text: str) -> str:
    """Return the beginning of a text on one line, with unprintable characters escaped."""
    line = one_line(text[:1_000])
    return f"{line[:79]}…" if len(line) > 80 else line or "(blank)"


# ----------------------------------------------------------------------------------- Text files


def open_as_utf8(raw: Any, path: str | Path) -> Any:
    """Return a file that gives UTF-8: decompressed, and converted from UTF-16 if it has a mark.

    Raises ValueError for an archive and for a compression that is not read here.
    """
    head = raw.read(6)
    raw.seek(0)
    for magic, kind in UNREAD.items():
        if head.startswith(magic):
            raise ValueError(f"{path} is compressed ({kind}); unpack it")
    for magic, open_compressed in COMPRESSED.items():
        if head.startswith(magic):
            return open_compressed(raw)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return codecs.EncodedFile(raw, "utf-8", "utf-16")
    return raw


def text_chunks(path: str | Path, open_file: Open = files.open_regular) -> Iterator[str]:
    """Yield the chunks of a UTF-8 file, with LF for CRLF and without a byte-order mark.

    If the first chunk has carriage returns and no line feed, lines end at carriage returns. Chunks
    end where lines do, unless a line is longer than CHUNK_BYTES or ends in a carriage return. The
    file may be compressed, or in UTF-16 with a byte-order mark. Raises ValueError that names file
    and line for anything that is not text.
    """
    decode, n, is_empty = codecs.getincrementaldecoder("utf-8-sig")().decode, 1, True
    try:
        with open_file(Path(path)) as raw_file:
            file, is_last, has_only_cr = open_as_utf8(raw_file, path), False, False
            while not is_last:
                raw = file.read(CHUNK_BYTES) + file.readline(CHUNK_BYTES)
                raw += file.read(1) if raw.endswith(b"\r") else b""
                is_last, raw = not raw, raw.replace(b"\r\n", b"\n")
                has_only_cr |= n == 1 and b"\n" not in raw and b"\r" in raw[:-1]
                text = decode(raw.replace(b"\r", b"\n") if has_only_cr else raw, is_last)
                if (zero := text.find("\0")) >= 0:
                    n += text.count("\n", 0, zero)
                    raise ValueError(f"{path}, line {n}: a zero byte, not text; is it UTF-16?")
                is_empty, n = is_empty and not text, n + text.count("\n")
                if text:
                    yield text
    except UnicodeDecodeError as fault:
        n += fault.object.count(b"\n", 0, fault.start)
        byte = fault.object[fault.start]
        raise ValueError(f"{path}, line {n}: not UTF-8 (byte 0x{byte:02x})") from fault
    except FileNotFoundError as fault:
        raise ValueError(f"{path} does not exist; give the path of a UTF-8 text file") from fault
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as fault:
        reason = getattr(fault, "strerror", None) or fault
        raise ValueError(f"{path} cannot be read: {reason}") from fault
    if is_empty:
        raise ValueError(f"{path} is empty")


def segments(path: str | Path, chunks: Iterable[str]) -> list[str]:
    """Return the sentences of a file of markup, such as the test sets of WMT and IWSLT.

    Raises ValueError for one whose sentences are not in elements called seg.
    """
    text = "".join(chunks)
    if not (found := SEGMENT.findall(text)):
        raise ValueError(f"{path} has markup ({preview(text[:60])}), not a sentence per line")
    return [" ".join(unescape(segment).split()) for segment in found]


def lines(path: str | Path, open_file: Open = files.open_regular) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, without their LF or CRLF, or the segments of markup.

    Raises as `text_chunks` and `segments` do.
    """
    n, rest = 0, ""
    chunks = text_chunks(path, open_file)
    for chunk in chunks:
        if not (n or rest) and MARKUP.match(chunk):
            yield from segments(path, [chunk, *chunks])
            return
        *complete, rest = (rest + chunk).split("\n")
        yield from complete
        n += len(complete)
        if len(rest) > MAX_LINE:
            raise ValueError(f"{path}, line {n + 1}: more than {MAX_LINE:,} characters")
    if rest:
        yield rest.removesuffix("\r")


def read_lines(path: str | Path, open_file: Open = files.open_regular) -> list[str]:
    """Return the `lines` of a file."""
    return list(lines(path, open_file))


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


# ---------------------------------------------------------------------------------- Tables

SPLITS = ("train", "valid", "test")
SPLIT_ALIASES = {
    "train": ("train",),
    "valid": ("valid", "validation", "val", "dev"),
    "test": ("test", "test_2016_flickr"),
}
"""Names of a split; Multi30k has several test sets."""
TABLES = (".tsv", ".csv", ".jsonl", ".json", ".parquet")
"""Endings of files with a pair, or a text, in each row."""
TEXT_TABLES = (".tsv", ".csv", ".jsonl")
"""Endings of tables that are read here; `hub` reads the others."""
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
"""Endings of compressed files."""
N_SNIFFED = 20
"""Lines by which tab-separated text is recognised."""
ATTRIBUTION = re.compile(r"CC-BY 2\.0 \(France\) Attribution: tatoeba\.org")
"""How the last column of a file by Anki (manythings.org) begins."""
SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", "।", "؟")
NO_HEADER = "if a file has no header, give column numbers: --source 1 --target 2"
NAMES = (
    "source target src tgt trg translation text sentence eng deu ger fra fre spa ita por rus nld "
    "ces pol tur ara zho chi jpn kor vie english german french spanish italian portuguese russian "
    "dutch czech polish turkish arabic chinese japanese korean vietnamese"
)
COMMON_COLUMNS = LANGUAGES.union(NAMES.split())
"""Names of columns, in lower case, by which a header is recognised."""


class Table(NamedTuple):
    """Rows of texts, in splits, which can be read any number of times."""

    name: str
    origin: str
    """Its path, or its id on the hub."""
    columns: list[str]
    """Columns that are text, or the languages of a column `translation`."""
    splits: Mapping[str, Callable[[], Iterator[tuple[int, dict[str, Any]]]]]
    """Read the line, or the number, and the cells of each row of a split."""
    size: Callable[[], int]
    """Return the number of rows of train, at most."""
    key: str
    """Changes whenever the content does; known without reading it."""


def ending_of(path: Path) -> str:
    """Return the ending of a file before that of its compression: `.tsv` of `pairs.tsv.gz`."""
    endings = [suffix.lower() for suffix in path.suffixes]
    return next((ending for ending in reversed(endings) if ending not in COMPRESSIONS), "")


def stem_of(path: Path) -> str:
    """Return the name of a file without its ending and that of its compression."""
    return Path(path.stem).stem if path.suffix in COMPRESSIONS else path.stem


def table_ending(path: Path) -> str:
    """Return the ending of a table, `.tsv` for other text whose lines have tabs, or "".

    Raises as `lines` does.
    """
    if (ending := ending_of(path)) in TABLES:
        return ending
    first = [*islice(filter(str.strip, lines(path)), N_SNIFFED)]
    return ".tsv" if first and all("\t" in line for line in first) else ""


def open_table(path: Path, columns: Sequence[str | None]) -> Table:
    """Open a TSV, CSV or JSONL file, which has only train."""
    head = find_header(path, columns) if ending_of(path) != ".jsonl" else None
    _, first = next(read_rows(path, head), (0, None))
    if first is None:
        raise ValueError(f"{path} has no rows")
    text_columns = [
        name
        for name, cell in first.items()
        if cell is None or (isinstance(cell, str) and not ATTRIBUTION.match(cell))
    ]
    if isinstance(both := first.get("translation"), dict):  # as on the hub
        text_columns = [*both]
    splits = {"train": partial(read_rows, path, head)}
    size = cache(partial(count_lines, path))
    return Table(stem_of(path), str(path), text_columns, splits, size, fingerprint(path))


class Header(NamedTuple):
    """The names of the columns of a table."""

    names: list[str]
    is_in_file: bool
    """Whether the first line is a header, if perhaps with other names, or the first row."""


def find_header(path: Path, columns: Sequence[str | None], min_common: int = 2) -> Header:
    """Return the names of the columns of a TSV or CSV file.

    The first line is a header if one of its cells is asked for by name, or `min_common` of them are
    COMMON_COLUMNS. Columns that are asked for by number are named 1, 2, …, as are those of a file
    by Anki, of text in columns without the ending of a table, and of two columns that begin with
    sentences. Raises ValueError if it is unclear whether there is a header: a row taken for a
    header would be lost, and a header taken for a row would be trained on.
    """
    first = next((cells for _, cells in split_cells(path) if any(cells)), [])
    is_in_file = any(name in first for name in columns)
    is_in_file |= sum(cell.strip().lower() in COMMON_COLUMNS for cell in first) >= min_common
    is_plain = ending_of(path) not in TABLES or any(map(ATTRIBUTION.match, first))
    if len(first) == min_common == 2:
        is_plain |= all(cell.strip().endswith(SENTENCE_ENDS) for cell in first)
    is_numbered = any(name and name.isdecimal() and name not in first for name in columns)
    if is_numbered or (is_plain and not is_in_file):
        return Header([str(i) for i in range(1, len(first) + 1)], is_in_file)
    if not is_in_file and len(first) >= min_common:
        flags = ("--source", "--target") if min_common == 2 else ("--column",)
        numbered = " ".join(f"{flag} {i}" for i, flag in enumerate(flags, 1))
        raise ValueError(
            f"{path} begins with {preview(' | '.join(first))}; if these are column names, choose "
            f"with {' and '.join(flags)}; if not, give column numbers: {numbered}"
        )
    if len(set(first)) < len(first):
        raise ValueError(f"{path}, line 1: duplicate names in the header; {NO_HEADER}")
    return Header(first, True)


def read_rows(path: Path, header: Header | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line and the cells of each row of a TSV, CSV or JSONL file, but for blank lines.

    Raises ValueError that names file and line.
    """
    if header is None:
        for n, line in enumerate(lines(path), 1):
            if line.strip():
                yield n, json_row(path, n, line)
        return
    names, is_in_file = header
    for n, cells in split_cells(path):
        if not any(cells):
            continue
        if is_in_file:
            is_in_file = False
            continue
        if len(cells) != len(names):
            raise ValueError(
                f"{path}, line {n}: {len(cells)} columns, but the first line has {len(names)}"
            )
        yield n, dict(zip(names, cells, strict=True))


def split_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the cells of each row of a CSV file, or of a TSV file, without quoting."""
    if ending_of(path) != ".csv":
        yield from enumerate((line.split("\t") for line in lines(path)), 1)
        return
    reader = csv.reader((f"{line}\n" for line in lines(path)), strict=True)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as fault:
        raise ValueError(f"{path}, line {reader.line_num}: {fault}") from fault


def json_row(path: Path, n: int, line: str) -> dict[str, Any]:
    """Return the object in line n of a JSONL file."""
    try:
        row = json.loads(line)
        if r"\ud" in line.lower():  # a surrogate, which is no character without a second one
            json.dumps(row, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"{path}, line {n}: not JSON: {fault}") from fault
    if not isinstance(row, dict):
        raise ValueError(f"{path}, line {n}: not an object with names and texts")
    return row

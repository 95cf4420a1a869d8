"""Readers: parallel files and plain text, from UTF-8 as people find it.

Lines end at a line feed and nowhere else. U+0085, U+2028 and form feeds occur inside sentences, and
`str.splitlines`, which cuts there, shifts every later pair of a parallel corpus. What is no text is
refused, with its file and line.
"""

from __future__ import annotations

import codecs
import hashlib
import os
from collections.abc import Iterable
from itertools import chain, count, repeat
from pathlib import Path
from typing import NamedTuple

from seqmodels import files

MOST_BYTES = 2**30
"""Largest file that is read: its tokens take many times as much memory."""
SPLITS = ("train", "valid", "test")


class Pair(NamedTuple):
    """One sentence and its translation."""

    src: str
    tgt: str
    alignment: tuple[tuple[int, int], ...] | None = None
    """Gold (source word, target word), 0-based; None where it is unknown."""
    line: int = 0
    """Where it stands in its file, blank lines counted, or among its kind; from 1. 0: unknown."""


class ParallelCorpus(NamedTuple):
    """Sentence pairs in three splits, and what was noticed on reading them."""

    name: str
    src_lang: str
    tgt_lang: str
    splits: dict[str, list[Pair]]
    n_dropped: dict[str, int]
    """Pairs per split that were left out because a side is blank."""
    n_overlap: int
    """Test pairs whose source sentence is also in train. They are kept."""
    sha256: str
    """Checksum of all files' lines; the same in both directions."""


def read_parallel(folder: str | Path, source: str | None = None) -> ParallelCorpus:
    """Read `train`, `valid` and `test` in two languages, e.g. `train.de` and `train.en`.

    The source is the language whose code comes first in the alphabet, unless `source` names the
    other one. Line n of one file translates line n of the other.
    """
    folder = Path(folder)
    codes = _languages(folder)
    src_lang = codes[0] if source is None else source
    if src_lang not in codes:
        raise ValueError(f"source is {source!r}; {folder} has {codes[0]!r} and {codes[1]!r}")
    tgt_lang = codes[1 - codes.index(src_lang)]

    paths = [folder / f"{split}.{code}" for split in SPLITS for code in codes]
    missing = [path.name for path in paths if not path.exists()]
    if missing:
        needed = ", ".join(path.name for path in paths)
        raise ValueError(f"{folder} has no {', '.join(missing)}; needed: {needed}")
    lines = {path: read_lines(path) for path in paths}

    splits, n_dropped = {}, {}
    for split in SPLITS:
        src_path, tgt_path = folder / f"{split}.{src_lang}", folder / f"{split}.{tgt_lang}"
        n_src, n_tgt = len(lines[src_path]), len(lines[tgt_path])
        if n_src != n_tgt:
            raise ValueError(
                f"{src_path} has {n_src:,} lines and {tgt_path} has {n_tgt:,}; "
                "line n of one must translate line n of the other"
            )
        if lines[src_path] == lines[tgt_path]:
            raise ValueError(
                f"{src_path} and {tgt_path} hold the same text; one must translate the other"
            )
        pairs = map(Pair, lines[src_path], lines[tgt_path], repeat(None), count(1))
        splits[split] = [pair for pair in pairs if pair.src.strip() and pair.tgt.strip()]
        n_dropped[split] = n_src - len(splits[split])
        if not splits[split]:
            raise ValueError(f"{src_path} and {tgt_path} have no line with text on both sides")

    seen = {pair.src for pair in splits["train"]}
    return ParallelCorpus(
        name=folder.resolve().name,
        src_lang=src_lang,
        tgt_lang=tgt_lang,
        splits=splits,
        n_dropped=n_dropped,
        n_overlap=sum(pair.src in seen for pair in splits["test"]),
        sha256=sha256(chain.from_iterable(lines.values())),
    )


def read_lines(path: str | Path) -> list[str]:
    """Return the lines of a UTF-8 file, without their LF or CRLF and without a byte-order mark."""
    lines = _decode(path).removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines]


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file, with LF for CRLF and without a byte-order mark."""
    return _decode(path).replace("\r\n", "\n")


def sha256(chunks: Iterable[str]) -> str:
    """Return the checksum of texts in their order, each ended by a line feed.

    For the lines of an LF file it is what the `sha256sum` command prints.
    """
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(f"{chunk}\n".encode())
    return digest.hexdigest()


def _languages(folder: Path) -> list[str]:
    """Return the two codes `xx` of the files `train.xx`, in alphabetical order."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as fault:
        raise ValueError(
            f"{folder} cannot be read: {fault.strerror}; give a folder with train, valid and test "
            "in two languages, e.g. train.de and train.en"
        ) from fault
    codes = [name.removeprefix("train.") for name in names if name.startswith("train.")]
    if len(codes) != 2:
        found = ", ".join(f"train.{code}" for code in codes) or "no train.xx"
        raise ValueError(f"{folder} has {found}; needed: two, e.g. train.de and train.en")
    return codes


def _decode(path: str | Path) -> str:
    try:
        raw = files.read(Path(path), MOST_BYTES).removeprefix(codecs.BOM_UTF8)
        text = raw.decode()
    except FileNotFoundError as fault:
        raise ValueError(f"{path} does not exist; give the path of a UTF-8 text file") from fault
    except OSError as fault:
        raise ValueError(f"{path} cannot be read: {fault.strerror}") from fault
    except UnicodeDecodeError as fault:
        n = raw.count(b"\n", 0, fault.start) + 1
        raise ValueError(f"{path}, line {n}: not UTF-8 (byte 0x{raw[fault.start]:02x})") from fault
    if not text:
        raise ValueError(f"{path} is empty")
    if (start := text.find("\0")) >= 0:
        n = text.count("\n", 0, start) + 1
        raise ValueError(f"{path}, line {n}: a zero byte, which no text holds; is it UTF-16?")
    if "\n" not in text and text.find("\r", 0, -1) >= 0:
        raise ValueError(f"{path}, line 1: no line feed, only carriage returns; convert its lines")
    return text

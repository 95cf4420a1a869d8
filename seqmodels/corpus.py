"""Readers: parallel corpora and running text, from files as people find them or from the hub.

Lines end at a line feed and nowhere else. U+0085, U+2028 and form feeds occur inside sentences, and
`str.splitlines`, which cuts there, shifts every later pair of a parallel corpus. What is no text is
refused, with its file and line. No corpus is held in memory: it is read again where it is needed.
"""

from __future__ import annotations

import codecs
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

from seqmodels import files

PIECE = 2**20
"""Bytes of running text that are read at a time, with the rest of the last line."""
MOST_LINE = 2**20
"""Bytes of the longest line."""
SPLITS = ("train", "valid", "test")
ALSO = {"valid": ("valid", "validation", "val", "dev")}
"""Other names of a split."""
HELD_OUT = 2_000
"""Pairs of valid, and of test, where a corpus has train alone; a twentieth of it, if that is less.
"""


class Pair(NamedTuple):
    """One sentence and its translation."""

    src: str
    tgt: str
    line: int = 0
    """Where it stands in its file, blank lines counted, or among its kind; from 1. 0: unknown."""


Pairs = Callable[[], Iterator[Pair]]
"""Read a split, from its beginning."""


class Parallel(NamedTuple):
    """A parallel corpus: three splits, each of which can be read as often as one likes."""

    name: str
    src_lang: str
    tgt_lang: str
    splits: Mapping[str, Pairs]
    key: str
    """Changes where the content does, and is known without reading it pair by pair."""
    is_held_out: bool = False
    """Valid and test were drawn from train here, because the corpus has none."""


# ----------------------------------------------------------------------------------- Text files


def lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, without their LF or CRLF and without a byte-order mark.

    Raises ValueError that names file and line for what is no text.
    """
    n = 0
    try:
        with files.opened(Path(path)) as file:
            for n in count(1):
                raw = file.readline(MOST_LINE + 1)
                if n == 1:
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                if not raw:
                    break
                yield _line(path, n, raw)
    except FileNotFoundError as fault:
        raise ValueError(f"{path} does not exist; give the path of a UTF-8 text file") from fault
    except OSError as fault:
        raise ValueError(f"{path} cannot be read: {fault.strerror}") from fault
    if n == 1:
        raise ValueError(f"{path} is empty")


def _line(path: str | Path, n: int, raw: bytes) -> str:
    """Return a line's text."""
    if len(raw) > MOST_LINE:
        raise ValueError(f"{path}, line {n}: more than {MOST_LINE:,} bytes")
    if b"\0" in raw:
        raise ValueError(f"{path}, line {n}: a zero byte, which no text holds; is it UTF-16?")
    try:
        text = raw.decode()
    except UnicodeDecodeError as fault:
        byte = raw[fault.start]
        raise ValueError(f"{path}, line {n}: not UTF-8 (byte 0x{byte:02x})") from fault
    if n == 1 and "\n" not in text and "\r" in text[:-1]:
        raise ValueError(f"{path}, line 1: no line feed, only carriage returns; convert its lines")
    return text.removesuffix("\n").removesuffix("\r")


def read_lines(path: str | Path) -> list[str]:
    """Return the `lines` of a file."""
    return list(lines(path))


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file, with LF for CRLF and without a byte-order mark."""
    return "".join(pieces(path))


def pieces(path: str | Path) -> Iterator[str]:
    """Yield the text of a UTF-8 file, with LF for CRLF and without a byte-order mark.

    It comes in pieces that end where lines do, unless a line is longer than PIECE. Raises
    ValueError that names file and line for what is no text.
    """
    decode, n, is_empty = codecs.getincrementaldecoder("utf-8-sig")().decode, 1, True
    try:
        with files.opened(Path(path)) as file:
            while raw := file.read(PIECE) + file.readline(PIECE):
                raw += file.read(1) if raw.endswith(b"\r") else b""
                text = _piece(path, n, raw, decode)
                is_empty, n = is_empty and not text, n + text.count("\n")
                yield text.replace("\r\n", "\n")
            _piece(path, n, b"", decode)
    except FileNotFoundError as fault:
        raise ValueError(f"{path} does not exist; give the path of a UTF-8 text file") from fault
    except OSError as fault:
        raise ValueError(f"{path} cannot be read: {fault.strerror}") from fault
    if is_empty:
        raise ValueError(f"{path} is empty")


def _piece(path: str | Path, n: int, raw: bytes, decode: Callable[[bytes, bool], str]) -> str:
    """Return the text of a piece that begins in line n; no bytes are the end of the file."""
    try:
        text = decode(raw, not raw)
    except UnicodeDecodeError as fault:
        n += fault.object.count(b"\n", 0, fault.start)
        byte = fault.object[fault.start]
        raise ValueError(f"{path}, line {n}: not UTF-8 (byte 0x{byte:02x})") from fault
    if (start := text.find("\0")) >= 0:
        n += text.count("\n", 0, start)
        raise ValueError(f"{path}, line {n}: a zero byte, which no text holds; is it UTF-16?")
    if n == 1 and "\n" not in text and text.find("\r", 0, -1) >= 0:
        raise ValueError(f"{path}, line 1: no line feed, only carriage returns; convert its lines")
    return text


def scan(path: str | Path) -> tuple[str, int]:
    """Return a file's checksum and how many lines it has, from its bytes alone."""
    digest, n, last = hashlib.sha256(), 0, b"\n"
    try:
        with files.opened(Path(path)) as file:
            while chunk := file.read(2**20):
                digest.update(chunk)
                n, last = n + chunk.count(b"\n"), chunk[-1:]
    except FileNotFoundError as fault:
        raise ValueError(f"{path} does not exist; give the path of a UTF-8 text file") from fault
    except OSError as fault:
        raise ValueError(f"{path} cannot be read: {fault.strerror}") from fault
    return digest.hexdigest(), n + (last != b"\n")


def sha256(chunks: Iterable[str]) -> str:
    """Return the checksum of texts in their order, each ended by a line feed.

    For the lines of an LF file it is what the `sha256sum` command prints.
    """
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(f"{chunk}\n".encode())
    return digest.hexdigest()


# --------------------------------------------------------------------------------- Parallel text


def read_parallel(
    data: Sequence[str | Path],
    languages: Sequence[str | None] = (None, None),
    limit: int | None = None,
    names: Mapping[str, str] | None = None,
) -> Parallel:
    """Open a parallel corpus.

    data        one of: two text files, the second the translation of the first; a folder of
                `SPLIT.LANG`, e.g. `train.de` and `train.en`; a file .tsv .csv .jsonl .parquet; a
                folder of such files; OWNER/NAME or OWNER/NAME:CONFIG, a set on the hub
    languages   the source's and the target's: the codes of text files, the names of columns, or
                their numbers, from 1, in a file without a header; None: where there are just two,
                the source is the first in the alphabet
    limit       pairs of train to stream from a table, shuffled, instead of reading all of it
    names       what splits are called in a folder of text files, where not as here

    Where there is train alone, valid and test are drawn from it: see `hold_out`. Raises ValueError.
    """
    first = Path(data[0])
    if len(data) > 2:
        raise ValueError(f"{len(data)} files are given; a parallel corpus has two")
    is_lines = len(data) == 2 or (first.is_dir() and not _has_tables(first))
    if is_lines and limit:
        raise ValueError("a limit goes with tables and the hub; text files are read whole")
    if is_lines:
        if len(data) == 2:
            return _two_files(first, Path(data[1]), languages)
        return _folder(first, languages, names or {})
    from seqmodels import hub  # it takes seconds to import, and text files do without

    return hub.read_parallel(str(data[0]), languages, limit)


TABLES = (".tsv", ".csv", ".jsonl", ".json", ".parquet")
"""Endings of files that hold both sides."""


def _has_tables(folder: Path) -> bool:
    return any(path.suffix in TABLES for path in folder.rglob("*"))


def _folder(folder: Path, languages: Sequence[str | None], called: Mapping[str, str]) -> Parallel:
    """Open a folder of `SPLIT.LANG`. Line n of one file translates line n of the other."""
    codes = _languages(folder)
    src_lang, tgt_lang = directed(codes, languages, str(folder))
    names = {s: called.get(s) or _name_of(folder, s, codes) for s in SPLITS}
    paths = [folder / f"{names[split]}.{code}" for split in SPLITS for code in codes]
    if missing := [path.name for path in paths if not path.exists()]:
        needed = ", ".join(path.name for path in paths)
        raise ValueError(f"{folder} has no {', '.join(missing)}; needed: {needed}")
    splits, keys = {}, []
    for split in SPLITS:
        pair = (folder / f"{names[split]}.{code}" for code in (src_lang, tgt_lang))
        splits[split], key = _side_by_side(*pair)
        keys.append(key)
    return Parallel(folder.resolve().name, src_lang, tgt_lang, splits, " ".join(keys))


def _two_files(src: Path, tgt: Path, languages: Sequence[str | None]) -> Parallel:
    """Open two text files; their languages are their endings."""
    codes = [path.suffix.removeprefix(".") or path.name for path in (src, tgt)]
    src_lang, tgt_lang = (given or code for given, code in zip(languages, codes, strict=True))
    pairs, key = _side_by_side(src, tgt)
    splits = hold_out(pairs, scan(src)[1])
    return Parallel(src.stem, src_lang, tgt_lang, splits, key, is_held_out=True)


def _side_by_side(src: Path, tgt: Path) -> tuple[Pairs, str]:
    """Return the pairs of two text files, and their key."""
    (src_sum, n_src), (tgt_sum, n_tgt) = scan(src), scan(tgt)
    if n_src != n_tgt:
        raise ValueError(
            f"{src} has {n_src:,} lines and {tgt} has {n_tgt:,}; "
            "line n of one must translate line n of the other"
        )
    if all(a == b for a, b in zip(lines(src), lines(tgt), strict=True)):
        raise ValueError(f"{src} and {tgt} hold the same text; one must translate the other")
    return partial(_pairs, src, tgt), f"{src_sum} {tgt_sum}"


def _pairs(src: Path, tgt: Path) -> Iterator[Pair]:
    return map(Pair, lines(src), lines(tgt), count(1))


def _languages(folder: Path) -> list[str]:
    """Return the two codes `xx` of the files `train.xx`, in alphabetical order."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as fault:
        raise ValueError(f"{folder} cannot be read: {fault.strerror}") from fault
    codes = [name.removeprefix("train.") for name in names if name.startswith("train.")]
    if len(codes) != 2:
        found = ", ".join(f"train.{code}" for code in codes) or "no train.xx"
        raise ValueError(f"{folder} has {found}; needed: two, e.g. train.de and train.en")
    return codes


def _name_of(folder: Path, split: str, codes: Sequence[str]) -> str:
    """Return what a split is called here."""
    names = ALSO.get(split, (split,))
    return next((name for name in names if (folder / f"{name}.{codes[0]}").exists()), split)


def directed(found: Sequence[str], languages: Sequence[str | None], where: str) -> tuple[str, str]:
    """Return the source's and the target's language out of those that were found.

    Raises ValueError where one is not there, where they are the same, or where it takes a choice.
    """
    listed = " and ".join(map(repr, sorted(found)))
    for side, language in zip(("source", "target"), languages, strict=True):
        if language is not None and language not in found:
            raise ValueError(f"{side} is {language!r}; {where} has {listed}")
    src, tgt = languages
    if src is None and tgt is None and len(found) == 2:
        src, tgt = sorted(found)
    if len(found) == 2:
        src = src or next(code for code in found if code != tgt)
        tgt = tgt or next(code for code in found if code != src)
    if src is None or tgt is None:
        raise ValueError(f"{where} has {listed}; name the two with --source and --target")
    if src == tgt:
        raise ValueError(f"source and target are both {src!r}; {where} has {listed}")
    return src, tgt


def official(test: str, src_lang: str, tgt_lang: str) -> Pairs:
    """Return a test set that sacreBLEU knows, such as `wmt14` or `iwslt17`; it fetches it once.

    Raises ValueError for one that it does not know, or cannot have now.
    """
    from sacrebleu.utils import get_available_testsets, get_reference_files, get_source_file

    if test not in get_available_testsets():
        raise ValueError(f"{test!r} is no test set of sacreBLEU's; `sacrebleu --list` names them")
    pair = f"{src_lang}-{tgt_lang}"
    try:
        src, (tgt, *_) = get_source_file(test, pair), get_reference_files(test, pair)
    except SystemExit:
        raise ValueError(f"sacreBLEU's {test} has no {pair}; see `sacrebleu --list`") from None
    except Exception as fault:  # of one of several network libraries
        raise ValueError(
            f"sacreBLEU cannot fetch {test} {pair}; without network put its files into the folder "
            "that SACREBLEU names (default ~/.sacrebleu), or leave out --test"
        ) from fault
    return _side_by_side(Path(src), Path(tgt))[0]


# ------------------------------------------------------------------------------ Train alone


def hold_out(pairs: Pairs, n: int) -> dict[str, Pairs]:
    """Draw valid and test from a corpus of about n pairs that has train alone.

    A source sentence draws for all its pairs: whatever stands on one side stands on no other. The
    draw depends on the sentence alone, but for case and white space, and is the same every time.
    """
    share = min(HELD_OUT / n, 0.05) if n else 0.0
    return {split: partial(_drawn, pairs, split, share) for split in SPLITS}


def _drawn(pairs: Pairs, split: str, share: float) -> Iterator[Pair]:
    for pair in pairs():
        same = " ".join(pair.src.casefold().split()).encode()
        draw = int.from_bytes(hashlib.blake2b(same, digest_size=8).digest()) / 2**64
        if split == ("test" if draw < share else "valid" if draw < 2 * share else "train"):
            yield pair


# -------------------------------------------------------------------------------- Running text

Texts = Callable[[], Iterator[str]]
"""Read a split, piece by piece, from its beginning."""
SHARES = {"train": (0.0, 0.9), "valid": (0.9, 0.95), "test": (0.95, 1.0)}
"""Where the splits of a text that has none begin and end."""


class Running(NamedTuple):
    """Running text: three splits, each of which can be read as often as one likes."""

    name: str
    splits: Mapping[str, Texts]
    key: str
    """Changes where the content does, and is known without reading it piece by piece."""
    is_valid_tested: bool = False
    """There is no third split: what is tested is valid."""
    n_left_out: int = 0
    """Characters of a header and a footer."""


def read_texts(
    paths: Sequence[Path], shares: Mapping[str, tuple[float, float]] = SHARES
) -> Running:
    """Open text files, which are read one after the other, and cut them into splits."""
    if tables := [str(path) for path in paths if path.suffix in TABLES]:
        raise ValueError(f"{tables[0]} is one of several files; those are to be text files")
    key = " ".join([scan(path)[0] for path in paths] + [str(shares)])
    name = paths[0].name + (f" and {len(paths) - 1} more" if paths[1:] else "")
    splits = cut(partial(_one_after_the_other, paths), shares)
    return Running(name, splits, key, shares["valid"] == shares["test"])


def _one_after_the_other(paths: Sequence[Path]) -> Iterator[str]:
    """Yield the pieces of several files; each but the last ends in a line feed."""
    last = "\n"
    for path in paths:
        if not last.endswith("\n"):
            yield "\n"
        for piece in pieces(path):
            yield piece
            last = piece


def cut(texts: Texts, shares: Mapping[str, tuple[float, float]]) -> dict[str, Texts]:
    """Cut a text into splits, each a share of its characters."""
    size = cache(lambda: sum(map(len, texts())))
    return {split: partial(_between, texts, size, *share) for split, share in shares.items()}


def _between(texts: Texts, size: Callable[[], int], low: float, high: float) -> Iterator[str]:
    start, end, at = int(low * size()), int(high * size()), 0
    for piece in texts():
        if part := piece[max(0, start - at) : max(0, end - at)]:
            yield part
        at += len(piece)
        if at >= end:
            return

"""Readers: parallel corpora and running text, from files as people find them.

Lines end at a line feed and nowhere else. U+0085, U+2028 and form feeds occur inside sentences, and
`str.splitlines`, which cuts there, shifts every later pair of a parallel corpus. What is no text is
refused, with its file and line. No corpus is held in memory: it is read again where it is needed.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import IO, Any, NamedTuple

from seqmodels.utils import files
from seqmodels.utils.terminal import one_line

PIECE = 2**20
"""Bytes of running text that are read at a time, with the rest of the last line."""
MOST_LINE = 2**24
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
    """A parallel corpus, to be read as often as one likes."""

    name: str
    src_lang: str
    tgt_lang: str
    parts: Mapping[str, Pairs]
    """Train, and valid and test where the corpus has them."""
    n: int
    """Rows of train, at most."""
    key: str
    """Changes where the content does, and is known without reading it pair by pair."""
    origins: tuple[str, str] = ("", "")
    """Where the two sides of train are: a file each, or columns of one."""

    def first_lines(self) -> str:
        """Return where each side is read from and what it begins with, in lines for a person."""
        src, tgt, _ = next(self.parts["train"](), Pair("", ""))
        return "\n".join(
            f"{side}: {one_line(origin)}, first line: {glimpse(text)}"
            for side, origin, text in zip(
                ("source", "target"), self.origins, (src, tgt), strict=True
            )
        )

    def pairs(self, *splits: str) -> Iterator[tuple[str, Pair]]:
        """Yield the pairs of some splits, each with its split.

        Valid and test are drawn from train where the corpus has none: about HELD_OUT pairs each, or
        a twentieth of it. A source sentence draws for all its pairs, so that it stands on one side
        only; the draw depends on it alone, but for case and white space, and is always the same.
        """
        drawn = [split for split in SPLITS if split not in self.parts]
        for split in self.parts:
            if split == "train" and drawn:
                share = min(HELD_OUT / self.n, 0.05)
                for pair in self.parts["train"]():
                    place = int(draw(pair.src) / share)
                    if (found := drawn[place] if place < len(drawn) else "train") in splits:
                        yield found, pair
            elif split in splits:
                for pair in self.parts[split]():
                    yield split, pair


def draw(sentence: str) -> float:
    """Return a number from 0 to 1 that looks random and is a sentence's own."""
    same = " ".join(sentence.casefold().split()).encode()
    return int.from_bytes(hashlib.blake2b(same, digest_size=8).digest()) / 2**64


def glimpse(text: str) -> str:
    """Return the beginning of a text on one line that no terminal takes for a command."""
    line = one_line(text[:1_000])
    return f"{line[:79]}…" if len(line) > 80 else line or "(blank)"


# ----------------------------------------------------------------------------------- Languages

ISO_639_1 = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy "
    "da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu "
    "hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb "
    "lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om "
    "or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st su sv "
    "sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh "
    "zu"
)
"""The codes of two letters."""
LANGUAGES = frozenset(ISO_639_1.split())
CODE = re.compile(r"([a-z]{2,3})(?:[-_][A-Z][a-z]{3})?(?:[-_](?:[A-Z]{2}|[0-9]{3}))?")
"""A language, such as `de`, `deu`, `zh-Hans`, `eng_Latn` or `pt_BR`."""
NO_CODES = ("txt", "src", "tgt", "trg", "ref", "hyp", "tok", "bpe", "raw", "low", "out", "new")
"""Endings of three letters that say what a file is, not its language."""


def is_language(name: str) -> bool:
    """Return whether a name is a language's code; any three letters may be one."""
    if (found := CODE.fullmatch(name)) is None or name in NO_CODES:
        return False
    return len(found[1]) == 3 or found[1] in LANGUAGES


# ----------------------------------------------------------------------------------- Text files


@contextmanager
def _opened(path: str | Path, takes_pipe: bool = False) -> Iterator[IO[bytes]]:
    """Open a text file; raise ValueError that names it where it cannot be read."""
    try:
        with files.opened(Path(path), takes_pipe) as file:
            yield file
    except FileNotFoundError as fault:
        raise ValueError(f"{path} does not exist; give the path of a UTF-8 text file") from fault
    except OSError as fault:
        raise ValueError(f"{path} cannot be read: {fault.strerror}") from fault


def lines(path: str | Path, takes_pipe: bool = False) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, without their LF or CRLF and without a byte-order mark.

    Raises ValueError that names file and line for what is no text.
    """
    n = 0
    with _opened(path, takes_pipe) as file:
        for n in count(1):
            raw = file.readline(MOST_LINE + 1)
            if n == 1:
                raw = raw.removeprefix(codecs.BOM_UTF8)
            if not raw:
                break
            yield _line(path, n, raw)
    if n == 1:
        raise ValueError(f"{path} is empty")


def _line(path: str | Path, n: int, raw: bytes) -> str:
    """Return a line's text."""
    if len(raw) > MOST_LINE:
        raise ValueError(f"{path}, line {n}: more than {MOST_LINE:,} bytes")
    text = _piece(path, n, raw, lambda raw, _: raw.decode())
    return text.removesuffix("\n").removesuffix("\r")


def read_lines(path: str | Path, takes_pipe: bool = False) -> list[str]:
    """Return the `lines` of a file."""
    return list(lines(path, takes_pipe))


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file, with LF for CRLF and without a byte-order mark."""
    return "".join(pieces(path))


def pieces(path: str | Path) -> Iterator[str]:
    """Yield the text of a UTF-8 file, with LF for CRLF and without a byte-order mark.

    It comes in pieces that end where lines do, unless a line is longer than PIECE. Raises
    ValueError that names file and line for what is no text.
    """
    decode, n, is_empty = codecs.getincrementaldecoder("utf-8-sig")().decode, 1, True
    with _opened(path) as file:
        while raw := file.read(PIECE) + file.readline(PIECE):
            raw += file.read(1) if raw.endswith(b"\r") else b""
            text = _piece(path, n, raw, decode)
            is_empty, n = is_empty and not text, n + text.count("\n")
            yield text.replace("\r\n", "\n")
        _piece(path, n, b"", decode)
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
    with _opened(path) as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
            n, last = n + chunk.count(b"\n"), chunk[-1:]
    if not n and last == b"\n":
        raise ValueError(f"{path} is empty")
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

TABLES = (".tsv", ".csv", ".jsonl", ".json", ".parquet")
"""Endings of files with a row for a pair, or for a text."""


def read_folder(
    folder: Path, languages: Sequence[str | None], called: Mapping[str, str]
) -> Parallel:
    """Open a folder of `SPLIT.LANG`. Line n of one file translates line n of the other."""
    codes = _languages(folder)
    src_lang, tgt_lang = directed(codes, languages, str(folder))
    names = {s: called.get(s) or _name_of(folder, s, codes) for s in SPLITS}
    paths = [folder / f"{names[split]}.{code}" for split in SPLITS for code in codes]
    if missing := [path.name for path in paths if not path.exists()]:
        needed = ", ".join(path.name for path in paths)
        raise ValueError(f"{folder} has no {', '.join(missing)}; needed: {needed}")
    parts, keys, sizes = {}, [], []
    for split in SPLITS:
        src, tgt = (folder / f"{names[split]}.{code}" for code in (src_lang, tgt_lang))
        parts[split], n, key = _side_by_side(src, tgt)
        keys.append(key)
        sizes.append(n)
    src_file, tgt_file = (str(folder / f"{names['train']}.{code}") for code in (src_lang, tgt_lang))
    name, key = folder.resolve().name, " ".join(keys)
    return Parallel(name, src_lang, tgt_lang, parts, sizes[0], key, (src_file, tgt_file))


def read_two_files(paths: Sequence[Path], languages: Sequence[str | None]) -> Parallel:
    """Open two text files: the source and its translation, unless languages say it otherwise.

    Languages choose between files whose names tell theirs, and name those of other files. Raises
    ValueError where they contradict the names of the files.
    """
    where = " with ".join(map(str, paths))
    codes = [_language_of(path, languages) for path in paths]
    if any(languages) and codes[0] == codes[1] is not None:
        raise ValueError(
            f"{where} has {codes[0]!r} twice, so that --source and --target cannot tell which is "
            "which; leave these out: the first is the source"
        )
    if codes == [None, None]:
        named = list(languages)
        for code in named:
            if code is not None and not is_language(code):
                raise ValueError(f"{code!r} is not a language's code, such as de, deu or pt_BR")
    else:
        others = [code for code in languages if code not in (None, *codes)] or [None]
        named = [code or others[0] for code in codes]
    found = [name or path.name for name, path in zip(named, paths, strict=True)]
    if any(languages):
        src_lang, tgt_lang = directed(found, languages, where)
    else:
        src_lang, tgt_lang = found
    src, tgt = paths if src_lang == found[0] else reversed(paths)
    pairs, n, key = _side_by_side(src, tgt)
    parts = {"train": pairs}
    return Parallel(src.stem, src_lang, tgt_lang, parts, n, key, (str(src), str(tgt)))


def _language_of(path: Path, languages: Sequence[str | None]) -> str | None:
    """Return the last part of a file's name that is a language, or one of those; else None."""
    stem, *parts = path.name.split(".")
    parts = [stem, *parts] if stem in LANGUAGES else parts
    return next((part for part in parts[::-1] if is_language(part) or part in languages), None)


def _side_by_side(src: Path, tgt: Path) -> tuple[Pairs, int, str]:
    """Return the pairs of two text files, how many there are, and their key."""
    (src_sum, n_src), (tgt_sum, n_tgt) = scan(src), scan(tgt)
    if n_src != n_tgt:
        raise ValueError(
            f"{src} has {n_src:,} lines and {tgt} has {n_tgt:,}; "
            "line n of one must translate line n of the other"
        )
    if all(a == b for a, b in zip(lines(src), lines(tgt), strict=True)):
        raise ValueError(f"{src} and {tgt} hold the same text; one must translate the other")
    return partial(_pairs, src, tgt), n_src, f"{src_sum} {tgt_sum}"


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
    if len(found) < 2:
        raise ValueError(f"{where} has no two columns of text, but {', '.join(found) or 'none'}")
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


# ---------------------------------------------------------------------------------- Tables

ROWS = (".tsv", ".csv", ".jsonl")
"""Endings of tables that are text; `hub` reads the others."""


class Header(NamedTuple):
    """How the columns of a table are called."""

    names: list[str]
    is_in_file: bool
    """The first line holds names, if not these; else the first row."""


NAMES = (
    "source target src tgt trg translation text sentence eng deu ger fra fre spa ita por rus nld "
    "ces pol tur ara zho chi jpn kor vie english german french spanish italian portuguese russian "
    "dutch czech polish turkish arabic chinese japanese korean vietnamese"
)
KNOWN = LANGUAGES.union(NAMES.split())
"""What a column may be called, in lower case, so that a header is seen to be one."""


def header(path: Path, asked: Sequence[str | None], n_known: int = 2) -> Header:
    """Return how the columns of a TSV or CSV file are called.

    The first line is a header if one of its cells is asked for by its name, or `n_known` of them
    are KNOWN. Columns that are asked for by number, and those of a file without a header, are
    called 1, 2, … Raises ValueError where neither is known to be so: a header that is not one would
    cost a row, and a row that is a header would be learned.
    """
    first = next((cells for _, cells in _cells(path) if any(cells)), [])
    is_in_file = any(name in first for name in asked)
    is_in_file |= sum(cell.strip().lower() in KNOWN for cell in first) >= n_known
    if any(name is not None and name.isdecimal() and name not in first for name in asked):
        return Header([str(i) for i in range(1, len(first) + 1)], is_in_file)
    if not is_in_file and len(first) >= n_known:
        flags = ("--source", "--target") if n_known == 2 else ("--column",)
        numbered = " ".join(f"{flag} {i}" for i, flag in enumerate(flags, 1))
        raise ValueError(
            f"{path} begins with {glimpse(' | '.join(first))}; if these are names of columns, give "
            f"those that you want with {' and '.join(flags)}, if not, their numbers: {numbered}"
        )
    if len(set(first)) < len(first):
        raise ValueError(f"{path}, line 1: a name twice in the header; {NO_HEADER}")
    return Header(first, True)


def rows(path: Path, header: Header | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line and the cells of each row of a TSV, CSV or JSONL file.

    TSV knows no quotation marks. Blank lines are passed over. Raises ValueError that names file and
    line.
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
                f"{path}, line {line}: {len(row)} columns, where the first line has {len(names)}"
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


NO_HEADER = "where a file has no header, number its columns: --source 1 --target 2"


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for n, line in enumerate(lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as fault:
            raise ValueError(f"{path}, line {n}: not JSON: {fault}") from fault
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {n}: no object with names and texts")
        if SURROGATE.search(line) and not is_utf8(json.dumps(row, ensure_ascii=False)):
            raise ValueError(f"{path}, line {n}: half a surrogate pair, which is not a character")
        yield n, row


SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""As JSON writes one half of a pair."""


def is_utf8(text: str) -> bool:
    """Return whether UTF-8 can hold a text: not half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_table(path: Path, languages: Sequence[str | None]) -> Parallel:
    """Open a table that has train alone."""
    head = header(path, languages) if path.suffix != ".jsonl" else None
    first = next(rows(path, head), None)
    if first is None:
        raise ValueError(f"{path} has no row")
    found = translations(first[1]) or [name for name, cell in first[1].items() if is_text(cell)]
    where = str(path) if path.suffix == ".jsonl" else f"{path} ({NO_HEADER})"
    src_lang, tgt_lang = directed(found, languages, where)
    digest, n = scan(path)
    parts = {"train": partial(_table_pairs, path, head, src_lang, tgt_lang)}
    origins = f"{path}, column {src_lang}", f"{path}, column {tgt_lang}"
    return Parallel(path.stem, src_lang, tgt_lang, parts, n, digest, origins)


def translations(row: Mapping[str, Any]) -> list[str]:
    """Return the languages of a row that holds its texts in `translation`, as the hub's sets do."""
    inner = row.get("translation")
    return [*inner] if isinstance(inner, dict) else []


def is_text(cell: Any) -> bool:
    """Return whether a cell may be a side: a text, or nothing."""
    return cell is None or isinstance(cell, str)


def _table_pairs(path: Path, head: Header | None, src_lang: str, tgt_lang: str) -> Iterator[Pair]:
    for n, row in rows(path, head):
        inner = row.get("translation")
        cells = inner if isinstance(inner, dict) else row
        src, tgt = cells.get(src_lang), cells.get(tgt_lang)
        if not (is_text(src) and is_text(tgt)):
            name = src_lang if not is_text(src) else tgt_lang
            raise ValueError(f"{path}, line {n}: {name!r} is no text")
        yield Pair(src or "", tgt or "", n)


# ------------------------------------------------------------------------- Official test sets


def official(test: str, src_lang: str, tgt_lang: str) -> Pairs:
    """Return a test set that sacreBLEU knows, such as `wmt14` or `iwslt17`; it fetches it once.

    Raises ValueError for one that it does not know, or cannot have now.
    """
    from sacrebleu import utils

    pair = f"{src_lang}-{tgt_lang}"
    if test not in utils.get_available_testsets():
        raise ValueError(f"{test!r} is no test set of sacreBLEU's; `sacrebleu --list` names them")
    if pair not in utils.get_langpairs_for_testset(test):
        known = ", ".join(sorted(utils.get_langpairs_for_testset(test)))
        raise ValueError(f"sacreBLEU's {test} has no {pair}, but {known}")
    try:
        src, (tgt, *_) = utils.get_source_file(test, pair), utils.get_reference_files(test, pair)
    except (Exception, SystemExit) as fault:  # of one of several network libraries
        raise ValueError(
            f"sacreBLEU cannot fetch {test} {pair}; without network put its files into the folder "
            "that SACREBLEU names (default ~/.sacrebleu), or leave out --test"
        ) from fault
    return _side_by_side(Path(src), Path(tgt))[0]


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
    origin: str = ""
    """Where it is read from."""

    def first_line(self) -> str:
        """Return where the text is read from and its first line with text, for a person."""
        found = (line for piece in self.splits["train"]() for line in piece.split("\n"))
        first = next((line for line in found if line.strip()), "")
        return f"text: {one_line(self.origin)}, first line: {glimpse(first)}"


def read_texts(
    paths: Sequence[Path], shares: Mapping[str, tuple[float, float]] = SHARES
) -> Running:
    """Open text files, which are read one after the other, and cut them into splits."""
    if tables := [str(path) for path in paths if path.suffix in TABLES]:
        raise ValueError(f"{tables[0]} is one of several files; those are to be text files")
    framed = [path for path in paths if is_framed(path)]
    n_left_out = sum(sum(map(len, pieces(path))) - sum(map(len, unframed(path))) for path in framed)
    key = " ".join([scan(path)[0] for path in paths] + [str(shares)])
    name = paths[0].name + (f" and {len(paths) - 1} more" if paths[1:] else "")
    read = [partial(unframed if path in framed else pieces, path) for path in paths]
    splits = cut(partial(_one_after_the_other, read), shares)
    origin = str(paths[0]) + name.removeprefix(paths[0].name)
    return Running(name, splits, key, shares["valid"] == shares["test"], n_left_out, origin)


MARK = re.compile(
    r"^(?:\*\*\* ?(START|END) OF TH|End of (?:the )?Project Gutenberg)[^\n]*\n?", re.MULTILINE
)
"""A line that begins or ends a book of Project Gutenberg."""


def is_framed(path: Path) -> bool:
    """Return whether a file has Project Gutenberg's header before a text, or before several."""
    return any(found[1] == "START" for piece in pieces(path) for found in MARK.finditer(piece))


def unframed(path: Path) -> Iterator[str]:
    """Yield the books of a file, each in one piece, without Project Gutenberg's frames."""
    is_in, book = False, list[str]()
    for piece in pieces(path):
        start = 0
        for found in MARK.finditer(piece):
            if is_in:
                yield "".join([*book, piece[start : found.start()]])
            is_in, start, book = found[1] == "START", found.end(), []
        if is_in:
            book.append(piece[start:])
    if is_in:
        yield "".join(book)


def _one_after_the_other(files: Sequence[Texts]) -> Iterator[str]:
    """Yield the pieces of several files; each but the last ends in a line feed."""
    last = "\n"
    for read in files:
        if not last.endswith("\n"):
            yield "\n"
        for piece in read():
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

"""Corpora from files, folders and the hub: pairs of sentences, and running text.

A corpus is not held in memory, but read from its beginning whenever it is needed. Lines end at LF
or CRLF and nowhere else: U+0085, U+2028 and form feeds occur inside sentences. Cells are texts as
they are written, so Python reads CSV and JSON: `datasets` drops the last cells of a row that is too
long, and rewrites dates. It reads Parquet and the hub.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, count, islice, zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

from seqmodels.data import SPLITS, corpora
from seqmodels.utils.terminal import one_line, printable

CHUNK = 10_000
"""Lines of running text that are encoded together."""
MAX_HELD_OUT = 2_000
"""Pairs of valid, and of test, if a corpus has only train; at most a twentieth of it each."""
SPLIT_NAMES = {
    "train": ("train",),
    "valid": ("valid", "validation", "val", "dev"),
    "test": ("test", "test_2016_flickr"),
}
"""What files and the hub call a split; Multi30k has several test sets."""
Languages = Sequence[str | None]
"""Languages of source and target; None where one follows from the data."""
Reader = Callable[[], Iterator[Any]]
"""Read a split from its beginning: its pairs, or pieces of its text."""


class Pair(NamedTuple):
    """One sentence and its translation."""

    src: str
    tgt: str


class Corpus(NamedTuple):
    """Pairs of sentences or running text, in splits."""

    name: str
    splits: Mapping[str, Reader]
    key: str
    """Changes whenever the content does; known without reading it."""
    origins: Sequence[str]
    """The files, columns or dataset that the corpus is read from."""
    languages: Sequence[str] = ()
    """Languages of source and target; none for running text."""

    def first_lines(self) -> str:
        """Describe the origins, and the beginning of each split."""
        lines = [one_line(", ".join(self.origins))]
        for split in SPLITS:
            if read := self.splits.get(split):
                first = next(read(), "")
                sides = first if isinstance(first, Pair) else [first.partition("\n")[0]]
                lines.append(f"{split} begins with: {' → '.join(map(preview, sides))}")
            else:
                lines.append(f"{split}: drawn from train")
        return "\n".join(lines)

    def pairs(self) -> Iterator[tuple[str, Pair]]:
        """Yield all pairs, each with its split.

        Valid and test are drawn from train if the corpus lacks them: about MAX_HELD_OUT pairs each,
        or a twentieth of it. The draw depends only on the source, ignoring case, white space and
        Unicode's normal form: all pairs with the same source sentence are in the same split.
        """
        lacking = [split for split in SPLITS if split not in self.splits]
        n = count_pairs(self.splits["train"]) if lacking else 0
        share = min(MAX_HELD_OUT / max(1, n), 0.05)
        for split, read in self.splits.items():
            drawn = lacking if split == "train" else []
            for pair in read():
                place = int(uniform_hash(pair.src) / share) if drawn else 0
                yield drawn[place] if place < len(drawn) else split, pair


@cache
def count_pairs(read: Reader) -> int:
    """Return the number of pairs of a split."""
    return sum(1 for _ in read())


def uniform_hash(sentence: str) -> float:
    """Return a pseudorandom number from 0 to 1 that depends only on the sentence."""
    same = " ".join(unicodedata.normalize("NFC", sentence).casefold().split()).encode()
    return int.from_bytes(hashlib.blake2b(same, digest_size=8).digest()) / 2**64


def is_blank(text: str) -> bool:
    """Return whether a text is white space, or marks that are not printed, such as U+200B."""
    return not any(map(str.isprintable, text.replace(" ", "")))


def preview(text: str) -> str:
    """Return the beginning of a text on one line, with unprintable characters escaped."""
    line = one_line(text[:1_000])
    return f"{line[:79]}…" if len(line) > 80 else line or "(blank)"


def fingerprint(path: Path) -> str:
    """Return what changes whenever a file does; raise ValueError if it is none, or is empty."""
    if not path.is_file() or not (stat := path.stat()).st_size:
        fault = "is empty" if path.is_file() else "is not a file" if path.exists() else "is missing"
        raise ValueError(f"{path} {fault}")
    return printable(f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns} {stat.st_ino}")


# ------------------------------------------------------------------------------------------ Lines


def decode_lines(file: Iterable[bytes], name: str | Path) -> Iterator[str]:
    """Yield the lines of UTF-8, with LF for CRLF, and without a byte-order mark.

    Raises ValueError that names the line of anything else, and of a CR that ends no line.
    """
    for n, raw in enumerate(file, 1):
        try:
            line = raw.removeprefix(b"\xef\xbb\xbf" if n == 1 else b"").decode()
        except UnicodeDecodeError as fault:
            usual = "UTF-32" if b"\0\0" in raw[:4] else "UTF-16" if 0 in raw else "WINDOWS-1252"
            remedy = f"convert the file; if it is {usual}, with iconv -f {usual} -t UTF-8"
            remedy = "unpack the file" if raw.startswith((b"\x1f\x8b", b"PK")) else remedy
            raise ValueError(
                f"{name}, line {n}: byte 0x{raw[fault.start]:02x} is not UTF-8; {remedy}"
            ) from fault
        line = line.replace("\r\n", "\n")
        if "\r" in line or "\0" in line:
            raise ValueError(
                f"{name}, line {n}: a CR or a zero byte inside the line; convert lines that end in "
                "CR alone with tr '\\r' '\\n', and UTF-16 with iconv -f UTF-16 -t UTF-8"
            )
        yield line


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file; raises as `decode_lines` does."""
    fingerprint(path)
    with path.open("rb") as file:
        for line in decode_lines(file, path):
            yield line.removesuffix("\n")


# ------------------------------------------------------------------------------------------- Rows

Row = Mapping[str, Any]
Rows = Iterator[tuple[str, Row]]
"""The place of each row, such as `a.csv, line 3`, and its cells."""
RowReader = Callable[[], Rows]
QUOTED = re.compile(r'"((?:[^"]|"")*)"')
"""A cell in quotes, which are doubled inside."""


def split_tsv(line: str) -> list[str]:
    """Return the cells of a line of TSV; quotes that are not round a whole cell belong to it."""
    cells = [(QUOTED.fullmatch(cell), cell) for cell in line.split("\t")]
    return [quoted[1].replace('""', '"') if quoted else cell for quoted, cell in cells]


def read_csv(path: Path) -> Rows:
    """Yield the rows of a CSV or TSV file, whose first line names the columns.

    A row is one line; blank ones are none. CSV has commas, or semicolons if its header has no
    comma; Excel can say which, in a line before the header.
    """
    names, mark = list[str](), "\t" if path.suffix.lower() == ".tsv" else ""
    for n, line in enumerate(read_lines(path), 1):
        place = f"{path}, line {n}"
        is_mark = n == 1 and line in ("sep=,", "sep=;", "sep=\t")
        if is_mark or not line:
            mark = line[-1:] or mark
            continue
        mark = mark or ("," if "," in line else ";")
        try:
            options: Any = {"delimiter": mark, "strict": True, "skipinitialspace": True}
            cells = split_tsv(line) if mark == "\t" else [*chain(*csv.reader([line], **options))]
        except csv.Error as fault:
            raise ValueError(f"{place}: {fault}; a row is one line, with closed quotes") from fault
        cells = [cell.strip() for cell in cells]
        if not names:
            names = cells
        elif len(cells) != len({*names}):
            raise ValueError(f"{place}: {len(cells)} cells, but columns {', '.join(names)}")
        else:
            yield place, dict(zip(names, cells, strict=True))


def read_json(path: Path) -> Rows:
    """Yield the rows of a file with an object in each line; numbers stay as they are written."""
    for n, line in enumerate(read_lines(path), 1):
        place = f"{path}, line {n}"
        try:
            row = json.loads(line, parse_int=str, parse_float=str) if line.strip() else {}
            if "\\u" in line:  # can write half a letter
                json.dumps(row, ensure_ascii=False).encode()
        except ValueError as fault:
            raise ValueError(f"{place}: not JSON in one line: {fault}") from fault
        if not isinstance(row, dict):
            raise ValueError(f"{place}: not an object with names and texts, one a line")
        if row:
            yield place, row


def read_text_rows(path: Path) -> Rows:
    """Yield the lines of a text file as the column `text`."""
    return ((f"{path}", {"text": line}) for line in read_lines(path))


def read_parquet(path: Path) -> Rows:
    """Yield the rows of a Parquet file."""
    with corpora.explain_errors(str(path)):
        loaded = corpora.import_datasets().load_dataset(
            "parquet", data_files=str(path), split="train", streaming=True
        )
    return read_dataset(loaded, str(path))


def read_dataset(loaded: Any, name: str) -> Rows:
    """Yield the rows of a split of `datasets`."""
    batches = loaded.with_format("arrow").iter(1_000)
    for start in count(1, 1_000):
        with corpora.explain_errors(name):
            batch = next(batches, None)
        if batch is None:
            return
        for n, row in enumerate(batch.to_pylist(), start):
            yield f"{name}, row {n}", row


TABLES: dict[str, Callable[[Path], Rows]] = {
    ".csv": read_csv, ".tsv": read_csv, ".jsonl": read_json, ".json": read_json,
    ".parquet": read_parquet,
}  # fmt: skip
"""The reader of each kind of table, by the ending of its file."""


def open_rows(data: str, limit: int | None) -> tuple[dict[str, RowReader], str, str]:
    """Return what reads the rows of each split of a table, a folder or a dataset, key and origin.

    With `limit`, as many rows of train are streamed, shuffled in a buffer. A single split is train.
    """
    path, readers, origin = Path(data), dict[str, RowReader](), data
    if limit and path.is_file():
        raise ValueError("--limit applies to datasets of the hub; a file is read whole")
    if path.exists() and not limit:
        paths = {"train": [path]} if path.is_file() else find_files(path)
        if path.is_dir():  # up to nine files of each split are named
            origin += "".join(f"; {s}: {', '.join(p.name for p in paths[s][:9])}" for s in paths)
        key = " ".join(map(fingerprint, chain.from_iterable(paths.values())))
        readers = {split: partial(read_tables, files) for split, files in paths.items()}
    else:
        loaded = corpora.load_dataset(data, limit)
        key = f"{data} {limit} {[getattr(rows, '_fingerprint', '') for rows in loaded.values()]}"
        readers = {split: partial(read_dataset, rows, data) for split, rows in loaded.items()}
    if len(readers) == 1:
        return {"train": next(iter(readers.values()))}, key, origin
    named = {
        split: readers[name] for split in SPLITS for name in SPLIT_NAMES[split] if name in readers
    }
    if "train" not in named:
        raise ValueError(f"{data} has no split train, but {', '.join(readers)}")
    return named, key, origin


def find_files(folder: Path) -> dict[str, list[Path]]:
    """Return the files of each split of a folder, by the word that begins their name or folder's.

    If no name begins with a split, all files are train's; if some do, ValueError names another.
    """
    splits, names = dict[str, list[Path]](), {n: s for s in SPLITS for n in SPLIT_NAMES[s]}
    for path in sorted(folder.rglob("[!.]*")):
        if path.suffix.lower() in (*TABLES, ".txt"):
            parts = path.relative_to(folder).as_posix().lower().split("/")
            words = (names.get(re.split(r"[\W_]", part)[0]) for part in parts)
            splits.setdefault(next(filter(None, words), ""), []).append(path)
    if not splits:
        raise ValueError(f"{folder} has neither train.LANG of two languages, nor a .txt or a table")
    if len(splits) > 1 and "" in splits:
        raise ValueError(f"{splits[''][0]} is of no split; begin its name with one, such as train")
    return splits if "" not in splits else {"train": splits[""]}


def read_tables(paths: Sequence[Path]) -> Rows:
    """Yield the rows of files in their order; each line of a file that is not a table is a row."""
    for path in paths:
        yield from TABLES.get(path.suffix.lower(), read_text_rows)(path)


def flatten(row: Row) -> Row:
    """Return a row's cells: those of its column `translation`, as on the hub, if it has one."""
    both = row.get("translation")
    return both if isinstance(both, dict) else row


def first_row(read: RowReader, name: str) -> Row:
    """Return the cells of the first row; raise ValueError if there is none."""
    for _, row in read():
        return flatten(row)
    raise ValueError(f"{name} has no rows")


def read_texts(
    read: RowReader, columns: Sequence[str], combine: Callable[..., Any]
) -> Iterator[Any]:
    """Yield the texts of some columns, combined, blank where null; raise ValueError for others."""
    for place, row in read():
        cells = flatten(row)
        for column in columns:
            if not isinstance(cells.get(column, 0), str | None):
                fault = "is not a text" if column in cells else f"is missing: {', '.join(cells)}"
                raise ValueError(f"{place}: {column!r} {fault}")
        yield combine(*(cells[column] or "" for column in columns))


# -------------------------------------------------------------------------------- Parallel text

LANGUAGE = re.compile(r"[a-z]{2}(?:[-_]\w+)?|[a-z]{3}_[A-Z][a-z]{3}")
"""The code of a language, such as `de`, `zh-Hans`, `pt_BR` or `eng_Latn`."""
TAG = re.compile(r"\s*<(?:!|[/?]?[^\W\d])[^<>]*>(?:.*</[^<>]*>)?\s*")
"""A line that is a tag, or a text between two."""


def choose_sides(
    names: Sequence[str], candidates: Sequence[str], languages: Languages, origin: str
) -> tuple[str, str]:
    """Return the names of source and target: those asked for, and the only candidates left.

    Raises ValueError if one asked for is missing, or if there are not exactly enough candidates.
    """
    listed = f"{origin} has {', '.join(map(preview, names))}"
    given = [name for name in languages if name]
    if len(names) == 1:
        raise ValueError(
            f"{listed} alone; give two text files, or a table whose cells are separated by tabs "
            "(.tsv), or by commas or semicolons (.csv)"
        )
    for name in given:
        if name not in names:
            raise ValueError(f"{listed}; there is no {name!r}")
    left = [name for name in candidates if name not in given] if None in languages else []
    if len({*given, *left}) != 2:
        raise ValueError(f"{listed}; name two columns or languages with --source and --target")
    src, tgt = (name or left.pop(0) for name in languages)
    return src, tgt


def open_pairs(
    data: Sequence[str], languages: Languages = (None, None), limit: int | None = None
) -> Corpus:
    """Open parallel text: two files, a folder of SPLIT.LANG, a table, a dataset, or a known name.

    languages   of source and target: the endings of text files, or the names of columns; None: the
                first of two files, the alphabetically first of a folder's two languages, or the
                columns that are named by languages, in their order
    limit       pairs of train to stream from a dataset of the hub, instead of all

    docs/data.md has the details. Raises ValueError.
    """
    if len(data) > 2:
        raise ValueError(f"{len(data)} files were given; a parallel corpus has two")
    if len(data) == 2:
        return open_two_files(Path(data[0]), Path(data[1]), languages)
    name, place = data[0], corpora.locate(data[0])
    path = Path(place)
    if path.is_file() and path.suffix.lower() not in TABLES:
        raise ValueError(
            f"{path} is not a table ({', '.join(TABLES)}): give two text files, or name it .tsv if "
            "there are tabs, and a first line that names the columns"
        )
    if path.is_dir() and len(sides := find_sides(path, "train")) > 1:
        opened = open_folder(path, sides, languages)
    else:
        opened = open_table(place, languages, limit)
    return opened._replace(name=name if name in corpora.PARALLEL else opened.name)


def label_files(src: Path, tgt: Path) -> list[str]:
    """Return the last part of two paths in which they differ, such as `de` and `en`."""
    parts = [re.split(r"[/\\.]", str(path.resolve()))[::-1] for path in (src, tgt)]
    return next(([a, b] for a, b in zip(*parts, strict=False) if a != b), [src.name, tgt.name])


def open_two_files(src: Path, tgt: Path, languages: Languages) -> Corpus:
    """Open two text files: the source and its translation, unless the languages say otherwise."""
    labels = label_files(src, tgt)
    paths = dict(zip(labels, (src, tgt), strict=True))
    if len(paths) < 2:
        raise ValueError(f"{src} is given twice; one file must translate the other")
    if tables := [path for path in (src, tgt) if path.suffix.lower() in TABLES]:
        raise ValueError(f"{tables[0]} is a table; give one table, or two text files")
    chosen = choose_sides(labels, labels, languages, f"{src} with {tgt}")
    sides = {"train": (paths[chosen[0]], paths[chosen[1]])}
    return corpus_of_files(sides["train"][0].stem, chosen, sides)


def find_sides(folder: Path, split: str) -> dict[str, Path]:
    """Return a split's text files in a folder, by what follows their split's name."""
    for name in SPLIT_NAMES[split]:
        found = {path.name.removeprefix(f"{name}."): path for path in folder.glob(f"{name}.*")}
        if sides := {lang: found[lang] for lang in sorted(found) if f".{lang}" not in TABLES}:
            return sides
    return {}


def open_folder(folder: Path, train: Mapping[str, Path], languages: Languages) -> Corpus:
    """Open a folder of `SPLIT.LANG`; raise ValueError for a split with one side alone."""
    chosen = choose_sides([*train], [*train], languages, str(folder))
    paths: dict[str, tuple[Path, Path]] = {}
    for split in SPLITS:
        sides = find_sides(folder, split)
        if lacking := [language for language in chosen if language not in sides]:
            if len(lacking) == 1:
                raise ValueError(f"{folder} has no {split}.{lacking[0]}, but one side of {split}")
            continue
        paths[split] = sides[chosen[0]], sides[chosen[1]]
    return corpus_of_files(folder.resolve().name, chosen, paths)


def corpus_of_files(
    name: str, languages: tuple[str, str], paths: Mapping[str, tuple[Path, Path]]
) -> Corpus:
    """Return the corpus whose splits are two text files each; raise ValueError for markup."""
    splits = {split: partial(read_line_pairs, *sides) for split, sides in paths.items()}
    key = " ".join(map(fingerprint, chain.from_iterable(paths.values())))
    for path in chain.from_iterable(paths.values()):
        check_text(read_lines(path), f"{path}, line")
    return Corpus(name, splits, key, [*map(str, paths["train"])], languages)


def check_text(lines: Iterable[str], origin: str) -> None:
    """Raise ValueError, with its number, if one of the first lines is markup."""
    for n, line in enumerate(islice(lines, N_SAMPLED), 1):
        if TAG.fullmatch(line):
            raise ValueError(f"{origin} {n} is markup, {preview(line)}; give text alone")


def read_line_pairs(src: Path, tgt: Path) -> Iterator[Pair]:
    """Yield the pairs of two text files; raise ValueError if one has more lines than the other."""
    for source, target in zip_longest(read_lines(src), read_lines(tgt)):
        if source is None or target is None:
            n_src, n_tgt = (sum(1 for _ in read_lines(path)) for path in (src, tgt))
            raise ValueError(
                f"{src} has {n_src:,} lines and {tgt} has {n_tgt:,}; "
                "line n of one must translate line n of the other"
            )
        yield Pair(source, target)


def open_table(data: str, languages: Languages, limit: int | None = None) -> Corpus:
    """Open a table, a folder of tables, or a dataset on the hub, with a column for each side."""
    readers, key, origin = open_rows(data, limit)
    names = [*first_row(readers["train"], data)]
    chosen = choose_sides(names, [*filter(LANGUAGE.fullmatch, names)], languages, data)
    sample = [*islice(read_texts(readers["train"], chosen, Pair), N_SAMPLED)]
    for name, cells in zip(chosen, zip(*sample, strict=True), strict=True):
        check_text(cells, f"{data}, column {name}, text")
    if None in languages and any(all(map(LANGUAGE.fullmatch, pair)) for pair in sample):
        raise ValueError(
            f"{data}: are {' and '.join(chosen)} columns, or words of a first row? Choose with "
            "--source and --target, or write a first line that names the columns"
        )
    splits = {split: partial(read_texts, rows, chosen, Pair) for split, rows in readers.items()}
    origins = [origin, f"columns {' and '.join(chosen)}"]
    return Corpus(Path(data.partition(":")[0]).stem, splits, key, origins, chosen)


# ---------------------------------------------------------------------------------- Running text


def open_text(data: Sequence[str], column: str | None = None, limit: int | None = None) -> Corpus:
    """Open running text: a file, a table or a dataset of documents, or a known name.

    column   the column of the documents; None: `text` or `sentence`, or the only one
    limit    rows of train to stream from a dataset of the hub, instead of all

    Without splits, a text is cut. If it has no valid or no test, the other one serves as both.
    Raises ValueError.
    """
    if len(data) > 1:
        raise ValueError("give one text, or a folder with train.txt, valid.txt and test.txt")
    place = Path(corpora.locate(data[0]))
    preset = corpora.TEXT.get(data[0])
    if place.is_file() and place.suffix.lower() not in TABLES:
        if column or limit:
            raise ValueError("--column and --limit apply to tables; a text is read whole")
        splits: Mapping[str, Reader] = {"train": partial(read_book, place)}
        opened = Corpus(place.name, splits, fingerprint(place), [str(place)])
    else:
        readers, key, origin = open_rows(str(place), limit)
        chosen = find_column([*first_row(readers["train"], str(place))], column, str(place))
        splits = {
            split: partial(read_texts, rows, [chosen], lambda text: text.removesuffix("\n") + "\n")
            for split, rows in readers.items()
        }
        opened = Corpus(place.stem, splits, f"{key} {chosen}", [origin, f"column {chosen}"])
    train, *held_out = opened.splits.values()
    if held_out:
        splits = {"train": train, "valid": held_out[0], "test": held_out[-1]}
    else:
        splits = cut_text(train, preset.shares if preset else corpora.SHARES)
    return opened._replace(splits=splits, name=data[0] if preset else opened.name)


def find_column(names: Sequence[str], column: str | None, origin: str) -> str:
    """Return the column of the texts; raise ValueError if it is unclear."""
    wanted = [column] if column else ["text", "sentence", *(names if len(names) == 1 else [])]
    for name in wanted:
        if name in names:
            return name
    raise ValueError(f"{origin} has {', '.join(map(preview, names))}; choose one with --column")


def cut_text(text: Reader, shares: Mapping[str, tuple[float, float]]) -> dict[str, Reader]:
    """Cut a text into splits, each a share of its characters; the same share is the same split."""
    size = cache(lambda: sum(map(len, text())))

    def read(low: float, high: float) -> Iterator[str]:
        start, end, n = int(low * size()), int(high * size()), 0
        for piece in text():
            if part := piece[max(0, start - n) : max(0, end - n)]:
                yield part
            n += len(piece)
            if n >= end:
                return

    readers = {share: partial(read, *share) for share in shares.values()}
    return {split: readers[share] for split, share in shares.items()}


START = re.compile(r"^\*\*\* ?START OF TH.*\n", re.MULTILINE)
END = re.compile(r"^(?:\*\*\* ?END OF TH|End of (?:the )?Project Gutenberg)", re.MULTILINE)
"""Lines round a book of Project Gutenberg."""


def read_book(path: Path) -> Iterator[str]:
    """Yield a text in chunks of whole lines; of Project Gutenberg, the book alone."""
    with path.open("rb") as file:
        lines = decode_lines(file, path)
        chunks = iter(lambda: "".join(islice(lines, CHUNK)), "")
        first = next(chunks)
        if start := START.search(first):
            book = "".join([first[start.end() :], *chunks])
            end = END.search(book)
            yield book[: end.start()] if end else book
        else:
            yield first
            yield from chunks


# ---------------------------------------------------------------------------------------- Scripts
#
#     Chinese, Japanese, Thai, Lao, Khmer, Burmese and Tibetan have no spaces between words: there,
#     each letter counts as a word, as word processors count them.

HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003347f"
KANA = "\u3041-\u3096\u30a1-\u30fa\u31f0-\u31ff\uff66-\uff9d"
OTHERS = "\u0e01-\u0e46\u0e81-\u0ec6\u0f40-\u0fbc\u1000-\u109f\u1780-\u17b3"
HANGUL = re.compile("[\uac00-\ud7a3]")
UNSPACED = re.compile(f"[{HAN}{KANA}{OTHERS}]")
N_SAMPLED = 1_000
"""Lines of a text by which its script is recognised."""


def count_words(text: str) -> int:
    """Return the number of words between spaces, and of letters of scripts without spaces."""
    if not UNSPACED.search(text):
        return len(text.split())
    n_letters = sum(unicodedata.category(c)[0] != "M" for c in UNSPACED.findall(text))
    rest = UNSPACED.sub(" ", text).split()
    return n_letters + sum(any(map(str.isalnum, word)) for word in rest)


def unspaced_script(lines: Iterable[str]) -> Literal["han", "kana", "other"] | None:
    """Return the script of a text most of whose words are letters without spaces, or None."""
    sample = "\n".join(islice(lines, N_SAMPLED))
    letters = UNSPACED.findall(sample)
    if 2 * len(letters) <= count_words(sample):
        return None
    n_kana, n_han = (len(re.findall(f"[{script}]", sample)) for script in (KANA, HAN))
    if n_kana > 0.1 * len(letters):
        return "kana"
    return "han" if n_han > 0.5 * len(letters) else "other"

"""Tables of text: files .tsv .csv .jsonl .json .parquet, folders of them, datasets of the hub.

Each file is read by its own header. `hub` reads what `datasets` is needed for.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from seqmodels.data import SPLITS
from seqmodels.data.cache import fingerprint
from seqmodels.data.languages import LANGUAGES
from seqmodels.data.text import ending_of, lines, preview, stem_of

SPLIT_ALIASES = {
    "train": ("train", "training"),
    "valid": ("valid", "validation", "val", "dev"),
    "test": ("test", "test_2016_flickr", "testing", "eval", "evaluation"),
}
"""Names of a split; Multi30k has several test sets."""
TABLES = (".tsv", ".csv", ".jsonl", ".json", ".parquet")
"""Endings of files with a pair, or a text, in each row."""
N_SNIFFED = 20
"""Lines by which tab-separated text is recognised."""
ATTRIBUTION = re.compile(r"CC-BY 2\.0 \(France\) Attribution: tatoeba\.org")
"""How the last column of a file by Anki (manythings.org) begins."""
SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", "।", "؟")
NAMES = (
    "source target src tgt trg translation text sentence eng deu ger fra fre spa ita por rus nld "
    "ces pol tur ara zho chi jpn kor vie english german french spanish italian portuguese russian "
    "dutch czech polish turkish arabic chinese japanese korean vietnamese"
)
COMMON_COLUMNS = LANGUAGES.union(NAMES.split())
"""Names of columns, in lower case, by which a header is recognised."""
Rows = Iterator[tuple[int, dict[str, Any]]]
"""The line, or the number, of each row, and its cells."""


class Table(NamedTuple):
    """Rows of texts, in splits, which can be read any number of times."""

    name: str
    origin: str
    """Its path, or its id on the hub."""
    columns: list[str]
    """Columns that are text, or the languages of a column `translation`."""
    splits: Mapping[str, Callable[[], Rows]]
    """Read the rows of a split."""
    size: Callable[[], int]
    """Return the number of rows of train."""
    key: str
    """Changes whenever the content does; known without reading it."""


class TableFile(NamedTuple):
    """One file of a table, with its own header."""

    path: Path
    columns: list[str]
    """Columns that are text, or the languages of a column `translation`."""
    read: Callable[[], Rows]


def open_table(
    data: str, columns: Sequence[str | None], limit: int | None = None, min_common: int = 2
) -> Table:
    """Open a table, a folder of tables, or a dataset on the hub; see `splits.read_parallel`.

    With `limit`, train has that many of its rows, drawn at random. A header is recognised by the
    columns that are asked for, or by `min_common` common names: see `find_header`. Raises
    ValueError.
    """
    path = Path(data)
    if not path.exists():
        return open_dataset(data, limit)
    paths = split_files(path)
    opened = {split: [open_file(p, columns, min_common) for p in paths[split]] for split in paths}
    first = opened["train"][0]
    for file in chain.from_iterable(opened.values()):
        if {*file.columns} != {*first.columns} and ending_of(file.path) != ".jsonl":
            raise ValueError(
                f"{file.path} has the columns {', '.join(file.columns)}, and {first.path} has "
                f"{', '.join(first.columns)}; give all files the same"
            )
    splits: dict[str, Callable[[], Rows]] = {
        split: partial(read_files, group) for split, group in opened.items()
    }
    size = cache(lambda: sum(1 for _ in splits["train"]()))
    key = " ".join([*map(fingerprint, chain.from_iterable(paths.values())), str(limit or "")])
    if limit:
        chosen = frozenset(Random(1).sample(range(size()), min(limit, size())))
        splits["train"] = partial(take_rows, splits["train"], chosen)
        size = cache(lambda: len(chosen))
    return Table(stem_of(path.resolve()), data, first.columns, splits, size, key)


def open_dataset(data: str, limit: int | None) -> Table:
    """Open OWNER/NAME or OWNER/NAME:CONFIG on the hub; a single split is train.

    Raises ValueError with the cause in one line.
    """
    if data.count("/") != 1 or data.startswith((".", "/", "~")) or ending_of(Path(data)) in TABLES:
        raise ValueError(
            f"{data} does not exist; it is not a known corpus and not OWNER/NAME on the hub"
        )
    from seqmodels.data import hub  # takes seconds to import, not needed for text files

    loaded = hub.load_splits(data, limit)
    if len(loaded) == 1:
        loaded = {"train": next(iter(loaded.values()))}
    names = {name: split for split in SPLITS for name in SPLIT_ALIASES[split]}
    splits = {names[name]: rows for name, rows in loaded.items() if name in names and len(rows)}
    if "train" not in splits:
        raise ValueError(f"{data} has no rows to train on, but {', '.join(loaded)}")
    columns, read = hub.text_columns(splits["train"])
    return Table(
        stem_of(Path(data.partition(":")[0])),
        data,
        columns,
        {split: partial(hub.read_rows, rows, read) for split, rows in splits.items()},
        partial(len, splits["train"]),
        " ".join(str(file["filename"]) for rows in splits.values() for file in rows.cache_files),
    )


def split_files(path: Path) -> dict[str, list[Path]]:
    """Return the files of each split: a file is train; those of a folder are named by their split.

    A single split is train. Raises ValueError for a folder without tables or without train, and for
    a file of which the split is unclear.
    """
    listed = sorted(each for depth in ("*", "*/*") for each in path.glob(depth))
    tables = [each for each in listed if ending_of(each) in TABLES]
    if path.is_file() and table_ending(path):
        tables = [path]
    if not tables:
        raise ValueError(
            f"{path} is neither a table nor a folder with tables: give two text files, or both "
            f"sides in one {', '.join(TABLES)}"
        )
    named = {each: split_of(each.relative_to(path)) for each in tables}
    if len({*named.values()}) == 1:
        return {"train": tables}
    if unclear := [each for each, split in named.items() if not split]:
        raise ValueError(f"{unclear[0]}: name it by its split, train, valid or test, or move it")
    paths = {s: found for s in SPLITS if (found := [each for each in tables if named[each] == s])}
    if "train" not in paths:
        raise ValueError(f"{path} has no rows to train on, but {' and '.join(paths)}")
    return paths


def split_of(path: Path) -> str:
    """Return the split that is in a path, such as `data/train-00000-of-00002.parquet`; else ""."""
    words = re.split(r"[^a-z]+", str(path).lower())
    return next((split for split in SPLITS if {*SPLIT_ALIASES[split]} & {*words}), "")


def read_files(opened: Sequence[TableFile]) -> Rows:
    """Yield the rows of files, one after the other; those of several are counted through."""
    if len(opened) == 1:
        return opened[0].read()
    rows = chain.from_iterable(file.read() for file in opened)
    return ((n, row) for n, (_, row) in enumerate(rows, 1))


def take_rows(read: Callable[[], Rows], chosen: frozenset[int]) -> Rows:
    """Yield the rows with these indices."""
    return (row for i, row in enumerate(read()) if i in chosen)


# -------------------------------------------------------------------------------------- One file


def table_ending(path: Path) -> str:
    """Return the ending of a table, `.tsv` for other text whose lines have tabs, or "".

    Raises as `lines` does.
    """
    if (ending := ending_of(path)) in TABLES:
        return ending
    first = [*islice(filter(str.strip, lines(path)), N_SNIFFED)]
    return ".tsv" if first and all("\t" in line for line in first) else ""


def open_file(path: Path, columns: Sequence[str | None], min_common: int) -> TableFile:
    """Open one file of a table by its own header."""
    if (ending := table_ending(path)) in (".json", ".parquet"):
        from seqmodels.data import hub

        rows = hub.load_file(path)
        names, read_columns = hub.text_columns(rows)
        return TableFile(path, names, partial(hub.read_rows, rows, read_columns))
    if ending == ".jsonl":
        read: Callable[[], Rows] = partial(read_objects, path)
    else:
        read = partial(read_cells, path, *find_header(path, columns, min_common))
    _, first = next(read(), (0, None))
    if first is None:
        raise ValueError(f"{path} has no rows")
    if isinstance(both := first.get("translation"), dict):  # as on the hub
        return TableFile(path, [*both], read)
    texts = [name for name, cell in first.items() if isinstance(cell, str | None)]
    return TableFile(path, [n for n in texts if not ATTRIBUTION.match(first[n] or "")], read)


def find_header(
    path: Path, columns: Sequence[str | None], min_common: int
) -> tuple[list[str], bool]:
    """Return the names of the columns of a TSV or CSV file, and whether its first line has them.

    The first line is a header if one of its cells is asked for by name, or `min_common` of them are
    COMMON_COLUMNS. Columns are named 1, 2, … if they are asked for by number, and in a file that
    `has_no_header`. Raises ValueError if it is unclear whether there is a header: a row taken for a
    header would be lost, and a header taken for a row would be trained on.
    """
    first = next((cells for _, cells in split_cells(path) if any(cells)), [])
    n_common = sum(cell.strip().lower() in COMMON_COLUMNS for cell in first)
    is_header = n_common >= min_common or any(name in first for name in columns)
    is_numbered = any(name and name.isdecimal() and name not in first for name in columns)
    if is_numbered or (has_no_header(path, first) and not is_header):
        return [str(i) for i in range(1, len(first) + 1)], is_header
    flags = ("--source", "--target") if min_common == 2 else ("--column",)
    numbered = " ".join(f"{flag} {i}" for i, flag in enumerate(flags, 1))
    if not is_header and len(first) >= min_common:
        raise ValueError(
            f"{path} begins with {preview(' | '.join(first))}; if these are column names, choose "
            f"with {' and '.join(flags)}; if not, give column numbers: {numbered}"
        )
    if len(set(first)) < len(first):
        raise ValueError(
            f"{path}, line 1: duplicate names in the header; if a file has no header, give column "
            f"numbers: {numbered}"
        )
    return first, True


def has_no_header(path: Path, first: Sequence[str]) -> bool:
    """Return whether a table begins with sentences: text with tabs, Anki's, or a sentence pair."""
    if ending_of(path) not in TABLES or any(map(ATTRIBUTION.match, first)):
        return True
    return len(first) == 2 and all(cell.strip().endswith(SENTENCE_ENDS) for cell in first)


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


def read_cells(path: Path, names: Sequence[str], is_header: bool) -> Rows:
    """Yield the line and the cells of each row of a TSV or CSV file, without header and blanks.

    Raises ValueError that names file and line.
    """
    rows = ((n, cells) for n, cells in split_cells(path) if any(cells))
    for n, cells in islice(rows, int(is_header), None):
        if len(cells) != len(names):
            raise ValueError(
                f"{path}, line {n}: {len(cells)} columns, but the first line has {len(names)}"
            )
        yield n, dict(zip(names, cells, strict=True))


def read_objects(path: Path) -> Rows:
    """Yield the line and the object of each line of a JSONL file, but for blank lines.

    Raises ValueError that names file and line.
    """
    for n, line in enumerate(lines(path), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if r"\ud" in line.lower():  # a surrogate, which is no character without a second one
                json.dumps(row, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as fault:
            raise ValueError(f"{path}, line {n}: not JSON: {fault}") from fault
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {n}: not an object with names and texts")
        yield n, row

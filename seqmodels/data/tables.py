"""Tables of text: files .tsv .csv .jsonl .json .parquet, folders of them, datasets of the hub.

Each file is read by its own header. `hub` reads what `datasets` is needed for.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from seqmodels.data.presets import LANGUAGES, fingerprint
from seqmodels.data.readers import (
    SPLIT_ALIASES,
    SPLITS,
    TABLES,
    Rows,
    Table,
    TableFile,
    ending_of,
    lines,
    preview,
    stem_of,
)

COLUMNAR = (".json", ".parquet")
"""Those that `hub` reads."""
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


def table_ending(path: Path) -> str:
    """Return the ending of a table, `.tsv` for other text whose lines have tabs, or "".

    Raises as `lines` does.
    """
    if (ending := ending_of(path)) in TABLES:
        return ending
    first = [*islice(filter(str.strip, lines(path)), N_SNIFFED)]
    return ".tsv" if first and all("\t" in line for line in first) else ""


def open_table(
    data: str, columns: Sequence[str | None], limit: int | None = None, min_common: int = 2
) -> Table:
    """Open a table, a folder of tables, or a dataset on the hub; see `corpus.read_parallel`.

    With `limit`, train has that many of its rows, drawn at random. A header is recognised by the
    columns that are asked for, or by `min_common` common names: see `find_header`. Raises
    ValueError.
    """
    path = Path(data)
    if not path.exists():
        from seqmodels.data import hub  # takes seconds to import, not needed for text files

        return hub.open_dataset(data, limit)
    paths = split_files(path)
    opened = {
        split: [open_file(each, columns, min_common) for each in paths[split]] for split in paths
    }
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


def open_file(path: Path, columns: Sequence[str | None], min_common: int) -> TableFile:
    """Open one file of a table by its own header."""
    if (ending := table_ending(path)) in COLUMNAR:
        from seqmodels.data import hub  # takes seconds to import, not needed for text files

        return hub.open_file(path)
    head = find_header(path, columns, min_common) if ending != ".jsonl" else None
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
    return TableFile(path, text_columns, partial(read_rows, path, head))


def read_files(opened: Sequence[TableFile]) -> Rows:
    """Yield the rows of files, one after the other; those of several are counted through."""
    if len(opened) == 1:
        yield from opened[0].read()
        return
    rows = chain.from_iterable(file.read() for file in opened)
    yield from ((n, row) for n, (_, row) in enumerate(rows, 1))


def take_rows(read: Callable[[], Rows], chosen: frozenset[int]) -> Rows:
    """Yield the rows with these indices."""
    yield from (row for i, row in enumerate(read()) if i in chosen)


class Header(NamedTuple):
    """The names of the columns of a table."""

    names: list[str]
    is_in_file: bool
    """Whether the first line is a header, if perhaps with other names, or the first row."""


def find_header(path: Path, columns: Sequence[str | None], min_common: int) -> Header:
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


def read_rows(path: Path, header: Header | None = None) -> Rows:
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

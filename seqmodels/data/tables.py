"""Tables of text, in splits: a file, a folder of files, or a dataset of the hub.

A file .tsv, .csv, .json, .jsonl or .parquet is read by its own header.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet
from pydantic_core import from_json

from seqmodels.data import SPLITS
from seqmodels.data.cache import fingerprint
from seqmodels.data.corpora import explain_unknown
from seqmodels.data.names import COMMON_COLUMNS, SPLIT_ALIASES, ending_of, group_by_split, stem_of
from seqmodels.data.text import lines, preview, raw_lines
from seqmodels.utils.terminal import one_line

TABLES = (".tsv", ".csv", ".json", ".jsonl", ".parquet")
"""Endings of files with a pair, or a text, in each row."""
N_SNIFFED = 20
"""Lines by which tab-separated text is recognised, and rows that tell which columns are text."""
BATCH = 1_000
"""Rows of Parquet that are read at a time."""
Row = dict[str, Any]
Rows = Iterator[tuple[str, Row]]
"""The place of each row, such as `a.csv, line 3`, and its cells."""
RowReader = Callable[[], Rows]


class Table(NamedTuple):
    """Rows of texts, in splits, which can be read any number of times."""

    name: str
    origin: str
    """Its path, or its id on the hub."""
    columns: list[str]
    """Columns that are text, or the languages of a column `translation`."""
    splits: Mapping[str, RowReader]
    """Read the rows of a split."""
    key: str
    """Changes whenever the content does; known without reading it."""
    unread: Sequence[str] = ()
    """Files of a folder, or splits of a dataset, that are not read."""

    def read(self, split: str, *columns: str) -> Iterator[list[str | None]]:
        """Yield the texts of a row, None for a missing one; raise ValueError for a number."""
        for place, row in self.splits[split]():
            texts = [row.get(column) for column in columns]
            for column, text in zip(columns, texts, strict=True):
                if not isinstance(text, str | None):
                    raise ValueError(f"{place}: {column!r} is not a text")
            yield [text and text.replace("\r\n", "\n").removesuffix("\r") for text in texts]


def open_table(
    data: str, asked: Sequence[str | None], limit: int | None = None, min_common: int = 2
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
    every = [*chain.from_iterable(paths.values())]
    opened = {file: open_file(file, asked, min_common) for file in every}
    check_columns({file: columns for file, (columns, _) in opened.items()}, asked, min_common)
    splits: dict[str, RowReader] = {
        split: partial(chain_rows, [opened[file][1] for file in group])
        for split, group in paths.items()
    }
    if limit:
        splits["train"] = partial(draw_rows, splits["train"], limit)
    key = " ".join([*map(fingerprint, every), str(limit or "")])
    unread = [] if path.is_file() else [p.name for p in visible_files(path) if p not in opened]
    columns = opened[paths["train"][0]][0]
    return Table(stem_of(path.resolve()), data, columns, splits, key, unread)


def chain_rows(readers: Sequence[RowReader]) -> Rows:
    """Yield the rows of files, one file after the other."""
    return chain.from_iterable(read() for read in readers)


def draw_rows(read: RowReader, limit: int) -> Rows:
    """Yield `limit` rows, or all if there are fewer, drawn at random, in their order."""
    n = sum(1 for _ in read())
    chosen = {*Random(1).sample(range(n), min(limit, n))}
    return (row for i, row in enumerate(read()) if i in chosen)


def check_columns(
    columns: Mapping[Path, Sequence[str]], asked: Sequence[str | None], n_needed: int
) -> None:
    """Raise ValueError unless each file has the columns asked for, or those of the first file."""
    (first, of_first), *others = columns.items()
    is_chosen = sum(map(bool, asked)) == n_needed
    for path, own in others:
        if {*asked} - {*own} if is_chosen else {*own} != {*of_first}:
            raise ValueError(
                f"{path} has the columns {', '.join(own) or '(none)'}, and {first} has "
                f"{', '.join(of_first)}; give all files the same"
            )


def open_dataset(data: str, limit: int | None) -> Table:
    """Open OWNER/NAME or OWNER/NAME:CONFIG on the hub; a single split is train.

    Raises ValueError with the cause in one line.
    """
    if data.count("/") != 1 or data.startswith((".", "/", "~")) or ending_of(Path(data)) in TABLES:
        raise ValueError(explain_unknown(data))
    from seqmodels.data import hub  # takes seconds to import, not needed for files

    loaded = {name: rows for name, rows in hub.load_splits(data, limit).items() if len(rows)}
    named = {split: choose_split(split, [*loaded]) for split in SPLITS}
    if len(loaded) == 1:
        named = {"train": next(iter(loaded))}
    splits = {split: loaded[name] for split, name in named.items() if name}
    if "train" not in splits:
        raise ValueError(f"{data} has no rows to train on, but {', '.join(loaded)}")
    columns, read = text_columns(splits["train"].features.arrow_schema)
    return Table(
        stem_of(Path(data.partition(":")[0])),
        data,
        columns,
        {
            split: partial(read_rows, rows.select_columns(read), f"{data}, {split}")
            for split, rows in splits.items()
        },
        " ".join(str(file["filename"]) for rows in splits.values() for file in rows.cache_files),
        [f"split {name}" for name in loaded if name not in named.values()],
    )


def read_rows(rows: Any, name: str) -> Rows:
    """Yield the rows of a dataset of the hub."""
    return read_arrow(rows.with_format("arrow").iter(BATCH), name)


def choose_split(split: str, names: Sequence[str]) -> str | None:
    """Return the name of a split on the hub: a known one, or the only one with a word of it."""
    same = group_by_split(names)[split]
    known = [alias for alias in SPLIT_ALIASES[split] if alias in names]
    if len(same) > 1 and not known:
        raise ValueError(f"there are {' and '.join(same)}; which is {split}? Give files instead")
    return next(iter(known + same), None)


# ------------------------------------------------------------------------------ Files of a folder


def visible_files(folder: Path) -> list[Path]:
    """Return the files in a folder and in those in it, sorted, without the hidden ones."""
    listed = sorted([*folder.glob("[!.]*"), *folder.glob("[!.]*/[!.]*")])
    return [path for path in listed if not path.is_dir()]


def split_files(path: Path) -> dict[str, list[Path]]:
    """Return the files of each split: a file is train; those of a folder are named by their split.

    A single split is train. Raises ValueError for a folder without tables or without train, for a
    file of which the split is unclear.
    """
    if path.is_file() and table_ending(path):
        return {"train": [path]}
    tables = [each for each in visible_files(path) if ending_of(each) in TABLES]
    if not tables:
        raise ValueError(
            f"{path} is neither a table nor a folder with tables: give two text files, or both "
            f"sides in one {', '.join(TABLES)}"
        )
    named = group_by_split(tables, lambda table: table.relative_to(path))
    groups = {split: group for split, group in named.items() if group}
    if len(groups) == 1:
        groups = {"train": tables}
    elif unclear := groups.get(""):
        raise ValueError(f"{unclear[0]}: name it by its split, train, valid or test, or move it")
    if "train" not in groups:
        raise ValueError(f"{path} has no rows to train on, but {' and '.join(groups)}")
    return groups


# ---------------------------------------------------------------------------------------- A file


def table_ending(path: Path) -> str:
    """Return the ending of a table, `.tsv` for other text whose lines have tabs, or "".

    Raises as `raw_lines` does.
    """
    if (ending := ending_of(path)) in TABLES:
        return ending
    first = [*islice(filter(str.strip, raw_lines(path)), N_SNIFFED)]
    return ".tsv" if first and all("\t" in line.strip("\n") for line in first) else ""


def open_file(
    path: Path, asked: Sequence[str | None], min_common: int
) -> tuple[list[str], RowReader]:
    """Return the columns of a file that are text, and what reads its rows."""
    if (ending := table_ending(path)) == ".parquet":
        with open_parquet(path) as file:
            columns, read_columns = text_columns(file.schema_arrow)
        return columns, partial(read_parquet, path, read_columns)
    if ending in (".json", ".jsonl"):
        read: RowReader = partial(read_json, path)
    else:
        read = partial(read_cells, path, *find_header(path, asked, min_common))
    rows = [row for _, row in islice(read(), N_SNIFFED)]
    if not rows:
        raise ValueError(f"{path} has no rows")
    first: Row = dict.fromkeys(chain.from_iterable(rows), "")
    for row in reversed(rows):
        first |= {name: cell for name, cell in row.items() if cell is not None}
    texts = {name: cell for name, cell in first.items() if isinstance(cell, str)}
    return [*texts], read


def text_columns(schema: pa.Schema) -> tuple[list[str], list[str]]:
    """Return the columns that are text, or the languages of `translation`, and those to read."""
    types = dict(zip(schema.names, schema.types, strict=True))
    both = types.get("translation")
    if both is not None and pa.types.is_struct(both):
        return [field.name for field in both], ["translation"]
    values = {n: t.value_type if pa.types.is_dictionary(t) else t for n, t in types.items()}
    strings = pa.string(), pa.large_string(), pa.string_view()
    texts = [name for name, kind in values.items() if kind in strings]
    return texts, texts


def find_header(path: Path, asked: Sequence[str | None], min_common: int) -> tuple[list[str], bool]:
    """Return the names of the columns of a TSV or CSV file, and whether its first line has them.

    The first line is a header if one of its cells is asked for by name, or `min_common` of them are
    COMMON_COLUMNS. Columns are named 1, 2, … if they are asked for by number, and in text with tabs
    without a header. Raises ValueError if it is unclear whether there is one: a
    row taken for a header would be lost, and a header taken for a row would be trained on.
    """
    first = next((cells for _, cells in split_cells(path) if any(cells)), [])
    n_common = sum(cell.strip().lower() in COMMON_COLUMNS for cell in first)
    is_header = n_common >= min_common or any(name in first for name in asked)
    is_numbered = any(name and name.isdecimal() and name not in first for name in asked)
    is_numbered |= ending_of(path) not in TABLES and not is_header
    if is_numbered:
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
    """Yield the rows of a TSV or CSV file, without header and blanks.

    Raises ValueError that names file and line.
    """
    rows = ((n, cells) for n, cells in split_cells(path) if any(cells))
    for n, cells in islice(rows, int(is_header), None):
        if len(cells) != len(names):
            raise ValueError(
                f"{path}, line {n}: {len(cells)} columns, but the first line has {len(names)}"
            )
        yield f"{path}, line {n}", dict(zip(names, cells, strict=True))


def read_json(path: Path) -> Rows:
    """Yield the rows of JSON: of each line, or of the array in a file.

    Raises ValueError that names the file, and the line if there is one.
    """
    if next(filter(str.strip, raw_lines(path)), "").lstrip().startswith("["):
        rows = parse_json("".join(raw_lines(path)), f"{path}")
        for n, row in enumerate(rows, 1):
            yield (place := f"{path}, row {n}"), row_of(row, place)
        return
    for n, line in enumerate(lines(path), 1):
        if line.strip():
            yield (place := f"{path}, line {n}"), row_of(parse_json(line, place), place)


def parse_json(text: str, where: str) -> Any:
    """Return the value of JSON; raise ValueError if it is not JSON, or has half a character."""
    try:
        return from_json(text)
    except ValueError as fault:
        raise ValueError(f"{where}: not JSON: {fault}") from fault


def row_of(value: object, place: str) -> Row:
    """Return the cells of a row of JSON or Parquet: those of `translation`, as on the hub, if any.

    A text alone is the column `text`. Raises ValueError for other values.
    """
    if isinstance(value, str):
        return {"text": value}
    if not isinstance(value, dict):
        raise ValueError(f"{place}: not an object with names and texts")
    both = value.get("translation")
    return both if isinstance(both, dict) else value


def read_parquet(path: Path, columns: list[str]) -> Rows:
    """Yield the rows of a Parquet file."""
    with open_parquet(path) as file:
        yield from read_arrow(file.iter_batches(BATCH, columns=columns), str(path))


@contextmanager
def open_parquet(path: Path) -> Iterator[parquet.ParquetFile]:
    """Open a Parquet file; raise ValueError with the cause in one line if it cannot be read."""
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (OSError, pa.ArrowException) as fault:
        raise ValueError(f"{path} cannot be read: {one_line(str(fault))[:300]}") from fault


def read_arrow(batches: Iterable[Any], name: str) -> Rows:
    """Yield the rows of Arrow's tables or batches."""
    rows = chain.from_iterable(batch.to_pylist() for batch in batches)
    for n, row in enumerate(rows, 1):
        yield (place := f"{name}, row {n}"), row_of(row, place)

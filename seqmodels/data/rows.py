"""The rows of one table: a file .tsv, .csv, .jsonl, .json or .parquet, by its own header."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from seqmodels.data.names import COMMON_COLUMNS, ending_of
from seqmodels.data.text import lines, plain_lines, preview, raw_lines
from seqmodels.utils.terminal import one_line

TABLES = (".tsv", ".csv", ".jsonl", ".json", ".parquet")
"""Endings of files with a pair, or a text, in each row."""
N_SNIFFED = 20
"""Lines by which tab-separated text is recognised, and rows that tell which columns are text."""
BATCH = 1_000
"""Rows of Parquet that are read at a time."""
ATTRIBUTION = re.compile(r"CC-BY 2\.0 \(France\) Attribution: tatoeba\.org")
"""How the last column of a file by Anki (manythings.org) begins."""
SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", "।", "؟")
Row = dict[str, Any]
Rows = Iterator[tuple[int, Row]]
"""The line, or the number, of each row, and its cells."""


class TableFile(NamedTuple):
    """One file of a table, with its own header."""

    path: Path
    columns: list[str]
    """Columns that are text, or the languages of a column `translation`."""
    read: Callable[[], Rows]


def table_ending(path: Path) -> str:
    """Return the ending of a table, `.tsv` for other text whose lines have tabs, or "".

    Raises as `plain_lines` does.
    """
    if (ending := ending_of(path)) in TABLES:
        return ending
    first = [*islice(filter(str.strip, plain_lines(path)), N_SNIFFED)]
    return ".tsv" if first and all("\t" in line.strip("\n") for line in first) else ""


def open_file(path: Path, asked: Sequence[str | None], min_common: int) -> TableFile:
    """Open one file of a table by its own header."""
    if (ending := table_ending(path)) == ".parquet":
        with open_parquet(path) as file:
            columns, read_columns = text_columns(file.schema_arrow)
        return TableFile(path, columns, partial(read_parquet, path, read_columns))
    if ending in (".json", ".jsonl"):
        read: Callable[[], Rows] = partial(read_json if ending == ".json" else read_jsonl, path)
    else:
        read = partial(read_cells, path, *find_header(path, asked, min_common))
    rows = [row for _, row in islice(read(), N_SNIFFED)]
    if not rows:
        raise ValueError(f"{path} has no rows")
    first = {name: cell for row in reversed(rows) for name, cell in row.items() if cell is not None}
    names = dict.fromkeys(chain.from_iterable(rows))
    texts = [name for name in names if isinstance(first.get(name, ""), str)]
    return TableFile(path, [n for n in texts if not ATTRIBUTION.match(first.get(n, ""))], read)


def text_columns(schema: pa.Schema) -> tuple[list[str], list[str]]:
    """Return the columns that are text, or the languages of `translation`, and those to read."""
    types = dict(zip(schema.names, schema.types, strict=True))
    both = types.get("translation")
    if both is not None and pa.types.is_struct(both):
        return [field.name for field in both], ["translation"]
    values = {n: t.value_type if pa.types.is_dictionary(t) else t for n, t in types.items()}
    is_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    texts = [name for name, kind in values.items() if any(test(kind) for test in is_text)]
    return texts, texts


def find_header(path: Path, asked: Sequence[str | None], min_common: int) -> tuple[list[str], bool]:
    """Return the names of the columns of a TSV or CSV file, and whether its first line has them.

    The first line is a header if one of its cells is asked for by name, or `min_common` of them are
    COMMON_COLUMNS. Columns are named 1, 2, … if they are asked for by number, and in a file that
    `has_no_header`. Raises ValueError if it is unclear whether there is a header: a row taken for a
    header would be lost, and a header taken for a row would be trained on.
    """
    first = next((cells for _, cells in split_cells(path) if any(cells)), [])
    n_common = sum(cell.strip().lower() in COMMON_COLUMNS for cell in first)
    is_header = n_common >= min_common or any(name in first for name in asked)
    is_numbered = any(name and name.isdecimal() and name not in first for name in asked)
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


def read_jsonl(path: Path) -> Rows:
    """Yield the line and the cells of each line of a JSONL file, but for blank lines.

    Raises ValueError that names file and line.
    """
    for n, line in enumerate(lines(path, is_plain=False), 1):
        if not line.strip():
            continue
        try:
            row = row_of(parse_json(line))
        except ValueError as fault:
            raise ValueError(f"{path}, line {n}: {fault}") from fault
        yield n, row


def read_json(path: Path) -> Rows:
    """Yield the number and the cells of each row of a JSON file: an array, or a row on each line.

    Raises ValueError that names the file.
    """
    if not next(filter(str.strip, raw_lines(path)), "").lstrip().startswith("["):
        yield from read_jsonl(path)
        return
    try:
        rows = [row_of(value) for value in parse_json("".join(raw_lines(path)))]
    except ValueError as fault:
        raise ValueError(f"{path}: {fault}") from fault
    yield from enumerate(rows, 1)


def parse_json(text: str) -> Any:
    """Return the value of JSON; raise ValueError if it is not JSON, or has half a character."""
    try:
        value = json.loads(text)
        if r"\ud" in text.lower():  # a surrogate, which is no character without a second one
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"not JSON: {fault}") from fault
    return value


def row_of(value: Any) -> Row:
    """Return the cells of a row of JSON or Parquet: those of `translation`, as on the hub, if any.

    A text alone is the column `text`. Raises ValueError for other values.
    """
    if isinstance(value, str):
        return {"text": value}
    if not isinstance(value, dict):
        raise ValueError("not an object with names and texts")
    both = value.get("translation")
    return both if isinstance(both, dict) else value


def read_parquet(path: Path, columns: list[str]) -> Rows:
    """Yield the number and the cells of each row of a Parquet file."""
    with open_parquet(path) as file:
        yield from read_arrow(file.iter_batches(BATCH, columns=columns))


@contextmanager
def open_parquet(path: Path) -> Iterator[parquet.ParquetFile]:
    """Open a Parquet file; raise ValueError with the cause in one line if it cannot be read."""
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (OSError, pa.ArrowException) as fault:
        raise ValueError(f"{path} cannot be read: {one_line(str(fault))[:300]}") from fault


def read_arrow(batches: Iterable[Any]) -> Rows:
    """Yield the number and the cells of each row of Arrow's tables or batches."""
    rows = chain.from_iterable(batch.to_pylist() for batch in batches)
    return enumerate(map(row_of, rows), 1)

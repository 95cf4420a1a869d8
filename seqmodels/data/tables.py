"""Tables of text, in splits: a file, a folder of files, or a dataset of the hub."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import NamedTuple

from seqmodels.data import SPLITS
from seqmodels.data.cache import fingerprint
from seqmodels.data.corpora import explain_unknown
from seqmodels.data.names import SPLIT_ALIASES, ending_of, split_of, stem_of
from seqmodels.data.rows import TABLES, Row, Rows, TableFile, open_file, table_ending, text_columns


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
    unread: Sequence[str] = ()
    """Files of a folder, or splits of a dataset, that are not read."""

    def cell(self, n: int, row: Row, column: str) -> str:
        """Return the text of a cell; "" for a missing one. Raises ValueError for a number."""
        text = row.get(column)
        if text is None:
            return ""
        if not isinstance(text, str):
            raise ValueError(f"{self.origin}, line {n}: {column!r} is not a text")
        return text.replace("\r\n", "\n").removesuffix("\r") if "\r" in text else text


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
    key = " ".join([*map(fingerprint, every), str(limit or "")])
    opened = {split: [open_file(p, asked, min_common) for p in paths[split]] for split in paths}
    check_columns([*chain.from_iterable(opened.values())], [*filter(None, asked)], min_common)
    splits: dict[str, Callable[[], Rows]] = {
        split: partial(read_files, group) for split, group in opened.items()
    }
    size = cache(lambda: sum(1 for _ in splits["train"]()))
    if limit:
        chosen = frozenset(Random(1).sample(range(size()), min(limit, size())))
        whole = splits["train"]
        splits["train"] = lambda: (row for i, row in enumerate(whole()) if i in chosen)
        size = cache(lambda: len(chosen))
    unread = [] if path.is_file() else [p.name for p in visible_files(path) if p not in every]
    columns = opened["train"][0].columns
    return Table(stem_of(path.resolve()), data, columns, splits, size, key, unread)


def check_columns(opened: Sequence[TableFile], asked: Sequence[str], n_needed: int) -> None:
    """Raise ValueError unless each file has the columns asked for, or those of the first file."""
    first = opened[0]
    needed = {*asked} if len(asked) == n_needed else {*first.columns}
    for file in opened[1:]:
        columns = {*file.columns}
        if not needed <= columns or (len(asked) < n_needed and needed != columns):
            raise ValueError(
                f"{file.path} has the columns {', '.join(file.columns) or '(none)'}, and "
                f"{first.path} has {', '.join(first.columns)}; give all files the same"
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
        {split: partial(hub.read_rows, rows, read) for split, rows in splits.items()},
        partial(len, splits["train"]),
        " ".join(str(file["filename"]) for rows in splits.values() for file in rows.cache_files),
        [f"split {name}" for name in loaded if name not in named.values()],
    )


def choose_split(split: str, names: Sequence[str]) -> str | None:
    """Return the name of a split on the hub: a known one, or the only one with a word of it."""
    same = [name for name in names if split_of(name) == split]
    known = [alias for alias in SPLIT_ALIASES[split] if alias in names]
    if len(same) > 1 and not known:
        raise ValueError(f"there are {' and '.join(same)}; which is {split}? Give files instead")
    return next(iter(known + same), None)


# ------------------------------------------------------------------------------ Files of a folder


def visible_files(folder: Path) -> list[Path]:
    """Return the files in a folder and in those in it, sorted, without the hidden ones."""
    listed = sorted(each for depth in ("*", "*/*") for each in folder.glob(depth))
    hidden = [each for each in listed if each.name.startswith(".")]
    return [p for p in listed if not p.is_dir() and p not in hidden and p.parent not in hidden]


def split_files(path: Path) -> dict[str, list[Path]]:
    """Return the files of each split: a file is train; those of a folder are named by their split.

    A single split is train. Raises ValueError for a folder without tables or without train, for a
    file of which the split is unclear, and as `check_parts` does.
    """
    if path.is_file() and table_ending(path):
        return {"train": [path]}
    found = visible_files(path)
    tables = [each for each in found if ending_of(each) in TABLES]
    if any(each.suffix == ".arrow" for each in found):
        raise ValueError(
            f"{path} was written by save_to_disk; write its splits with to_parquet: "
            "datasets.load_from_disk(FOLDER)[SPLIT].to_parquet(FILE)"
        )
    if not tables:
        raise ValueError(
            f"{path} is neither a table nor a folder with tables: give two text files, or both "
            f"sides in one {', '.join(TABLES)}"
        )
    named = {split: [t for t in tables if split_of(t.relative_to(path)) == split]
             for split in ("", *SPLITS)}  # fmt: skip
    groups = {split: group for split, group in named.items() if group}
    if len(groups) == 1:
        groups = {"train": tables}
    elif unclear := groups.get(""):
        raise ValueError(f"{unclear[0]}: name it by its split, train, valid or test, or move it")
    if "train" not in groups:
        raise ValueError(f"{path} has no rows to train on, but {' and '.join(groups)}")
    for split, group in groups.items():
        check_parts(split, group)
    return groups


def check_parts(split: str, paths: Sequence[Path]) -> None:
    """Raise ValueError unless a split's files are in one folder and format, and all parts there.

    Parts have names such as `train-00001-of-00002.parquet`.
    """
    for path in paths:
        if (path.parent, ending_of(path)) != (paths[0].parent, ending_of(paths[0])):
            raise ValueError(f"{paths[0]} and {path} are both {split}; keep one of them")
        if part := re.fullmatch(r"(.*-)\d+(-of-(\d+)\..*)", path.name):
            n = sum(p.name.startswith(part[1]) and p.name.endswith(part[2]) for p in paths)
            if n != int(part[3]):
                raise ValueError(f"{path} is one of {int(part[3])} parts, but there are {n}")


def read_files(opened: Sequence[TableFile]) -> Rows:
    """Yield the rows of files, one after the other; those of several are counted through."""
    if len(opened) == 1:
        return opened[0].read()
    rows = chain.from_iterable(file.read() for file in opened)
    return ((n, row) for n, (_, row) in enumerate(rows, 1))

"""Tables of text through `datasets`: files .tsv .csv .jsonl .parquet, folders of them, the hub.

One code path reads all three: a folder with the layout of a dataset on the hub is read like it.
Rows are in memory-mapped files. If a dataset is too large to download, some rows are streamed.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import datasets
from datasets import Dataset
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from seqmodels.data import readers
from seqmodels.data.readers import (
    SPLIT_ALIASES,
    SPLITS,
    TABLES,
    Table,
    ending_of,
    stem_of,
    table_ending,
)
from seqmodels.utils.terminal import one_line

BUFFER = 10_000
"""Rows that a stream shuffles together."""
BATCH = 1_000
"""Rows that are read at a time."""
TIMEOUT_S = 10.0
"""How long to wait for the hub before using what is on disk."""
OFFLINE = (
    "without a network, give text files or a .tsv, .csv, .jsonl or .parquet file as --data; see "
    "--help"
)
LOADERS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".csv": "csv", ".tsv": "csv"}
VERBATIM: dict[str, Any] = {"keep_default_na": False, "na_filter": False, "skip_blank_lines": False}
VERBATIM |= {"lineterminator": "\n"}
"""Have pandas read CSV verbatim: "None" and "NA" are words."""

datasets.disable_progress_bars()
datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # errors are reported in one line


def open_table(
    data: str, columns: Sequence[str | None], limit: int | None, min_common: int = 2
) -> Table:
    """Open a file, a folder or a dataset on the hub; see `corpus.read_parallel`.

    With `limit`, that many rows of train are streamed, shuffled, instead of downloading all. A
    single split is train. Raises ValueError with the cause in one line.
    """
    source = resolve_source(data, columns, min_common)
    try:
        loaded = stream_splits(source, limit) if limit else datasets.load_dataset(**source)
    except Exception as fault:  # parsers of many kinds of files raise many kinds
        check_lines(Path(data))
        raise ValueError(f"{data} cannot be read: {find_cause(fault)}") from fault
    if len(loaded) == 1:
        loaded = {"train": next(iter(loaded.values()))}
    names = {name: split for split in SPLITS for name in SPLIT_ALIASES[split]}
    splits = {names[name]: rows for name, rows in loaded.items() if name in names and len(rows)}
    if "train" not in splits:
        raise ValueError(f"{data} has no rows to train on, but {', '.join(loaded)}")
    first = next(iter(splits.values()))
    text_columns = [
        name
        for name, kind in first.features.items()
        if getattr(kind, "dtype", None) in ("string", "large_string")
    ]
    both = first.features.get("translation")
    if languages := getattr(both, "languages", None) or (isinstance(both, dict) and [*both]):
        text_columns = languages
    read = ["translation"] if languages else text_columns
    return Table(
        stem_of(Path(data.partition(":")[0])),
        data,
        text_columns,
        {split: partial(read_rows, rows, read) for split, rows in splits.items()},
        partial(len, splits["train"]),
        " ".join(str(file["filename"]) for rows in splits.values() for file in rows.cache_files),
    )


def read_rows(rows: Dataset, columns: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the cells of each row of a dataset."""
    n = count(1)
    for batch in rows.select_columns(columns).with_format("arrow").iter(BATCH):
        for row in batch.to_pylist():
            yield next(n), row


def stream_splits(source: dict[str, Any], limit: int) -> dict[str, Dataset]:
    """Download only `limit` rows of train, shuffled, and the other splits completely.

    They are written to disk once, as they arrive, and memory-mapped from there.
    """

    def stream(source: dict[str, Any], split: str, limit: int) -> Iterator[dict[str, Any]]:
        rows = datasets.load_dataset(**source, streaming=True)[split]
        if split == "train":
            rows = rows.shuffle(seed=1, buffer_size=BUFFER).take(limit)
        yield from rows

    return {
        split: Dataset.from_generator(
            stream, gen_kwargs={"source": source, "split": split, "limit": limit}
        )
        for split in datasets.load_dataset(**source, streaming=True)
    }


def check_lines(given: Path) -> None:
    """Raise ValueError that names file and line if a JSONL file on disk is malformed."""
    for path in [given] if given.is_file() else list_files(given):
        if ending_of(path) == ".jsonl":
            for _ in readers.read_rows(path):
                pass


def list_files(folder: Path) -> list[Path]:
    """Return the contents of a folder and of the folders directly in it."""
    return sorted(path for depth in ("*", "*/*") for path in folder.glob(depth))


def resolve_source(data: str, columns: Sequence[str | None], min_common: int) -> dict[str, Any]:
    """Return the arguments of `load_dataset` for a path that exists, else for the hub.

    A header is recognised by the columns asked for, or by `min_common` common names: see
    `readers.find_header`.
    """
    path = Path(data)
    if path.is_file() or path.is_dir():
        listed = [path] if path.is_file() else list_files(path)
        named = [table_ending(path)] if path.is_file() else [*map(ending_of, listed)]
        tables = {file: end for file, end in zip(listed, named, strict=True) if end in TABLES}
        if not (tables if path.is_file() else listed):
            raise ValueError(
                f"{path} is neither a table nor a folder with files: give two text files, or "
                f"both sides in one {', '.join(TABLES)}"
            )
        options: dict[str, Any] = {}
        if tables and {LOADERS[ending] for ending in tables.values()} == {"csv"}:
            names, is_in_file = readers.find_header(next(iter(tables)), columns, min_common)
            options = {**VERBATIM, "names": names, "header": 0 if is_in_file else None}
        if {*tables.values()} == {".tsv"}:
            options |= {"sep": "\t", "quoting": csv.QUOTE_NONE}
        if path.is_dir():
            return {"path": data, **options}
        return {"path": LOADERS[tables[path]], "data_files": data, **options}
    if data.count("/") != 1 or data.startswith((".", "/", "~")) or ending_of(path) in TABLES:
        raise ValueError(
            f"{data} does not exist; it is not a known corpus and not OWNER/NAME on the hub"
        )
    name, _, config = data.partition(":")
    return {"path": name, "name": config or None, "revision": latest_revision(name)}


def latest_revision(name: str) -> str | None:
    """Return the commit of a dataset on the hub; None without a network, when the disk is used.

    Raises ValueError if the hub has no such dataset.
    """
    try:
        return HfApi().dataset_info(name, timeout=TIMEOUT_S).sha
    except (HfHubHTTPError, HFValidationError) as fault:
        if isinstance(fault, HfHubHTTPError) and fault.response.status_code >= 500:
            return None
        raise ValueError(
            f"{name} is not a dataset on the hub: {find_cause(fault)}; {OFFLINE}"
        ) from fault
    except Exception:  # from one of several network libraries, by version
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True  # no further waiting
        return None


def find_cause(fault: BaseException) -> str:
    """Return the cause of an error, in one line."""
    if isinstance(fault, ConnectionError):
        return f"the hub cannot be reached, and this dataset is not on disk; {OFFLINE}"
    while (below := fault.__cause__ or fault.__context__) is not None:
        fault = below
    caches = str(constants.HF_HOME), str(datasets.config.HF_DATASETS_CACHE)
    if isinstance(fault, OSError) and str(fault.filename).startswith(caches):
        return (
            f"the cache {fault.filename} cannot be written to: {fault.strerror}; set HF_HOME to "
            "another folder"
        )
    return one_line(str(fault) or type(fault).__name__)[:300]

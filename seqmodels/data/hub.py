"""Datasets of the hub, and files .parquet and .json, through `datasets`.

Rows are in memory-mapped files. If a dataset is too large to download, some rows are streamed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import datasets
from datasets import Dataset
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from seqmodels.data.presets import fingerprint
from seqmodels.data.readers import (
    SPLIT_ALIASES,
    SPLITS,
    TABLES,
    Rows,
    Table,
    TableFile,
    ending_of,
    stem_of,
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

datasets.disable_progress_bars()
datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # errors are reported in one line


def open_file(path: Path) -> TableFile:
    """Open a file .parquet or .json; raises ValueError with the cause in one line."""
    kind = ending_of(path).removeprefix(".")
    name = hashlib.sha256(fingerprint(path).encode()).hexdigest()[:16]  # of what `datasets` caches
    try:
        rows = datasets.load_dataset(kind, name, data_files=str(path), split="train")
    except Exception as fault:  # parsers of many kinds of files raise many kinds
        raise ValueError(f"{path} cannot be read: {find_cause(fault)}") from fault
    columns, read = text_columns(rows)
    return TableFile(path, columns, partial(read_rows, rows, read))


def open_dataset(data: str, limit: int | None) -> Table:
    """Open OWNER/NAME or OWNER/NAME:CONFIG on the hub.

    With `limit`, that many rows of train are streamed, shuffled, instead of downloading all. A
    single split is train. Raises ValueError with the cause in one line.
    """
    if data.count("/") != 1 or data.startswith((".", "/", "~")) or ending_of(Path(data)) in TABLES:
        raise ValueError(
            f"{data} does not exist; it is not a known corpus and not OWNER/NAME on the hub"
        )
    name, _, config = data.partition(":")
    source = {"path": name, "name": config or None, "revision": latest_revision(name)}
    try:
        loaded = stream_splits(source, limit) if limit else datasets.load_dataset(**source)
    except Exception as fault:  # from one of several network libraries
        raise ValueError(f"{data} cannot be read: {find_cause(fault)}") from fault
    if len(loaded) == 1:
        loaded = {"train": next(iter(loaded.values()))}
    names = {name: split for split in SPLITS for name in SPLIT_ALIASES[split]}
    splits = {names[name]: rows for name, rows in loaded.items() if name in names and len(rows)}
    if "train" not in splits:
        raise ValueError(f"{data} has no rows to train on, but {', '.join(loaded)}")
    columns, read = text_columns(splits["train"])
    return Table(
        stem_of(Path(name)),
        data,
        columns,
        {split: partial(read_rows, rows, read) for split, rows in splits.items()},
        partial(len, splits["train"]),
        " ".join(str(file["filename"]) for rows in splits.values() for file in rows.cache_files),
    )


def text_columns(rows: Dataset) -> tuple[list[str], list[str]]:
    """Return the columns that are text, or the languages of `translation`, and those to read."""
    texts = [
        name
        for name, kind in rows.features.items()
        if getattr(kind, "dtype", None) in ("string", "large_string")
    ]
    both = rows.features.get("translation")
    languages = getattr(both, "languages", None) or (isinstance(both, dict) and [*both])
    return ([*languages], ["translation"]) if languages else (texts, texts)


def read_rows(rows: Dataset, columns: list[str]) -> Rows:
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

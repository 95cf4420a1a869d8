"""Tables of text through `datasets`: files .tsv .csv .jsonl .parquet, folders of them, the hub.

One code path reads all three: a folder with the layout of a dataset on the hub is read like it.
Rows are in memory-mapped files. If a dataset is too large to download, some rows are streamed.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import datasets
from datasets import Dataset
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from seqmodels.data import readers
from seqmodels.data.corpus import SPLIT_ALIASES, SPLITS, Pair, PairReader, ParallelCorpus
from seqmodels.data.languages import resolve_direction
from seqmodels.data.readers import TABLES, header
from seqmodels.data.text_corpus import TextCorpus, TextReader, split_by_share
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


class DatasetSource(NamedTuple):
    """The arguments of `load_dataset`."""

    path: str
    name: str | None = None
    data_files: str | None = None
    revision: str | None = None
    options: Mapping[str, Any] = {}

    def load(self, is_streaming: bool = False) -> Any:
        """Load the dataset."""
        kwargs: dict[str, Any] = {
            "path": self.path,
            "name": self.name,
            "data_files": self.data_files,
        }
        kwargs |= {"revision": self.revision, "streaming": is_streaming, **self.options}
        return datasets.load_dataset(**kwargs)


# ----------------------------------------------------------------------------- Parallel text


def read_parallel(data: str, languages: Sequence[str | None], limit: int | None) -> ParallelCorpus:
    """Open a file, a folder or a dataset on the hub; see `presets.read_parallel`.

    With `limit`, that many pairs of train are streamed, shuffled, instead of downloading all.
    """
    splits = load_splits(resolve_source(data, languages), data, limit)
    first = next(iter(splits.values()))
    src_lang, tgt_lang = resolve_direction(languages_of(first), languages, data)
    parts: dict[str, PairReader] = {
        split: partial(_pairs, rows, src_lang, tgt_lang) for split, rows in splits.items()
    }
    key = " ".join(str(file["filename"]) for rows in splits.values() for file in rows.cache_files)
    name = Path(data.partition(":")[0]).stem
    origins = f"{data}, column {src_lang}", f"{data}, column {tgt_lang}"
    size = partial(len, splits["train"])
    return ParallelCorpus(name, src_lang, tgt_lang, parts, size, key, origins)


def languages_of(rows: Dataset) -> list[str]:
    """Return the languages of a `translation` column, or the names of all columns that are text."""
    both = rows.features.get("translation")
    if both is not None:
        return list(getattr(both, "languages", None) or both)
    return [name for name, kind in rows.features.items() if is_text(kind)]


def is_text(kind: Any) -> bool:
    """Return whether a column holds texts."""
    return getattr(kind, "dtype", None) in ("string", "large_string")


def _pairs(rows: Dataset, src_lang: str, tgt_lang: str) -> Iterator[Pair]:
    """Yield the pairs of a table; missing sides are blank."""
    line = count(1)
    for batch in rows.with_format("arrow").iter(BATCH):
        both = batch.to_pydict()
        if (rows_of := both.get("translation")) is not None:
            both = {
                lang: [(row or {}).get(lang) for row in rows_of] for lang in (src_lang, tgt_lang)
            }
        for src, tgt in zip(both[src_lang], both[tgt_lang], strict=True):
            yield Pair(src or "", tgt or "", next(line))


# ------------------------------------------------------------------------------ Running text

TEXT_COLUMNS = ("text", "sentence")
"""Names by which the text column is found."""


def read_text_corpus(
    data: str,
    column: str | None,
    limit: int | None,
    shares: Mapping[str, tuple[float, float]],
) -> TextCorpus:
    """Open a file, a folder or a dataset on the hub; see `presets.read_text_corpus`.

    With `limit`, that many rows of train are streamed, shuffled, instead of downloading all. If
    valid or test is missing, the other one serves as both.
    """
    splits = load_splits(resolve_source(data, [column], n_known=1), data, limit)
    column = text_column(next(iter(splits.values())), column, data)
    texts: dict[str, TextReader] = {
        split: partial(_texts, rows, column) for split, rows in splits.items()
    }
    key = " ".join(str(file["filename"]) for rows in splits.values() for file in rows.cache_files)
    name, key = Path(data.partition(":")[0]).stem, f"{key} {column}"
    origin = f"{data}, column {column}"
    if len(texts) == 1:
        is_valid_tested = shares["valid"] == shares["test"]
        splits_of = split_by_share(texts["train"], shares)
        return TextCorpus(name, splits_of, f"{key} {shares}", is_valid_tested, origin=origin)
    both = next(texts[split] for split in ("valid", "test") if split in texts)
    both_tested = len(texts) == 2
    return TextCorpus(name, dict.fromkeys(SPLITS, both) | texts, key, both_tested, origin=origin)


def text_column(rows: Dataset, column: str | None, data: str) -> str:
    """Return the text column; raises ValueError if it is missing or ambiguous."""
    found = [name for name, kind in rows.features.items() if is_text(kind)]
    for name in (column,) if column else (*TEXT_COLUMNS, *found[: len(found) == 1]):
        if name in found:
            return name
    listed = ", ".join(map(repr, found)) or "none"
    wanted = repr(column) if column else "'text' or 'sentence'"
    raise ValueError(f"{data} has no text column {wanted}, but {listed}; choose one with --column")


def _texts(rows: Dataset, column: str) -> Iterator[str]:
    """Yield the documents of a table, each followed by a line feed."""
    for batch in rows.select_columns(column).with_format("arrow").iter(BATCH):
        for document in batch[column].to_pylist():
            if document is not None:
                yield document if document.endswith("\n") else f"{document}\n"


# ------------------------------------------------------------------------------- Any table


def load_splits(where: DatasetSource, data: str, limit: int | None) -> dict[str, Dataset]:
    """Return the splits of a file, a folder or a dataset on the hub, by our names for them.

    A single split is train. Raises ValueError with the cause in one line.
    """
    try:
        loaded = stream_splits(where, limit) if limit else where.load()
    except Exception as fault:  # parsers of many kinds of files raise many kinds
        check_lines(where)
        raise ValueError(f"{data} cannot be read: {reason(fault)}") from fault
    if len(loaded) == 1:
        loaded = {"train": next(iter(loaded.values()))}
    names = {name: split for split in SPLITS for name in SPLIT_ALIASES.get(split, (split,))}
    found = {names[name]: rows for name, rows in loaded.items() if name in names and len(rows)}
    if "train" not in found:
        raise ValueError(f"{data} has no rows to train on, but {', '.join(loaded)}")
    return found


def check_lines(where: DatasetSource) -> None:
    """Raise ValueError that names file and line if a JSONL file on disk is malformed."""
    given = Path(where.data_files or where.path)
    for path in [given] if given.is_file() else list_files(given):
        if path.suffix == ".jsonl":
            deque(readers.rows(path), maxlen=0)


def list_files(folder: Path) -> list[Path]:
    """Return the contents of a folder and of the folders directly in it."""
    return sorted(path for depth in ("*", "*/*") for path in folder.glob(depth))


def resolve_source(data: str, columns: Sequence[str | None], n_known: int = 2) -> DatasetSource:
    """Return where to load from: a path that exists, else the hub.

    A header is recognised by the columns asked for, or by `n_known` common names: see
    `readers.header`.
    """
    path = Path(data)
    if path.is_file():
        if path.suffix not in LOADERS:
            raise ValueError(
                f"{path} is one text file; give two, or both sides in one {', '.join(TABLES)}"
            )
        options = csv_options(path, columns, n_known) if LOADERS[path.suffix] == "csv" else {}
        options = options | (
            {"sep": "\t", "quoting": csv.QUOTE_NONE} if path.suffix == ".tsv" else {}
        )
        return DatasetSource(LOADERS[path.suffix], data_files=str(path), options=options)
    if path.is_dir():
        found = list_files(path)
        if not any(file.is_file() for file in found):
            raise ValueError(
                f"{path} is a folder without files; it must contain {', '.join(TABLES)}"
            )
        tables = [file for file in found if file.suffix in TABLES]
        is_csv = tables and all(LOADERS[file.suffix] == "csv" for file in tables)
        return DatasetSource(
            str(path), options=csv_options(tables[0], columns, n_known) if is_csv else {}
        )
    if data.count("/") != 1 or data.startswith((".", "/", "~")) or path.suffix in TABLES:
        raise ValueError(
            f"{data} does not exist; it is not a known corpus and not OWNER/NAME on the hub"
        )
    name, _, config = data.partition(":")
    return DatasetSource(name, config or None, revision=latest_revision(name))


def csv_options(path: Path, columns: Sequence[str | None], n_known: int) -> dict[str, Any]:
    """Return pandas' options for a TSV or CSV file, and for others like it."""
    names, is_in_file = header(path, columns, n_known)
    return {**VERBATIM, "names": names, "header": 0 if is_in_file else None}


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
            f"{name} is not a dataset on the hub: {reason(fault)}; {OFFLINE}"
        ) from fault
    except Exception:  # from one of several network libraries, by version
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True  # no further waiting
        return None


def reason(fault: BaseException) -> str:
    """Return the cause of an error, in one line."""
    if isinstance(fault, ConnectionError):
        return f"the hub cannot be reached, and this dataset is not on disk; {OFFLINE}"
    deepest = fault
    caches = str(constants.HF_HOME), str(datasets.config.HF_DATASETS_CACHE)
    while (below := deepest.__cause__ or deepest.__context__) is not None:
        deepest = below
    if isinstance(deepest, OSError) and str(deepest.filename).startswith(caches):
        return (
            f"the cache {deepest.filename} cannot be written to: {deepest.strerror}; set HF_HOME "
            "to another folder"
        )
    return one_line(str(deepest) or type(deepest).__name__)[:300]


# --------------------------------------------------------------------------------- Streams


def stream_splits(where: DatasetSource, limit: int) -> dict[str, Dataset]:
    """Download only `limit` rows of train, shuffled, and the other splits completely.

    They are written to disk once, as they arrive, and memory-mapped from there.
    """
    splits = where.load(is_streaming=True)
    return {
        split: Dataset.from_generator(
            _rows, gen_kwargs={"where": where, "split": split, "limit": limit}
        )
        for split in splits
    }


def _rows(where: DatasetSource, split: str, limit: int) -> Iterator[dict[str, Any]]:
    rows = where.load(is_streaming=True)[split]
    yield from rows.shuffle(seed=1, buffer_size=BUFFER).take(limit) if split == "train" else rows

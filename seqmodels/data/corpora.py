"""Corpora known by name, none of which is part of this project, and what `datasets` fetches."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from seqmodels.utils.terminal import did_you_mean, one_line

SHARES = {"train": (0.0, 0.9), "valid": (0.9, 0.95), "test": (0.95, 1.0)}
"""Where each split of a text without splits begins and ends."""
NANOGPT = {"train": (0.0, 0.9), "valid": (0.9, 1.0), "test": (0.9, 1.0)}
"""The same, for nanoGPT's protocol."""


class Preset(NamedTuple):
    """A corpus that is known by name."""

    description: str
    source: str
    """Its id on the hub, OWNER/NAME or OWNER/NAME:CONFIG, or an address."""
    licence: str
    local: str
    """Folder or file in SEQMODELS_DATA."""
    sha256: str
    """SHA-256 of the text, as in a record."""
    shares: Mapping[str, tuple[float, float]] = SHARES
    """Where each split of a text without splits begins and ends."""


PARALLEL = {
    "multi30k": Preset(
        "image captions, 29,000 pairs; test 2016", "bentrevett/multi30k",
        "none for the text: for research", "multi30k",
        "e5b35f7ead37c5f15756580644a80a96a26a738de45fed7c2ca6d6f5e89cd294",
    ),
    "bible": Preset(
        "Luther 1912 and World English Bible, 28,944 verses; test by length",
        "https://raw.githubusercontent.com/BibleNLP/ebible/main/", "public domain", "bible",
        "e7817d8447f992560c589335fa826340c96d170daa49ef52998ecf50641f9d7a",
    ),
}  # fmt: skip
TEXT = {
    "shakespeare": Preset(
        "plays, 1.1 M characters; the last tenth is valid and test, as in nanoGPT",
        "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
        "public domain", "shakespeare/tinyshakespeare.txt",
        "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed", shares=NANOGPT,
    ),
    "war-and-peace": Preset(
        "a novel, 3.2 M characters", "https://www.gutenberg.org/ebooks/2600.txt.utf-8",
        "public domain in the US", "gutenberg/war_and_peace.txt",
        "2e859351cc952173d3b1e2f2f633e626419ddf4398bcdae0e4b0a9f0c12683d9",
    ),
}  # fmt: skip


def check_name(data: str, names: Mapping[str, Preset]) -> None:
    """Raise ValueError if data is not a path, one of the corpora, or an id on the hub."""
    if data not in names and "/" not in data and not (data and Path(data).exists()):
        raise ValueError(explain_unknown(data, names))


def explain_unknown(data: str, names: Mapping[str, Preset]) -> str:
    """Return an error message for data that does not exist."""
    similar = did_you_mean(data, names)
    return f"{data!r} does not exist; it is no file, corpus{similar} or OWNER/NAME on the hub"


def describe(name: str) -> str:
    """Describe a corpus, its source and its licence, in one line."""
    if (preset := (PARALLEL | TEXT).get(name)) is None:
        return ""
    return f"{name}: {preset.description}. Source: {preset.source}. Licence: {preset.licence}.\n"


def checksum_warning(name: str, sha256: str) -> str:
    """Return a warning if a corpus is not the one known by this name."""
    preset = (PARALLEL | TEXT).get(name)
    if preset is None or preset.sha256 == sha256:
        return ""
    return f"{name} is not the text known by this name: scores will differ"


def local_path(preset: Preset) -> Path | None:
    """Return the path of a corpus on this machine, if SEQMODELS_DATA has it."""
    folder = os.environ.get("SEQMODELS_DATA")
    path = Path(folder).expanduser() / preset.local if folder else None
    return path if path and path.exists() else None


def locate(name: str) -> str:
    """Return the path of a corpus, which is downloaded if need be, its id on the hub, or `name`."""
    if (preset := (PARALLEL | TEXT).get(name)) is None:
        return name
    fetch = download if "://" in preset.source else str
    return str(local_path(preset) or fetch(preset.source))


def cache_dir() -> Path:
    """Return the folder of the cache: SEQMODELS_CACHE, or ~/.cache/seqmodels."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "seqmodels"
    return Path(os.environ.get("SEQMODELS_CACHE") or default).expanduser()


# ---------------------------------------------------------------------------------- The network

HUB_ID = re.compile(r"[\w-][\w.-]*/(?![^:]*\.(?:[ct]sv|jsonl?|parquet)(?:$|:))[\w.-]+(?::[\w.-]+)?")
"""OWNER/NAME or OWNER/NAME:CONFIG, and no table in a folder."""


def import_datasets() -> Any:
    """Import `datasets`, which takes a second, without its bars and logs."""
    import datasets

    datasets.disable_progress_bars()
    for name in ("datasets", "huggingface_hub"):  # errors are reported in one line
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return datasets


@contextmanager
def explain_errors(what: str) -> Iterator[None]:
    """Raise ValueError with the first cause, in one line, of an error that `datasets` raises."""
    try:
        yield
    except Exception as fault:  # of one of several libraries
        cause: BaseException = fault
        while (below := cause.__cause__ or cause.__context__) is not None:
            cause = below
        reason = one_line(str(cause) or type(cause).__name__)[:300]
        hint = "without a network, give files as --data, or see SEQMODELS_DATA in docs/data.md"
        raise ValueError(f"{what} cannot be read: {reason}; {hint}") from fault


def load_dataset(data: str, limit: int | None) -> dict[str, Any]:
    """Return the splits of OWNER/NAME or OWNER/NAME:CONFIG on the hub, kept by `datasets`.

    With `limit`, that many rows of train are streamed, shuffled in a buffer.
    """
    if not (HUB_ID.fullmatch(data) or Path(data).is_dir()):
        raise ValueError(explain_unknown(data, PARALLEL | TEXT))
    name, _, config = data.partition(":")
    with explain_errors(data):
        loaded = import_datasets().load_dataset(name, config or None, streaming=bool(limit))
        if limit:
            loaded["train"] = loaded["train"].shuffle(seed=1, buffer_size=10_000).take(limit)
        return dict(loaded)


def download(address: str) -> Path:
    """Return the path of a file at an address, which `datasets` downloads once."""
    with explain_errors(address):
        return Path(import_datasets().DownloadManager().download(address))

"""Corpora known by name, and where they are: at an address, in SEQMODELS_DATA, in the cache.

None of them is part of this project.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from seqmodels.data.cache import cache_dir, ensure_dir
from seqmodels.utils import files
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
    sha256: str | None = None
    """SHA-256 of the text that we used by this name, as in a record; None: not used."""
    columns: tuple[str, ...] = ()
    """Names of the columns of a local file without a header."""
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
    "opus-books-de-en": Preset(
        "novels, 51,000 pairs", "Helsinki-NLP/opus_books:de-en", "other: for research",
        "opus_books-de-en",
    ),
    "wmt14-de-en": Preset(
        "WMT14, 4.5 M pairs; newstest2014", "wmt/wmt14:de-en", "WMT: for research", "wmt14-de-en"
    ),
    "wmt14-fr-en": Preset(
        "WMT14, 40 M pairs; newstest2014", "wmt/wmt14:fr-en", "WMT: for research", "wmt14-fr-en"
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
    "wikitext-2-raw": Preset(
        "Wikipedia, 720 articles, 2 M words", "Salesforce/wikitext:wikitext-2-raw-v1", "CC BY-SA",
        "wikitext-2-raw-v1",
    ),
    "tinystories": Preset(
        "2.1 M stories for small children, written by GPT", "roneneldan/TinyStories",
        "CDLA-Sharing-1.0", "TinyStories",
    ),
    "names": Preset(
        "32,033 first names", "https://raw.githubusercontent.com/karpathy/makemore/master/names.txt",
        "MIT", "names/names.txt",
        "0a30b5557f192f32ab962680889aac5f6fda0f4cecf40a6d0b5694f58ea8cc4d",
    ),
}  # fmt: skip


def check_name(data: str, corpora: Mapping[str, Preset]) -> None:
    """Raise ValueError if data is not a path, one of the corpora, or an id on the hub."""
    if data not in corpora and "/" not in data and not (data and Path(data).exists()):
        raise ValueError(explain_unknown(data))


def explain_unknown(data: str) -> str:
    """Return an error message for data that does not exist, or is a corpus for another task."""
    if data in PARALLEL | TEXT:
        kind = "a parallel corpus, for translation" if data in PARALLEL else "text, for next_token"
        return f"{data} is {kind}"
    name, similar = data or "''", did_you_mean(data, PARALLEL | TEXT)
    return f"{name} does not exist; it is not a known corpus{similar} and not OWNER/NAME on the hub"


def describe(name: str) -> str:
    """Describe a corpus, its source and its licence, in one line."""
    if (preset := (PARALLEL | TEXT).get(name)) is None:
        return ""
    return f"{name}: {preset.description}. Source: {preset.source}. Licence: {preset.licence}.\n"


def checksum_warning(name: str, sha256: str) -> str:
    """Return a warning if a corpus is not the one known by this name."""
    preset = (PARALLEL | TEXT).get(name)
    if preset is None or preset.sha256 in (None, sha256):
        return ""
    return f"{name} is not the text known by this name: scores will differ"


def local_path(preset: Preset) -> Path | None:
    """Return the path of a corpus on this machine, if SEQMODELS_DATA has it."""
    folder = os.environ.get("SEQMODELS_DATA")
    path = Path(folder).expanduser() / preset.local if folder else None
    return path if path and path.exists() else None


def locate(name: str, preset: Preset) -> str:
    """Return the path of a corpus, which is downloaded if need be, or its id on the hub."""
    if (path := local_path(preset)) or "://" not in preset.source:
        return str(path or preset.source)
    hint = offline_hint(preset.source)
    # Editions by Project Gutenberg differ in what is around the text.
    sha256 = None if "gutenberg" in preset.source else preset.sha256
    return str(download(preset.source, f"{name}.txt", hint, sha256))


def offline_hint(source: str) -> str:
    """Explain how to use a corpus without a network."""
    for name, preset in (PARALLEL | TEXT).items():
        if preset.source == source:
            return (
                f"to use {name} without a network, put it into a folder as {preset.local}, and set "
                "SEQMODELS_DATA to that folder"
            )
    return (
        "without a network, give text files or a .tsv, .csv, .jsonl or .parquet file as --data; "
        "see --help"
    )


TIMEOUT_S = 20.0
"""How long to wait for a download."""
MAX_BYTES = 2**26
"""Limit of a download."""


def download(address: str, name: str, hint: str, sha256: str | None = None) -> Path:
    """Return the cached copy of a file at an address, which is downloaded once.

    Raises ValueError, which ends with `hint`, if the download fails, is a page instead of a text or
    has another checksum, and WriteError.
    """
    path = ensure_dir(cache_dir()) / name
    if path.exists():
        return path
    try:
        with urlopen(address, timeout=TIMEOUT_S) as answer:
            content = answer.read(MAX_BYTES + 1)
    except Exception as fault:  # from one of several network libraries
        cause = one_line(str(fault)) or type(fault).__name__
        raise ValueError(f"{address} cannot be fetched: {cause}; {hint}") from fault
    is_page, is_cut = content[:1] == b"<", len(content) > MAX_BYTES
    if is_page or is_cut or sha256 not in (None, hashlib.sha256(content).hexdigest()):
        raise ValueError(f"{address} returned something else; {hint}")
    return files.write(path, content)

"""Corpora known by name: where they come from, their licence and their expected checksum.

A corpus is looked up in the folder SEQMODELS_DATA, then on the hub or at its address.
None of them is part of this project.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from seqmodels.data import bible, corpus, readers
from seqmodels.data.cache import cache_dir, cached, ensure_dir, fingerprint
from seqmodels.data.corpus import ParallelCorpus
from seqmodels.data.languages import resolve_direction
from seqmodels.data.readers import TABLES
from seqmodels.data.text_corpus import SHARES, TextCorpus, read_texts
from seqmodels.utils import files
from seqmodels.utils.terminal import one_line

TIKTOKEN_ENCODINGS = ("gpt2", "o200k_base")
"""tiktoken's encodings that can be downloaded: those of GPT-2 and of GPT-4o."""
TOKENIZERS = ("bpe", "words", "spaces", "characters", "bytes", *TIKTOKEN_ENCODINGS)
"""The kinds of tokenizers that `tokenizers.make` makes."""
TOKENIZERS_WITH_VOCAB_SIZE = ("bpe", "words", "spaces")
"""Those that are trained up to a given vocabulary size."""


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
    splits: Mapping[str, str] = {}
    """Names of the splits in that folder, where they differ from ours."""
    columns: Mapping[str, str] = {}
    """Language -> column, for a local file without a header."""
    shares: Mapping[str, tuple[float, float]] = SHARES
    """Where each split of a text without splits begins and ends."""
    is_gutenberg: bool = False
    """An edition of Project Gutenberg, with its header and footer; corrected now and then."""
    is_tokenized: bool = False
    """Its words are separated by spaces already, and rare ones can be written `<unk>`."""

    @property
    def is_on_hub(self) -> bool:
        """Return whether the hub has it."""
        return "://" not in self.source


MULTI30K = {"valid": "val", "test": "test_2016_flickr"}
PARALLEL = {
    "multi30k": Preset(
        "image captions, 29,000 pairs; test 2016", "bentrevett/multi30k",
        "none for the text: for research", "multi30k",
        "e5b35f7ead37c5f15756580644a80a96a26a738de45fed7c2ca6d6f5e89cd294", MULTI30K,
    ),
    "bible": Preset(
        "Luther 1912 and World English Bible, 28,944 verses; test by length",
        bible.ADDRESS, "public domain", "bible",
        "e7817d8447f992560c589335fa826340c96d170daa49ef52998ecf50641f9d7a",
    ),
    "anki-en-fr": Preset(
        "short sentences, 167,130 pairs", "https://www.manythings.org/anki/", "CC BY 2.0 FR",
        "anki/eng-fra.2019-04-07.tsv",
        "b80f7ec8e942a83090d4419dc41e41c956749f85337672505635a49ffb39421d",
        columns={"en": "1", "fr": "2"},
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


def local_path(preset: Preset) -> Path | None:
    """Return the path of a corpus on this machine, if SEQMODELS_DATA has it."""
    folder = os.environ.get("SEQMODELS_DATA")
    path = Path(folder).expanduser() / preset.local if folder else None
    return path if path and path.exists() else None


def describe(name: str) -> str:
    """Describe a corpus, its source and its licence, in one line."""
    if (known := (PARALLEL | TEXT).get(name)) is None:
        return ""
    return f"{name}: {known.description}. Source: {known.source}. Licence: {known.licence}.\n"


def checksum_warning(name: str, sha256: str) -> str:
    """Return a warning if a corpus is not the one known by this name."""
    known = (PARALLEL | TEXT).get(name)
    if known is None or known.sha256 in (None, sha256):
        return ""
    return f"{name} is not the text known by this name: scores will differ"


def offline_hint(name: str, preset: Preset) -> str:
    """Explain how to use a corpus without a network."""
    return (
        f"to use {name} without a network, put it into a folder as {preset.local}, and set "
        "SEQMODELS_DATA to that folder"
    )


# ------------------------------------------------------------------------------ Parallel text


def open_parallel(
    data: Sequence[str], languages: Sequence[str | None] = (None, None), limit: int | None = None
) -> ParallelCorpus:
    """Open a parallel corpus by its name here, or as `read_parallel` does."""
    name = data[0]
    preset = PARALLEL.get(name) if len(data) == 1 else None
    if preset is None:
        return read_parallel(data, languages, limit)
    path = local_path(preset)
    if name == "bible" and not (path and (path / "train.de").exists()):
        path = bible_folder(path, preset)
    if path and preset.columns:
        src, tgt = resolve_direction([*preset.columns], languages, name)
        opened = read_parallel([str(path)], (preset.columns[src], preset.columns[tgt]), limit)
        return opened._replace(name=name, src_lang=src, tgt_lang=tgt)
    if path:
        return read_parallel([str(path)], languages, limit, preset.splits)._replace(name=name)
    if not preset.is_on_hub:
        raise ValueError(
            f"{name} is not downloaded ({preset.source}); {offline_hint(name, preset)}"
        )
    try:
        return read_parallel([preset.source], languages, limit)._replace(name=name)
    except ValueError as fault:
        raise ValueError(f"{fault}; {offline_hint(name, preset)}") from fault


def bible_folder(folder: Path | None, preset: Preset) -> Path:
    """Return the splits of the Bible, made from eBible's files in a folder or at its address."""
    paths = [folder / Path(file).name for file in bible.FILES] if folder else []
    if not (paths and all(path.exists() for path in paths)):
        listed = ", ".join(Path(file).name for file in bible.FILES)
        hint = f"{offline_hint('bible', preset)}; it has either our splits or eBible's {listed}"
        paths = [
            download(bible.ADDRESS + file, Path(file).name, lambda content: b"\n" in content, hint)
            for file in bible.FILES
        ]
    key = ["bible", 2, *map(fingerprint, paths)]
    return cached(key, "bible: splitting eBible's verses", lambda part: bible.split(paths, part))


def read_parallel(
    data: Sequence[str | Path],
    languages: Sequence[str | None] = (None, None),
    limit: int | None = None,
    names: Mapping[str, str] | None = None,
) -> ParallelCorpus:
    """Open a parallel corpus.

    data        one of: two text files, the second the translation of the first; a folder of
                `SPLIT.LANG`, e.g. `train.de` and `train.en`; a file .tsv .csv .jsonl .parquet; a
                folder of such files; OWNER/NAME or OWNER/NAME:CONFIG, a dataset on the hub
    languages   of source and target: codes of text files, names of columns, or their numbers,
                from 1; None: the source is the first of two files, or the alphabetically first
                language if a folder or a table has exactly two
    limit       pairs of train to stream from a table, shuffled, instead of reading all of it
    names       names of the splits in a folder of text files, where they differ from ours

    Raises ValueError.
    """
    first = Path(data[0])
    if len(data) > 2:
        raise ValueError(f"{len(data)} files were given; a parallel corpus has two")
    is_lines = len(data) == 2 or (first.is_dir() and not has_tables(first))
    if is_lines and limit:
        raise ValueError("a limit applies only to tables and the hub; text files are read whole")
    if is_lines:
        if len(data) == 2:
            return corpus.read_two_files([first, Path(data[1])], languages)
        return corpus.read_folder(first, languages, names or {})
    if first.suffix in readers.TEXT_TABLES and first.is_file() and not limit:
        return corpus.read_table(first, languages)
    from seqmodels.data import hub  # takes seconds to import, not needed for text files

    return hub.read_parallel(str(data[0]), languages, limit)


def has_tables(folder: Path) -> bool:
    """Return whether a folder, or one in it, has tables, as on the hub, and no `train.xx`."""
    if any(path.suffix not in TABLES for path in folder.glob("train.*")):
        return False
    found = (path for depth in ("*", "*/*") for path in folder.glob(depth))
    return any(path.suffix in TABLES for path in found)


# -------------------------------------------------------------------------------- Running text

NANOGPT = {"train": (0.0, 0.9), "valid": (0.9, 1.0), "test": (0.9, 1.0)}
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
        "2e859351cc952173d3b1e2f2f633e626419ddf4398bcdae0e4b0a9f0c12683d9", is_gutenberg=True,
    ),
    "wikitext-2": Preset(
        "Wikipedia, 720 articles, 2 M words, rare ones written <unk>",
        "Salesforce/wikitext:wikitext-2-v1", "CC BY-SA", "wikitext-2-v1", is_tokenized=True,
    ),
    "wikitext-2-raw": Preset(
        "Wikipedia, 720 articles, 2 M words", "Salesforce/wikitext:wikitext-2-raw-v1", "CC BY-SA",
        "wikitext-2-raw-v1", is_tokenized=True,
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
TIMEOUT_S = 20.0
"""How long to wait for a download."""
MAX_BYTES = 2**26
"""Limit of a download."""


def open_text(
    data: Sequence[str], column: str | None = None, limit: int | None = None
) -> TextCorpus:
    """Open running text by its name here, or as `read_text_corpus` does."""
    name = data[0]
    preset = TEXT.get(name) if len(data) == 1 else None
    if preset is None:
        return read_text_corpus(data, column, limit)
    path = local_path(preset)
    if path is None and preset.is_on_hub:
        try:
            return read_text_corpus([preset.source], column, limit)._replace(name=name)
        except ValueError as fault:
            raise ValueError(f"{fault}; {offline_hint(name, preset)}") from fault
    path = path or fetch_text(name, preset)
    return read_text_corpus([path], column, limit, preset.shares)._replace(name=name)


def read_text_corpus(
    data: Sequence[str | Path],
    column: str | None = None,
    limit: int | None = None,
    shares: Mapping[str, tuple[float, float]] = SHARES,
) -> TextCorpus:
    """Open running text.

    data     text files, which are read one after the other; or one of: a file .tsv .csv .jsonl
             .parquet; a folder of such files; OWNER/NAME or OWNER/NAME:CONFIG, a dataset on the
             hub: each row is a document
    column   the text column; None: `text` or `sentence`, or the only one
    limit    rows of train to stream from a table, shuffled, instead of reading all of it
    shares   where each split begins and ends, in characters, for data without splits

    Raises ValueError.
    """
    first = Path(data[0])
    if len(data) == 1 and (first.suffix in TABLES or first.is_dir() or not first.exists()):
        from seqmodels.data import hub  # takes seconds to import, not needed for text files

        return hub.read_text_corpus(str(data[0]), column, limit, shares)
    for flag, given in (("limit", limit), ("column", column)):
        if given:
            raise ValueError(
                f"a {flag} applies only to a table or the hub; text files are read whole"
            )
    return read_texts([Path(what) for what in data], shares)


def fetch_text(name: str, preset: Preset) -> Path:
    """Return the cached copy of a text with an address, which is downloaded once.

    Raises ValueError if the download fails or is not the expected text.
    """

    def is_expected(content: bytes) -> bool:
        if preset.is_gutenberg:
            return b"*** START OF TH" in content and b"*** END OF TH" in content
        return hashlib.sha256(content).hexdigest() == preset.sha256

    return download(preset.source, f"{name}.txt", is_expected, offline_hint(name, preset))


def download(address: str, name: str, is_expected: Callable[[bytes], bool], hint: str) -> Path:
    """Return the cached copy of a file at an address, which is downloaded once.

    Raises ValueError, which ends with `hint`, if the download fails or is not what `is_expected`
    accepts, and WriteError.
    """
    path = ensure_dir(cache_dir()) / name
    if path.exists():
        return path
    try:
        with urlopen(address, timeout=TIMEOUT_S) as answer:
            content = answer.read(MAX_BYTES)
    except Exception as fault:  # from one of several network libraries
        why = one_line(str(fault)) or type(fault).__name__
        raise ValueError(f"{address} cannot be fetched: {why}; {hint}") from fault
    if not is_expected(content):
        raise ValueError(f"{address} returned something else; {hint}")
    return files.write(path, content)

"""From a corpus to tokens, once: train the tokenizer, encode, write.

A corpus is read twice, for the tokenizer and to encode it, and never held in memory. `batches` maps
the tokens, arrays of numbers in the cache, into memory. The cache can be removed at any time.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar
from unicodedata import normalize

import numpy as np
from filelock import FileLock

from seqmodels.data import SPLITS, TOKENIZERS, corpora, tokenizers
from seqmodels.data.batches import FACTS_FILE, TokenizedPairs, TokenStream
from seqmodels.data.text import Corpus, Pair, count_words, fingerprint, is_blank
from seqmodels.data.tokenizers import EOS, UNK, Tokenizer
from seqmodels.utils.terminal import printable

with warnings.catch_warnings(action="ignore"):  # in a notebook without ipywidgets
    from tqdm.auto import tqdm

FORMAT = 15
"""Version of the folder's format: when it changes, a new folder is made."""
TOKENIZER, TEST_TEXTS = "tokenizer.json", "test.json"
"""Files in the folder of a corpus, beside those of `batches`."""
MAX_TOKENS = {"train": 200, "valid": 200, "test": 400}
"""Most tokens of a source, EOS included, or of a target; longer pairs are left out and counted."""
Split = TypeVar("Split", TokenizedPairs, TokenStream)


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """Settings of the preparation of a corpus; all but the first two are for pairs."""

    tokenizer: str = "bpe"
    """One of TOKENIZERS, or the path of a vocabulary.json."""
    vocab_size: int = 4_000
    """Maximum number of ids, for the tokenizers whose size can be chosen."""
    is_lowercase: bool = False
    """Lower-case both sides."""
    has_source_eos: bool = True
    """End each source with EOS, like each target."""

    def normalize(self, pair: Pair) -> Pair:
        """Return a pair in Unicode's normal form C, and in lower case if that is chosen."""
        src, tgt = normalize("NFC", pair.src), normalize("NFC", pair.tgt)
        return Pair(src.lower(), tgt.lower()) if self.is_lowercase else Pair(src, tgt)


@dataclass(frozen=True)
class Prepared(Generic[Split]):
    """A prepared corpus."""

    tokenizer: Tokenizer
    train: Split
    valid: Split
    test: Split
    data: dict[str, Any]
    """Name, checksum and counts, as a record shows them."""
    test_texts: list[tuple[str, str]]
    """Source and target of each test pair, before encoding."""
    most_words: int
    """Words of the longest source of train, if it has sources."""


def prepare(corpus: Corpus, config: PrepareConfig) -> Prepared[Any]:
    """Prepare a corpus, once; raise ValueError if nothing is left to train or test on."""
    name = printable(corpus.name)[:200]
    kind: type[TokenStream | TokenizedPairs] = TokenStream
    build: Callable[[Path], Mapping[str, object]] = partial(build_text, corpus, config)
    if corpus.languages:
        name += f" {'→'.join(map(printable, corpus.languages))}"
        name += ", lower-cased" if config.is_lowercase else ""
        kind, build = TokenizedPairs, partial(build_pairs, corpus, config)
    tokenizer = "" if config.tokenizer in TOKENIZERS else fingerprint(Path(config.tokenizer))
    key = [FORMAT, kind.__name__, name, printable(corpus.key), *corpus.splits, tokenizer]
    folder = cached([*key, *astuple(config)], build)
    facts, texts = json.loads((folder / FACTS_FILE).read_text("utf-8")), folder / TEST_TEXTS
    train, valid, test = (kind(folder, split) for split in SPLITS)
    return Prepared(
        tokenizers.load(folder / TOKENIZER),
        train,
        valid,
        test,
        {"name": name, **facts["data"]},
        [*map(tuple, json.loads(texts.read_text("utf-8")))] if texts.exists() else [],
        facts["most_words"],
    )


def cached(key: list[object], build: Callable[[Path], Mapping[str, object]]) -> Path:
    """Return the folder for what depends only on `key`; it is there when it is complete."""
    folder = corpora.cache_dir() / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / FACTS_FILE).exists():
            print(f"tokenizing; cached in {folder}")
            with TemporaryDirectory(prefix=f"{folder.name}.part-", dir=folder.parent) as part:
                Path(part, FACTS_FILE).write_text(json.dumps(build(Path(part))), "utf-8")
                shutil.rmtree(folder, ignore_errors=True)
                Path(part).rename(folder)
                Path(part).mkdir()  # for TemporaryDirectory to remove
    return folder


def summarize(data: Mapping[str, Any]) -> str:
    """Summarise a corpus in a few lines."""
    is_text = "n_train" not in data
    counts = ", ".join(f"{data[f'n_tokens_{s}' if is_text else f'n_{s}']:,} {s}" for s in SPLITS)
    lines = [f"{data['name']}: {counts} {'tokens' if is_text else 'pairs'}; {data['tokenizer']}"]
    for split in SPLITS:
        if not is_text:
            n_blank, n_long = (data[f"n_{kind}_{split}"] for kind in ("blank", "too_long"))
            limit = f"{n_long:,} longer than {MAX_TOKENS[split]} tokens on a side"
            lines.append(f"  {split}: left out: {n_blank:,} blank, {limit}")
        if n := data[f"n_unknown_{split}"]:
            share = n / data[f"n_tokens_{split}"]
            lines.append(f"  {split}: {n:,} tokens are unknown, {share:.2%}, read as ⁇")
    if not is_text:
        lines.append(f"  {data['n_test_sources_in_train']:,} test sources are also in train")
    if "tested" in data:
        lines.append("  there is no third split: test is valid, which also chooses the weights")
    return "\n".join(lines)


# ----------------------------------------------------------------------------------------- Pairs


class PairWriter:
    """Write the tokens of a split's pairs, as `TokenizedPairs` reads them."""

    def __init__(self, folder: Path, split: str, tokenizer: Tokenizer, config: PrepareConfig):
        self.tokenizer, self.limit, self.kind = tokenizer, MAX_TOKENS[split], tokenizer.dtype.char
        self.source_end = [EOS] if config.has_source_eos else []
        self.files = [(folder / f"{split}.{kind}").open("wb") for kind in ("src", "tgt", "ends")]
        self.n = self.n_blank = self.n_too_long = self.n_unknown = 0
        self.ends = np.zeros(2, np.int64)
        self.files[-1].write(self.ends.tobytes())

    def write(self, pair: Pair) -> bool:
        """Write a pair and count it; return whether it is neither blank nor too long."""
        if any(map(is_blank, pair)):
            self.n_blank += 1
            return False
        src = [*self.tokenizer.encode(pair.src), *self.source_end]
        tgt = [*self.tokenizer.encode(pair.tgt), EOS]
        if max(len(src), len(tgt)) > self.limit:
            self.n_too_long += 1
            return False
        for side, file in zip((src, tgt), self.files, strict=False):
            file.write(array(self.kind, side).tobytes())
        self.ends += len(src), len(tgt)
        self.files[-1].write(self.ends.tobytes())
        self.n += 1
        self.n_unknown += src.count(UNK) + tgt.count(UNK)
        return True


def build_pairs(corpus: Corpus, config: PrepareConfig, folder: Path) -> dict[str, object]:
    """Write the tokenizer, the tokens and the test texts; return facts for the record."""
    train = (config.normalize(pair) for split, pair in corpus.pairs() if split == "train")
    trained_on = (side for pair in train if not any(map(is_blank, pair)) for side in pair)
    tokenizer = tokenizers.make(config.tokenizer, trained_on, config.vocab_size)
    tokenizer.save(folder / TOKENIZER)
    digests = hashlib.sha256(), hashlib.sha256()
    sources, texts, most_words = array("q"), list[Pair](), 0
    with ExitStack() as stack:
        writers = {split: PairWriter(folder, split, tokenizer, config) for split in SPLITS}
        for file in (file for writer in writers.values() for file in writer.files):
            stack.enter_context(file)
        for split, raw in tqdm(corpus.pairs(), "tokenizing", disable=None, leave=False):
            for digest, side in zip(digests, raw, strict=True):
                digest.update(f"{side}\n".encode())
            pair = config.normalize(raw)
            is_written = writers[split].write(pair)
            if split == "train" and not is_blank(pair.tgt):
                sources.append(hash(pair.src))
            if split == "train" and is_written:
                most_words = max(most_words, count_words(pair.src))
            elif split == "test" and is_written:
                texts.append(pair)
    (folder / TEST_TEXTS).write_text(json.dumps(texts), "utf-8")
    tested = [hash(pair.src) for pair in texts]
    in_train = {*tested}.intersection(sources)
    both = b"".join(sorted(digest.digest() for digest in digests))  # the same in both directions
    data = {
        "sha256": hashlib.sha256(both).hexdigest(),
        **count_splits(corpus, writers),
        "n_test_sources_in_train": sum(src in in_train for src in tested),
        "source_end": "EOS" if config.has_source_eos else "none",
        "max_tokens": MAX_TOKENS["train"],
        "max_tokens_test": MAX_TOKENS["test"],
        "tokenizer": tokenizer.name,
        **({"case": "lower"} if config.is_lowercase else {}),
    }
    return {"data": data, "most_words": most_words, "dtype": tokenizer.dtype.name}


def count_splits(corpus: Corpus, writers: Mapping[str, PairWriter]) -> dict[str, int]:
    """Return the counts of each split; raise ValueError if a split is empty."""
    counts: dict[str, int] = {}
    for split, writer in writers.items():
        if not writer.n:
            message = (
                f"{printable(corpus.name)}: no pair of {split} is left: {writer.n_blank:,} have a "
                f"blank side, {writer.n_too_long:,} more than {writer.limit:,} tokens on a side"
            )
            if len(corpus.splits) < len(SPLITS):
                message += "; valid and test are drawn from train by the source: give more pairs "
                message += "with other sources, or a folder of all three"
            raise ValueError(message)
        for kind in ("n", "n_blank", "n_too_long", "n_unknown"):
            counts[f"{kind}_{split}"] = getattr(writer, kind)
        counts[f"n_tokens_{split}"] = int(writer.ends.sum())
    return counts


# ---------------------------------------------------------------------------------- Running text


def build_text(corpus: Corpus, config: PrepareConfig, folder: Path) -> dict[str, object]:
    """Write the tokenizer and the tokens; return facts for the record."""
    for split, read in corpus.splits.items():
        if all(map(is_blank, read())):
            raise ValueError(f"{printable(corpus.name)} has no text in {split}; give more text")
    tokenizer = tokenizers.make(config.tokenizer, corpus.splits["train"](), config.vocab_size)
    tokenizer.save(folder / TOKENIZER)
    is_valid_tested = corpus.splits["test"] is corpus.splits["valid"]
    digest, counts = hashlib.sha256(), Counter[str]()
    for split, read in corpus.splits.items():
        with open(folder / f"{split}.ids", "wb") as file:
            for piece in tqdm(read(), f"tokenizing {split}", disable=None, leave=False):
                if not (split == "test" and is_valid_tested):
                    digest.update(piece.encode())
                ids = np.array(tokenizer.encode(piece), tokenizer.dtype)
                ids.tofile(file)
                counts[f"n_tokens_{split}"] += len(ids)
                counts[f"n_unknown_{split}"] += int((ids == UNK).sum())
    data = {
        "sha256": digest.hexdigest(),
        **counts,
        "tokenizer": tokenizer.name,
        **({"tested": "valid"} if is_valid_tested else {}),
    }
    return {"data": data, "most_words": 0, "dtype": tokenizer.dtype.name}

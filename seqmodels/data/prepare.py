"""From a corpus to tokens, once: read, train the tokenizer, encode.

The corpus is read in one pass. Its texts, and then its tokens, are on disk, and only hashes of a
pair are held in memory. `batches` maps the tokens, arrays of numbers, into memory.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar
from unicodedata import is_normalized, normalize

import numpy as np

from seqmodels.data import SPLITS, TOKENIZERS, tokenizers
from seqmodels.data.batches import TokenizedPairs, TokenStream
from seqmodels.data.cache import FACTS_FILE, cached, fingerprint
from seqmodels.data.running_text import TextCorpus
from seqmodels.data.scripts import count_words
from seqmodels.data.splits import Pair, ParallelCorpus
from seqmodels.data.tokenizers import EOS, UNK, Tokenizer
from seqmodels.utils import files
from seqmodels.utils.terminal import printable

with warnings.catch_warnings(action="ignore"):  # in a notebook without ipywidgets
    from tqdm.auto import tqdm

FORMAT = 14
"""Version of the folder's format: when it changes, a new folder is made."""
TOKENIZER, TEST_TEXTS = "tokenizer.json", "test.json"
"""Files in the folder of a corpus."""
NOTES = {
    "n_not_nfc": "lines were not in Unicode's normal form C, and are brought to it",
    "n_characters_left_out": "characters of Project Gutenberg's header and licence are left out",
}
"""Other counts, each with its description."""
Split = TypeVar("Split", TokenizedPairs, TokenStream)


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """Settings of the preparation of a corpus; all but the first two are for pairs."""

    tokenizer: str = "bpe"
    """One of TOKENIZERS, or the path of a tokenizer.json."""
    vocab_size: int = 4_000
    """Maximum number of ids, for the tokenizers whose size can be chosen."""
    is_lowercase: bool = False
    """Lower-case both sides."""
    max_tokens: int = 200
    """On each side, including a source's EOS, in train and valid, and twice as many in test; longer
    pairs are left out and counted."""
    has_source_eos: bool = True
    """End each source with EOS, like each target."""

    def limit(self, split: str) -> int:
        """Return the maximum number of tokens of a side in a split."""
        return 2 * self.max_tokens if split == "test" else self.max_tokens


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


def prepare(
    corpus: ParallelCorpus | TextCorpus, config: PrepareConfig, log: Callable[[str], None] = print
) -> Prepared[Any]:
    """Prepare a corpus; the work is done once, by one of several processes, which all wait for it.

    Raises ValueError if nothing is left to train or test on, and WriteError.
    """
    kind: type[TokenStream | TokenizedPairs] = TokenStream
    if isinstance(corpus, TextCorpus):
        name, build = corpus.name, partial(build_text, corpus, config)
    else:
        name = f"{corpus.name} {corpus.src_lang}→{corpus.tgt_lang}"
        kind, build = TokenizedPairs, partial(build_pairs, corpus, config)
    is_file = config.tokenizer not in TOKENIZERS
    key = [FORMAT, kind.__name__, printable(f"{name} {corpus.key}"), *corpus.splits]
    key += [*astuple(config), printable(fingerprint(Path(config.tokenizer))) if is_file else ""]
    folder = cached(key, f"{printable(corpus.name)}: tokenizing", build, log)
    facts, texts = files.read_json(folder / FACTS_FILE), folder / TEST_TEXTS
    name = printable(name)[:200]
    name += ", lower-cased" if config.is_lowercase else ""
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


def summarize(data: Mapping[str, Any]) -> str:
    """Summarise a corpus in a few lines."""
    is_text = "n_train" not in data
    counts = ", ".join(f"{data[f'n_tokens_{s}' if is_text else f'n_{s}']:,} {s}" for s in SPLITS)
    unit = f"tokens; {data['tokenizer']}" if is_text else "pairs"
    lines = [f"{data['name']}: {counts} {unit}"]
    for split in () if is_text else SPLITS:
        n_blank, n_long = (data[f"n_{kind}_{split}"] for kind in ("blank", "too_long"))
        limit = data["max_tokens_test" if split == "test" else "max_tokens"]
        out = f"{n_blank:,} blank, {n_long:,} longer than {limit:,} tokens on a side"
        lines.append(f"  {split}: left out: {out}")
    if not is_text:
        lines.append(f"  {data['n_test_sources_in_train']:,} test sources are also in train")
    lines += [f"  {data[key]:,} {note}" for key, note in NOTES.items() if data.get(key)]
    if "tested" in data:
        lines.append("  there is no third split: test is valid, which also chooses the weights")
    for split in SPLITS:
        if n := data[f"n_unknown_{split}"]:
            share = f"{n / data[f'n_tokens_{split}']:.2%}"
            lines.append(f"  {n:,} tokens of {split} are unknown: {share}, read as ⁇")
    return "\n".join(lines)


# ----------------------------------------------------------------------------------------- Pairs


def build_pairs(corpus: ParallelCorpus, config: PrepareConfig, folder: Path) -> dict[str, object]:
    """Write the tokenizer, the tokens and the test texts; return facts for the record."""
    with TemporaryDirectory(dir=folder) as scratch:
        sources, counts, sha256 = scan_pairs(corpus, config, Path(scratch))
        for split in SPLITS:
            if not len(sources[split]):
                raise ValueError(explain_empty(split, corpus, config, counts))

        def read(split: str) -> Iterator[Pair]:
            with open(Path(scratch, split)) as lines:
                for line in lines:
                    yield Pair(*json.loads(line))

        sides = chain.from_iterable(read("train"))
        tokenizer = tokenizers.make(config.tokenizer, sides, config.vocab_size)
        tokenizer.save(folder / TOKENIZER)
        most_words, texts = 0, list[Pair]()
        for split in SPLITS:
            for pair in encode_pairs(folder, split, read(split), tokenizer, config, counts):
                if split == "train":
                    most_words = max(most_words, count_words(pair.src))
                elif split == "test":
                    texts.append(pair)
            if not counts[f"n_{split}"]:
                raise ValueError(explain_empty(split, corpus, config, counts))
    files.write(folder / TEST_TEXTS, json.dumps(texts))
    tested = [hash(src) for src, _ in texts]
    counts["n_test_sources_in_train"] = int(np.isin(tested, sources["train"]).sum())
    data = {
        "sha256": sha256,
        **counts,
        "source_end": "EOS" if config.has_source_eos else "none",
        "max_tokens": config.limit("train"),
        "max_tokens_test": config.limit("test"),
        "tokenizer": tokenizer.name,
        **({"case": "lower"} if config.is_lowercase else {}),
    }
    return {"data": data, "most_words": most_words, "dtype": tokenizer.dtype.name}


def scan_pairs(
    corpus: ParallelCorpus, config: PrepareConfig, folder: Path
) -> tuple[dict[str, array[int]], Counter[str], str]:
    """Read a corpus, once, and write its pairs into a folder, except those with a blank side.

    Return hashes of each split's sources; counts; and the checksum of all pairs, the same in both
    directions.
    """
    counts = Counter({"n_not_nfc": 0, **{f"n_blank_{split}": 0 for split in SPLITS}})
    digests = hashlib.sha256(), hashlib.sha256()
    hashes = {split: array("q") for split in SPLITS}
    lower = str.lower if config.is_lowercase else str
    with ExitStack() as stack:
        written = {split: stack.enter_context(open(folder / split, "w")) for split in SPLITS}
        for split, pair in corpus.pairs():
            for digest, side in zip(digests, pair, strict=True):
                digest.update(f"{side}\n".encode())
                counts["n_not_nfc"] += not is_normalized("NFC", side)
            src, tgt = (lower(normalize("NFC", side)) for side in pair)
            if src.strip() and tgt.strip():
                hashes[split].append(hash(src))
                written[split].write(f"{json.dumps((src, tgt))}\n")
            else:
                counts[f"n_blank_{split}"] += 1
    both = b"".join(sorted(digest.digest() for digest in digests))
    return hashes, counts, hashlib.sha256(both).hexdigest()


def encode_pairs(
    folder: Path,
    split: str,
    pairs: Iterator[Pair],
    tokenizer: Tokenizer,
    config: PrepareConfig,
    counts: Counter[str],
) -> Iterator[Pair]:
    """Write the tokens of a split, and yield its pairs; leave out and count those too long."""
    source_end = [EOS] if config.has_source_eos else []
    n = n_long = n_unknown = 0
    ends = np.zeros(2, np.int64)
    with ExitStack() as stack:
        src_file, tgt_file, ends_file = (
            stack.enter_context(open(folder / f"{split}.{kind}", "wb"))
            for kind in ("src", "tgt", "ends")
        )
        ends.tofile(ends_file)
        for pair in tqdm(pairs, f"tokenizing {split}", disable=None, leave=False):
            src = [*tokenizer.encode(pair.src), *source_end]
            tgt = [*tokenizer.encode(pair.tgt), EOS]
            if max(len(src), len(tgt)) > config.limit(split):
                n_long += 1
                continue
            array(tokenizer.dtype.char, src).tofile(src_file)
            array(tokenizer.dtype.char, tgt).tofile(tgt_file)
            ends += len(src), len(tgt)
            ends.tofile(ends_file)
            n, n_unknown = n + 1, n_unknown + src.count(UNK) + tgt.count(UNK)
            yield pair
    found = {"": n, "_too_long": n_long, "_tokens": int(ends.sum()), "_unknown": n_unknown}
    counts.update({f"n{kind}_{split}": number for kind, number in found.items()})


def explain_empty(
    split: str, corpus: ParallelCorpus, config: PrepareConfig, counts: Mapping[str, int]
) -> str:
    """Explain in a sentence why no pair of a split is left."""
    n_blank, n_long = counts[f"n_blank_{split}"], counts[f"n_too_long_{split}"]
    message = (
        f"{printable(corpus.name)}: no pair of {split} is left: {n_blank:,} have a blank side, "
        f"{n_long:,} more than {config.limit(split):,} tokens on a side (see --max-tokens)"
    )
    if len(corpus.splits) < len(SPLITS):
        message += (
            "; valid and test are drawn from train, each source into one split: give more pairs "
            "with other sources (a larger --limit, if there is one), or files for valid and test"
        )
    return message


# ---------------------------------------------------------------------------------- Running text


def build_text(corpus: TextCorpus, config: PrepareConfig, folder: Path) -> dict[str, object]:
    """Write the tokenizer and the tokens; return facts for the record."""
    for split in SPLITS:
        is_needed = str.strip if split == "train" else bool
        if not any(map(is_needed, corpus.splits[split]())):
            raise ValueError(
                f"{printable(corpus.name)} has no text in {split}, or only white space; give more "
                "text"
            )
    tokenizer = tokenizers.make(config.tokenizer, corpus.splits["train"](), config.vocab_size)
    tokenizer.save(folder / TOKENIZER)
    digest = hashlib.sha256()
    data: dict[str, int | str] = {}
    for split in SPLITS:
        is_read = split == "test" and corpus.is_valid_tested
        updated = hashlib.sha256() if is_read else digest
        data |= encode_text(folder, split, corpus.splits[split](), tokenizer, updated)
    data |= {"n_characters_left_out": corpus.n_left_out(), "tokenizer": tokenizer.name}
    data |= {"tested": "valid"} if corpus.is_valid_tested else {}
    data = {"sha256": digest.hexdigest(), **data}
    return {"data": data, "most_words": 0, "dtype": tokenizer.dtype.name}


def encode_text(
    folder: Path, split: str, pieces: Iterator[str], tokenizer: Tokenizer, digest: Any
) -> dict[str, int]:
    """Write the tokens of a split; return their number, and the number of UNKs among them."""
    n = n_unknown = 0
    with open(folder / f"{split}.ids", "wb") as ids_file:
        for piece in tqdm(pieces, split, disable=None, leave=False):
            digest.update(piece.encode())
            ids = np.array(tokenizer.encode(piece), tokenizer.dtype)
            ids.tofile(ids_file)
            n, n_unknown = n + len(ids), n_unknown + int((ids == UNK).sum())
    return {f"n_tokens_{split}": n, f"n_unknown_{split}": n_unknown}

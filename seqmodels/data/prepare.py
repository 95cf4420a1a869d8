"""From a corpus to tokens, once: read, clean, train the tokenizer, encode.

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
from dataclasses import astuple, dataclass, field
from functools import partial
from itertools import chain, compress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unicodedata import is_normalized, normalize

import numpy as np

from seqmodels.data import SPLITS, TOKENIZERS, tokenizers
from seqmodels.data.batches import LINE_EVERY, TokenizedPairs, TokenStream
from seqmodels.data.cache import FACTS_FILE, cached, fingerprint
from seqmodels.data.running_text import TextCorpus
from seqmodels.data.scripts import count_words
from seqmodels.data.splits import Pair, ParallelCorpus
from seqmodels.data.tokenizers import EOS, UNK, Tokenizer
from seqmodels.utils import files
from seqmodels.utils.terminal import printable

with warnings.catch_warnings(action="ignore"):  # in a notebook without ipywidgets
    from tqdm.auto import tqdm

FORMAT = 11
"""Version of the folder's format: when it changes, a new folder is made."""
TOKENIZER, TEST_TEXTS = "tokenizer.json", "test.json"
"""Files in the folder of a corpus."""
MAX_LENGTH_RATIO = 9.0
"""Ratio of the sides' words above which a pair is not a translation (as in Moses)."""

FAULTS = {
    "duplicate": "repeated",
    "unequal": f"with one side {MAX_LENGTH_RATIO:.0f} times as long as the other",
    "held_out": "with a source that is in valid or test",
}  # fmt: skip
"""Faults of a pair, each with its description."""


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """Settings of the preparation of a corpus."""

    tokenizer: str = "bpe"
    """One of TOKENIZERS, or the path of a tokenizer.json."""
    vocab_size: int = 4_000
    """Maximum number of ids, for the tokenizers whose size can be chosen."""
    is_lowercase: bool = False
    """Lower-case both sides."""
    is_cleaned: bool = False
    """Leave out of train the pairs with one of FAULTS, which are otherwise only counted."""
    max_tokens: int = 200
    """On each side, including a source's EOS, in train and valid, and twice as many in test; longer
    pairs are left out and counted."""
    has_source_eos: bool = True
    """End each source with EOS, like each target."""

    def limit(self, split: str) -> int:
        """Return the maximum number of tokens of a side in a split."""
        return 2 * self.max_tokens if split == "test" else self.max_tokens


# ----------------------------------------------------------------------------------------- Pairs


class Prepared(NamedTuple):
    """A prepared corpus."""

    tokenizer: Tokenizer
    train: TokenizedPairs
    valid: TokenizedPairs
    test: TokenizedPairs
    test_texts: list[tuple[str, str]]
    """Source and target of each test pair, before encoding."""
    most_words: int
    """Words of the longest source of train."""
    data: dict[str, Any]
    """Name, checksum and counts, as a record shows them."""


def prepare(
    corpus: ParallelCorpus, config: PrepareConfig, log: Callable[[str], None] = print
) -> Prepared:
    """Prepare a corpus; the work is done once, by one of several processes, which all wait for it.

    Raises ValueError if nothing is left to train or test on, and WriteError.
    """
    key = [FORMAT, printable(corpus.key), corpus.src_lang, corpus.tgt_lang, *corpus.splits]
    key += [*astuple(config), tokenizer_key(config.tokenizer)]
    message = f"{printable(corpus.name)}: cleaning and tokenizing"
    folder = cached(key, message, lambda part: build(part, corpus, config), log)
    tokenizer = tokenizers.load(folder / TOKENIZER)
    train, valid, test = (TokenizedPairs(folder, split) for split in SPLITS)
    texts = json.loads((folder / TEST_TEXTS).read_text("utf-8"))
    name = printable(f"{corpus.name} {corpus.src_lang}→{corpus.tgt_lang}")[:200]
    name += ", lower-cased" if config.is_lowercase else ""
    name += ", cleaned" if config.is_cleaned else ""
    facts = files.read_json(folder / FACTS_FILE)
    data = {"name": name, **facts["data"], "tokenizer": tokenizer.name}
    data |= {"case": "lower"} if config.is_lowercase else {}
    texts = [(src, tgt) for src, tgt in texts]
    return Prepared(tokenizer, train, valid, test, texts, facts["most_words"], data)


def tokenizer_key(kind: str) -> str:
    """Return what changes with a tokenizer's file; nothing for one that is made here."""
    return "" if kind in TOKENIZERS else printable(fingerprint(Path(kind)))


def build(folder: Path, corpus: ParallelCorpus, config: PrepareConfig) -> dict[str, Any]:
    """Write the tokenizer, the tokens and the test texts; return facts for the record."""
    with TemporaryDirectory(dir=folder) as scratch:
        scans, counts, sha256 = scan_corpus(Path(scratch), corpus, config)
        find_faults(scans, counts, config.is_cleaned)
        for split in SPLITS:
            if not scans[split].is_kept.any():
                raise ValueError(explain_empty(split, corpus, config, counts))
        tokenizer = tokenizers.make(config.tokenizer, scans["train"].sides(), config.vocab_size)
        tokenizer.save(folder / TOKENIZER)
        most_words, texts = 0, list[tuple[str, str]]()
        for split in SPLITS:
            for pair in encode_pairs(folder, scans[split], tokenizer, config, counts):
                if split == "train":
                    most_words = max(most_words, count_words(pair.src))
                elif split == "test":
                    texts.append(pair[:2])
            if not counts[f"n_{split}"]:
                raise ValueError(explain_empty(split, corpus, config, counts))
    files.write(folder / TEST_TEXTS, json.dumps(texts))
    tested = [hash(src) for src, _ in texts]
    counts["n_test_sources_in_train"] = int(np.isin(tested, scans["train"].sources).sum())
    data = {
        "sha256": sha256,
        **counts,
        "source_end": "EOS" if config.has_source_eos else "none",
        "max_tokens": config.limit("train"),
        "max_tokens_test": config.limit("test"),
    }
    return {"data": data, "most_words": most_words, "dtype": tokenizer.dtype.name}


@dataclass
class SplitScan:
    """What reading a split once has found; its pairs without a blank side are in a file."""

    split: str
    path: Path
    pairs: array[int] = field(default_factory=lambda: array("q"))
    """A hash of each pair."""
    sources: array[int] = field(default_factory=lambda: array("q"))
    """A hash of each source."""
    is_unequal: bytearray = field(default_factory=bytearray)
    """Whether one side has MAX_LENGTH_RATIO times as many words as the other."""
    is_kept: np.ndarray = field(default_factory=lambda: np.ones(0, bool))
    """The pairs that `read` yields."""

    def read(self) -> Iterator[Pair]:
        """Yield the pairs that are kept."""
        with open(self.path) as lines:
            for line in compress(lines, self.is_kept):
                yield Pair(*json.loads(line))

    def sides(self) -> Iterator[str]:
        """Yield both sides of each pair that is kept."""
        return chain.from_iterable(pair[:2] for pair in self.read())


def scan_corpus(
    folder: Path, corpus: ParallelCorpus, config: PrepareConfig
) -> tuple[dict[str, SplitScan], Counter[str], str]:
    """Read a corpus, once, and write its pairs into a folder, except those with a blank side.

    Return the splits, counts, and the checksum of all pairs, which is the same in both directions.
    """
    counts = Counter({"n_not_nfc": 0, **{f"n_blank_{split}": 0 for split in SPLITS}})
    digests = hashlib.sha256(), hashlib.sha256()
    scans = {split: SplitScan(split, folder / split) for split in SPLITS}
    with ExitStack() as stack:
        written = {split: stack.enter_context(open(scans[split].path, "w")) for split in SPLITS}
        for split, pair in corpus.pairs(*SPLITS):
            for digest, side in zip(digests, pair[:2], strict=True):
                digest.update(f"{side}\n".encode())
                counts["n_not_nfc"] += not is_normalized("NFC", side)
            pair, scan = normalize_pair(pair, config), scans[split]
            fewer, more = sorted(map(count_words, pair[:2]))
            if not fewer:
                counts[f"n_blank_{split}"] += 1
                continue
            scan.pairs.append(hash(pair[:2]))
            scan.sources.append(hash(pair.src))
            scan.is_unequal.append(more > MAX_LENGTH_RATIO * fewer)
            written[split].write(f"{json.dumps(pair)}\n")
    both = b"".join(sorted(digest.digest() for digest in digests))
    return scans, counts, hashlib.sha256(both).hexdigest()


def normalize_pair(pair: Pair, config: PrepareConfig) -> Pair:
    """Return a pair in Unicode's normal form C, and in lower case if the config says so."""
    src, tgt = (normalize("NFC", side) for side in pair[:2])
    lower = str.lower if config.is_lowercase else str
    return pair._replace(src=lower(src), tgt=lower(tgt))


def find_faults(scans: Mapping[str, SplitScan], counts: Counter[str], is_cleaned: bool) -> None:
    """Count the pairs of each split with one of FAULTS, and leave them out of train if cleaned.

    A pair is faulty if it has occurred before, if its sides are of very unequal length, or, in
    train, if its source is also in valid or test.
    """
    held_out = np.concatenate([scans[split].sources for split in ("valid", "test")])
    for split, scan in scans.items():
        is_repeated = np.ones(len(scan.pairs), bool)
        is_repeated[np.unique(scan.pairs, return_index=True)[1]] = False
        faults = {"duplicate": is_repeated, "unequal": np.array(scan.is_unequal, bool)}
        if split == "train":
            faults["held_out"] = np.isin(scan.sources, held_out)
        counts.update({f"n_{kind}_{split}": int(n.sum()) for kind, n in faults.items()})
        is_left_out = np.logical_or.reduce([*faults.values()]) & is_cleaned & (split == "train")
        scan.is_kept = ~is_left_out


def encode_pairs(
    folder: Path, scan: SplitScan, tokenizer: Tokenizer, config: PrepareConfig, counts: Counter[str]
) -> Iterator[Pair]:
    """Write the tokens of a split, and yield its pairs; leave out and count those too long."""
    split, source_end = scan.split, [EOS] if config.has_source_eos else []
    n = n_long = n_unknown = 0
    ends = np.zeros(2, np.int64)
    with ExitStack() as stack:
        src_file, tgt_file, ends_file, lines_file = (
            stack.enter_context(open(folder / f"{split}.{kind}", "wb"))
            for kind in ("src", "tgt", "ends", "lines")
        )
        ends.tofile(ends_file)
        for pair in tqdm(scan.read(), f"tokenizing {split}", disable=None, leave=False):
            src = [*tokenizer.encode(pair.src), *source_end]
            tgt = [*tokenizer.encode(pair.tgt), EOS]
            if max(len(src), len(tgt)) > config.limit(split):
                n_long += 1
                continue
            array(tokenizer.dtype.char, src).tofile(src_file)
            array(tokenizer.dtype.char, tgt).tofile(tgt_file)
            ends += len(src), len(tgt)
            ends.tofile(ends_file)
            array("q", [pair.line]).tofile(lines_file)
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
    if config.is_cleaned and split == "train":
        message += ", and --clean leaves out the others"
    if len(corpus.splits) < len(SPLITS):
        message += (
            "; valid and test are drawn from train, each source into one split: give more pairs "
            "with other sources (a larger --limit, if there is one), or files for valid and test"
        )
    return message


def summarize(data: dict[str, Any], is_cleaned: bool) -> str:
    """Summarise a corpus in a few lines."""
    lines = [f"{data['name']}: " + ", ".join(f"{data[f'n_{s}']:,} {s}" for s in SPLITS) + " pairs"]
    for split in SPLITS:
        n_blank, n_long = (data[f"n_{kind}_{split}"] for kind in ("blank", "too_long"))
        limit = data["max_tokens_test" if split == "test" else "max_tokens"]
        out = f"{n_blank:,} blank, {n_long:,} longer than {limit:,} tokens on a side"
        odd = [f"{n:,} {FAULTS[k]}" for k in FAULTS if (n := data.get(f"n_{k}_{split}", 0))]
        is_out = is_cleaned and split == "train"
        rest = [f"; {'also left out' if is_out else 'kept'}: {', '.join(odd)}"] if odd else []
        lines.append(f"  {split}: left out: {out}{''.join(rest)}")
    lines.append(f"  {data['n_test_sources_in_train']:,} test sources are also in train")
    if n := data["n_not_nfc"]:
        lines.append(f"  {n:,} lines were not in Unicode's normal form C, and are brought to it")
    return "\n".join(lines + describe_unknown(data))


def describe_unknown(data: dict[str, Any]) -> list[str]:
    """Return a line for each split with tokens that the tokenizer does not know."""
    return [
        f"  {n:,} tokens of {split} are unknown: {n / data[f'n_tokens_{split}']:.2%}, read as ⁇"
        for split in SPLITS
        if (n := data[f"n_unknown_{split}"])
    ]


# ---------------------------------------------------------------------------------- Running text


class PreparedText(NamedTuple):
    """Prepared running text."""

    tokenizer: Tokenizer
    train: TokenStream
    valid: TokenStream
    test: TokenStream
    data: dict[str, Any]
    """Name, checksum and counts, as a record shows them."""


def prepare_text(
    corpus: TextCorpus, kind: str, vocab_size: int, log: Callable[[str], None] = print
) -> PreparedText:
    """Prepare running text; the work is done once, as in `prepare`.

    Raises ValueError if a split is empty, and WriteError.
    """
    message = f"{printable(corpus.name)}: tokenizing"
    build = partial(build_text, corpus=corpus, kind=kind, vocab_size=vocab_size)
    key = [FORMAT, "text", printable(corpus.key), kind, vocab_size, tokenizer_key(kind)]
    folder = cached(key, message, build, log)
    tokenizer = tokenizers.load(folder / TOKENIZER)
    train, valid, test = (TokenStream(folder, split) for split in SPLITS)
    data = {"name": printable(corpus.name)[:200], **files.read_json(folder / FACTS_FILE)["data"]}
    return PreparedText(tokenizer, train, valid, test, data)


def build_text(folder: Path, corpus: TextCorpus, kind: str, vocab_size: int) -> dict[str, Any]:
    """Write the tokenizer and the tokens; return facts for the record."""
    for split in SPLITS:
        is_needed = str.strip if split == "train" else bool
        if not any(map(is_needed, corpus.splits[split]())):
            raise ValueError(
                f"{printable(corpus.name)} has no text in {split}, or only white space; give more "
                "text"
            )
    tokenizer = tokenizers.make(kind, corpus.splits["train"](), vocab_size)
    tokenizer.save(folder / TOKENIZER)
    digest = hashlib.sha256()
    data: dict[str, int | str] = {}
    for split in SPLITS:
        is_read = split == "test" and corpus.is_valid_tested
        updated = hashlib.sha256() if is_read else digest
        data |= encode_text(folder, split, corpus.splits[split](), tokenizer, updated)
    data |= {"n_characters_left_out": corpus.n_left_out(), "tokenizer": tokenizer.name}
    data |= {"tested": "valid"} if corpus.is_valid_tested else {}
    return {"data": {"sha256": digest.hexdigest(), **data}, "dtype": tokenizer.dtype.name}


def encode_text(
    folder: Path, split: str, pieces: Iterator[str], tokenizer: Tokenizer, digest: Any
) -> dict[str, int]:
    """Write the tokens of a split; return their number, and the number of UNKs among them.

    Lines are counted by the line feeds of each token; if no token has any, they are 0: unknown.
    """
    n_feeds = np.array([tokenizer.decode([i]).count("\n") for i in range(tokenizer.vocab_size)])
    n, n_unknown, line = 0, 0, 1
    with (
        open(folder / f"{split}.ids", "wb") as ids_file,
        open(folder / f"{split}.lines", "wb") as lines_file,
    ):
        for piece in tqdm(pieces, split, disable=None, leave=False):
            digest.update(piece.encode())
            ids = np.array(tokenizer.encode(piece), tokenizer.dtype)
            feeds = n_feeds[ids]
            lines = (line + feeds.cumsum() - feeds) * n_feeds.any()
            ids.tofile(ids_file)
            lines[-n % LINE_EVERY :: LINE_EVERY].astype(np.int64).tofile(lines_file)
            n, n_unknown = n + len(ids), n_unknown + int((ids == UNK).sum())
            line += piece.count("\n")
    return {f"n_tokens_{split}": n, f"n_unknown_{split}": n_unknown}


def summarize_text(data: dict[str, Any]) -> str:
    """Summarise running text in a few lines."""
    counts = ", ".join(f"{data[f'n_tokens_{split}']:,} {split}" for split in SPLITS)
    lines = [f"{data['name']}: {counts} tokens; {data['tokenizer']}"]
    if n := data["n_characters_left_out"]:
        lines.append(f"  {n:,} characters of Project Gutenberg's header and licence are left out")
    if "tested" in data:
        lines.append("  there is no third split: test is valid, which also chooses the weights")
    return "\n".join(lines + describe_unknown(data))

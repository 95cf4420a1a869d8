"""From a corpus to tokens, once: clean, train the tokenizer, encode; `store` caches them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from seqmodels.data import tokenizers
from seqmodels.data.cache import cached
from seqmodels.data.corpus import SPLITS, Pair, ParallelCorpus, uniform_hash
from seqmodels.data.readers import lines
from seqmodels.data.store import PairWriter, TokenizedPairs, TokenStream, write_token_stream
from seqmodels.data.text_corpus import TextCorpus
from seqmodels.data.tokenizers import Tokenizer
from seqmodels.interface import EOS, UNK
from seqmodels.utils import files
from seqmodels.utils.terminal import printable

FORMAT = 3
"""Version of the folder's format: when it changes, a new folder is made."""
MAX_LENGTH_RATIO = 9.0
"""Ratio of the sides' words above which a pair is not a translation (as in Moses)."""


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """How to prepare a corpus."""

    tokenizer: str = "bpe"
    """One of catalog.TOKENIZERS."""
    vocab_size: int = 4_000
    """Maximum number of ids, for the tokenizers whose size can be chosen."""
    is_lowercase: bool = False
    """Lower-case both sides."""
    is_cleaned: bool = False
    """Leave pairs out of train that are otherwise only counted: see `Cleaner`."""
    max_tokens: int = 200
    """On each side, including a source's EOS, in train and valid, and twice as many in test; longer
    pairs are left out and counted."""
    has_source_eos: bool = True
    """End each source with EOS, like each target."""


FAULTS = ("duplicate", "unequal", "held_out")
FAULT_LABELS = {
    "duplicate": "repeated",
    "unequal": f"with one side {MAX_LENGTH_RATIO:.0f} times as long as the other",
    "held_out": "with a source that is in valid or test",
}  # fmt: skip
COUNTS = [f"n_{split}" for split in SPLITS]
COUNTS += [f"n_{kind}_{split}" for split in SPLITS for kind in ("blank", "too_long", *FAULTS)]
COUNTS = [key for key in COUNTS if key not in ("n_held_out_valid", "n_held_out_test")]
COUNTS += ["n_test_sources_in_train"]
COUNTS += [f"n_{kind}_{split}" for split in SPLITS for kind in ("tokens", "unknown")]


class Prepared(NamedTuple):
    """A prepared corpus."""

    tokenizer: Tokenizer
    train: TokenizedPairs
    valid: TokenizedPairs
    test: TokenizedPairs
    test_texts: list[tuple[str, str]]
    """Source and target of each test pair, before encoding."""
    data: dict[str, Any]
    """Name, checksum and counts, as a record shows them."""


# --------------------------------------------------------------------------------- Cleaning


class Cleaner:
    """Lower-case, filter and count pairs.

    Pairs with a blank side are always left out. These are counted, and left out of train if
    `is_cleaned`: repeated pairs, pairs with one side MAX_LENGTH_RATIO times as long as the other,
    in words, and pairs of train whose source is also in valid or test.
    """

    def __init__(self, corpus: ParallelCorpus, config: PrepareConfig):
        self.corpus, self.config = corpus, config
        self.held_out: set[str] = set()
        """Sources of valid and test."""
        self.reset()
        self.held_out = {pair.src for _, pair in self.pairs("valid", "test")}
        self.reset()

    def reset(self) -> None:
        """Reset all counts."""
        self.counts: Counter[str] = Counter()
        self.in_train: set[str] = set()
        """Sources of valid and test that were found in train."""
        self.digests = hashlib.sha256(), hashlib.sha256()

    def pairs(self, *splits: str) -> Iterator[tuple[str, Pair]]:
        """Yield the pairs of some splits that are kept."""
        seen: dict[str, set[int]] = {split: set() for split in splits}
        for split, pair in self.corpus.pairs(*splits):
            for digest, side in zip(self.digests, pair[:2], strict=True):
                digest.update(f"{side}\n".encode())
            if self.config.is_lowercase:
                pair = pair._replace(src=pair.src.lower(), tgt=pair.tgt.lower())
            if not pair.src.strip() or not pair.tgt.strip():
                self.counts[f"n_blank_{split}"] += 1
                continue
            faults = self.faults(split, pair, seen[split])
            self.counts.update(f"n_{fault}_{split}" for fault in faults)
            if not (self.config.is_cleaned and split == "train" and faults):
                yield split, pair

    def checksum(self) -> str:
        """Return the checksum of all that was read since `reset`, the same in both directions."""
        return hashlib.sha256(b"".join(sorted(d.digest() for d in self.digests))).hexdigest()

    def faults(self, split: str, pair: Pair, seen: set[int]) -> list[str]:
        """Return the faults of a pair."""
        found = []
        mark = hash((pair.src, pair.tgt))
        if mark in seen:
            found.append("duplicate")
        seen.add(mark)
        n_src, n_tgt = len(pair.src.split()), len(pair.tgt.split())
        if max(n_src, n_tgt) > MAX_LENGTH_RATIO * min(n_src, n_tgt):
            found.append("unequal")
        if split == "train" and pair.src in self.held_out:
            self.in_train.add(pair.src)
            found.append("held_out")
        return found


# ------------------------------------------------------------------------------------- Pairs


def prepare(
    corpus: ParallelCorpus, config: PrepareConfig, log: Callable[[str], None] = print
) -> Prepared:
    """Prepare a corpus; the work is done once, by one of several processes.

    Raises ValueError if nothing is left to train or test on, and WriteError.
    """
    key = [FORMAT, printable(corpus.key), corpus.src_lang, corpus.tgt_lang, *corpus.splits]
    key += astuple(config)
    message = f"{printable(corpus.name)}: cleaning and tokenizing"
    folder = cached(key, message, lambda part: build(part, corpus, config), log)
    metadata = files.read_json(folder / "made.json")
    name = printable(f"{corpus.name} {corpus.src_lang}→{corpus.tgt_lang}")[:200]
    tokenizer = tokenizers.load(folder / "tokenizer.json")
    train, valid, test = (TokenizedPairs(folder / split) for split in SPLITS)
    name += ", lower-cased" if config.is_lowercase else ""
    name += ", cleaned" if config.is_cleaned else ""
    data = {"name": name, **metadata["data"], "tokenizer": tokenizer.name}
    data |= {"case": "lower"} if config.is_lowercase else {}
    texts = [(src, tgt) for src, tgt in map(json.loads, lines(folder / "test.jsonl"))]
    return Prepared(tokenizer, train, valid, test, texts, data)


def build(folder: Path, corpus: ParallelCorpus, config: PrepareConfig) -> dict[str, Any]:
    """Write the tokenizer, the tokens and the test texts; return facts for the record."""
    cleaner = Cleaner(corpus, config)
    for split in SPLITS:
        if next(cleaner.pairs(split), None) is None:
            raise ValueError(explain_empty_split(split, corpus, cleaner.counts))
    sides = (side for _, pair in cleaner.pairs("train") for side in pair[:2])
    tokenizer = tokenizers.make(config.tokenizer, sides, config.vocab_size)
    tokenizer.save(folder / "tokenizer.json")
    cleaner.reset()
    counts, end = cleaner.counts, [EOS] if config.has_source_eos else []
    sources, limit = [], dict.fromkeys(SPLITS, config.max_tokens) | {"test": 2 * config.max_tokens}
    with ExitStack() as stack:
        texts = stack.enter_context(open(folder / "test.jsonl", "w", encoding="utf-8"))
        writers = {split: stack.enter_context(PairWriter(folder / split)) for split in SPLITS}
        pairs = cleaner.pairs(*SPLITS)
        for split, pair in tqdm(pairs, "preparing", unit=" pairs", leave=False, disable=None):
            src = [*tokenizer.encode(pair.src), *end]
            tgt = [*tokenizer.encode(pair.tgt), EOS]
            if max(len(src), len(tgt)) > limit[split]:
                counts[f"n_too_long_{split}"] += 1
                continue
            counts[f"n_{split}"] += 1
            counts[f"n_tokens_{split}"] += len(src) + len(tgt)
            counts[f"n_unknown_{split}"] += src.count(UNK) + tgt.count(UNK)
            writers[split].add(src, tgt, pair.line, len(pair.src.split()))
            if split == "test":
                texts.write(json.dumps(pair[:2], ensure_ascii=False) + "\n")
                sources.append(pair.src)
    for split in SPLITS:
        if not counts[f"n_{split}"]:
            raise ValueError(explain_none_left(split, corpus, counts, limit[split]))
    counts["n_test_sources_in_train"] = sum(src in cleaner.in_train for src in sources)
    return {
        "sha256": cleaner.checksum(),
        **{key: counts[key] for key in COUNTS},
        "source_end": "EOS" if config.has_source_eos else "none",
        "max_tokens": limit["train"],
        "max_tokens_test": limit["test"],
    }


def explain_empty_split(split: str, corpus: ParallelCorpus, counts: Mapping[str, int]) -> str:
    """Explain in a sentence why a corpus has no pairs in a split."""
    name, n = printable(corpus.name), sum(1 for _ in corpus.pairs(split))
    if n:
        n_blank = counts[f"n_blank_{split}"]
        rest = ", and --clean leaves out the others" if n_blank < n else ""
        return f"{name}: {n_blank:,} of {n:,} pairs in {split} have a blank side{rest}"
    if len(corpus.splits) == len(SPLITS):
        return f"{name} has no pairs in {split}"
    sources = Counter(map(uniform_hash, (pair.src for pair in corpus.splits["train"]())))
    n = sources.total()
    if n > 1 and len(sources) == 1:
        return (
            f"{name}: all {n:,} pairs have the same source, and a source is never in more than one "
            "split; give other sentences as well"
        )
    return (
        f"{name}: {n:,} pairs are too few to draw valid and test from: {split} would be empty; "
        "give more (a larger --limit, if there is one), or files for valid and test"
    )


def explain_none_left(
    split: str, corpus: ParallelCorpus, counts: Mapping[str, int], limit: int
) -> str:
    """Explain in a sentence why no pair of a split is left."""
    n_long, n_blank = counts[f"n_too_long_{split}"], counts[f"n_blank_{split}"]
    return (
        f"{printable(corpus.name)}: no pair of {split} is left: {n_long:,} have more than "
        f"{limit:,} tokens on a side (see --max-tokens), and {n_blank:,} have a blank side"
    )


def summary(data: dict[str, Any], is_cleaned: bool) -> str:
    """Summarise a corpus in a few lines."""
    lines = [f"{data['name']}: " + ", ".join(f"{data[f'n_{s}']:,} {s}" for s in SPLITS) + " pairs"]
    for split in SPLITS:
        n_blank, n_long = (data[f"n_{kind}_{split}"] for kind in ("blank", "too_long"))
        limit = data["max_tokens_test" if split == "test" else "max_tokens"]
        out = f"{n_blank:,} blank, {n_long:,} longer than {limit:,} tokens on a side"
        odd = [f"{n:,} {FAULT_LABELS[k]}" for k in FAULTS if (n := data.get(f"n_{k}_{split}", 0))]
        is_out = is_cleaned and split == "train"
        rest = [f"; {'also left out' if is_out else 'kept'}: {', '.join(odd)}"] if odd else []
        lines.append(f"  {split}: left out: {out}{''.join(rest)}")
    lines.append(f"  {data['n_test_sources_in_train']:,} test sources are also in train")
    return "\n".join(lines + describe_unknown(data))


def describe_unknown(data: dict[str, Any]) -> list[str]:
    """Return a line for each split with tokens that the tokenizer does not know."""
    return [
        f"  {n:,} tokens of {split} are unknown: {n / data[f'n_tokens_{split}']:.2%}, read as ⁇"
        for split in SPLITS
        if (n := data[f"n_unknown_{split}"])
    ]


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
    key = [FORMAT, "text", corpus.key, corpus.n_left_out, kind, vocab_size]
    message = f"{printable(corpus.name)}: tokenizing"
    folder = cached(key, message, lambda part: build_text(part, corpus, kind, vocab_size), log)
    metadata = files.read_json(folder / "made.json")["data"]
    tokenizer = tokenizers.load(folder / "tokenizer.json")
    train, valid, test = (TokenStream(folder / split, tokenizer.vocab_size) for split in SPLITS)
    name = printable(corpus.name)[:200]
    return PreparedText(tokenizer, train, valid, test, {"name": name, **metadata})


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
    tokenizer.save(folder / "tokenizer.json")
    digest = hashlib.sha256()
    data: dict[str, int | str] = {}
    for split in SPLITS:
        n, n_unknown = write_token_stream(folder / split, corpus.splits[split], tokenizer)
        data |= {f"n_tokens_{split}": n, f"n_unknown_{split}": n_unknown}
        if split != "test" or not corpus.is_valid_tested:
            for piece in corpus.splits[split]():
                digest.update(piece.encode())
    data |= {"n_characters_left_out": corpus.n_left_out, "tokenizer": tokenizer.name}
    data |= {"tested": "valid"} if corpus.is_valid_tested else {}
    return {"sha256": digest.hexdigest(), **data}


def text_summary(data: dict[str, Any]) -> str:
    """Summarise running text in a few lines."""
    counts = ", ".join(f"{data[f'n_tokens_{split}']:,} {split}" for split in SPLITS)
    lines = [f"{data['name']}: {counts} tokens; {data['tokenizer']}"]
    if n := data["n_characters_left_out"]:
        lines.append(f"  {n:,} characters of Project Gutenberg's header and licence are left out")
    if "tested" in data:
        lines.append("  there is no third split: test is valid, which also chooses the weights")
    return "\n".join(lines + describe_unknown(data))

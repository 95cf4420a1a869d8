"""From a corpus to tokens, once: clean, train the tokenizer, encode; `store` caches them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from seqmodels.data import tokenizers
from seqmodels.data.cache import cached
from seqmodels.data.clean import (
    FAULT_LABELS,
    FAULTS,
    Cleaner,
    PrepareConfig,
    checksum,
    held_out_sources,
)
from seqmodels.data.corpus import SPLITS, ParallelCorpus, uniform_hash
from seqmodels.data.encode import HELD_OUT, TEST_TEXTS, TOKENIZER, write_pairs, write_text
from seqmodels.data.readers import lines
from seqmodels.data.store import TokenizedPairs, TokenStream
from seqmodels.data.text_corpus import TextCorpus
from seqmodels.data.tokenizers import Tokenizer
from seqmodels.utils import files
from seqmodels.utils.terminal import printable
from seqmodels.utils.workers import Workers

FORMAT = 4
"""Version of the folder's format: when it changes, a new folder is made."""

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


# ------------------------------------------------------------------------------------- Pairs


def prepare(
    corpus: ParallelCorpus,
    config: PrepareConfig,
    log: Callable[[str], None] = print,
    executor: Executor | None = None,
) -> Prepared:
    """Prepare a corpus; the work is done once, by one of several processes, which all wait for it.

    That one shares it with processes that it starts if there is much to do, or with `executor`.
    Raises ValueError if nothing is left to train or test on, and WriteError.
    """
    key = [FORMAT, printable(corpus.key), corpus.src_lang, corpus.tgt_lang, *corpus.splits]
    key += astuple(config)
    message = f"{printable(corpus.name)}: cleaning and tokenizing"
    with Workers(executor) as workers:
        folder = cached(key, message, lambda part: build(part, corpus, config, workers), log)
    metadata = files.read_json(folder / "made.json")
    name = printable(f"{corpus.name} {corpus.src_lang}→{corpus.tgt_lang}")[:200]
    tokenizer = tokenizers.load(folder / TOKENIZER)
    train, valid, test = (TokenizedPairs(folder / split) for split in SPLITS)
    name += ", lower-cased" if config.is_lowercase else ""
    name += ", cleaned" if config.is_cleaned else ""
    data = {"name": name, **metadata["data"], "tokenizer": tokenizer.name}
    data |= {"case": "lower"} if config.is_lowercase else {}
    texts = [(src, tgt) for src, tgt in map(json.loads, lines(folder / TEST_TEXTS))]
    return Prepared(tokenizer, train, valid, test, texts, data)


def build(
    folder: Path, corpus: ParallelCorpus, config: PrepareConfig, workers: Workers
) -> dict[str, Any]:
    """Write the tokenizer, the tokens and the test texts; return facts for the record."""
    held_out = held_out_sources(corpus, config, workers)
    cleaner = Cleaner(corpus, config, held_out)
    for split in SPLITS:
        if next(cleaner.pairs(split), None) is None:
            raise ValueError(explain_empty_split(split, corpus, cleaner.counts))
    sides = (side for _, pair in cleaner.pairs("train") for side in pair[:2])
    tokenizers.make(config.tokenizer, sides, config.vocab_size).save(folder / TOKENIZER)
    files.write(folder / HELD_OUT, json.dumps(sorted(held_out)))
    counts = write_pairs(folder, corpus, config, workers)
    (folder / HELD_OUT).unlink()
    for split in SPLITS:
        if not counts[f"n_{split}"]:
            raise ValueError(explain_none_left(split, corpus, counts, config.limit(split)))
    return {
        "sha256": checksum(corpus),
        **{key: counts[key] for key in COUNTS},
        "source_end": "EOS" if config.has_source_eos else "none",
        "max_tokens": config.limit("train"),
        "max_tokens_test": config.limit("test"),
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
    corpus: TextCorpus,
    kind: str,
    vocab_size: int,
    log: Callable[[str], None] = print,
    executor: Executor | None = None,
) -> PreparedText:
    """Prepare running text; the work is done once, as in `prepare`.

    Raises ValueError if a split is empty, and WriteError.
    """
    key = [FORMAT, "text", corpus.key, corpus.n_left_out, kind, vocab_size]
    message = f"{printable(corpus.name)}: tokenizing"
    with Workers(executor) as workers:
        build = partial(build_text, corpus=corpus, kind=kind, vocab_size=vocab_size)
        folder = cached(key, message, lambda part: build(part, workers), log)
    metadata = files.read_json(folder / "made.json")["data"]
    tokenizer = tokenizers.load(folder / TOKENIZER)
    train, valid, test = (TokenStream(folder / split) for split in SPLITS)
    name = printable(corpus.name)[:200]
    return PreparedText(tokenizer, train, valid, test, {"name": name, **metadata})


def build_text(
    folder: Path, workers: Workers, corpus: TextCorpus, kind: str, vocab_size: int
) -> dict[str, Any]:
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
    digest, unread = hashlib.sha256(), hashlib.sha256()
    data: dict[str, int | str] = {}
    for split in SPLITS:
        read = unread if split == "test" and corpus.is_valid_tested else digest
        see = partial(update, read)
        n, n_unknown = write_text(folder / split, corpus.splits[split], workers, see)
        data |= {f"n_tokens_{split}": n, f"n_unknown_{split}": n_unknown}
    data |= {"n_characters_left_out": corpus.n_left_out, "tokenizer": tokenizer.name}
    data |= {"tested": "valid"} if corpus.is_valid_tested else {}
    return {"sha256": digest.hexdigest(), **data}


def update(digest: Any, piece: str) -> None:
    """Update a digest with a piece of text."""
    digest.update(piece.encode())


def text_summary(data: dict[str, Any]) -> str:
    """Summarise running text in a few lines."""
    counts = ", ".join(f"{data[f'n_tokens_{split}']:,} {split}" for split in SPLITS)
    lines = [f"{data['name']}: {counts} tokens; {data['tokenizer']}"]
    if n := data["n_characters_left_out"]:
        lines.append(f"  {n:,} characters of Project Gutenberg's header and licence are left out")
    if "tested" in data:
        lines.append("  there is no third split: test is valid, which also chooses the weights")
    return "\n".join(lines + describe_unknown(data))

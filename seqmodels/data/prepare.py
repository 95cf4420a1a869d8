"""From a corpus to tokens, once: read, clean, train the tokenizer, encode.

What is read and what is encoded are Arrow tables on disk, which `datasets` maps into memory;
`tokens` reads the encoded ones. Of a pair, only hashes and a few counts are held in memory.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from seqmodels.data import tokenizers
from seqmodels.data.cache import MADE, cached
from seqmodels.data.corpus import SPLITS, Pair, ParallelCorpus, uniform_hash
from seqmodels.data.text_corpus import TextCorpus
from seqmodels.data.tokenizers import EOS, UNK, Tokenizer
from seqmodels.data.tokens import LINE_EVERY, ArrowRows, TokenizedPairs, TokenStream
from seqmodels.utils import files
from seqmodels.utils.terminal import printable
from seqmodels.utils.world import ProcessPool, n_cores

if TYPE_CHECKING:
    from datasets import Dataset

T = TypeVar("T")
FORMAT = 6
"""Version of the folder's format: when it changes, a new folder is made."""
TOKENIZER, RAW = "tokenizer.json", "raw"
"""File and folder in the folder of a corpus; RAW is removed when everything is encoded."""
CHUNK = 2**13
"""Pairs that are read, and encoded, at a time."""
TEXT_BYTES = 2**22
"""Running text that is encoded at a time."""
MANY_BYTES = 2**24
"""Size of a text from which several processes encode it."""
MAX_LENGTH_RATIO = 9.0
"""Ratio of the sides' words above which a pair is not a translation (as in Moses)."""

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


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """How to prepare a corpus."""

    tokenizer: str = "bpe"
    """One of presets.TOKENIZERS."""
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
        """Return the most tokens that a side can have in a split."""
        return 2 * self.max_tokens if split == "test" else self.max_tokens


# ---------------------------------------------------------------------------------- Arrow tables


def open_table(path: Path) -> Dataset:
    """Return an Arrow file, memory-mapped."""
    from datasets import Dataset  # takes seconds to import; what is prepared is read without it

    return Dataset.from_file(str(path))


def write_chunk(
    writer: pa.RecordBatchWriter, schema: pa.Schema, columns: Sequence[Sequence[Any]]
) -> None:
    """Write some rows, given by columns."""
    arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
    writer.write_batch(pa.record_batch(arrays, schema=schema))


def map_table(
    rows: Dataset, path: Path, encode: Callable[[pa.Table], pa.Table], schema: pa.Schema, size: int
) -> None:
    """Write what `encode` returns for each `size` rows, by several processes if there is much.

    The file is called path.arrow, and has the order of the rows. Raises MemoryError if a process is
    ended from outside.
    """
    n, starts = n_cores() if rows.data.nbytes > MANY_BYTES else 1, range(0, len(rows), size)
    arrow = rows.with_format("arrow")
    slices = (arrow[first : first + size] for first in starts)
    with pa.ipc.new_stream(f"{path}.arrow", schema) as writer, ExitStack() as stack:
        encoded: Iterator[pa.Table] = map(encode, slices)
        if n > 1:
            pool = stack.enter_context(ProcessPool(n))
            calls = (partial(encode_stream, encode, to_stream(table)) for table in slices)
            encoded = in_order(pool, calls, 2 * n)
        try:
            for table in tqdm(encoded, path.name, len(starts), disable=None, leave=False):
                writer.write_table(table)
        except BrokenProcessPool as fault:
            raise MemoryError("a process was ended from outside") from fault


def to_stream(table: pa.Table) -> pa.Buffer:
    """Return a table in Arrow's format; a pickle of a slice would hold the whole."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def encode_stream(encode: Callable[[pa.Table], pa.Table], stream: pa.Buffer) -> pa.Table:
    """Return an encoded table, in another process."""
    return encode(pa.ipc.open_stream(stream).read_all())


def in_order(pool: ProcessPool, calls: Iterator[Callable[[], T]], n_ahead: int) -> Iterator[T]:
    """Yield the results of some calls in their order, of which a few are made in advance."""
    waiting = deque(pool.submit(call) for call in islice(calls, n_ahead))
    while waiting:
        result = waiting.popleft().result()
        waiting.extend(pool.submit(call) for call in islice(calls, 1))
        yield result


@lru_cache(1)
def tokenizer_in(folder: Path) -> Tokenizer:
    """Return the tokenizer of a folder, which each process loads once."""
    return tokenizers.load(folder / TOKENIZER)


def id_type(tokenizer: Tokenizer) -> pa.DataType:
    """Return the smallest type of integers for a tokenizer's ids."""
    return pa.from_numpy_dtype(np.min_scalar_type(tokenizer.vocab_size - 1))


def to_lists(rows: Sequence[Sequence[int]], kind: pa.DataType) -> pa.ListArray:
    """Return lists of integers as a column."""
    ends = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    values = np.fromiter(chain.from_iterable(rows), kind.to_pandas_dtype(), ends[-1])
    return pa.ListArray.from_arrays(ends, values)


# ----------------------------------------------------------------------------------------- Pairs


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


def prepare(
    corpus: ParallelCorpus, config: PrepareConfig, log: Callable[[str], None] = print
) -> Prepared:
    """Prepare a corpus; the work is done once, by one of several processes, which all wait for it.

    Raises ValueError if nothing is left to train or test on, and WriteError.
    """
    key = [FORMAT, printable(corpus.key), corpus.src_lang, corpus.tgt_lang, *corpus.splits]
    key += astuple(config)
    message = f"{printable(corpus.name)}: cleaning and tokenizing"
    folder = cached(key, message, lambda part: build(part, corpus, config), log)
    tokenizer = tokenizers.load(folder / TOKENIZER)
    train, valid, test = (TokenizedPairs(folder, split) for split in SPLITS)
    name = printable(f"{corpus.name} {corpus.src_lang}→{corpus.tgt_lang}")[:200]
    name += ", lower-cased" if config.is_lowercase else ""
    name += ", cleaned" if config.is_cleaned else ""
    data = {"name": name, **files.read_json(folder / MADE)["data"], "tokenizer": tokenizer.name}
    data |= {"case": "lower"} if config.is_lowercase else {}
    return Prepared(tokenizer, train, valid, test, test.texts(), data)


def build(folder: Path, corpus: ParallelCorpus, config: PrepareConfig) -> dict[str, Any]:
    """Write the tokenizer, the tokens and the test texts; return facts for the record."""
    counts: Counter[str] = Counter()
    sha256 = read_pairs(folder, corpus, config.is_lowercase, counts)
    raw = {split: open_table(folder / RAW / f"{split}.arrow") for split in SPLITS}
    clean = {
        split: rows.select(np.flatnonzero(is_kept))
        for (split, rows), is_kept in zip(
            raw.items(), check_pairs(raw, config.is_cleaned, counts), strict=True
        )
    }
    for split, rows in clean.items():
        if not len(rows):
            raise ValueError(explain_empty_split(split, corpus, counts, len(raw[split])))
    sides = (side for pair in read_texts(clean["train"]) for side in pair)
    tokenizers.make(config.tokenizer, sides, config.vocab_size).save(folder / TOKENIZER)
    longest = {
        split: encode_split(folder, split, rows, config, counts) for split, rows in clean.items()
    }
    for split in SPLITS:
        if not counts[f"n_{split}"]:
            raise ValueError(explain_none_left(split, corpus, counts, config.limit(split)))
    in_train = set(column(raw["train"], "source_hash").tolist())
    tested = ArrowRows(folder, "test").texts()
    counts["n_test_sources_in_train"] = sum(hash(src) in in_train for src, _ in tested)
    shutil.rmtree(folder / RAW)
    data = {
        "sha256": sha256,
        **{key: counts[key] for key in COUNTS},
        "source_end": "EOS" if config.has_source_eos else "none",
        "max_tokens": config.limit("train"),
        "max_tokens_test": config.limit("test"),
    }
    return {"data": data, "longest": longest}


RAW_PAIRS = pa.schema({
    "source": pa.string(), "target": pa.string(), "line": pa.int64(), "n_words": pa.uint32(),
    "is_unequal": pa.bool_(), "source_hash": pa.int64(), "pair_hash": pa.int64(),
})  # fmt: skip
"""What is read: `n_words` of the source; the hashes are this process's."""


def describe_pair(pair: Pair) -> tuple[Any, ...] | None:
    """Return a row of RAW_PAIRS; None if a side has only white space."""
    n_src, n_tgt = len(pair.src.split()), len(pair.tgt.split())
    if not n_src or not n_tgt:
        return None
    is_unequal = max(n_src, n_tgt) > MAX_LENGTH_RATIO * min(n_src, n_tgt)
    return *pair, n_src, is_unequal, hash(pair.src), hash(pair[:2])


def read_pairs(
    folder: Path, corpus: ParallelCorpus, is_lowercase: bool, counts: Counter[str]
) -> str:
    """Write the pairs of each split that have text on both sides, and count the others.

    Return the checksum of all pairs, which is the same in both directions.
    """
    digests = hashlib.sha256(), hashlib.sha256()
    (folder / RAW).mkdir(parents=True)
    with ExitStack() as stack:
        writers = {
            split: stack.enter_context(
                pa.ipc.new_stream(folder / RAW / f"{split}.arrow", RAW_PAIRS)
            )
            for split in SPLITS
        }
        pairs = corpus.pairs(*SPLITS)
        while chunk := list(islice(pairs, CHUNK)):
            for side, digest in enumerate(digests):
                digest.update("".join(f"{pair[side]}\n" for _, pair in chunk).encode())
            rows: dict[str, list[tuple[Any, ...]]] = {split: [] for split in SPLITS}
            for split, pair in chunk:
                if is_lowercase:
                    pair = pair._replace(src=pair.src.lower(), tgt=pair.tgt.lower())
                if row := describe_pair(pair):
                    rows[split].append(row)
                else:
                    counts[f"n_blank_{split}"] += 1
            for split, described in rows.items():
                if described:
                    write_chunk(writers[split], RAW_PAIRS, [*zip(*described, strict=True)])
    return hashlib.sha256(b"".join(sorted(d.digest() for d in digests))).hexdigest()


def column(rows: Dataset, name: str) -> np.ndarray:
    """Return a column of numbers."""
    return np.asarray(rows.data.column(name).to_numpy())


def check_pairs(
    raw: Mapping[str, Dataset], is_cleaned: bool, counts: Counter[str]
) -> Iterator[np.ndarray]:
    """Count the faulty pairs of each split; yield which pairs are kept.

    A pair is faulty if it is repeated, if one side has MAX_LENGTH_RATIO times as many words as the
    other, or, in train, if its source is also in valid or test. Only train is cleaned.
    """
    held_out = np.concatenate([column(raw[s], "source_hash") for s in SPLITS if s != "train"])
    for split, rows in raw.items():
        is_repeated = np.ones(len(rows), bool)
        is_repeated[np.unique(column(rows, "pair_hash"), return_index=True)[1]] = False
        is_held_out = np.isin(column(rows, "source_hash"), held_out) & (split == "train")
        faults = is_repeated, column(rows, "is_unequal"), is_held_out
        counts.update(
            {f"n_{f}_{split}": int(is_so.sum()) for f, is_so in zip(FAULTS, faults, strict=True)}
        )
        is_faulty = np.logical_or.reduce(faults)
        yield ~is_faulty if is_cleaned and split == "train" else np.ones(len(rows), bool)


def read_texts(rows: Dataset) -> Iterator[tuple[str, str]]:
    """Yield source and target of each row."""
    for chunk in rows.with_format("arrow").iter(CHUNK):
        yield from zip(chunk["source"].to_pylist(), chunk["target"].to_pylist(), strict=True)


def encode_split(
    folder: Path, split: str, rows: Dataset, config: PrepareConfig, counts: Counter[str]
) -> dict[str, int]:
    """Encode the pairs of a split; leave out and count those with too many tokens.

    Return the tokens of the longest source and target, and the words of the longest source.
    """
    ids = pa.list_(id_type(tokenizer_in(folder)))
    schema = pa.schema({"src": ids, "tgt": ids, "line": pa.int64(), "n_words": pa.uint32()})
    if split == "test":
        schema = pa.schema([*schema, RAW_PAIRS.field("source"), RAW_PAIRS.field("target")])
    limit = config.limit(split)
    work = partial(encode_pairs, folder, schema, limit, [EOS] if config.has_source_eos else [])
    map_table(rows, folder / split, work, schema, CHUNK)
    encoded, longest = ArrowRows(folder, split), dict.fromkeys(("src", "tgt", "n_words"), 0)
    counts[f"n_too_long_{split}"] = len(rows)
    for i, chunk in enumerate(encoded.chunks):
        counts[f"n_{split}"] += len(chunk)
        counts[f"n_too_long_{split}"] -= len(chunk)
        for side in ("src", "tgt"):
            ends, values = encoded.lists(i, side)
            counts[f"n_tokens_{split}"] += len(values)
            counts[f"n_unknown_{split}"] += int((values == UNK).sum())
            longest[side] = max(longest[side], int(np.diff(ends).max(initial=0)))
        n_words = chunk.column("n_words").to_numpy()
        longest["n_words"] = max(longest["n_words"], int(n_words.max(initial=0)))
    return longest


def encode_pairs(
    folder: Path, schema: pa.Schema, limit: int, end: Sequence[int], pairs: pa.Table
) -> pa.Table:
    """Return the tokens of the pairs that have at most `limit` on each side."""
    encode = tokenizer_in(folder).encode
    sides = [
        to_lists([[*encode(text), *ended] for text in pairs[name].to_pylist()], ids.type.value_type)
        for name, ended, ids in (("source", end, schema[0]), ("target", [EOS], schema[1]))
    ]
    rest = [pairs[field.name] for field in [*schema][2:]]
    is_kept = np.maximum(*(np.diff(side.offsets) for side in sides)) <= limit
    return pa.table([*sides, *rest], schema=schema).filter(is_kept)


def explain_empty_split(
    split: str, corpus: ParallelCorpus, counts: Mapping[str, int], n_read: int
) -> str:
    """Explain in a sentence why a corpus has no pairs in a split; n_read are not blank."""
    name, n_blank = printable(corpus.name), counts[f"n_blank_{split}"]
    if n := n_read + n_blank:
        rest = ", and --clean leaves out the others" if n_read else ""
        return f"{name}: {n_blank:,} of {n:,} pairs in {split} have a blank side{rest}"
    if len(corpus.splits) == len(SPLITS):
        return f"{name} has no pairs in {split}"
    sources = Counter(uniform_hash(pair.src) for pair in corpus.splits["train"]())
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
    key = [FORMAT, "text", printable(corpus.key), kind, vocab_size]
    folder = cached(key, message, build, log)
    tokenizer = tokenizers.load(folder / TOKENIZER)
    train, valid, test = (TokenStream(folder, split) for split in SPLITS)
    data = {"name": printable(corpus.name)[:200], **files.read_json(folder / MADE)["data"]}
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
    (folder / RAW).mkdir()
    digest = hashlib.sha256()
    data: dict[str, int | str] = {}
    for split in SPLITS:
        is_read = split == "test" and corpus.is_valid_tested
        raw = folder / RAW / f"{split}.arrow"
        write_text(raw, corpus.splits[split](), hashlib.sha256() if is_read else digest)
        data |= encode_split_of_text(folder, split, open_table(raw))
        raw.unlink()
    (folder / RAW).rmdir()
    data |= {"n_characters_left_out": corpus.n_left_out(), "tokenizer": tokenizer.name}
    data |= {"tested": "valid"} if corpus.is_valid_tested else {}
    return {"data": {"sha256": digest.hexdigest(), **data}}


RAW_TEXT = pa.schema({"text": pa.string(), "line": pa.int64()})
"""What is read: a piece of text, and the number of its first line."""


def write_text(path: Path, pieces: Iterator[str], digest: Any) -> None:
    """Write the pieces of a text, and update its digest."""
    rows, n, line = list[tuple[str, int]](), 0, 1
    with pa.ipc.new_stream(path, RAW_TEXT) as writer:
        for piece in pieces:
            digest.update(piece.encode())
            rows.append((piece, line))
            n, line = n + len(piece), line + piece.count("\n")
            if n >= TEXT_BYTES:
                write_chunk(writer, RAW_TEXT, [*zip(*rows, strict=True)])
                rows, n = [], 0
        if rows:
            write_chunk(writer, RAW_TEXT, [*zip(*rows, strict=True)])


def encode_split_of_text(folder: Path, split: str, rows: Dataset) -> dict[str, int]:
    """Encode a split; return the number of tokens, and of UNKs among them."""
    ids = pa.list_(id_type(tokenizer_in(folder)))
    schema = pa.schema({"ids": ids, "lines": pa.list_(pa.int64())})
    size = max(1, len(rows) * TEXT_BYTES // rows.data.nbytes)
    map_table(rows, folder / split, partial(encode_text, folder, schema), schema, size)
    encoded = ArrowRows(folder, split)
    values = [encoded.lists(i, "ids").values for i in range(len(encoded.chunks))]
    return {
        f"n_tokens_{split}": sum(map(len, values)),
        f"n_unknown_{split}": sum(int((ids == UNK).sum()) for ids in values),
    }


@lru_cache(1)
def count_line_feeds(folder: Path) -> np.ndarray:
    """Return the number of line feeds in each piece of a folder's tokenizer."""
    tokenizer = tokenizer_in(folder)
    return np.array([tokenizer.decode([i]).count("\n") for i in range(tokenizer.vocab_size)])


def encode_text(folder: Path, schema: pa.Schema, pieces: pa.Table) -> pa.Table:
    """Return the tokens of some pieces of text, and the line of every LINE_EVERY-th of each.

    If no token has a line feed, the lines are 0: unknown.
    """
    n_feeds = count_line_feeds(folder)
    ids = [tokenizer_in(folder).encode(text) for text in pieces["text"].to_pylist()]
    lines = []
    for row, first in zip(ids, pieces["line"].to_pylist(), strict=True):
        feeds = n_feeds[row]
        line = (first + feeds.cumsum() - feeds) * bool(n_feeds.any())
        lines.append(line[::LINE_EVERY].tolist())
    columns = zip((ids, lines), schema, strict=True)
    return pa.table([to_lists(rows, kind.type.value_type) for rows, kind in columns], schema=schema)


def text_summary(data: dict[str, Any]) -> str:
    """Summarise running text in a few lines."""
    counts = ", ".join(f"{data[f'n_tokens_{split}']:,} {split}" for split in SPLITS)
    lines = [f"{data['name']}: {counts} tokens; {data['tokenizer']}"]
    if n := data["n_characters_left_out"]:
        lines.append(f"  {n:,} characters of Project Gutenberg's header and licence are left out")
    if "tested" in data:
        lines.append("  there is no third split: test is valid, which also chooses the weights")
    return "\n".join(lines + describe_unknown(data))

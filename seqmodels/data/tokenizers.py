"""Tokenizers: text to ids and back, by words, characters, bytes, or byte-level BPE.

In every vocabulary ids 0 to 3 are PAD, BOS, EOS and UNK, and those of text start at 4. No text can
encode to a special: "<eos>" in a corpus is five ordinary characters.
"""

from __future__ import annotations

import base64
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import regex
import tiktoken
import tokenizers as hf

from seqmodels.data import TOKENIZERS_WITH_VOCAB_SIZE
from seqmodels.utils.files import read_json, write
from seqmodels.utils.terminal import printable

PAD, BOS, EOS, UNK = range(4)  # as in `interface`, which imports torch
SPECIALS = ("<pad>", "<bos>", "<eos>", "⁇")
N_SPECIALS = len(SPECIALS)
WORD = regex.compile(r"[\w\p{M}]+(?:['’-][\w\p{M}]+)*|[^\w\p{M}\s]")
"""A word, of letters and the marks that combine with them, or another character."""

# ------------------------------------------------------------------ Splitting and merging

SPLIT = (
    r"[^\r\n\p{L}\p{M}\p{N}]?[\p{L}\p{M}]+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How BPE splits a text before merging, after GPT-4's pattern: a word has the space before it."""
BOUNDARY = re.compile(r"(?<=\S\n)(?=[^\s/])|(?<=\S)(?= \S)|(?<=[^\W\d_])(?=[.,:;!?、。，！？])")
"""Some of the places where SPLIT splits: text can be cut there."""
BLOCK = 1_000
"""Characters after which a text is cut: splitters fail on a million spaces."""
MAX_TRAINING_BYTES = 50_000_000
"""Words and merges are trained on this many bytes from the beginning of a text."""
MAX_PIECE_BYTES = 400
"""Bytes of the longest piece, which is a label in records and figures."""


def blocks(text: str) -> Iterator[str]:
    """Cut a text into blocks of at most 2 × BLOCK characters, if possible where SPLIT splits."""
    start = 0
    while len(text) - start > 2 * BLOCK:
        boundary = BOUNDARY.search(text, start + BLOCK, start + 2 * BLOCK)
        end = boundary.start() if boundary else start + 2 * BLOCK
        yield text[start:end]
        start = end
    yield text[start:]


def training_texts(texts: Iterable[str]) -> Iterator[str]:
    """Yield the first texts, those within MAX_TRAINING_BYTES."""
    n_left = MAX_TRAINING_BYTES
    for text in texts:
        n_left -= len(text.encode())
        if n_left < 0:
            return
        yield text


def train_merges(lines: Iterable[str], n_pieces: int) -> hf.Tokenizer:
    """Train byte-level BPE; ids are the 256 bytes, then the merges in order."""
    split = hf.pre_tokenizers.Split(hf.Regex(SPLIT), behavior="isolated")
    as_bytes = hf.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trained = hf.Tokenizer(hf.models.BPE())
    trained.pre_tokenizer = hf.pre_tokenizers.Sequence([split, as_bytes])
    alphabet = as_bytes.alphabet()
    trainer = hf.trainers.BpeTrainer(
        vocab_size=n_pieces, min_frequency=2, initial_alphabet=alphabet, show_progress=False,
        max_token_length=MAX_PIECE_BYTES,
    )  # fmt: skip
    trained.train_from_iterator(training_texts(chain.from_iterable(map(blocks, lines))), trainer)
    return trained


ALPHABET = sorted(hf.pre_tokenizers.ByteLevel.alphabet())
"""The characters of byte-level BPE: printable bytes are themselves, others from U+0100 on."""
BYTE_VALUES = dict(
    zip(ALPHABET, sorted(range(256), key=lambda value: chr(value) not in ALPHABET), strict=True)
)

# ----------------------------------------------------------------------------- Tokenizers


class Tokenizer(ABC):
    """Turn text into ids and back."""

    name: str
    """Its name in tables and figures, with its size."""
    labels: Sequence[str]
    """The printable piece of every id."""
    fields: dict[str, Any]
    """What `load` builds it from, as JSON values."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the smallest type of integers for the ids."""
        return np.min_scalar_type(self.vocab_size - 1)

    @property
    def vocab_size(self) -> int:
        """Return the number of ids, including the four specials."""
        return len(self.labels)

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, without specials."""

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`; PAD, BOS and EOS leave no trace, UNK shows as ⁇."""

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return one printable piece per id, specials included, for plots of alignments."""
        return [self.labels[i] for i in ids]

    def n_bytes(self, ids: Sequence[int]) -> int:
        """Count the bytes of UTF-8 that `ids` stand for."""
        return len(self.decode(ids).encode())

    def save(self, path: str | Path) -> None:
        """Write the tokenizer as JSON, which `load` reads."""
        write(Path(path), json.dumps(self.fields, ensure_ascii=False, indent=0) + "\n")


class Words(Tokenizer):
    """Words and punctuation marks. White space is not kept; decoding inserts its own."""

    kind = "words"
    split: Callable[[str], list[str]] = staticmethod(WORD.findall)
    """Return the words, with their inner apostrophes and hyphens, and the punctuation marks."""

    def __init__(self, words: Iterable[str]):
        self._words = [*SPECIALS, *words]
        words = self._words[N_SPECIALS:]
        if len(set(words)) != len(words) or any(self.split(word) != [word] for word in words):
            raise ValueError(f"the vocabulary must contain {self.kind}, each once")
        self.labels = [_visible(word.encode()) for word in self._words]
        self.name = f"{self.kind} ({self.vocab_size:,})"
        self._ids = {word: i for i, word in enumerate(words, N_SPECIALS)}
        self.fields = {"kind": self.kind, "words": words}

    @classmethod
    def train(cls, lines: Iterable[str], min_count: int = 1, vocab_size: int = 2**20) -> Words:
        """Use the words that occur at least `min_count` times in `lines`, the most frequent first.

        There are at most `vocab_size` ids, and no words longer than MAX_PIECE_BYTES.
        """
        if vocab_size <= N_SPECIALS:
            raise ValueError(f"vocab_size is {vocab_size}; give {N_SPECIALS + 1} or more")
        counts = Counter(chain.from_iterable(map(cls.split, training_texts(lines))))
        frequent = (word for word, n in counts.items() if n >= min_count)
        words = [word for word in frequent if len(word.encode()) <= MAX_PIECE_BYTES]
        if not words:
            raise ValueError(f"no word occurs {min_count} times; give more text")
        words.sort(key=lambda word: (-counts[word], word))
        return cls(words[: vocab_size - N_SPECIALS])

    def encode(self, text: str) -> list[int]:
        """Return an id per word and mark; UNK for one that is not in the vocabulary."""
        return [self._ids.get(word, UNK) for word in self.split(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the words with spaces between them, and none before a closing mark."""
        spaced = " ".join(self._words[i] for i in ids if i >= UNK)
        return re.sub(r" ([,.;:!?])", r"\1", spaced)


class Characters(Words):
    """Unicode characters, in the order of their code points."""

    kind = "characters"
    split = staticmethod(lambda text: [*text])

    def __init__(self, characters: Iterable[str]):
        super().__init__(sorted(characters))
        self.fields = {"kind": self.kind, "characters": "".join(self._words[N_SPECIALS:])}

    @classmethod
    def train(cls, lines: Iterable[str], *_: object) -> Characters:
        """Use all characters of all lines: there are few, and a rare one may come late."""
        return cls({*chain.from_iterable(lines)})

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`."""
        return "".join(self._words[i] for i in ids if i >= UNK)


class BPE(Tokenizer):
    """Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909) on bytes, as in GPT-2.

    SPLIT splits a text, and in each part bytes merge into `pieces`, which are in the order in which
    they merge, including the 256 single bytes. Decoding concatenates them: a text comes back
    exactly. The pieces in its file are the ranks of a tiktoken encoding.
    """

    def __init__(self, pieces: Sequence[bytes]):
        ids = {piece: i for i, piece in enumerate(pieces, N_SPECIALS)}
        if len(ids) != len(pieces) or not {bytes([value]) for value in range(256)} <= {*ids}:
            raise ValueError("the ranks must contain every piece once, including all 256 bytes")
        self._pieces = [b""] * UNK + [SPECIALS[UNK].encode(), *pieces]
        self._encoding = tiktoken.Encoding(
            "shifted", pat_str=SPLIT, mergeable_ranks=ids, special_tokens={}
        )
        self.labels = [*SPECIALS, *map(_visible, pieces)]
        self.name = f"BPE ({self.vocab_size:,})"
        ranks = [base64.b64encode(piece).decode() for piece in pieces]
        self.fields = {"kind": "bpe", "split": SPLIT, "ranks": ranks}

    @classmethod
    def train(cls, lines: Iterable[str], vocab_size: int) -> BPE:
        """Merge the most frequent pair in `lines`, as long as one occurs twice, up to the size."""
        if vocab_size < N_SPECIALS + 256:
            raise ValueError(f"vocab_size is {vocab_size}; give {N_SPECIALS + 256} or more")
        rank_of = train_merges(lines, vocab_size - N_SPECIALS).get_vocab()
        in_order = sorted(rank_of, key=rank_of.__getitem__)
        return cls([bytes(BYTE_VALUES[char] for char in piece) for piece in in_order])

    def encode(self, text: str) -> list[int]:
        """Return the ids of the merged pieces of `text`."""
        text.encode()  # half a surrogate pair is an error here; tiktoken would replace it
        encode = self._encoding.encode_ordinary
        return encode(text) if len(text) <= BLOCK else [*chain(*map(encode, blocks(text)))]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`; bytes that are not UTF-8 become �."""
        return b"".join(self._pieces[i] for i in ids).decode(errors="replace")

    def n_bytes(self, ids: Sequence[int]) -> int:
        """Count the bytes; if a window cuts a character, only its part counts, not a �."""
        return sum(len(self._pieces[i]) for i in ids)


class Bytes(BPE):
    """The 256 byte values, without a merge."""

    def __init__(self) -> None:
        super().__init__([bytes([value]) for value in range(256)])
        self.name, self.fields = "bytes", {"kind": "bytes"}


# --------------------------------------------------------------------------- Making and loading


def make(kind: str, lines: Iterable[str], vocab_size: int) -> Tokenizer:
    """Make one of TOKENIZERS, trained on `lines`, with up to `vocab_size` ids; or read a file."""
    match kind:
        case "bpe":
            return BPE.train(lines, vocab_size)
        case "words":
            return Words.train(lines, 2, vocab_size)  # of rare words, models learn UNK
        case "characters":
            return Characters.train(lines)
        case "bytes":
            return Bytes()
    return load(kind)


def resolve_vocab_size(kind: str, asked: int | None, default: int) -> int:
    """Return the vocabulary size; raise ValueError if one is given for a fixed tokenizer."""
    if asked and kind not in TOKENIZERS_WITH_VOCAB_SIZE:
        sized = ", ".join(TOKENIZERS_WITH_VOCAB_SIZE)
        raise ValueError(f"{kind}:{asked}: only {sized} have a size to choose")
    return asked or default


def load(path: str | Path) -> Tokenizer:
    """Read a tokenizer that `save` wrote; raise ValueError that names file and fault."""
    old = Path(path).with_name("tokenizer.json")  # its name before, which is that of a library
    path = path if Path(path).exists() or not old.exists() else old
    try:
        match read_json(Path(path)):
            case {"kind": "words", "words": [*words]}:
                return Words(words)
            case {"kind": "characters", "characters": str(characters)}:
                return Characters(characters)
            case {"kind": "bytes"}:
                return Bytes()
            case {"kind": "bpe", "split": str(split), "ranks": [*ranks]}:
                if split != SPLIT:
                    raise ValueError("its split is not the pattern of this version")
                return BPE([base64.b64decode(rank, validate=True) for rank in ranks])
        raise ValueError("unknown kind, or wrong fields")
    except (TypeError, ValueError) as fault:
        raise ValueError(f"{path} is not a tokenizer: {fault}") from fault


def _visible(piece: bytes) -> str:
    """Return `piece` with spaces as ▁, and with unprintable characters escaped."""
    return printable(piece.decode(errors="backslashreplace").replace(" ", "▁"))

"""Tokenizers: text to ids and back, by words, by bytes, or by byte-level BPE.

In every vocabulary ids 0 to 3 are PAD, BOS, EOS and UNK, and what a text contains starts at 4. No
text can write a special: "<eos>" in a corpus is five ordinary characters.

    Words   readable plots, small closed vocabularies; a word that was not trained on becomes UNK
    Bytes   no vocabulary to train, no UNK, long sequences
    BPE     between the two: merges learned from the given lines alone, no UNK
"""

from __future__ import annotations

import base64
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tiktoken
import tokenizers as hf

from seqmodels.command import printable
from seqmodels.files import read_json, write
from seqmodels.interface import UNK

SPECIALS = ("<pad>", "<bos>", "<eos>", "⁇")
N_SPECIALS = len(SPECIALS)
WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
SPLIT = (
    r"[^\r\n\p{L}\p{M}\p{N}]?[\p{L}\p{M}]+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Where BPE cuts a text before it merges, after GPT-4's pattern: a word takes the space or mark
before it along, digits stand in threes, and every character belongs to some piece."""
BOUNDARY = re.compile(r"(?<=\n)(?=\S)|(?<=\S)(?= \S)|(?<=[^\W\d_])(?=[.,:;!?、。，！？])")
"""Some of the places between which SPLIT never joins: a text may be cut there beforehand."""
BLOCK = 1_000
"""Characters after which a text is cut: splitters fail on a run of a million spaces, and trainers
take minutes, and a hundred bytes of memory for each byte, where a text is one piece."""

MOST_PIECES = 2**20
"""Largest vocabulary."""
LONGEST_PIECE = 400
"""Bytes of the longest piece: as a label it stands in records and figures."""


class Tokenizer(ABC):
    """Turn text into ids and back."""

    name: str
    """What tables and figures call it, with its size."""
    labels: Sequence[str]
    """The printable piece of every id."""

    @property
    def vocab_size(self) -> int:
        """Count the ids, the four specials included."""
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
        """Write the tokenizer as JSON; `load` reads it."""
        fields = json.dumps(self._fields(), ensure_ascii=False, indent=0)
        write(Path(path), fields + "\n")

    @abstractmethod
    def _fields(self) -> dict[str, Any]:
        """Return what `load` builds it from, as JSON values."""


def split_words(text: str) -> list[str]:
    """Return the words, with their inner apostrophes and hyphens, and the punctuation marks."""
    return WORD.findall(text)


class Words(Tokenizer):
    """Words and punctuation marks. White space is not kept: decoding puts its own."""

    def __init__(self, words: Sequence[str]):
        if len(set(words)) != len(words) or any(split_words(word) != [word] for word in words):
            raise ValueError("the vocabulary must hold every word once, and nothing but words")
        _check_sizes([word.encode() for word in words])
        self._words = [*SPECIALS, *words]
        self.labels = [*map(printable, self._words)]
        self.name = f"words ({self.vocab_size:,})"
        self._ids = {word: i for i, word in enumerate(words, N_SPECIALS)}

    @classmethod
    def train(cls, lines: Iterable[str], min_count: int = 1) -> Words:
        """Take every word that occurs `min_count` times in `lines`, the most frequent first."""
        counts = Counter(word for line in lines for word in split_words(line))
        words = [word for word, n in counts.items() if n >= min_count]
        if not words:
            raise ValueError(f"no word occurs {min_count} times; give more text or lower min_count")
        return cls(sorted(words, key=lambda word: (-counts[word], word)))

    def encode(self, text: str) -> list[int]:
        """Return an id per word and mark; UNK for one that is not in the vocabulary."""
        return [self._ids.get(word, UNK) for word in split_words(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the words with spaces between them, and none before a closing mark."""
        spaced = " ".join(self._words[i] for i in ids if i >= UNK)
        return re.sub(r" ([,.;:!?])", r"\1", spaced)

    def _fields(self) -> dict[str, Any]:
        return {"kind": "words", "words": self._words[N_SPECIALS:]}


class _ByteLevel(Tokenizer):
    """Pieces of UTF-8. Every text comes back exactly."""

    def __init__(self, pieces: Sequence[bytes]):
        self._pieces = [b""] * UNK + [SPECIALS[UNK].encode(), *pieces]
        self.labels = [*SPECIALS, *map(_visible, pieces)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`; � stands for bytes that are no UTF-8."""
        return b"".join(self._pieces[i] for i in ids).decode(errors="replace")

    def n_bytes(self, ids: Sequence[int]) -> int:
        """Count the bytes: a character that a window cuts counts by its part, not as a �."""
        return sum(len(self._pieces[i]) for i in ids)


class Bytes(_ByteLevel):
    """The 256 byte values."""

    def __init__(self) -> None:
        super().__init__([bytes([value]) for value in range(256)])
        self.name = "bytes"

    def encode(self, text: str) -> list[int]:
        """Return one id per byte."""
        return [N_SPECIALS + value for value in text.encode()]

    def _fields(self) -> dict[str, Any]:
        return {"kind": "bytes"}


class BPE(_ByteLevel):
    """Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909) on bytes, as in GPT-2.

    `pieces` are in the order in which they merge, the 256 single bytes among them.
    """

    def __init__(self, pieces: Sequence[bytes]):
        ranks = {piece: rank for rank, piece in enumerate(pieces)}
        if len(ranks) != len(pieces) or any(bytes([value]) not in ranks for value in range(256)):
            raise ValueError("the ranks must hold every piece once, all 256 bytes among them")
        _check_sizes(pieces)
        super().__init__(pieces)
        self.name = f"BPE ({self.vocab_size:,})"
        self._encoding = tiktoken.Encoding(
            self.name, pat_str=SPLIT, mergeable_ranks=ranks, special_tokens={}
        )

    @classmethod
    def train(cls, lines: Iterable[str], vocab_size: int) -> BPE:
        """Merge the most frequent pair of `lines` again and again until there are `vocab_size` ids.

        There are fewer where no pair is left that occurs twice; `name` shows how many.
        """
        if vocab_size < N_SPECIALS + 256:
            raise ValueError(f"vocab_size is {vocab_size}; 4 specials and 256 bytes need 260")
        rank_of = train_merges(lines, vocab_size - N_SPECIALS).get_vocab()
        value_of = _byte_values()
        in_order = sorted(rank_of, key=rank_of.__getitem__)
        return cls([bytes(value_of[char] for char in piece) for piece in in_order])

    def encode(self, text: str) -> list[int]:
        """Return the ids of the merged pieces of `text`."""
        text.encode()  # half a surrogate pair is an error here; tiktoken would replace it
        encode = self._encoding.encode_ordinary
        return [N_SPECIALS + rank for block in blocks(text) for rank in encode(block)]

    def _fields(self) -> dict[str, Any]:
        ranks = [base64.b64encode(piece).decode() for piece in self._pieces[N_SPECIALS:]]
        return {"kind": "bpe", "split": SPLIT, "ranks": ranks}


def blocks(text: str) -> Iterator[str]:
    """Cut a text into blocks of at most two BLOCK characters, where SPLIT would cut it anyway.

    Where there is no such place, as in a long run of spaces, a block ends in the middle.
    """
    start = 0
    while len(text) - start > 2 * BLOCK:
        found = BOUNDARY.search(text, start + BLOCK, start + 2 * BLOCK)
        end = found.start() if found else start + 2 * BLOCK
        yield text[start:end]
        start = end
    yield text[start:]


def train_merges(lines: Iterable[str], n_pieces: int) -> hf.Tokenizer:
    """Learn byte-level BPE; ids are the 256 bytes, then the merges in their order."""
    split = hf.pre_tokenizers.Split(hf.Regex(SPLIT), behavior="isolated")
    as_bytes = hf.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trained = hf.Tokenizer(hf.models.BPE())
    trained.pre_tokenizer = hf.pre_tokenizers.Sequence([split, as_bytes])
    alphabet = as_bytes.alphabet()
    trainer = hf.trainers.BpeTrainer(
        vocab_size=n_pieces, min_frequency=2, initial_alphabet=alphabet, show_progress=False,
        max_token_length=LONGEST_PIECE,
    )  # fmt: skip
    trained.train_from_iterator((block for line in lines for block in blocks(line)), trainer)
    return trained


def load(path: str | Path) -> Tokenizer:
    """Read a saved tokenizer, trusting no one; raise ValueError that names the file and its fault.

    A pattern of another's could take forever, or panic; BPE is read with the one known here alone.
    """
    try:
        match read_json(Path(path)):
            case {"kind": "words", "words": [*words]} if all(isinstance(w, str) for w in words):
                return Words(words)
            case {"kind": "bytes"}:
                return Bytes()
            case {"kind": "bpe", "split": str(split), "ranks": [*ranks]}:
                if split != SPLIT:
                    raise ValueError("its split is not the pattern that is known here")
                return BPE([base64.b64decode(rank, validate=True) for rank in ranks])
    except OSError as fault:
        raise ValueError(f"{path} cannot be read: {fault.strerror}") from fault
    except (TypeError, ValueError) as fault:
        raise ValueError(f"{path} is not a tokenizer file: {fault}") from fault
    raise ValueError(f"{path} is not a tokenizer file: no kind words, bytes or bpe with its fields")


def _check_sizes(pieces: Sequence[bytes]) -> None:
    if len(pieces) > MOST_PIECES or not all(0 < len(piece) <= LONGEST_PIECE for piece in pieces):
        raise ValueError(
            f"at most {MOST_PIECES:,} pieces of 1 to {LONGEST_PIECE:,} bytes make a vocabulary"
        )


def _byte_values() -> dict[str, int]:
    """Return the byte behind each character by which byte-level BPE writes bytes (GPT-2's map)."""
    themselves = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [value for value in range(256) if value not in themselves]
    moved = {chr(256 + i): value for i, value in enumerate(others)}
    return {chr(value): value for value in themselves} | moved


def _visible(piece: bytes) -> str:
    """Return `piece` with spaces as ▁, and with escapes where it has no glyph of its own."""
    return printable(piece.decode(errors="backslashreplace").replace(" ", "▁"))

"""Byte-level BPE: how text is split, how merges are learned, and where published ones are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

import tiktoken
import tokenizers as hf

from seqmodels.data.presets import TIKTOKEN_ENCODINGS

SPLIT = (
    r"[^\r\n\p{L}\p{M}\p{N}]?[\p{L}\p{M}]+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How BPE splits a text before merging, after GPT-4's pattern: a word includes the space or mark
before it, digits are in groups of up to three, and every character belongs to some piece."""
BOUNDARY = re.compile(r"(?<=\S\n)(?=[^\s/])|(?<=\S)(?= \S)|(?<=[^\W\d_])(?=[.,:;!?、。，！？])")
"""Some of the places where SPLIT and all published patterns split: text can be cut there."""
BLOCK = 1_000
"""Characters after which a text is cut: splitters fail on a run of a million spaces, and for a text
in one piece, trainers take minutes and a hundred bytes of memory per byte."""
MAX_TRAINING_BYTES = 50_000_000
"""Words and merges are trained on this many bytes from the beginning of a text, so that a stream of
any length fits into memory; the rest is not read."""
MAX_PIECE_BYTES = 400
"""Bytes of the longest piece, which is a label in records and figures."""


def blocks(text: str) -> Iterator[str]:
    """Cut a text into blocks of at most 2 × BLOCK characters, where it would be split anyway.

    If there is no such place, as in a long run of spaces, a block ends in the middle.
    """
    start = 0
    while len(text) - start > 2 * BLOCK:
        found = BOUNDARY.search(text, start + BLOCK, start + 2 * BLOCK)
        end = found.start() if found else start + 2 * BLOCK
        yield text[start:end]
        start = end
    yield text[start:]


def training_blocks(lines: Iterable[str], is_cut: bool = True) -> Iterator[str]:
    """Yield the first MAX_TRAINING_BYTES bytes of the lines, in blocks if `is_cut`."""
    n_left = MAX_TRAINING_BYTES
    for block in chain.from_iterable(map(blocks, lines)) if is_cut else lines:
        n_left -= len(block.encode())
        if n_left < 0:
            return
        yield block


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
    trained.train_from_iterator(training_blocks(lines), trainer)
    return trained


def byte_values() -> dict[str, int]:
    """Return the byte that each character stands for in byte-level BPE (GPT-2's mapping)."""
    themselves = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [value for value in range(256) if value not in themselves]
    moved = {chr(256 + i): value for i, value in enumerate(others)}
    return {chr(value): value for value in themselves} | moved


def load_encoding(name: str) -> tiktoken.Encoding:
    """Return a published encoding; raise ValueError if it is not available."""
    if name not in TIKTOKEN_ENCODINGS:
        raise ValueError(
            f"{name!r} is not a published encoding; choose from {', '.join(TIKTOKEN_ENCODINGS)}"
        )
    try:
        return tiktoken.get_encoding(name)
    except OSError as fault:  # including requests' errors, whose text is long
        why = fault.strerror or type(fault).__name__
    except ValueError as fault:
        why = str(fault)
    raise ValueError(
        f"the encoding {name} is not available ({why}); on a machine with a network, set "
        f"TIKTOKEN_CACHE_DIR to a folder and call tiktoken.get_encoding('{name}'), then copy that "
        "folder here and set TIKTOKEN_CACHE_DIR to it, or use --tokenizer bpe, trained here"
    )

"""Describe a tokenizer for a page: its pieces, and the character classes of its patterns.

Python, the regular expressions of tiktoken and a browser each have their own version of Unicode. So
that a text has the same tokens in all of them, classes are expanded to ranges of characters.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from typing import Any

import regex
import tiktoken

from seqmodels.data.tokenizers import BPE, SPLIT, WORD, Bytes, Characters, Tokenizer, Words

CHARACTERS = [chr(i) for i in range(sys.maxunicode + 1) if not 0xD800 <= i < 0xE000]
"""All characters of Unicode."""


def describe(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the vocabulary for tokenizers.js; raise ValueError for a kind it does not support."""
    if not isinstance(tokenizer, Words | BPE):
        raise ValueError(
            f"the page tokenizes by words, characters, bytes or BPE, and not as {tokenizer.name}"
        )
    fields = {"name": tokenizer.name, "labels": [*tokenizer.labels], **tokenizer.fields}
    if isinstance(tokenizer, Words) and not isinstance(tokenizer, Characters):
        pattern, escapes = WORD.pattern, [r"\w", r"\p{M}", r"\s"]
        classes = {escape: word_class(escape) for escape in escapes}
    elif isinstance(tokenizer, BPE) and not isinstance(tokenizer, Bytes):
        pattern, escapes = SPLIT, [r"\p{L}", r"\p{M}", r"\p{N}", r"\s"]
        classes = {escape: tiktoken_class(escape) for escape in escapes}
    else:
        return fields
    return fields | {"pattern": expand_classes(pattern, classes)}


def expand_classes(pattern: str, classes: dict[str, str]) -> str:
    """Expand the character classes of a pattern to ranges."""
    parts = re.split(r"(\[[^\]]*\])", pattern.replace(r"\S", r"[^\s]"))  # every second in brackets
    for i, part in enumerate(parts):
        for escape, ranges in classes.items():
            part = part.replace(escape, ranges if i % 2 else f"[{ranges}]")
        parts[i] = part
    return "".join(parts)


@cache
def word_class(escape: str) -> str:
    """Return the ranges of the characters that an escape matches in `regex`."""
    return format_ranges(map(ord, regex.findall(escape, "".join(CHARACTERS))))


@cache
def tiktoken_class(escape: str) -> str:
    """Return the ranges of the characters that an escape matches in tiktoken."""
    ranks = {bytes([i]): i for i in range(256)}
    only = tiktoken.Encoding("only", pat_str=escape, mergeable_ranks=ranks, special_tokens={})
    return format_ranges(map(ord, bytes(only.encode_ordinary("".join(CHARACTERS))).decode()))


def format_ranges(points: Iterable[int]) -> str:
    r"""Return code points as ranges such as \u{41}-\u{5a}, without brackets."""
    runs = (list(run) for _, run in groupby(enumerate(points), lambda pair: pair[1] - pair[0]))
    ends = ((run[0][1], run[-1][1]) for run in runs)
    return "".join(rf"\u{{{a:x}}}" + (rf"-\u{{{b:x}}}" if b > a else "") for a, b in ends)

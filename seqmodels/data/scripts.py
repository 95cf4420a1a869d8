"""Scripts without spaces between words: Chinese, Japanese, Thai, Lao, Khmer, Burmese, Tibetan.

There, each letter counts as a word, as word processors count them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import islice
from typing import Literal

HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003347f"
KANA = "\u3041-\u3096\u30a1-\u30fa\u31f0-\u31ff\uff66-\uff9d"
OTHERS = "\u0e01-\u0e46\u0e81-\u0ec6\u0f40-\u0fbc\u1000-\u109f\u1780-\u17b3"
HANGUL = re.compile("[\uac00-\ud7a3]")
UNSPACED = re.compile(f"[{HAN}{KANA}{OTHERS}]")
N_SAMPLED = 1_000
"""Lines of a text by which its script is recognised."""


def count_words(text: str) -> int:
    """Return the number of words between spaces, and of letters of scripts without spaces."""
    if not UNSPACED.search(text):
        return len(text.split())
    n_letters = sum(unicodedata.category(c)[0] != "M" for c in UNSPACED.findall(text))
    rest = UNSPACED.sub(" ", text).split()
    return n_letters + sum(any(map(str.isalnum, word)) for word in rest)


def unspaced_script(lines: Iterable[str]) -> Literal["han", "kana", "other"] | None:
    """Return the script of a text most of whose words are letters without spaces, or None."""
    sample = "\n".join(islice(lines, N_SAMPLED))
    letters = UNSPACED.findall(sample)
    if 2 * len(letters) <= count_words(sample):
        return None
    n_kana, n_han = (len(re.findall(f"[{script}]", sample)) for script in (KANA, HAN))
    if n_kana > 0.1 * len(letters):
        return "kana"
    return "han" if n_han > 0.5 * len(letters) else "other"


def unit_of(lines: Iterable[str]) -> Literal["words", "characters"]:
    """Return what `count_words` counts in most of a text."""
    return "characters" if unspaced_script(lines) else "words"

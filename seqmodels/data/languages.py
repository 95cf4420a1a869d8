"""Languages by their codes, in the names of files and columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

ISO_639_1 = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy "
    "da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu "
    "hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb "
    "lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om "
    "or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st su sv "
    "sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)
LANGUAGES = frozenset(ISO_639_1.split())
"""Two-letter codes."""
CODE = re.compile(r"([a-z]{2,3})(?:[-_][A-Z][a-z]{3})?(?:[-_](?:[A-Z]{2}|[0-9]{3}))?")
"""A language, such as `de`, `deu`, `zh-Hans`, `eng_Latn` or `pt_BR`."""
NOT_LANGUAGES = (
    "txt", "src", "tgt", "trg", "ref", "hyp", "tok", "bpe", "raw", "low", "out", "new", "zst",
    "xml", "sgm", "tmx", "xlf", "htm", "csv", "tsv", "zip", "tar", "doc", "pdf", "srt", "vtt",
)  # fmt: skip
"""Three-letter file endings that are not languages."""


def is_language(name: str) -> bool:
    """Return whether a name is a language code; any three letters can be one."""
    if (match := CODE.fullmatch(name)) is None or name in NOT_LANGUAGES:
        return False
    return len(match[1]) == 3 or match[1] in LANGUAGES


def language_of(path: Path, languages: Sequence[str | None]) -> str | None:
    """Return the last part of a file name that is a language or among `languages`; else None."""
    stem, *parts = path.name.split(".")
    parts = [stem, *parts] if stem in LANGUAGES else parts
    return next((part for part in parts[::-1] if is_language(part) or part in languages), None)

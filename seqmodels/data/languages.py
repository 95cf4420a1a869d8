"""Language codes, and which of a corpus's languages are its source and target."""

from __future__ import annotations

import re
from collections.abc import Sequence

ISO_639_1 = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy "
    "da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu "
    "hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb "
    "lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om "
    "or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st su sv "
    "sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh "
    "zu"
)
"""Two-letter codes."""
LANGUAGES = frozenset(ISO_639_1.split())
CODE = re.compile(r"([a-z]{2,3})(?:[-_][A-Z][a-z]{3})?(?:[-_](?:[A-Z]{2}|[0-9]{3}))?")
"""A language, such as `de`, `deu`, `zh-Hans`, `eng_Latn` or `pt_BR`."""
NOT_LANGUAGES = ("txt", "src", "tgt", "trg", "ref", "hyp", "tok", "bpe", "raw", "low", "out", "new")
"""Three-letter file endings that are not languages."""


def is_language(name: str) -> bool:
    """Return whether a name is a language code; any three letters can be one."""
    if (found := CODE.fullmatch(name)) is None or name in NOT_LANGUAGES:
        return False
    return len(found[1]) == 3 or found[1] in LANGUAGES


def resolve_direction(
    found: Sequence[str], languages: Sequence[str | None], where: str
) -> tuple[str, str]:
    """Return the source language and the target language out of those that were found.

    Raises ValueError if one is missing, if they are the same, or if the choice is ambiguous.
    """
    if len(found) < 2:
        raise ValueError(f"{where} has fewer than two text columns: {', '.join(found) or 'none'}")
    listed = " and ".join(map(repr, sorted(found)))
    for side, language in zip(("source", "target"), languages, strict=True):
        if language is not None and language not in found:
            raise ValueError(f"{side} is {language!r}; {where} has {listed}")
    src, tgt = languages
    if src is None and tgt is None and len(found) == 2:
        src, tgt = sorted(found)
    if len(found) == 2:
        src = src or next(code for code in found if code != tgt)
        tgt = tgt or next(code for code in found if code != src)
    if src is None or tgt is None:
        raise ValueError(f"{where} has {listed}; name the two with --source and --target")
    if src == tgt:
        raise ValueError(f"source and target are both {src!r}; {where} has {listed}")
    return src, tgt

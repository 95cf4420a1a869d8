"""Languages, splits and kinds of files, recognised by the names of files and columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from seqmodels.data import SPLITS

T = TypeVar("T")
SPLIT_ALIASES = {
    "train": ("train", "training"),
    "valid": ("valid", "validation", "val", "dev", "devel"),
    "test": ("test", "test_2016_flickr", "testing", "tst", "eval", "evaluation"),
}
"""Names of a split; Multi30k has several test sets."""

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
ENDINGS = (
    "asc bak bpe csv dat doc htm hyp log low new old org out pdf raw ref rtf sgm src srt tar tex "
    "tgt tmp tmx tok trg tsv txt vtt xlf xml zip zst"
)
NOT_LANGUAGES = frozenset(ENDINGS.split())
"""Three-letter file endings that are not languages."""
COLUMNS = (
    "source target src tgt trg translation text sentence eng deu ger fra fre spa ita por rus nld "
    "ces pol tur ara zho chi jpn kor vie english german french spanish italian portuguese russian "
    "dutch czech polish turkish arabic chinese japanese korean vietnamese"
)
COMMON_COLUMNS = LANGUAGES.union(COLUMNS.split())
"""Names of columns, in lower case, by which a header is recognised."""


def is_language(name: str) -> bool:
    """Return whether a name is a language code; any three letters can be one."""
    if (match := CODE.fullmatch(name)) is None or name in NOT_LANGUAGES:
        return False
    return len(match[1]) == 3 or match[1] in LANGUAGES


def language_of(path: Path, languages: Sequence[str | None]) -> str | None:
    """Return the last part of a file name that is a language or among `languages`; else None."""
    stem, *parts = path.name.split(".")
    parts = [stem, *parts] if stem in LANGUAGES and len(parts) == 1 else parts  # de.txt
    return next((part for part in parts[::-1] if is_language(part) or part in languages), None)


def split_of(path: str | Path) -> str:
    """Return the split that a path names, such as `data/train-00000-of-00002.parquet`, or "".

    The name of the file counts, then that of its folder; one that names two splits says nothing.
    """
    for part in reversed(Path(path).parts):
        words = {*re.split(r"[^a-z]+", part.lower())}
        if found := [split for split in SPLITS if words.intersection(SPLIT_ALIASES[split])]:
            return found[0] if len(found) == 1 else ""
    return ""


def group_by_split(
    things: Iterable[T], name_of: Callable[[T], str | Path] = str
) -> dict[str, list[T]]:
    """Return the things whose names say that they are of each split, and of none as ""."""
    groups: dict[str, list[T]] = {split: [] for split in (*SPLITS, "")}
    for thing in things:
        groups[split_of(name_of(thing))].append(thing)
    return groups


def ending_of(path: Path) -> str:
    """Return the ending of a file, in lower case."""
    return path.suffix.lower()


def stem_of(path: Path) -> str:
    """Return the name of a file without its ending."""
    return path.stem

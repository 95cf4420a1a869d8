"""Parallel corpora, from two files, a folder or a table.

No corpus is held in memory: it is read again where it is needed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from seqmodels.data.languages import LANGUAGES, directed, is_language
from seqmodels.data.readers import NO_HEADER, Header, glimpse, header, lines, rows, scan
from seqmodels.utils.terminal import one_line

SPLITS = ("train", "valid", "test")
ALSO = {"valid": ("valid", "validation", "val", "dev")}
"""Other names of a split."""
HELD_OUT = 2_000
"""Pairs of valid, and of test, where a corpus has train alone; a twentieth of it, if that is less.
"""


class Pair(NamedTuple):
    """One sentence and its translation."""

    src: str
    tgt: str
    line: int = 0
    """Where it stands in its file, blank lines counted, or among its kind; from 1. 0: unknown."""


Pairs = Callable[[], Iterator[Pair]]
"""Read a split, from its beginning."""


class Parallel(NamedTuple):
    """A parallel corpus, to be read as often as one likes."""

    name: str
    src_lang: str
    tgt_lang: str
    parts: Mapping[str, Pairs]
    """Train, and valid and test where the corpus has them."""
    n: int
    """Rows of train, at most."""
    key: str
    """Changes where the content does, and is known without reading it pair by pair."""
    origins: tuple[str, str] = ("", "")
    """Where the two sides of train are: a file each, or columns of one."""

    def first_lines(self) -> str:
        """Return where each side is read from and what it begins with, in lines for a person."""
        src, tgt, _ = next(self.parts["train"](), Pair("", ""))
        return "\n".join(
            f"{side}: {one_line(origin)}, first line: {glimpse(text)}"
            for side, origin, text in zip(
                ("source", "target"), self.origins, (src, tgt), strict=True
            )
        )

    def pairs(self, *splits: str) -> Iterator[tuple[str, Pair]]:
        """Yield the pairs of some splits, each with its split.

        Valid and test are drawn from train where the corpus has none: about HELD_OUT pairs each, or
        a twentieth of it. A source sentence draws for all its pairs, so that it stands on one side
        only; the draw depends on it alone, but for case and white space, and is always the same.
        """
        drawn = [split for split in SPLITS if split not in self.parts]
        for split in self.parts:
            if split == "train" and drawn:
                share = min(HELD_OUT / self.n, 0.05)
                for pair in self.parts["train"]():
                    place = int(draw(pair.src) / share)
                    if (found := drawn[place] if place < len(drawn) else "train") in splits:
                        yield found, pair
            elif split in splits:
                for pair in self.parts[split]():
                    yield split, pair


def draw(sentence: str) -> float:
    """Return a number from 0 to 1 that looks random and is a sentence's own."""
    same = " ".join(sentence.casefold().split()).encode()
    return int.from_bytes(hashlib.blake2b(same, digest_size=8).digest()) / 2**64


# ------------------------------------------------------------------------------ Files of lines


def read_folder(
    folder: Path, languages: Sequence[str | None], called: Mapping[str, str]
) -> Parallel:
    """Open a folder of `SPLIT.LANG`. Line n of one file translates line n of the other."""
    codes = _languages(folder)
    src_lang, tgt_lang = directed(codes, languages, str(folder))
    names = {s: called.get(s) or _name_of(folder, s, codes) for s in SPLITS}
    paths = [folder / f"{names[split]}.{code}" for split in SPLITS for code in codes]
    if missing := [path.name for path in paths if not path.exists()]:
        needed = ", ".join(path.name for path in paths)
        raise ValueError(f"{folder} has no {', '.join(missing)}; needed: {needed}")
    parts, keys, sizes = {}, [], []
    for split in SPLITS:
        src, tgt = (folder / f"{names[split]}.{code}" for code in (src_lang, tgt_lang))
        parts[split], n, key = _side_by_side(src, tgt)
        keys.append(key)
        sizes.append(n)
    src_file, tgt_file = (str(folder / f"{names['train']}.{code}") for code in (src_lang, tgt_lang))
    name, key = folder.resolve().name, " ".join(keys)
    return Parallel(name, src_lang, tgt_lang, parts, sizes[0], key, (src_file, tgt_file))


def read_two_files(paths: Sequence[Path], languages: Sequence[str | None]) -> Parallel:
    """Open two text files: the source and its translation, unless languages say it otherwise.

    Languages choose between files whose names tell theirs, and name those of other files. Raises
    ValueError where they contradict the names of the files.
    """
    where = " with ".join(map(str, paths))
    codes = [_language_of(path, languages) for path in paths]
    if any(languages) and codes[0] == codes[1] is not None:
        raise ValueError(
            f"{where} has {codes[0]!r} twice, so that --source and --target cannot tell which is "
            "which; leave these out: the first is the source"
        )
    if codes == [None, None]:
        named = list(languages)
        for code in named:
            if code is not None and not is_language(code):
                raise ValueError(f"{code!r} is not a language's code, such as de, deu or pt_BR")
    else:
        others = [code for code in languages if code not in (None, *codes)] or [None]
        named = [code or others[0] for code in codes]
    found = [name or path.name for name, path in zip(named, paths, strict=True)]
    if any(languages):
        src_lang, tgt_lang = directed(found, languages, where)
    else:
        src_lang, tgt_lang = found
    src, tgt = paths if src_lang == found[0] else reversed(paths)
    pairs, n, key = _side_by_side(src, tgt)
    parts = {"train": pairs}
    return Parallel(src.stem, src_lang, tgt_lang, parts, n, key, (str(src), str(tgt)))


def _language_of(path: Path, languages: Sequence[str | None]) -> str | None:
    """Return the last part of a file's name that is a language, or one of those; else None."""
    stem, *parts = path.name.split(".")
    parts = [stem, *parts] if stem in LANGUAGES else parts
    return next((part for part in parts[::-1] if is_language(part) or part in languages), None)


def _side_by_side(src: Path, tgt: Path) -> tuple[Pairs, int, str]:
    """Return the pairs of two text files, how many there are, and their key."""
    (src_sum, n_src), (tgt_sum, n_tgt) = scan(src), scan(tgt)
    if n_src != n_tgt:
        raise ValueError(
            f"{src} has {n_src:,} lines and {tgt} has {n_tgt:,}; "
            "line n of one must translate line n of the other"
        )
    if all(a == b for a, b in zip(lines(src), lines(tgt), strict=True)):
        raise ValueError(f"{src} and {tgt} hold the same text; one must translate the other")
    return partial(_pairs, src, tgt), n_src, f"{src_sum} {tgt_sum}"


def _pairs(src: Path, tgt: Path) -> Iterator[Pair]:
    return map(Pair, lines(src), lines(tgt), count(1))


def _languages(folder: Path) -> list[str]:
    """Return the two codes `xx` of the files `train.xx`, in alphabetical order."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as fault:
        raise ValueError(f"{folder} cannot be read: {fault.strerror}") from fault
    codes = [name.removeprefix("train.") for name in names if name.startswith("train.")]
    if len(codes) != 2:
        found = ", ".join(f"train.{code}" for code in codes) or "no train.xx"
        raise ValueError(f"{folder} has {found}; needed: two, e.g. train.de and train.en")
    return codes


def _name_of(folder: Path, split: str, codes: Sequence[str]) -> str:
    """Return what a split is called here."""
    names = ALSO.get(split, (split,))
    return next((name for name in names if (folder / f"{name}.{codes[0]}").exists()), split)


# -------------------------------------------------------------------------------------- Tables


def read_table(path: Path, languages: Sequence[str | None]) -> Parallel:
    """Open a table that has train alone."""
    head = header(path, languages) if path.suffix != ".jsonl" else None
    first = next(rows(path, head), None)
    if first is None:
        raise ValueError(f"{path} has no row")
    found = translations(first[1]) or [name for name, cell in first[1].items() if is_text(cell)]
    where = str(path) if path.suffix == ".jsonl" else f"{path} ({NO_HEADER})"
    src_lang, tgt_lang = directed(found, languages, where)
    digest, n = scan(path)
    parts = {"train": partial(_table_pairs, path, head, src_lang, tgt_lang)}
    origins = f"{path}, column {src_lang}", f"{path}, column {tgt_lang}"
    return Parallel(path.stem, src_lang, tgt_lang, parts, n, digest, origins)


def translations(row: Mapping[str, Any]) -> list[str]:
    """Return the languages of a row that holds its texts in `translation`, as the hub's sets do."""
    inner = row.get("translation")
    return [*inner] if isinstance(inner, dict) else []


def is_text(cell: Any) -> bool:
    """Return whether a cell may be a side: a text, or nothing."""
    return cell is None or isinstance(cell, str)


def _table_pairs(path: Path, head: Header | None, src_lang: str, tgt_lang: str) -> Iterator[Pair]:
    for n, row in rows(path, head):
        inner = row.get("translation")
        cells = inner if isinstance(inner, dict) else row
        src, tgt = cells.get(src_lang), cells.get(tgt_lang)
        if not (is_text(src) and is_text(tgt)):
            name = src_lang if not is_text(src) else tgt_lang
            raise ValueError(f"{path}, line {n}: {name!r} is no text")
        yield Pair(src or "", tgt or "", n)


# ------------------------------------------------------------------------- Official test sets


def official(test: str, src_lang: str, tgt_lang: str) -> Pairs:
    """Return a test set that sacreBLEU knows, such as `wmt14` or `iwslt17`; it fetches it once.

    Raises ValueError for one that it does not know, or cannot have now.
    """
    from sacrebleu import utils

    pair = f"{src_lang}-{tgt_lang}"
    if test not in utils.get_available_testsets():
        raise ValueError(f"{test!r} is no test set of sacreBLEU's; `sacrebleu --list` names them")
    if pair not in utils.get_langpairs_for_testset(test):
        known = ", ".join(sorted(utils.get_langpairs_for_testset(test)))
        raise ValueError(f"sacreBLEU's {test} has no {pair}, but {known}")
    try:
        src, (tgt, *_) = utils.get_source_file(test, pair), utils.get_reference_files(test, pair)
    except (Exception, SystemExit) as fault:  # of one of several network libraries
        raise ValueError(
            f"sacreBLEU cannot fetch {test} {pair}; without network put its files into the folder "
            "that SACREBLEU names (default ~/.sacrebleu), or leave out --test"
        ) from fault
    return _side_by_side(Path(src), Path(tgt))[0]

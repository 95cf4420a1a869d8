"""Parallel corpora, from two files, a folder or a table.

A corpus is not held in memory, but read from its beginning whenever it is needed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from seqmodels.data.cache import fingerprint
from seqmodels.data.languages import LANGUAGES, is_language, resolve_direction
from seqmodels.data.readers import NO_HEADER, Header, count_lines, header, lines, preview, rows
from seqmodels.utils.terminal import one_line

SPLITS = ("train", "valid", "test")
SPLIT_ALIASES = {"valid": ("valid", "validation", "val", "dev")}
"""Other names of a split."""
MAX_HELD_OUT = 2_000
"""Pairs of valid, and of test, if a corpus has only train; at most a twentieth of it each."""


class Pair(NamedTuple):
    """One sentence and its translation."""

    src: str
    tgt: str
    line: int = 0
    """Its line in its file, counting blank ones, or its number among its kind; 0: unknown."""


PairReader = Callable[[], Iterator[Pair]]
"""Read a split, from its beginning."""


class Draw(NamedTuple):
    """Which pairs of a file belong to which split: a share to each of some splits, else to train.

    The draw depends only on the source, ignoring case and white space.
    """

    splits: tuple[str, ...] = ()
    share: float = 1.0

    def split_of(self, src: str) -> str:
        """Return the split of a source."""
        if not self.splits or self.share == 1:
            return self.splits[0] if self.splits else "train"
        place = int(uniform_hash(src) / self.share)
        return self.splits[place] if place < len(self.splits) else "train"


class ParallelCorpus(NamedTuple):
    """A parallel corpus, which can be read any number of times."""

    name: str
    src_lang: str
    tgt_lang: str
    splits: Mapping[str, PairReader]
    """Train, and valid and test if the corpus has them."""
    size: Callable[[], int]
    """Return the number of pairs of train, at most."""
    key: str
    """Changes whenever the content does; known without reading it."""
    origins: tuple[str, str] = ("", "")
    """Where the two sides of train are: two files, or two columns of one."""

    def first_lines(self) -> str:
        """Describe where each side is read from and how it begins, one line per side."""
        src, tgt, _ = next(self.splits["train"](), Pair("", ""))
        return "\n".join(
            f"{side}: {one_line(origin)}, first line: {preview(text)}"
            for side, origin, text in zip(
                ("source", "target"), self.origins, (src, tgt), strict=True
            )
        )

    def pairs(self, *splits: str) -> Iterator[tuple[str, Pair]]:
        """Yield the pairs of some splits, each with its split.

        Valid and test are drawn from train if the corpus lacks them: about MAX_HELD_OUT pairs each,
        or a twentieth of it. All pairs with the same source sentence are in the same split.
        """
        draw = self.draw()
        for split in self.splits:
            if split == "train" and draw.splits:
                for pair in self.splits["train"]():
                    if (found := draw.split_of(pair.src)) in splits:
                        yield found, pair
            elif split in splits:
                for pair in self.splits[split]():
                    yield split, pair

    def draw(self) -> Draw:
        """Return the draw of the splits that it lacks from train."""
        lacking = tuple(split for split in SPLITS if split not in self.splits)
        return Draw(lacking, min(MAX_HELD_OUT / max(1, self.size()), 0.05)) if lacking else Draw()


def uniform_hash(sentence: str) -> float:
    """Return a pseudorandom number from 0 to 1 that depends only on the sentence."""
    same = " ".join(sentence.casefold().split()).encode()
    return int.from_bytes(hashlib.blake2b(same, digest_size=8).digest()) / 2**64


# ------------------------------------------------------------------------------ Files of lines


def read_folder(
    folder: Path, languages: Sequence[str | None], split_names: Mapping[str, str]
) -> ParallelCorpus:
    """Open a folder of `SPLIT.LANG`. Line n of one file translates line n of the other."""
    codes = _languages(folder)
    src_lang, tgt_lang = resolve_direction(codes, languages, str(folder))
    names = {s: split_names.get(s) or _split_name(folder, s, codes) for s in SPLITS}
    paths = [folder / f"{names[split]}.{code}" for split in SPLITS for code in codes]
    if missing := [path.name for path in paths if not path.exists()]:
        needed = ", ".join(path.name for path in paths)
        raise ValueError(f"{folder} has no {', '.join(missing)}; needed: {needed}")
    parts: dict[str, PairReader] = {}
    for split in SPLITS:
        src, tgt = (folder / f"{names[split]}.{code}" for code in (src_lang, tgt_lang))
        parts[split] = partial(read_line_pairs, src, tgt)
    src, tgt = (folder / f"{names['train']}.{code}" for code in (src_lang, tgt_lang))
    return ParallelCorpus(
        folder.resolve().name, src_lang, tgt_lang, parts, partial(count_lines, src),
        " ".join(map(fingerprint, paths)), (str(src), str(tgt)),
    )  # fmt: skip


def read_two_files(paths: Sequence[Path], languages: Sequence[str | None]) -> ParallelCorpus:
    """Open two text files: the source and its translation, unless languages say otherwise.

    Languages choose between files whose names contain a language, and label other files. Raises
    ValueError if they contradict the file names.
    """
    where = " with ".join(map(str, paths))
    codes = [_language_of(path, languages) for path in paths]
    if any(languages) and codes[0] == codes[1] is not None:
        raise ValueError(
            f"{where} has {codes[0]!r} twice, so that --source and --target cannot say which is "
            "which; leave them out: the first file is the source"
        )
    if codes == [None, None]:
        named = list(languages)
        for code in named:
            if code is not None and not is_language(code):
                raise ValueError(f"{code!r} is not a language code such as de, deu or pt_BR")
    else:
        others = [code for code in languages if code not in (None, *codes)] or [None]
        named = [code or others[0] for code in codes]
    found = [name or path.name for name, path in zip(named, paths, strict=True)]
    if any(languages):
        src_lang, tgt_lang = resolve_direction(found, languages, where)
    else:
        src_lang, tgt_lang = found
    src, tgt = paths if src_lang == found[0] else reversed(paths)
    return ParallelCorpus(
        src.stem, src_lang, tgt_lang, {"train": partial(read_line_pairs, src, tgt)},
        partial(count_lines, src), " ".join(map(fingerprint, (src, tgt))), (str(src), str(tgt)),
    )  # fmt: skip


def _language_of(path: Path, languages: Sequence[str | None]) -> str | None:
    """Return the last part of a file name that is a language or among `languages`; else None."""
    stem, *parts = path.name.split(".")
    parts = [stem, *parts] if stem in LANGUAGES else parts
    return next((part for part in parts[::-1] if is_language(part) or part in languages), None)


def read_line_pairs(src: Path, tgt: Path) -> Iterator[Pair]:
    """Yield the pairs of two text files.

    Raises ValueError if one has more lines than the other, or if both contain the same text.
    """
    is_same = True
    for n, (source, target) in enumerate(zip_longest(lines(src), lines(tgt)), 1):
        if source is None or target is None:
            raise ValueError(
                f"{src} has {count_lines(src):,} lines and {tgt} has {count_lines(tgt):,}; "
                "line n of one must translate line n of the other"
            )
        is_same = is_same and source == target
        yield Pair(source, target, n)
    if is_same:
        raise ValueError(f"{src} and {tgt} contain the same text; one must translate the other")


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


def _split_name(folder: Path, split: str, codes: Sequence[str]) -> str:
    """Return the name of a split in this folder."""
    names = SPLIT_ALIASES.get(split, (split,))
    return next((name for name in names if (folder / f"{name}.{codes[0]}").exists()), split)


# -------------------------------------------------------------------------------------- Tables


def read_table(path: Path, languages: Sequence[str | None]) -> ParallelCorpus:
    """Open a table, which has only train."""
    head = header(path, languages) if path.suffix != ".jsonl" else None
    first = next(rows(path, head), None)
    if first is None:
        raise ValueError(f"{path} has no rows")
    found = translations(first[1]) or [name for name, cell in first[1].items() if is_text(cell)]
    where = str(path) if path.suffix == ".jsonl" else f"{path} ({NO_HEADER})"
    src_lang, tgt_lang = resolve_direction(found, languages, where)
    return ParallelCorpus(
        path.stem, src_lang, tgt_lang,
        {"train": partial(_table_pairs, path, head, src_lang, tgt_lang)},
        partial(count_lines, path), fingerprint(path),
        (f"{path}, column {src_lang}", f"{path}, column {tgt_lang}"),
    )  # fmt: skip


def translations(row: Mapping[str, Any]) -> list[str]:
    """Return the languages of a row with its texts in `translation`, as in datasets on the hub."""
    inner = row.get("translation")
    return [*inner] if isinstance(inner, dict) else []


def is_text(cell: Any) -> bool:
    """Return whether a cell can be one side of a pair: a text, or nothing."""
    return cell is None or isinstance(cell, str)


def _table_pairs(path: Path, head: Header | None, src_lang: str, tgt_lang: str) -> Iterator[Pair]:
    for n, row in rows(path, head):
        inner = row.get("translation")
        cells = inner if isinstance(inner, dict) else row
        src, tgt = cells.get(src_lang), cells.get(tgt_lang)
        if not (is_text(src) and is_text(tgt)):
            name = src_lang if not is_text(src) else tgt_lang
            raise ValueError(f"{path}, line {n}: {name!r} is not a text")
        yield Pair(src or "", tgt or "", n)


# ------------------------------------------------------------------------- Official test sets


def sacrebleu_testset(test: str, src_lang: str, tgt_lang: str) -> PairReader:
    """Return a test set of sacreBLEU, such as `wmt14` or `iwslt17`, which it downloads once.

    Raises ValueError if it is unknown, or cannot be downloaded.
    """
    from sacrebleu import utils

    pair = f"{src_lang}-{tgt_lang}"
    if test not in utils.get_available_testsets():
        raise ValueError(f"{test!r} is not a test set of sacreBLEU; `sacrebleu --list` lists them")
    if pair not in utils.get_langpairs_for_testset(test):
        known = ", ".join(sorted(utils.get_langpairs_for_testset(test)))
        raise ValueError(f"sacreBLEU's {test} has no {pair}, but {known}")
    try:
        src, (tgt, *_) = utils.get_source_file(test, pair), utils.get_reference_files(test, pair)
    except (Exception, SystemExit) as fault:  # from one of several network libraries
        raise ValueError(
            f"sacreBLEU cannot fetch {test} {pair}; without a network, put its files into the "
            "folder that SACREBLEU names (default ~/.sacrebleu), or leave out --test"
        ) from fault
    return partial(read_line_pairs, Path(src), Path(tgt))

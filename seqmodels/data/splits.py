"""Parallel corpora: which side is which, and what is train, valid and test.

A corpus is not held in memory, but read from its beginning whenever it is needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from seqmodels.data import SPLITS, tables
from seqmodels.data.cache import fingerprint
from seqmodels.data.corpora import PARALLEL, locate
from seqmodels.data.names import (
    SPLIT_ALIASES,
    ending_of,
    group_by_split,
    is_language,
    language_of,
    stem_of,
)
from seqmodels.data.tables import TABLES, table_ending, visible_files
from seqmodels.data.text import lines, preview
from seqmodels.utils.terminal import one_line

MAX_HELD_OUT = 2_000
"""Pairs of valid, and of test, if a corpus has only train; at most a twentieth of it each."""
Languages = Sequence[str | None]
"""Of source and target; None where it follows from the data."""


class Pair(NamedTuple):
    """One sentence and its translation."""

    src: str
    tgt: str


PairReader = Callable[[], Iterator[Pair]]
"""Read a split, from its beginning."""


class ParallelCorpus(NamedTuple):
    """A parallel corpus, which can be read any number of times."""

    name: str
    src_lang: str
    tgt_lang: str
    splits: Mapping[str, PairReader]
    """Train, and valid and test if the corpus has them."""
    key: str
    """Changes whenever the content does; known without reading it."""
    origins: tuple[str, str] = ("", "")
    """Two files, or two columns of one table, with the sides of train."""
    unread: Sequence[str] = ()
    """Files of a folder, or splits of a dataset, that are not read."""

    def first_lines(self) -> str:
        """Describe the origin of each side, and the first line of each side of each split."""
        firsts = {split: next(read(), Pair("", "")) for split, read in self.splits.items()}
        sides = zip(("source", "target"), self.origins, firsts["train"], strict=True)
        described = [
            f"{side}: {one_line(origin)}, first line: {preview(text)}"
            for side, origin, text in sides
        ]
        for split in ("valid", "test"):
            if split in firsts:
                described.append(f"{split}: first pair: {' → '.join(map(preview, firsts[split]))}")
            else:
                described.append(f"{split}: drawn from train")
        if self.unread:
            more = f" and {len(self.unread) - 9} more" if self.unread[9:] else ""
            described.append(f"not read: {one_line(', '.join(self.unread[:9]))}{more}")
        return "\n".join(described)

    def pairs(self) -> Iterator[tuple[str, Pair]]:
        """Yield all pairs, each with its split.

        Valid and test are drawn from train if the corpus lacks them: about MAX_HELD_OUT pairs each,
        or a twentieth of it. The draw depends only on the source, ignoring case, white space and
        Unicode's normal form: all pairs with the same source sentence are in the same split.
        """
        lacking = [split for split in SPLITS if split not in self.splits]
        n = sum(1 for _ in self.splits["train"]()) if lacking else 0
        share = min(MAX_HELD_OUT / max(1, n), 0.05)
        for split, read in self.splits.items():
            drawn = lacking if split == "train" else []
            for pair in read():
                place = int(uniform_hash(pair.src) / share) if drawn else 0
                yield drawn[place] if place < len(drawn) else split, pair


def uniform_hash(sentence: str) -> float:
    """Return a pseudorandom number from 0 to 1 that depends only on the sentence."""
    same = " ".join(normalize("NFC", sentence).casefold().split()).encode()
    return int.from_bytes(hashlib.blake2b(same, digest_size=8).digest()) / 2**64


# ---------------------------------------------------------------------------- Which side is which


def open_parallel(
    data: Sequence[str], languages: Languages = (None, None), limit: int | None = None
) -> ParallelCorpus:
    """Open a parallel corpus by its name here, or as `read_parallel` does."""
    name = data[0]
    preset = PARALLEL.get(name) if len(data) == 1 else None
    if preset is None:
        return read_parallel(data, languages, limit)
    place = [locate(name, preset)]
    if not preset.columns:
        return read_parallel(place, languages, limit)._replace(name=name)
    src, tgt = resolve_direction(preset.columns, languages, name)
    numbers = [str(1 + preset.columns.index(language)) for language in (src, tgt)]
    opened = read_parallel(place, numbers, limit)
    return opened._replace(name=name, src_lang=src, tgt_lang=tgt)


def read_parallel(
    data: Sequence[str | Path], languages: Languages = (None, None), limit: int | None = None
) -> ParallelCorpus:
    """Open a parallel corpus.

    data        one of: two text files, the second the translation of the first; a folder of
                `SPLIT.LANG`, e.g. `train.de` and `train.en`; a file .tsv .csv .jsonl .parquet, or
                text with a tab in each line; a folder of such tables; OWNER/NAME or
                OWNER/NAME:CONFIG, a dataset on the hub
    languages   of source and target: codes of text files, names of columns, or their numbers,
                from 1; None: the source is the first of two files or columns, or the alphabetically
                first of a folder's two languages
    limit       pairs of train to stream from a table, shuffled, instead of reading all of it

    Raises ValueError.
    """
    paths = [Path(what) for what in data]
    if len(paths) > 2:
        raise ValueError(f"{len(data)} files were given; a parallel corpus has two")
    if len(paths) == 1 and not (paths[0].is_dir() and not has_tables(paths[0])):
        return read_table(str(data[0]), languages, limit)
    if limit:
        raise ValueError("a limit applies only to tables and the hub; text files are read whole")
    if len(paths) == 1:
        return read_folder(paths[0], languages)
    if any(map(table_ending, paths)):
        raise ValueError(
            f"{paths[0]} and {paths[1]}: a table has both sides, and so has text with a tab in "
            "each line; give one"
        )
    return read_two_files(paths, languages)


def has_tables(folder: Path) -> bool:
    """Return whether a folder or one in it has tables, and no other file there is its train."""
    listed = visible_files(folder)
    texts = [path for path in listed if path.parent == folder and ending_of(path) not in TABLES]
    named = group_by_split(texts, lambda path: path.name)
    return not named["train"] and any(ending_of(path) in TABLES for path in listed)


def read_table(data: str, languages: Languages, limit: int | None) -> ParallelCorpus:
    """Open a table, a folder of tables, or a dataset on the hub, with a column for each side."""
    table = tables.open_table(data, languages, limit)
    src_lang, tgt_lang = resolve_direction(table.columns, languages, table.origin)

    def read(split: str) -> Iterator[Pair]:
        for src, tgt in table.read(split, src_lang, tgt_lang):
            yield Pair(src or "", tgt or "")

    readers = {split: partial(read, split) for split in table.splits}
    origins = f"{table.origin}, column {src_lang}", f"{table.origin}, column {tgt_lang}"
    return ParallelCorpus(table.name, src_lang, tgt_lang, readers, table.key, origins, table.unread)


def read_folder(folder: Path, languages: Languages) -> ParallelCorpus:
    """Open a folder of `SPLIT.LANG`. Line n of one file translates line n of the other.

    An ending such as `en-zh.zh` has the language of its last part. Raises ValueError for a split
    that is there but is not read.
    """
    files = [path for path in visible_files(folder) if path.parent == folder]
    named = group_by_split(files, lambda path: path.name)
    sides = label_sides(named["train"], languages)
    if len(sides) < 2:
        listed = ", ".join(path.name for path in named["train"]) or "no train.xx"
        raise ValueError(
            f"{folder} has {listed}; needed: two, e.g. train.de and train.en, "
            f"or tables ({', '.join(TABLES)})"
        )
    src_lang, tgt_lang = resolve_direction([*sides], languages, str(folder))
    paths = {"train": (sides[src_lang], sides[tgt_lang])}
    for split in ("valid", "test"):
        src = find_side(named[split], split, sides[src_lang], src_lang)
        tgt = find_side(named[split], split, sides[tgt_lang], tgt_lang)
        if src and tgt:
            paths[split] = src, tgt
        elif named[split]:
            listed = ", ".join(path.name for path in named[split])
            both = {f"{split}.{src_lang}": src, f"{split}.{tgt_lang}": tgt}
            lacking = [name for name, path in both.items() if not path]
            raise ValueError(
                f"{folder} has {listed}, but no {' and no '.join(lacking)}; each split needs both "
                "sides: add what is missing, or move the other"
            )
    opened = corpus_of_files(folder.resolve().name, src_lang, tgt_lang, paths)
    read = [*chain.from_iterable(paths.values())]
    return opened._replace(unread=[path.name for path in files if path not in read])


def label_sides(paths: Sequence[Path], languages: Languages) -> dict[str, Path]:
    """Return files by their languages, or by their endings if two have the same.

    If two of them have a language, or one that is asked for, the others are not sides.
    """
    labels = [language_of(path, languages) or ending_of(path)[1:] or path.name for path in paths]
    if len(set(labels)) < len(labels):
        labels = [path.name.partition(".")[2] for path in paths]
    spoken = [code for code in labels if is_language(code) or code in languages]
    sides = dict(zip(labels, paths, strict=True))
    return {code: sides[code] for code in spoken} if len(spoken) > 1 else sides


def find_side(paths: Sequence[Path], split: str, train: Path, language: str) -> Path | None:
    """Return the file of a split that is named like train's, or the only one of its language.

    Raises ValueError if there are several.
    """
    names = {train.name.replace("train", alias, 1) for alias in SPLIT_ALIASES[split]}
    same = [path for path in paths if path.name in names]
    same = same or [path for path in paths if language in label_sides([path], [language])]
    if len(same) > 1:
        raise ValueError(f"there are {' and '.join(p.name for p in same)}; keep one for {split}")
    return next(iter(same), None)


def read_two_files(paths: Sequence[Path], languages: Languages) -> ParallelCorpus:
    """Open two text files: the source and its translation, unless languages say otherwise.

    Languages choose between files whose names contain a language, and label other files. Raises
    ValueError if they contradict the file names.
    """
    origin = " with ".join(map(str, paths))
    labels = [language_of(path, languages) for path in paths]
    if any(languages) and labels[0] == labels[1] is not None:
        raise ValueError(
            f"{origin} has {labels[0]!r} twice, so that --source and --target cannot say which is "
            "which; leave them out: the first file is the source"
        )
    if labels == [None, None]:
        labels = list(languages)
        for code in languages:
            if code is not None and not is_language(code):
                raise ValueError(f"{code!r} is not a language code such as de, deu or pt_BR")
    elif None in labels:
        other = next((code for code in languages if code not in (None, *labels)), None)
        labels = [label or other for label in labels]
    names = [label or path.name for label, path in zip(labels, paths, strict=True)]
    src_lang, tgt_lang = resolve_direction(names, languages, origin) if any(languages) else names
    src, tgt = paths if src_lang == names[0] else reversed(paths)
    return corpus_of_files(stem_of(src), src_lang, tgt_lang, {"train": (src, tgt)})


def corpus_of_files(
    name: str, src_lang: str, tgt_lang: str, paths: Mapping[str, tuple[Path, Path]]
) -> ParallelCorpus:
    """Return the corpus whose splits are two text files each."""
    src, tgt = paths["train"]
    return ParallelCorpus(
        name, src_lang, tgt_lang,
        {split: partial(read_line_pairs, *sides) for split, sides in paths.items()},
        " ".join(fingerprint(path) for sides in paths.values() for path in sides),
        (str(src), str(tgt)),
    )  # fmt: skip


def read_line_pairs(src: Path, tgt: Path) -> Iterator[Pair]:
    """Yield the pairs of two text files.

    Raises ValueError if one has more lines than the other, or if both contain the same text.
    """
    is_same = True
    for source, target in zip_longest(lines(src), lines(tgt)):
        if source is None or target is None:
            n_src, n_tgt = (sum(1 for _ in lines(path)) for path in (src, tgt))
            raise ValueError(
                f"{src} has {n_src:,} lines and {tgt} has {n_tgt:,}; "
                "line n of one must translate line n of the other"
            )
        is_same = is_same and source == target
        yield Pair(source, target)
    if is_same:
        raise ValueError(f"{src} and {tgt} contain the same text; one must translate the other")


def resolve_direction(names: Sequence[str], languages: Languages, origin: str) -> tuple[str, str]:
    """Return the source language and the target language out of those that a corpus has.

    Raises ValueError if one is missing, if they are the same, or if the choice is ambiguous.
    """
    if len(names) < 2:
        raise ValueError(f"{origin} has fewer than two text columns: {', '.join(names) or 'none'}")
    listed = " and ".join(map(repr, sorted(names)))
    for side, language in zip(("source", "target"), languages, strict=True):
        if language is not None and language not in names:
            raise ValueError(f"{side} is {language!r}; {origin} has {listed}")
    src, tgt = languages
    if len(names) == 2:
        src = src or next(name for name in names if name != tgt)
        tgt = tgt or next(name for name in names if name != src)
    if src is None or tgt is None:
        raise ValueError(f"{origin} has {listed}; name the two with --source and --target")
    if src == tgt:
        raise ValueError(f"source and target are both {src!r}; {origin} has {listed}")
    return src, tgt


# -------------------------------------------------------------------- Valid and test from elsewhere


def add_split(corpus: ParallelCorpus, split: str, data: Sequence[str]) -> ParallelCorpus:
    """Return the corpus with valid or test from elsewhere, in the same direction.

    data    two text files, or a table with both sides

    Raises ValueError.
    """
    if split in corpus.splits:
        raise ValueError(f"{corpus.name} has its own {split} split; leave out --{split}")
    if missing := [path for path in data if not Path(path).is_file()]:
        raise ValueError(f"--{split}: there is no file {missing[0]}; give two text files")
    languages = corpus.src_lang, corpus.tgt_lang
    is_named = len(data) == 1 or all(map(is_language, languages))
    opened = read_parallel(data, languages if is_named else (None, None))
    splits = {**corpus.splits, split: opened.splits["train"]}
    return corpus._replace(splits=splits, key=f"{corpus.key} {split} {opened.key}")

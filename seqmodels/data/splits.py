"""Parallel corpora: which side is which, and what is train, valid and test.

A corpus is not held in memory, but read from its beginning whenever it is needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import normalize

from seqmodels.data import SPLITS, tables
from seqmodels.data.cache import fingerprint
from seqmodels.data.corpora import PARALLEL, local_path, offline_hint
from seqmodels.data.languages import is_language, language_of
from seqmodels.data.tables import SPLIT_ALIASES, TABLES, Table
from seqmodels.data.text import count_lines, ending_of, lines, preview, stem_of
from seqmodels.utils.terminal import one_line

MAX_HELD_OUT = 2_000
"""Pairs of valid, and of test, if a corpus has only train; at most a twentieth of it each."""
Languages = Sequence[str | None]
"""Of source and target; None where it follows from the data."""


class Pair(NamedTuple):
    """One sentence and its translation."""

    src: str
    tgt: str
    line: int = 0
    """Its line in its file, counting blank ones, or its index within its split; 0: unknown."""


PairReader = Callable[[], Iterator[Pair]]
"""Read a split, from its beginning."""


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
    """Two files, or two columns of one table, with the sides of train."""

    def first_lines(self) -> str:
        """Describe the origin of each side, and the first line of each side of each split."""
        firsts = {split: next(read(), Pair("", "")) for split, read in self.splits.items()}
        sides = zip(("source", "target"), self.origins, firsts["train"][:2], strict=True)
        described = [
            f"{side}: {one_line(origin)}, first line: {preview(text)}"
            for side, origin, text in sides
        ]
        for split in ("valid", "test"):
            if split in firsts:
                first = " → ".join(map(preview, firsts[split][:2]))
                described.append(f"{split}: first pair: {first}")
            else:
                described.append(f"{split}: drawn from train")
        return "\n".join(described)

    def pairs(self, *splits: str) -> Iterator[tuple[str, Pair]]:
        """Yield the pairs of some splits, each with its split.

        Valid and test are drawn from train if the corpus lacks them: about MAX_HELD_OUT pairs each,
        or a twentieth of it. The draw depends only on the source, ignoring case, white space and
        Unicode's normal form: all pairs with the same source sentence are in the same split.
        """
        lacking = [split for split in SPLITS if split not in self.splits]
        share = min(MAX_HELD_OUT / max(1, self.size()), 0.05) if lacking else 1.0
        for split, read in self.splits.items():
            if split == "train" and lacking:
                for pair in read():
                    place = int(uniform_hash(pair.src) / share)
                    new_split = lacking[place] if place < len(lacking) else split
                    if new_split in splits:
                        yield new_split, pair
            elif split in splits:
                for pair in read():
                    yield split, pair


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
    path = local_path(preset)
    if path and preset.columns:
        src, tgt = resolve_direction(preset.columns, languages, name)
        numbers = [str(1 + preset.columns.index(language)) for language in (src, tgt)]
        opened = read_parallel([path], numbers, limit)
        return opened._replace(name=name, src_lang=src, tgt_lang=tgt)
    if path:
        return read_parallel([path], languages, limit)._replace(name=name)
    if not preset.is_on_hub:
        raise ValueError(
            f"{name} is not downloaded ({preset.source}); {offline_hint(name, preset)}"
        )
    try:
        return read_parallel([preset.source], languages, limit)._replace(name=name)
    except ValueError as fault:
        raise ValueError(f"{fault}; {offline_hint(name, preset)}") from fault


def read_parallel(
    data: Sequence[str | Path], languages: Languages = (None, None), limit: int | None = None
) -> ParallelCorpus:
    """Open a parallel corpus.

    data        one of: two text files, the second the translation of the first; a folder of
                `SPLIT.LANG`, e.g. `train.de` and `train.en`; a file .tsv .csv .jsonl .parquet, or
                text with a tab in each line; a folder of such tables; OWNER/NAME or
                OWNER/NAME:CONFIG, a dataset on the hub
    languages   of source and target: codes of text files, names of columns, or their numbers,
                from 1; None: the source is the first of two files, or the alphabetically first
                language if a folder or a table has exactly two
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
    if any(ending_of(path) in TABLES for path in paths):
        raise ValueError(
            f"{paths[0]} and {paths[1]}: a table has both sides; give one as --data, and others as "
            "--valid and --test"
        )
    return read_two_files(paths, languages)


def has_tables(folder: Path) -> bool:
    """Return whether a folder, or one in it, has tables, as on the hub, and no `train.xx`."""
    if any(ending_of(path) not in TABLES for path in folder.glob("train.*")):
        return False
    paths = (path for depth in ("*", "*/*") for path in folder.glob(depth))
    return any(ending_of(path) in TABLES for path in paths)


def read_table(data: str, languages: Languages, limit: int | None) -> ParallelCorpus:
    """Open a table, a folder of tables, or a dataset on the hub, with a column for each side."""
    table = tables.open_table(data, languages, limit)
    src_lang, tgt_lang = resolve_direction(table.columns, languages, table.origin)
    return ParallelCorpus(
        table.name, src_lang, tgt_lang,
        {split: partial(read_pairs, table, split, src_lang, tgt_lang) for split in table.splits},
        table.size, table.key,
        (f"{table.origin}, column {src_lang}", f"{table.origin}, column {tgt_lang}"),
    )  # fmt: skip


def read_pairs(table: Table, split: str, src_lang: str, tgt_lang: str) -> Iterator[Pair]:
    """Yield the pairs of a table; missing sides are blank."""
    for n, row in table.splits[split]():
        both = row.get("translation")
        cells: Mapping[str, Any] = both if isinstance(both, dict) else row
        for name in (src_lang, tgt_lang):
            if not isinstance(cells.get(name), str | None):
                raise ValueError(f"{table.origin}, line {n}: {name!r} is not a text")
        yield Pair(cells.get(src_lang) or "", cells.get(tgt_lang) or "", n)


def read_folder(folder: Path, languages: Languages) -> ParallelCorpus:
    """Open a folder of `SPLIT.LANG`. Line n of one file translates line n of the other.

    An ending such as `en-zh.zh` has the language of its last part.
    """
    names = sorted(path.name for path in folder.iterdir())
    endings = [name.removeprefix("train.") for name in names if name.startswith("train.")]
    if len(endings) < 2:
        listed = ", ".join(f"train.{ending}" for ending in endings) or "no train.xx"
        raise ValueError(f"{folder} has {listed}; needed: two, e.g. train.de and train.en")
    labels = [language_of(Path(f"train.{ending}"), languages) or ending for ending in endings]
    if len(set(labels)) < len(labels):
        labels = endings
    src_lang, tgt_lang = resolve_direction(labels, languages, str(folder))
    paths, lacking = {}, list[str]()
    for split in SPLITS:
        sides = [
            find_side(names, split, endings[labels.index(label)], label)
            for label in (src_lang, tgt_lang)
        ]
        missing = [side for side in sides if side not in names]
        if len(missing) == 1:
            lacking += missing
        elif not missing:
            paths[split] = folder / sides[0], folder / sides[1]
    if lacking:
        raise ValueError(f"{folder} has no {', '.join(lacking)}; each split needs both sides")
    return corpus_of_files(folder.resolve().name, src_lang, tgt_lang, paths)


def find_side(names: Sequence[str], split: str, ending: str, language: str) -> str:
    """Return the file of a split with the ending of train's, or the only one of its language.

    Raises ValueError if there are several.
    """
    for alias in SPLIT_ALIASES[split]:
        if f"{alias}.{ending}" in names:
            return f"{alias}.{ending}"
        same = [n for n in names if n.startswith(f"{alias}.")]
        same = [n for n in same if language_of(Path(n), [language]) == language]
        if len(same) > 1:
            raise ValueError(f"there are {' and '.join(same)}; keep one for {split}")
        if same:
            return same[0]
    return f"{split}.{ending}"


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
        cache(partial(count_lines, src)),
        " ".join(fingerprint(path) for sides in paths.values() for path in sides),
        (str(src), str(tgt)),
    )  # fmt: skip


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

    data    two text files, or a table with both sides; for test also the name of one of sacreBLEU's
            test sets, which takes the place of the corpus's own test split

    Raises ValueError.
    """
    if split == "test" and len(data) == 1 and not Path(data[0]).exists():
        read = sacrebleu_testset(data[0], corpus.src_lang, corpus.tgt_lang)
        name, key = f"{corpus.name}, test {data[0]}", data[0]
    else:
        if split in corpus.splits:
            raise ValueError(f"{corpus.name} has its own {split} split; leave out --{split}")
        if missing := [path for path in data if not Path(path).is_file()]:
            raise ValueError(f"--{split}: there is no file {missing[0]}; give two text files")
        languages = corpus.src_lang, corpus.tgt_lang
        is_named = len(data) == 1 or all(map(is_language, languages))
        opened = read_parallel(data, languages if is_named else (None, None))
        read, name, key = opened.splits["train"], corpus.name, f"{split} {opened.key}"
    splits = {**corpus.splits, split: read}
    return corpus._replace(name=name, splits=splits, key=f"{corpus.key} {key}")


def sacrebleu_testset(test: str, src_lang: str, tgt_lang: str) -> PairReader:
    """Return a test set of sacreBLEU, such as `wmt14` or `iwslt17`, which it downloads once.

    Raises ValueError if it is unknown, or cannot be downloaded.
    """
    from sacrebleu import utils

    pair = f"{src_lang}-{tgt_lang}"
    is_known = test in utils.get_available_testsets()
    if not is_known or pair not in utils.get_langpairs_for_testset(test):
        raise ValueError(f"sacreBLEU has no test set {test} {pair}; `sacrebleu --list` lists them")
    try:
        src, (tgt, *_) = utils.get_source_file(test, pair), utils.get_reference_files(test, pair)
    except (Exception, SystemExit) as fault:  # from one of several network libraries
        raise ValueError(
            f"sacreBLEU cannot fetch {test} {pair}; without a network, put its files into the "
            "folder that SACREBLEU names (default ~/.sacrebleu), or leave out --test"
        ) from fault
    return partial(read_line_pairs, Path(src), Path(tgt))

"""Parallel corpora and running text, in splits: from files, folders, tables and datasets, by name.

A corpus is not held in memory, but read from its beginning whenever it is needed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import normalize

from seqmodels.data import tables
from seqmodels.data.presets import (
    BIBLE_BOOKS,
    BIBLE_TEST,
    EBIBLE_FILES,
    LANGUAGES,
    PARALLEL,
    SHARES,
    TEXT,
    Preset,
    cached,
    download,
    fingerprint,
    local_path,
    offline_hint,
)
from seqmodels.data.readers import (
    SPLIT_ALIASES,
    SPLITS,
    TABLES,
    Table,
    count_lines,
    ending_of,
    lines,
    preview,
    read_lines,
    stem_of,
    text_chunks,
)
from seqmodels.utils.terminal import one_line

MAX_HELD_OUT = 2_000
"""Pairs of valid, and of test, if a corpus has only train; at most a twentieth of it each."""

# -------------------------------------------------------------------------------- Parallel text


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


def open_parallel(
    data: Sequence[str], languages: Sequence[str | None] = (None, None), limit: int | None = None
) -> ParallelCorpus:
    """Open a parallel corpus by its name here, or as `read_parallel` does."""
    name = data[0]
    preset = PARALLEL.get(name) if len(data) == 1 else None
    if preset is None:
        return read_parallel(data, languages, limit)
    path = local_path(preset)
    if name == "bible" and not (path and (path / "train.de").exists()):
        path = prepare_bible(path, preset)
    if path and preset.columns:
        src, tgt = resolve_direction(preset.columns, languages, name)
        numbers = [str(1 + preset.columns.index(language)) for language in (src, tgt)]
        opened = read_parallel([str(path)], numbers, limit)
        return opened._replace(name=name, src_lang=src, tgt_lang=tgt)
    if path:
        return read_parallel([str(path)], languages, limit)._replace(name=name)
    if not preset.is_on_hub:
        raise ValueError(
            f"{name} is not downloaded ({preset.source}); {offline_hint(name, preset)}"
        )
    try:
        return read_parallel([preset.source], languages, limit)._replace(name=name)
    except ValueError as fault:
        raise ValueError(f"{fault}; {offline_hint(name, preset)}") from fault


def read_parallel(
    data: Sequence[str | Path],
    languages: Sequence[str | None] = (None, None),
    limit: int | None = None,
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
    first = Path(data[0])
    if len(data) > 2:
        raise ValueError(f"{len(data)} files were given; a parallel corpus has two")
    if len(data) == 2 or (first.is_dir() and not has_tables(first)):
        if limit:
            raise ValueError(
                "a limit applies only to tables and the hub; text files are read whole"
            )
        if len(data) == 2:
            paths = [first, Path(data[1])]
            if any(ending_of(path) in TABLES for path in paths):
                raise ValueError(
                    f"{paths[0]} and {paths[1]}: a table has both sides; give one as --data, and "
                    "others as --valid and --test"
                )
            return read_two_files(paths, languages)
        return read_folder(first, languages)
    table = tables.open_table(str(data[0]), languages, limit)
    src_lang, tgt_lang = resolve_direction(table.columns, languages, table.origin)
    return ParallelCorpus(
        table.name, src_lang, tgt_lang,
        {split: partial(read_cells, table, split, src_lang, tgt_lang) for split in table.splits},
        table.size, table.key,
        (f"{table.origin}, column {src_lang}", f"{table.origin}, column {tgt_lang}"),
    )  # fmt: skip


def has_tables(folder: Path) -> bool:
    """Return whether a folder, or one in it, has tables, as on the hub, and no `train.xx`."""
    if any(ending_of(path) not in TABLES for path in folder.glob("train.*")):
        return False
    paths = (path for depth in ("*", "*/*") for path in folder.glob(depth))
    return any(ending_of(path) in TABLES for path in paths)


def read_cells(table: Table, split: str, src_lang: str, tgt_lang: str) -> Iterator[Pair]:
    """Yield the pairs of a table; missing sides are blank."""
    for n, row in table.splits[split]():
        both = row.get("translation")
        cells: Mapping[str, Any] = both if isinstance(both, dict) else row
        pair = Pair(cells.get(src_lang) or "", cells.get(tgt_lang) or "", n)
        if not (isinstance(pair.src, str) and isinstance(pair.tgt, str)):
            name = tgt_lang if isinstance(pair.src, str) else src_lang
            raise ValueError(f"{table.origin}, line {n}: {name!r} is not a text")
        yield pair


def read_folder(folder: Path, languages: Sequence[str | None]) -> ParallelCorpus:
    """Open a folder of `SPLIT.LANG`. Line n of one file translates line n of the other.

    An ending such as `en-zh.zh` has the language of its last part.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as fault:
        raise ValueError(f"{folder} cannot be read: {fault.strerror}") from fault
    endings = [name.removeprefix("train.") for name in names if name.startswith("train.")]
    if len(endings) < 2:
        listed = ", ".join(f"train.{ending}" for ending in endings) or "no train.xx"
        raise ValueError(f"{folder} has {listed}; needed: two, e.g. train.de and train.en")
    labels = [language_of(Path(f"train.{ending}"), languages) or ending for ending in endings]
    if len(set(labels)) < len(labels):
        labels = endings
    src_lang, tgt_lang = resolve_direction(labels, languages, str(folder))
    chosen = [endings[labels.index(label)] for label in (src_lang, tgt_lang)]
    paths, lacking = {}, []
    for split in SPLITS:
        sides = [
            find_side(names, split, ending, language)
            for ending, language in zip(chosen, (src_lang, tgt_lang), strict=True)
        ]
        absent = [side for side in sides if side not in names]
        lacking += absent
        if len(absent) < 2:
            paths[split] = folder / sides[0], folder / sides[1]
    if any(side.name in lacking for sides in paths.values() for side in sides):
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


def read_two_files(paths: Sequence[Path], languages: Sequence[str | None]) -> ParallelCorpus:
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


def resolve_direction(
    names: Sequence[str], languages: Sequence[str | None], origin: str
) -> tuple[str, str]:
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


# ------------------------------------------------------------------------------------ The Bible


def prepare_bible(folder: Path | None, preset: Preset) -> Path:
    """Return the splits of the Bible, made from eBible's files in a folder or at its address."""
    paths = [folder / Path(file).name for file in EBIBLE_FILES] if folder else []
    if not (paths and all(path.exists() for path in paths)):
        listed = ", ".join(Path(file).name for file in EBIBLE_FILES)
        hint = f"{offline_hint('bible', preset)}; it has either our splits or eBible's {listed}"
        paths = [download(preset.source + file, Path(file).name, hint) for file in EBIBLE_FILES]
    key = ["bible", 2, *map(fingerprint, paths)]
    return cached(key, "bible: splitting eBible's verses", partial(split_bible, paths))


def split_bible(paths: Sequence[Path], out: Path) -> dict[str, int]:
    """Write `train.de`, `train.en`, … into a folder; return how many pairs each split has.

    Line n of each of eBible's files is verse n of `vref.txt`, such as `GEN 1:1`. A verse is a pair
    if both translations have it on its own line: if the line is blank, the translation lacks the
    verse; if it is `<range>`, the line before contains it together with other verses. Raises
    ValueError if a test verse is missing.
    """
    refs, de, en = ([line.strip() for line in read_lines(path)] for path in paths)
    if not len(refs) == len(de) == len(en):
        raise ValueError(
            f"{', '.join(map(str, paths))} have {len(refs):,}, {len(de):,}, {len(en):,} lines; "
            "each needs one line per verse"
        )
    tested = set(read_lines(BIBLE_TEST))
    splits: dict[str, list[tuple[str, str]]] = {
        name: [] for name in ("train", "valid", "test", "test_books")
    }
    for i, (ref, *verse) in enumerate(zip(refs, de, en, strict=True)):
        if all(verse) and "<range>" not in (*verse, *de[i + 1 : i + 2], *en[i + 1 : i + 2]):
            name = "test" if ref in tested else BIBLE_BOOKS.get(ref[:3], "train")
            tested.discard(ref)
            splits[name].append((verse[0], verse[1]))
    if tested:
        raise ValueError(
            f"{len(tested):,} test verses, such as {min(tested)}, are not in both "
            f"{paths[1]} and {paths[2]}; give eBible's Luther 1912 and World English Bible"
        )
    for name, verses in splits.items():
        for side, code in enumerate(("de", "en")):
            text = "".join(f"{verse[side]}\n" for verse in verses)
            (out / f"{name}.{code}").write_text(text, "utf-8", newline="\n")
    return {name: len(verses) for name, verses in splits.items()}


# --------------------------------------------------------------------------------- Running text

TextReader = Callable[[], Iterator[str]]
"""Read a split, chunk by chunk, from its beginning."""
TEXT_COLUMNS = ("text", "sentence")
"""Names by which the text column is found."""
IDENTIFIER = re.compile(r"(.*[_-])?(id|idx|index|key|hash|uuid|url|path|file)", re.I).fullmatch
"""Matches the name of a column that is no text, even if it is the only one."""


class TextCorpus(NamedTuple):
    """Running text: three splits, each of which can be read any number of times."""

    name: str
    splits: Mapping[str, TextReader]
    key: str
    """Changes whenever the content does; known without reading it."""
    origin: str
    """Its path, its id on the hub, or several paths."""
    whole: TextReader
    """Read the text, or train if it has splits of its own."""
    is_valid_tested: bool = False
    """Whether test is the valid split, for want of a third one."""
    n_left_out: Callable[[], int] = int
    """Count the characters of headers and footers that are left out."""

    def first_line(self) -> str:
        """Describe the origin and the first line of the text."""
        all_lines = (line for chunk in self.whole() for line in chunk.split("\n"))
        first = next((line for line in all_lines if line.strip()), "")
        return f"text: {one_line(self.origin)}, first line: {preview(first)}"


def open_text(
    data: Sequence[str], column: str | None = None, limit: int | None = None
) -> TextCorpus:
    """Open running text by its name here, or as `read_text_corpus` does."""
    name = data[0]
    preset = TEXT.get(name) if len(data) == 1 else None
    if preset is None:
        return read_text_corpus(data, column, limit)
    path = local_path(preset)
    if path is None and preset.is_on_hub:
        try:
            return read_text_corpus([preset.source], column, limit)._replace(name=name)
        except ValueError as fault:
            raise ValueError(f"{fault}; {offline_hint(name, preset)}") from fault
    if path is None:
        sha256 = None if preset.is_gutenberg else preset.sha256
        path = download(preset.source, f"{name}.txt", offline_hint(name, preset), sha256)
    return read_text_corpus([path], column, limit, preset.shares)._replace(name=name)


def read_text_corpus(
    data: Sequence[str | Path],
    column: str | None = None,
    limit: int | None = None,
    shares: Mapping[str, tuple[float, float]] = SHARES,
) -> TextCorpus:
    """Open running text.

    data     text files, which are read one after the other; or one of: a file .tsv .csv .jsonl
             .parquet; a folder of such files; OWNER/NAME or OWNER/NAME:CONFIG, a dataset on the
             hub: each row is a document
    column   the text column; None: `text` or `sentence`, or the only one
    limit    rows of train to stream from a table, shuffled, instead of reading all of it
    shares   where each split begins and ends, in characters, for data without splits

    If a dataset has no valid or no test, the other one serves as both. Raises ValueError.
    """
    paths = [Path(what) for what in data]
    first = paths[0]
    if len(data) == 1 and (ending_of(first) in TABLES or first.is_dir() or not first.exists()):
        return read_documents(str(data[0]), column, limit, shares)
    for flag, given in (("limit", limit), ("column", column)):
        if given:
            raise ValueError(
                f"a {flag} applies only to a table or the hub; text files are read whole"
            )
    if named := [str(path) for path in paths if ending_of(path) in TABLES]:
        raise ValueError(f"{named[0]} is a table; several files must all be text files")
    key = " ".join([*map(fingerprint, paths), str(shares)])
    more = f" and {len(paths) - 1} more" if paths[1:] else ""
    books = [partial(book_chunks if has_boilerplate(p) else text_chunks, p) for p in paths]
    whole = partial(concatenate, books)
    return TextCorpus(
        first.name + more, split_by_share(whole, shares), key, f"{first}{more}", whole,
        shares["valid"] == shares["test"],
        lambda: sum(
            sum(map(len, text_chunks(path))) - sum(map(len, book()))
            for path, book in zip(paths, books, strict=True)
            if book.func is book_chunks
        ),
    )  # fmt: skip


def read_documents(
    data: str, column: str | None, limit: int | None, shares: Mapping[str, tuple[float, float]]
) -> TextCorpus:
    """Open a table or a dataset, each row of which is a document."""
    table = tables.open_table(data, [column], limit, min_common=1)
    only = [name for name in table.columns if len(table.columns) == 1 and not IDENTIFIER(name)]
    wanted = [column] if column else [*TEXT_COLUMNS, *only]
    name = next((name for name in wanted if name in table.columns), None)
    if name is None:
        listed = ", ".join(map(repr, table.columns)) or "none"
        raise ValueError(
            f"{data} has no text column {' or '.join(map(repr, wanted))}, but {listed}; choose one "
            "with --column"
        )

    def read(split: str) -> Iterator[str]:
        for _, row in table.splits[split]():
            if (text := row[name]) is not None:
                yield text if text.endswith("\n") else f"{text}\n"

    texts: dict[str, TextReader] = {split: partial(read, split) for split in table.splits}
    splits: Mapping[str, TextReader] = texts
    key, is_valid_tested = f"{table.key} {name}", len(texts) == 2
    if len(texts) == 1:
        splits = split_by_share(texts["train"], shares)
        key, is_valid_tested = f"{key} {shares}", shares["valid"] == shares["test"]
    elif len(texts) == 2:
        held_out = next(texts[split] for split in texts if split != "train")
        splits = {"train": texts["train"], "valid": held_out, "test": held_out}
    return TextCorpus(
        table.name, splits, key, f"{data}, column {name}", texts["train"],
        is_valid_tested,
    )  # fmt: skip


def concatenate(texts: Sequence[TextReader]) -> Iterator[str]:
    """Yield the pieces of several texts; each but the last ends in a line feed."""
    last = "\n"
    for read in texts:
        if not last.endswith("\n"):
            yield "\n"
        for piece in read():
            yield piece
            last = piece


def split_by_share(
    text: TextReader, shares: Mapping[str, tuple[float, float]]
) -> dict[str, TextReader]:
    """Cut a text into splits, each a share of its characters."""
    size: Callable[[], int] = cache(lambda: sum(map(len, text())))

    def read(low: float, high: float) -> Iterator[str]:
        start, end, n = int(low * size()), int(high * size()), 0
        for piece in text():
            if part := piece[max(0, start - n) : max(0, end - n)]:
                yield part
            n += len(piece)
            if n >= end:
                return

    return {split: partial(read, *share) for split, share in shares.items()}


BOILERPLATE = re.compile(
    r"^(?:\*\*\* ?(START|END) OF TH|End of (?:the )?Project Gutenberg)[^\n]*\n?", re.MULTILINE
)
"""A line that begins or ends a book of Project Gutenberg."""


def has_boilerplate(path: Path) -> bool:
    """Return whether a text has a header of Project Gutenberg, or several."""
    return any(
        mark[1] == "START"
        for chunk in text_chunks(path)
        if "START OF TH" in chunk
        for mark in BOILERPLATE.finditer(chunk)
    )


def book_chunks(path: Path) -> Iterator[str]:
    """Yield the books of a file without Project Gutenberg's headers and licences, each whole."""
    book: list[str] | None = None  # outside of a book
    for chunk in text_chunks(path):
        start = 0
        for mark in BOILERPLATE.finditer(chunk):
            if book is not None:
                yield "".join([*book, chunk[start : mark.start()]])
            book, start = [] if mark[1] == "START" else None, mark.end()
        if book is not None:
            book.append(chunk[start:])
    if book is not None:
        yield "".join(book)

"""The Bible's splits, made from eBible's files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from seqmodels.data.corpora import PARALLEL, download, local_path
from seqmodels.data.text import (
    Corpus,
    Languages,
    Pair,
    choose_sides,
    fingerprint,
    open_pairs,
    read_lines,
)

EBIBLE_FILES = ("metadata/vref.txt", "corpus/deu-deu1912.txt", "corpus/eng-engwebp.txt")
"""References of the verses, Luther 1912, World English Bible."""
HELD_OUT_BOOKS = dict.fromkeys(("EST", "HOS", "GAL", "JAS"), "valid")
HELD_OUT_BOOKS |= dict.fromkeys(("RUT", "JON", "MRK", "PHP"), "test_books")
"""The split of each book that is held out whole."""
TEST_VERSES = Path(__file__).with_name("bible.refs")
"""References of the test verses, from the other books: drawn once at random, 100 for each bin of
ten German words up to 60, and the 10 that are longer."""


def open_bible(languages: Languages) -> Corpus:
    """Open the Bible: splits in SEQMODELS_DATA, or those that are made from eBible's files."""
    preset = PARALLEL["bible"]
    folder = local_path(preset)
    if folder and (folder / "train.de").exists():
        return open_pairs([str(folder)], languages)._replace(name="bible")
    paths = [folder / Path(name).name for name in EBIBLE_FILES] if folder else []
    if not (paths and all(path.exists() for path in paths)):
        paths = [download(preset.source + name) for name in EBIBLE_FILES]
    src, tgt = choose_sides(["de", "en"], ["de", "en"], languages, "bible")
    splits = split_bible(paths)

    def read(split: str) -> Iterator[Pair]:
        for de, en in splits[split]:
            yield Pair(de, en) if src == "de" else Pair(en, de)

    readers = {split: partial(read, split) for split in ("train", "valid", "test")}
    key = " ".join(map(fingerprint, paths))
    return Corpus("bible", readers, key, [*map(str, paths[1:])], (src, tgt))


def split_bible(paths: Sequence[Path]) -> dict[str, list[tuple[str, str]]]:
    """Return the pairs, German and English, of train, valid, test and `test_books`.

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
    tested = set(read_lines(TEST_VERSES))
    splits: dict[str, list[tuple[str, str]]] = {
        name: [] for name in ("train", "valid", "test", "test_books")
    }
    for i, (ref, *verse) in enumerate(zip(refs, de, en, strict=True)):
        if all(verse) and "<range>" not in (*verse, *de[i + 1 : i + 2], *en[i + 1 : i + 2]):
            name = "test" if ref in tested else HELD_OUT_BOOKS.get(ref[:3], "train")
            tested.discard(ref)
            splits[name].append((verse[0], verse[1]))
    if tested:
        raise ValueError(
            f"{len(tested):,} test verses, such as {min(tested)}, are not in both "
            f"{paths[1]} and {paths[2]}; give eBible's Luther 1912 and World English Bible"
        )
    return splits

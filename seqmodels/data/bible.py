"""The Bible by verses, split for the score against length, from eBible's public texts.

Line n of each file of the eBible corpus is verse n of `vref.txt`, such as `GEN 1:1`. A verse is a
pair if both translations have it on its own line: if the line is blank, the translation lacks the
verse; if it is `<range>`, the line before contains it together with other verses.

    valid        Esther, Hosea, Galatians, James
    test_books   Ruth, Jonah, Mark, Philippians: whole books, apart from the others
    test         from the other books, drawn once at random: 100 verses for each bin of ten German
                 words up to 60, and the 10 that are longer; their references are in `bible.refs`
    train        the rest, in order
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from seqmodels.data.readers import read_lines

ADDRESS = "https://raw.githubusercontent.com/BibleNLP/ebible/main/"
FILES = ("metadata/vref.txt", "corpus/deu-deu1912.txt", "corpus/eng-engwebp.txt")
"""References, Luther 1912, World English Bible."""
BOOKS = dict.fromkeys(("EST", "HOS", "GAL", "JAS"), "valid")
BOOKS |= dict.fromkeys(("RUT", "JON", "MRK", "PHP"), "test_books")
TEST = Path(__file__).with_name("bible.refs")
RANGE = "<range>"


def verses(paths: Sequence[Path]) -> Iterator[tuple[str, str, str]]:
    """Yield the reference, German and English of each verse that is a pair, from FILES."""
    refs, de, en = ([line.strip() for line in read_lines(path)] for path in paths)
    if not len(refs) == len(de) == len(en):
        n_lines = ", ".join(f"{len(side):,}" for side in (refs, de, en))
        raise ValueError(
            f"{', '.join(map(str, paths))} have {n_lines} lines; each needs one line per verse"
        )
    after = zip([*de[1:], ""], [*en[1:], ""], strict=True)
    for ref, german, english, following in zip(refs, de, en, after, strict=True):
        if RANGE not in (german, english, *following) and german and english:
            yield ref, german, english


def split(paths: Sequence[Path], out: Path) -> dict[str, int]:
    """Write `train.de`, `train.en`, … into a folder; return how many pairs each split has.

    Raises ValueError if a test verse is missing.
    """
    tested = set(read_lines(TEST))
    sides: dict[str, list[str]] = {
        f"{name}.{code}": []
        for name in ("train", "valid", "test", "test_books")
        for code in ("de", "en")
    }
    for ref, german, english in verses(paths):
        name = "test" if ref in tested else BOOKS.get(ref[:3], "train")
        tested.discard(ref)
        sides[f"{name}.de"].append(german)
        sides[f"{name}.en"].append(english)
    if tested:
        raise ValueError(
            f"{len(tested):,} test verses, such as {min(tested)}, are not in both "
            f"{paths[1]} and {paths[2]}; give eBible's Luther 1912 and World English Bible"
        )
    for name, lines in sides.items():
        (out / name).write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="\n")
    return {name: len(sides[f"{name}.de"]) for name in ("train", "valid", "test", "test_books")}

"""Every reader on real corpora: as many pairs as an independent reader, the same first and last."""

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from seqmodels.data import SPLITS
from seqmodels.data.running_text import read_text_corpus
from seqmodels.data.splits import read_parallel

pytestmark = pytest.mark.usefixtures("cached")
Pairs = list[tuple[str, str]]
Write = Callable[[Path, Pairs], object]


def read_raw(path: Path) -> list[str]:
    text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    return text.removesuffix("\n").split("\n")


def read_pairs(data: Sequence[Path], split: str = "train", *names: str) -> Pairs:
    return [pair[:2] for pair in read_parallel(data, names or (None, None)).splits[split]()]


def write_csv(path: Path, pairs: Pairs) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("source", "target"), *pairs])


WRITERS: dict[str, Write] = {
    "csv": write_csv,
    "jsonl": lambda path, pairs: path.write_text(
        "".join(json.dumps({"source": src, "target": tgt}) + "\n" for src, tgt in pairs)
    ),
    "parquet": lambda path, pairs: parquet.write_table(
        pa.table({"translation": [{"source": src, "target": tgt} for src, tgt in pairs]}), path
    ),
}
TWO_FILES = {
    "ntrex128": ("newstest2019-src.eng.txt", "newstest2019-ref.vie.txt", 1_997),
    "tico19": ("eng-spa.eng", "eng-spa.spa", 2_100),
    "wmt_newstest_ende": ("newstest2015.eng", "newstest2015.deu", 2_169),
    "bible": ("test_books.de", "test_books.en", 915),
    "multi30k": ("test_2017_flickr.en", "test_2017_flickr.de", 1_000),
}


@pytest.mark.parametrize("name", TWO_FILES)
def test_two_files_and_tables_of_them(name: str, data: Path, tmp_path: Path) -> None:
    *files, n = TWO_FILES[name]
    src, tgt = (data / name / file for file in files)
    expected = [*zip(read_raw(src), read_raw(tgt), strict=True)]
    assert (len(expected), read_pairs([src, tgt])) == (n, expected)
    for ending, write in WRITERS.items():
        write(tmp_path / f"x.{ending}", expected)
        assert read_pairs([tmp_path / f"x.{ending}"], "train", "source", "target") == expected


@pytest.mark.parametrize(("name", "counts"), [
    ("bible", (28_944, 621, 610)), ("multi30k", (29_000, 1_014, 1_000)),
])  # fmt: skip
def test_folders(name: str, counts: tuple[int, ...], data: Path) -> None:
    stems = ("train", "val" if name == "multi30k" else "valid", "test")
    for split, stem, n in zip(SPLITS, stems, counts, strict=True):
        stem += "_2016_flickr" * (stem == "test" and name == "multi30k")
        sides = (read_raw(data / name / f"{stem}.{code}") for code in ("de", "en"))
        expected = [*zip(*sides, strict=True)]
        assert (len(expected), read_pairs([data / name], split)) == (n, expected)


@pytest.mark.parametrize("path", [
    "shakespeare/tinyshakespeare.txt", "wikitext2/wiki.valid.tokens", "names/names.txt",
    "tinystories/smallgpt.tiny_stories.txt", "gutenberg/war_and_peace.txt",
])  # fmt: skip
def test_running_text(path: str, data: Path) -> None:
    opened = read_text_corpus([data / path])
    text = "".join(part for split in SPLITS for part in opened.splits[split]())
    expected = (data / path).read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    assert len(text) + opened.n_left_out() == len(expected)
    assert text in expected
    assert (text == expected) == (opened.n_left_out() == 0) == ("gutenberg" not in path)

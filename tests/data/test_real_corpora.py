"""Every reader on real corpora: as many pairs as an independent reader, the same first and last."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from seqmodels.data import SPLITS, corpora
from seqmodels.data.prepare import PrepareConfig, prepare
from seqmodels.data.text import open_pairs, open_text

pytestmark = pytest.mark.usefixtures("cached")
LOWER = {"is_lowercase": True, "has_source_eos": False}


def read_raw(path: Path) -> list[str]:
    text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    return text.removesuffix("\n").split("\n")


def read_pairs(data: Sequence[Path], split: str = "train") -> list[tuple[str, str]]:
    return [pair[:2] for pair in open_pairs([*map(str, data)]).splits[split]()]


TWO_FILES = {
    "ntrex128": ("newstest2019-src.eng.txt", "newstest2019-ref.vie.txt", 1_997),
    "tico19": ("eng-spa.eng", "eng-spa.spa", 2_100),
    "wmt_newstest_ende": ("newstest2015.eng", "newstest2015.deu", 2_169),
    "bible": ("test_books.de", "test_books.en", 915),
    "multi30k": ("test_2017_flickr.en", "test_2017_flickr.de", 1_000),
}


@pytest.mark.parametrize("name", TWO_FILES)
def test_two_files(name: str, data: Path) -> None:
    *files, n = TWO_FILES[name]
    src, tgt = (data / name / file for file in files)
    expected = [*zip(read_raw(src), read_raw(tgt), strict=True)]
    assert (len(expected), read_pairs([src, tgt])) == (n, expected)


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
    opened = open_text([str(data / path)])
    text = "".join(part for split in SPLITS for part in opened.splits[split]())
    expected = (data / path).read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    assert text in expected
    assert len(expected) - len(text) == (19_277 if "gutenberg" in path else 0)


@pytest.mark.parametrize(("name", "source", "config", "n_tokens"), [
    pytest.param("bible", "de", {}, (2_032_772, 48_138, 56_930), marks=pytest.mark.slow),
    pytest.param("multi30k", "de", LOWER, (941_079, 33_505, 31_666), marks=pytest.mark.slow),
    ("multi30k", "en", LOWER | {"vocab_size": 10_000}, (837_895, 30_004, 28_455)),
    ("shakespeare", None, {"tokenizer": "characters"}, (1_003_854, 111_540, 111_540)),
    ("war-and-peace", None, {"vocab_size": 2_000}, (896_125, 49_294, 51_000)),
])  # fmt: skip
def test_tokens_are_those_of_the_records(
    name: str, source: str, config: dict[str, Any], n_tokens: Sequence[int], data: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("SEQMODELS_DATA", str(data))
    opened = open_pairs([name], (source, None)) if source else open_text([name])
    ready = prepare(opened, PrepareConfig(**config))
    assert corpora.checksum_warning(name, ready.data["sha256"]) == ""
    assert [ready.data[f"n_tokens_{split}"] for split in SPLITS] == [*n_tokens]

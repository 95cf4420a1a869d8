"""Parallel corpora: which side is which, and which pairs are held out."""

from pathlib import Path

import pytest
from toys import read_pairs

from seqmodels.data import SPLITS, splits
from seqmodels.data.splits import Pair, ParallelCorpus, read_parallel


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a small splits: one blank side in train, one test sentence that train has too."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    for name, text in {
        "train.de": "eins\nzwei\n \ndrei\n", "train.en": "one\ntwo\nnothing\nthree\n",
        "valid.de": "vier\n", "valid.en": "four\n",
        "test.de": "fünf\neins\n", "test.en": "five\n1\n",
    }.items():  # fmt: skip
        (folder / name).write_text(text, "utf-8", newline="\n")
    return folder


def test_a_folder_of_two_languages(folder: Path) -> None:
    tiny = read_parallel([folder])
    assert (tiny.name, tiny.src_lang, tiny.tgt_lang) == ("tiny", "de", "en")
    assert list(tiny.splits) == ["train", "valid", "test"]
    for _ in range(2):
        assert read_pairs(tiny, "train") == [
            Pair("eins", "one"), Pair("zwei", "two"), Pair(" ", "nothing"),
            Pair("drei", "three"),
        ]  # fmt: skip
    assert read_pairs(tiny, "test") == [Pair("fünf", "five"), Pair("eins", "1")]
    assert read_parallel([folder]).key == tiny.key
    (folder / "valid.en").write_text("for\n")
    assert read_parallel([folder]).key != tiny.key
    (folder / "train.en").write_bytes((folder / "train.de").read_bytes().replace(b"\n", b"\r\n"))
    with pytest.raises(ValueError, match=r"train\.de and .*train\.en contain the same text"):
        read_pairs(read_parallel([folder]), "train")


def test_splits_from_other_files(folder: Path, tmp_path: Path) -> None:
    train = [folder / "train.en", folder / "train.de"]
    for name, text in (("dev.en", "six\n"), ("dev.de", "sechs\n"), ("t.tsv", "de\ten\nx\ty\n")):
        (tmp_path / name).write_text(text)
    dev, tst = [str(tmp_path / "dev.de"), str(tmp_path / "dev.en")], [str(tmp_path / "t.tsv")]
    opened = read_parallel(train)
    both = splits.add_split(splits.add_split(opened, "valid", dev), "test", tst)
    assert read_pairs(both, "valid") == [Pair("six", "sechs")]
    assert read_pairs(both, "test") == [Pair("y", "x")]
    assert len(read_pairs(both, "train")) == 4
    assert len({opened.key, splits.add_split(opened, "valid", dev).key, both.key}) == 3
    for split in ("valid", "test"):
        with pytest.raises(ValueError, match=f"tiny has its own {split} split"):
            splits.add_split(read_parallel([folder]), split, dev)


def test_a_folder_of_more_languages(folder: Path) -> None:
    for path in list(folder.iterdir()):
        split, code = path.name.split(".")
        path.rename(folder / f"{split}.de-en.{code}")
        (folder / f"{split}.fr").write_text("un\ndeux\ntrois\n")
    with pytest.raises(ValueError, match="'de' and 'en' and 'fr'; name the two"):
        read_parallel([folder], ("en", None))
    opened = read_parallel([folder], ("en", "de"))
    assert (opened.src_lang, opened.tgt_lang) == ("en", "de")
    assert read_pairs(opened, "valid") == [Pair("four", "vier")]


def test_held_out_pairs_are_drawn_by_their_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [(f"Satz {i - i % 3 // 2}", f"sentence {i}") for i in range(3_000)]
    for i, code in enumerate(("de", "en")):
        (tmp_path / f"all.{code}").write_text("".join(f"{pair[i]}\n" for pair in pairs))
    opened = read_parallel([tmp_path / "all.de", tmp_path / "all.en"])
    assert (opened.name, opened.src_lang, opened.tgt_lang) == ("all", "de", "en")
    assert list(opened.splits) == ["train"]
    drawn = {split: read_pairs(opened, split) for split in SPLITS}
    assert read_pairs(opened) == pairs
    for split in ("valid", "test"):
        assert 90 <= len(drawn[split]) <= 210  # a twentieth is 150
    sources = [{pair.src for pair in part} for part in drawn.values()]
    assert sum(map(len, sources)) == len(set().union(*sources))
    upper = [Pair(f"  {pair.src.upper()}", pair.tgt) for pair in drawn["test"]]
    again = opened._replace(splits={"train": lambda: iter(upper)})
    assert read_pairs(again, "test") == upper
    own = opened._replace(splits={**opened.splits, "test": lambda: iter(upper)})
    assert read_pairs(own, "test") == upper
    assert len(read_pairs(own, "train")) + len(read_pairs(own, "valid")) == 3_000
    monkeypatch.setattr(splits, "MAX_HELD_OUT", 200)
    many = [Pair(f"{i}", "x") for i in range(10_000)]
    large = ParallelCorpus("x", "a", "b", {"train": lambda: iter(many)}, "")
    for split in ("valid", "test"):
        assert abs(len(read_pairs(large, split)) - 200) < 50


@pytest.mark.parametrize("names", [
    ("ok.de", "ok.en"), ("a.de.txt", "b.en.txt"), ("de.txt", "en.txt"), ("a.de", "b.txt"),
    ("ted.dev.de", "ted.dev.en"),  # dev may be a language: the last one counts
])  # fmt: skip
def test_languages_choose_between_two_files(names: tuple[str, str], tmp_path: Path) -> None:
    paths = [tmp_path / name for name in names]
    for path, line in zip(paths, ("eins", "one"), strict=True):
        path.write_text(f"{line}\n")
    is_named = "b.txt" not in names
    for languages in [("en", "de")] + [("en", None), (None, "de")] * is_named:
        for given in (paths, paths[::-1]):
            opened = read_parallel(given, languages)
            assert (opened.src_lang, opened.tgt_lang) == ("en", "de")
            assert read_pairs(opened) == [Pair("one", "eins")]
            assert opened.origins == (str(paths[1]), str(paths[0]))
    for languages in [("de", "de")] + [("fr", "de"), ("en", "fr")] * is_named:
        with pytest.raises(ValueError, match=f"'{'fr' if 'fr' in languages else 'de'}'"):
            read_parallel(paths, languages)


def test_two_files_without_languages(tmp_path: Path) -> None:
    for name, line in (("a.txt", "eins"), ("b.txt", "one"), ("c.en", "1"), ("d.en", "i")):
        (tmp_path / name).write_text(f"{line}\n")
    unnamed = [tmp_path / "b.txt", tmp_path / "a.txt"]
    for languages in ((None, None), ("zh-Hans", "pt_BR")):
        opened = read_parallel(unnamed, languages)
        labels = languages if any(languages) else ("b.txt", "a.txt")
        assert (opened.src_lang, opened.tgt_lang) == labels
        assert read_pairs(opened) == [Pair("one", "eins")]
    with pytest.raises(ValueError, match=r"^'klingon' is not a language code"):
        read_parallel(unnamed, ("klingon", "en"))
    same = [tmp_path / "d.en", tmp_path / "c.en"]
    assert read_pairs(read_parallel(same)) == [Pair("i", "1")]
    with pytest.raises(ValueError, match=r"d\.en with .*c\.en has 'en' twice"):
        read_parallel(same, ("en", "de"))


def test_two_tables_are_not_two_sides(tmp_path: Path) -> None:
    for name in ("a.csv", "b.jsonl", "c.de"):
        (tmp_path / name).write_text("de,en\n")
    for name in ("deu.txt", "fra.txt"):  # as by Anki
        (tmp_path / name).write_text("Hi.\tHallo!\nNo.\tNein.\n")
    for names in (("a.csv", "b.jsonl"), ("c.de", "a.csv"), ("deu.txt", "fra.txt")):
        with pytest.raises(ValueError, match=f"{names[0]} and .*{names[1]}: a table has"):
            read_parallel([tmp_path / name for name in names])


def test_a_split_with_another_ending_than_trains(folder: Path) -> None:
    for code in ("de", "en"):
        (folder / f"train.{code}").rename(folder / f"train.clean.{code}")
    opened = read_parallel([folder])
    assert read_pairs(opened, "valid") == [Pair("vier", "four")]
    assert read_pairs(opened, "test") == [Pair("fünf", "five"), Pair("eins", "1")]
    (folder / "valid.raw.de").write_text("vier\n")
    with pytest.raises(ValueError, match=r"valid\.de and valid\.raw\.de; keep one for valid"):
        read_parallel([folder])


@pytest.mark.parametrize(("files", "fault"), [
    (("dev.de", "dev.en"), r"dev\.de and valid\.de; keep one for valid"),
    (("dev.tsv",), None), (("train.de.bak", "train.de~", "train.csv", "newstest.de"), None),
])  # fmt: skip
def test_a_file_that_is_not_read_is_named(
    files: tuple[str, ...], fault: str | None, folder: Path
) -> None:
    for name in files:
        (folder / name).write_text("x\ty\n")
    if fault:
        with pytest.raises(ValueError, match=fault):
            read_parallel([folder])
        return
    opened = read_parallel([folder])
    assert len(read_pairs(opened)) == 7
    assert f"not read: {', '.join(sorted(files))}" in opened.first_lines()


def test_a_split_that_cannot_be_read_is_refused(folder: Path) -> None:
    (folder / "valid.en").unlink()
    with pytest.raises(ValueError, match=r"has valid\.de, but no valid\.en;"):
        read_parallel([folder])
    (folder / "valid.de").unlink()
    (folder / "dev.tsv").write_text("de\ten\nx\ty\n")
    with pytest.raises(ValueError, match=r"has dev\.tsv, but no valid\.de and no valid\.en;"):
        read_parallel([folder])


@pytest.mark.parametrize("names", [
    {"train": "Train", "valid": "DEV2010", "test": "tst2013"},
    {"train": "ted.train", "valid": "ted.validation_matched", "test": "ted.test"},
    {"train": "training", "valid": "val", "test": "eval"},
])  # fmt: skip
def test_splits_by_other_names(names: dict[str, str], folder: Path) -> None:
    before = {split: read_pairs(read_parallel([folder]), split) for split in SPLITS}
    for split, name in names.items():
        for code in ("de", "en"):
            (folder / f"{split}.{code}").rename(folder / f"{name}.{code}")
    opened = read_parallel([folder])
    assert {split: read_pairs(opened, split) for split in SPLITS} == before

"""Parallel corpora: from two files, folders and tables, and every message."""

import re
from pathlib import Path

import pytest

from seqmodels.data import corpus
from seqmodels.data.corpus import Pair, ParallelCorpus, read_parallel
from seqmodels.data.readers import read_lines, sha256
from seqmodels.utils import files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a small corpus: one blank side in train, one test sentence that train has too."""
    made = tmp_path / "tiny"
    made.mkdir()
    for name, written in {
        "train.de": "eins\nzwei\n \ndrei\n",
        "train.en": "one\ntwo\nnothing\nthree\n",
        "valid.de": "vier\n",
        "valid.en": "four\n",
        "test.de": "fünf\neins\n",
        "test.en": "five\n1\n",
    }.items():
        (made / name).write_text(written, "utf-8", newline="\n")
    return made


def texts(opened: ParallelCorpus, split: str) -> list[Pair]:
    """Read a split."""
    return [pair for _, pair in opened.pairs(split)]


def test_parallel(folder: Path) -> None:
    """Keep out pairs that are dropped, doubled or shifted without a word, or read only once."""
    tiny = read_parallel([folder])
    assert (tiny.name, tiny.src_lang, tiny.tgt_lang, tiny.size()) == ("tiny", "de", "en", 4)
    assert list(tiny.splits) == ["train", "valid", "test"]
    for _ in range(2):
        assert texts(tiny, "train") == [
            Pair("eins", "one", 1), Pair("zwei", "two", 2), Pair(" ", "nothing", 3),
            Pair("drei", "three", 4),
        ]  # fmt: skip
    assert texts(tiny, "test") == [Pair("fünf", "five", 1), Pair("eins", "1", 2)]


def test_direction(folder: Path) -> None:
    """Keep out a direction by chance."""
    forth, back = read_parallel([folder], ("de", None)), read_parallel([str(folder)], ("en", None))
    assert (forth.src_lang, forth.tgt_lang) == ("de", "en")
    assert (back.src_lang, back.tgt_lang) == ("en", "de")
    assert read_parallel([folder], (None, "de")).src_lang == "en"
    assert texts(back, "valid") == [Pair("four", "vier", 1)]
    assert texts(forth, "valid") == [Pair("vier", "four", 1)]


def test_key(folder: Path) -> None:
    """Keep out a corpus that has changed and is taken for what was prepared before."""
    before = read_parallel([folder]).key
    assert read_parallel([folder]).key == before
    (folder / "valid.en").write_text("for\n")
    assert read_parallel([folder]).key != before


def test_other_names_of_valid(folder: Path) -> None:
    """Keep out a folder that has to be renamed before it is read."""
    for name in ("val", "dev", "validation"):
        for code in ("de", "en"):
            (folder / f"valid.{code}").rename(folder / f"{name}.{code}")
        assert texts(read_parallel([folder]), "valid") == [Pair("vier", "four", 1)]
        for code in ("de", "en"):
            (folder / f"{name}.{code}").rename(folder / f"valid.{code}")


@pytest.mark.parametrize(
    ("languages", "fault"),
    [
        (("fr", None), r"^source is 'fr'; .*tiny has 'de' and 'en'$"),
        ((None, "fr"), r"^target is 'fr'; .*tiny has 'de' and 'en'$"),
        (("en", "en"), r"^source and target are both 'en'; .*tiny has 'de' and 'en'$"),
    ],
)
def test_unknown_language(folder: Path, languages, fault: str) -> None:
    """Keep out a silent fallback to another direction."""
    with pytest.raises(ValueError, match=fault):
        read_parallel([folder], languages)


@pytest.mark.parametrize(
    ("names", "found"),
    [([], "no train.xx"), (["train.de"], "train.de"), (["train.de", "train.en", "train.fr"], "")],
)
def test_not_two_languages(names: list[str], found: str, tmp_path: Path) -> None:
    """Keep out a language that is chosen by the order of the folder."""
    for name in names:
        (tmp_path / name).write_text("x\n")
    listed = re.escape(", ".join(names) or found)
    with pytest.raises(ValueError, match=rf"has {listed}; needed: two, e\.g\. train\.de and"):
        read_parallel([tmp_path])


def test_missing_split(folder: Path) -> None:
    """Keep out a run without validation or test, and one complaint per file."""
    (folder / "valid.de").unlink()
    (folder / "test.en").unlink()
    needed = r"train\.de, train\.en, valid\.de, valid\.en, test\.de, test\.en"
    with pytest.raises(ValueError, match=rf"tiny has no valid\.de, test\.en; needed: {needed}$"):
        read_parallel([folder])


def test_unequal_lines(folder: Path) -> None:
    """Keep out `zip`, which cuts the longer file and hides the shift."""
    (folder / "valid.en").write_text("four\nfive\n")
    with pytest.raises(ValueError, match=r"valid\.de has 1 lines and .*valid\.en has 2; line n"):
        texts(read_parallel([folder]), "valid")


def test_a_copy_is_no_translation(folder: Path) -> None:
    """Keep out one language twice, which every model with attention learns at once."""
    (folder / "train.en").write_bytes((folder / "train.de").read_bytes().replace(b"\n", b"\r\n"))
    with pytest.raises(
        ValueError, match=r"train\.de and .*train\.en contain the same text; one must"
    ):
        texts(read_parallel([folder]), "train")


def test_not_a_folder(folder: Path) -> None:
    """Keep out a traceback for a path with a typing error, and one file in two files' place."""
    with pytest.raises(
        ValueError, match=r"x does not exist; it is not a known corpus and not OWNER/NAME"
    ):
        read_parallel([folder / "x"])
    with pytest.raises(
        ValueError,
        match=r"train\.de is neither a table nor .* two text files",
    ):
        read_parallel([folder / "train.de"])
    with pytest.raises(ValueError, match=r"^3 files were given; a parallel corpus has two$"):
        read_parallel([folder / "train.de"] * 3)
    with pytest.raises(
        ValueError, match=r"^a limit applies only to tables and the hub; text files are r"
    ):
        read_parallel([folder], limit=5)


def test_permission(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out a bare PermissionError, from the folder or from a file in it."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(files, "opened", refuse)
        with pytest.raises(ValueError, match=r"train\.de cannot be read: Permission denied$"):
            texts(read_parallel([folder]), "train")
    monkeypatch.setattr(corpus.os, "listdir", refuse)
    with pytest.raises(ValueError, match=r"tiny cannot be read: Permission denied$"):
        read_parallel([folder])


# Two files, and tables: train alone


def pairs_of(n: int) -> list[tuple[str, str]]:
    """Make sentences, every third one with two translations."""
    return [(f"Satz {i - i % 3 // 2}", f"sentence {i}") for i in range(n)]


def test_two_files(tmp_path: Path) -> None:
    """Keep out a split by chance, or one that leaves something out or a sentence on both sides."""
    made = pairs_of(3_000)
    for i, code in enumerate(("de", "en")):
        (tmp_path / f"all.{code}").write_text("".join(f"{pair[i]}\n" for pair in made))
    opened = read_parallel([tmp_path / "all.en", tmp_path / "all.de"])
    assert (opened.name, opened.src_lang, opened.tgt_lang) == ("all", "en", "de")
    opened = read_parallel([tmp_path / "all.de", tmp_path / "all.en"])
    assert list(opened.splits) == ["train"]
    splits = {split: texts(opened, split) for split in corpus.SPLITS}
    assert splits == {split: texts(opened, split) for split in corpus.SPLITS}
    together = sorted((pair for part in splits.values() for pair in part), key=lambda p: p.line)
    assert together == [Pair(src, tgt, i) for i, (src, tgt) in enumerate(made, 1)]
    for split in ("valid", "test"):
        assert 90 <= len(splits[split]) <= 210  # a twentieth is 150
    sources = [{pair.src for pair in part} for part in splits.values()]
    assert sum(map(len, sources)) == len(set().union(*sources))
    upper = [Pair(f"  {pair.src.upper()}", pair.tgt, pair.line) for pair in splits["test"]]
    again = opened._replace(splits={"train": lambda: iter(upper)})
    assert texts(again, "test") == upper
    own = opened._replace(splits={**opened.splits, "test": lambda: iter(upper)})
    assert texts(own, "test") == upper
    assert len(texts(own, "train")) + len(texts(own, "valid")) == 3_000


@pytest.mark.parametrize("names", [("ok.de", "ok.en"), ("a.de.txt", "b.en.txt"), ("a.de", "b.txt")])
def test_languages_choose_between_two_files(names: tuple[str, str], tmp_path: Path) -> None:
    """Keep out a direction that is only renamed: German to English with English's label."""
    paths = [tmp_path / name for name in names]
    for path, line in zip(paths, ("eins", "one"), strict=True):
        path.write_text(f"{line}\n")
    for languages in (("en", "de"), ("en", None), (None, "de")):
        if "b.txt" in names and None in languages:
            continue
        for given in (paths, paths[::-1]):
            opened = read_parallel(given, languages)
            assert (opened.src_lang, opened.tgt_lang) == ("en", "de")
            assert [pair[:2] for _, pair in opened.pairs(*corpus.SPLITS)] == [("one", "eins")]
            assert opened.first_lines() == (
                f"source: {paths[1]}, first line: one\ntarget: {paths[0]}, first line: eins"
            )
    for languages in (("fr", "de"), ("en", "fr"), ("de", "de")):
        if "b.txt" in names and languages[0] != languages[1]:
            continue
        with pytest.raises(ValueError, match=r"^(source|target|source and target) (is|are both) "):
            read_parallel(paths, languages)


def test_two_files_without_languages(tmp_path: Path) -> None:
    """Keep out a direction other than the files' order where nothing else tells it."""
    for name, line in (("a.txt", "eins"), ("b.txt", "one"), ("c.en", "1"), ("d.en", "i")):
        (tmp_path / name).write_text(f"{line}\n")
    two, same = (
        [tmp_path / name for name in pair] for pair in (("b.txt", "a.txt"), ("d.en", "c.en"))
    )
    for languages, named in (
        ((None, None), ("b.txt", "a.txt")), (("en", "de"), ("en", "de")),
        ((None, "de"), ("b.txt", "de")),
    ):  # fmt: skip
        opened = read_parallel(two, languages)
        assert (opened.src_lang, opened.tgt_lang) == named
        assert [pair[:2] for _, pair in opened.pairs(*corpus.SPLITS)] == [("one", "eins")]
    for unknown in ("klingon", "xx"):
        with pytest.raises(ValueError, match=rf"^'{unknown}' is not a language code such as de, "):
            read_parallel(two, (unknown, "en"))
    assert [pair[:2] for _, pair in read_parallel(same).pairs(*corpus.SPLITS)] == [("i", "1")]
    with pytest.raises(
        ValueError, match=r"d\.en with .*c\.en has 'en' twice, so that --source and"
    ):
        read_parallel(same, ("en", "de"))


def test_first_lines_are_safe(tmp_path: Path) -> None:
    """Keep out a first line that rings, clears the screen or fills it; a blank one says so."""
    (tmp_path / "x.de").write_text("\x1b[2J" + "la " * 90 + "\nb\n")
    (tmp_path / "x.en").write_text("\n\n")
    source, target = read_parallel([tmp_path / "x.de", tmp_path / "x.en"]).first_lines().split("\n")
    assert source.endswith("…")
    assert source.startswith(f"source: {tmp_path / 'x.de'}, first line: \\x1b[2Jla la ")
    assert len(source.partition("first line: ")[2]) == 80
    assert target == f"target: {tmp_path / 'x.en'}, first line: (blank)"


def test_hold_out_of_many() -> None:
    """Keep out a test set that grows with the corpus."""
    many = [Pair(f"{i}", "x", i) for i in range(100_000)]
    drawn = ParallelCorpus("x", "a", "b", {"train": lambda: iter(many)}, lambda: len(many), "")
    for split in ("valid", "test"):
        assert abs(len(texts(drawn, split)) - corpus.MAX_HELD_OUT) < 200


TABLE = {
    "x.tsv": 'de\ten\tlicence\nEr sagte "ja\tNA\tCC\n\n12\tnull\tCC\r\n',
    "x.csv": 'licence,de,en\nCC,"Er sagte ""ja",NA\n\nCC,12,null\r\n',
    "x.jsonl": '{"de": "Er sagte \\"ja", "en": "NA"}\n\n{"en": "null", "de": "12", "n": 3}\r\n',
    "y.jsonl": '{"translation": {"de": "Er sagte \\"ja", "en": "NA"}}\n\n'
    '{"id": 7, "translation": {"de": "12", "en": "null"}}\n',
}


@pytest.mark.parametrize("name", TABLE)
def test_tables(name: str, tmp_path: Path) -> None:
    """Keep out a reader that guesses: "NA" is a word, 12 a text, a quotation mark may be alone."""
    (tmp_path / name).write_text(TABLE[name], newline="")
    opened = read_parallel([tmp_path / name], ("de", "en"))
    assert (opened.name, opened.src_lang, opened.tgt_lang) == (name[0], "de", "en")
    found = [pair for split in corpus.SPLITS for pair in texts(opened, split)]
    assert sorted(found, key=lambda pair: pair.line) == [
        Pair('Er sagte "ja', "NA", 1 if "json" in name else 2),
        Pair("12", "null", 3 if "json" in name else 4),
    ]


@pytest.mark.parametrize("ending", ["tsv", "csv"])
@pytest.mark.parametrize("limit", [None, 2])
def test_table_without_header(ending: str, limit: int | None, tmp_path: Path) -> None:
    """Keep out a first pair that is taken for names, by our reader or by the hub's, and lost."""
    path = tmp_path / f"x.{ending}"
    comma = {"tsv": "\t", "csv": ","}[ending]
    path.write_text(f"Go.{comma}Va !\nHi.{comma}Salut !\n")
    for numbers in (("2", "1"), ("2", None)):
        opened = read_parallel([path], numbers, limit)
        found = [pair for split in corpus.SPLITS for pair in texts(opened, split)]
        assert {pair.src for pair in found} == {"Va !", "Salut !"}
    asked = rf"x\.{ending} begins with Go\. \| Va !; if these are column names, choose .*; "
    for languages in ((None, None), ("en", "fr"), (None, "fr")):
        with pytest.raises(ValueError, match=rf"{asked}.* numbers: --source 1 --target 2$"):
            read_parallel([path], languages, limit)


@pytest.mark.parametrize(
    ("first", "asked"),
    [
        ("de,en,note", ("de", "en")), ("German,English", (None, None)),
        ("ours,theirs", ("theirs", "ours")), ("ours,theirs", ("ours", None)),
        ("en,fr", ("1", "2")), ("source,target", ("2", "1")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("limit", [None, 1])
def test_a_header_is_not_a_pair(first: str, asked, limit: int | None, tmp_path: Path) -> None:
    """Keep out names that are learned as a sentence and its translation."""
    names = first.split(",")
    (tmp_path / "x.csv").write_text(f"{first}\n" + ",".join("abc"[: len(names)]) + "\n")
    opened = read_parallel([tmp_path / "x.csv"], asked, limit)
    found = [pair[:2] for split in corpus.SPLITS for pair in texts(opened, split)]
    swapped = {("theirs", "ours"), ("2", "1"), (None, None)}  # English is before German
    assert found == [("b", "a") if asked in swapped else ("a", "b")]


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("x.tsv", "de\ten\na\tb\nc\n", r"x\.tsv, line 3: 1 columns, but the first line has 2$"),
        ("x.tsv", "de\ten\na\tb\tc\n", r"x\.tsv, line 2: 3 columns, but the first line has 2$"),
        ("x.tsv", "de\tde\na\tb\n", r"line 1: duplicate names in the header; if a file has no h"),
        ("x.tsv", "de\tfr\na\tb\n", r"target is 'en'; .*x\.tsv has 'de' and 'fr'$"),
        ("x.tsv", "de\ten\n", r"x\.tsv has no rows$"),
        ("x.tsv", "de,en\na,b\n", r"has fewer than two text columns: de,en$"),
        (
            "x.jsonl",
            '{"de": "a", "en": "b"}\n\n{"de": "\\ud83d\\ude00 \\udc00", "en": "b"}\n',
            r"x\.jsonl, line 3: not JSON: .*surrogates",
        ),
        ("x.csv", 'de,en\na,"b\n', r"x\.csv, line 2: unexpected end of data$"),
        ("x.csv", 'de,en\na,"b" c\n', r"x\.csv, line 2: ',' expected after '\"'$"),
        (
            "x.jsonl",
            '{"de": "a", "en": "b"}\n{"de": \n',
            r"x\.jsonl, line 2: not JSON: Expecting va",
        ),
        ("x.jsonl", '{"de": "a", "en": "b"}\n["c"]\n', r"x\.jsonl, line 2: not an object with na"),
        (
            "x.jsonl",
            '{"de": "a", "en": "b"}\n{"de": 1}\n',
            r"x\.jsonl, line 2: 'de' is not a text$",
        ),
        ("x.jsonl", '{"de": "a", "en": 1}\n', r"x\.jsonl has fewer than two text columns: de$"),
        ("x.jsonl", "[" * 100_000 + "\n", r"x\.jsonl, line 1: not JSON: "),
        ("x.jsonl", "", r"x\.jsonl is empty$"),
    ],
)
def test_bad_tables(name: str, text: str, fault: str, tmp_path: Path) -> None:
    """Keep out a traceback from a parser, and rows that are dropped or filled in silence."""
    (tmp_path / name).write_text(text)

    def read() -> list[list[Pair]]:
        opened = read_parallel([tmp_path / name], ("de", "en"))
        return [texts(opened, split) for split in corpus.SPLITS]

    with pytest.raises(ValueError, match=fault):
        read()


# Official test sets


def test_official(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out a traceback from sacreBLEU: unknown names, no network; and read what it has."""
    for test, language in (("wmt99", "en"), ("wmt14", "xx")):
        with pytest.raises(ValueError, match=rf"^sacreBLEU has no test set {test} de-{language}; "):
            corpus.sacrebleu_testset(test, "de", language)
    with pytest.raises(
        ValueError, match=r"^sacreBLEU cannot fetch wmt14 de-en; without a network, pu"
    ):
        corpus.sacrebleu_testset("wmt14", "de", "en")


# Real files


def test_bible(data: Path) -> None:
    """Keep out a reader that shifts, drops or alters real sentences."""
    bible = read_parallel([data / "bible"], ("de", "en"))
    assert {split: len(texts(bible, split)) for split in bible.splits} == {
        "train": 28_944,
        "valid": 621,
        "test": 610,
    }
    listed = dict(
        reversed(line.split("  ")) for line in read_lines(data / "SHA256SUMS") if "  " in line
    )
    path = next(path for path in listed if path.endswith("bible/train.de"))
    assert sha256(pair.src for pair in texts(bible, "train")) == listed[path]


def test_next_line_inside_lines(data: Path, tmp_path: Path) -> None:
    """Keep out U+0085 and its like as line ends: they shift every later pair of real sentences."""
    plain = texts(read_parallel([data / "bible"], ("de", "en")), "test")
    for i, code in enumerate(("de", "en")):
        odd = ("\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029")[i:]
        lines = [pair[i].replace(" ", odd[n % len(odd)], 1) for n, pair in enumerate(plain)]
        (tmp_path / f"x.{code}").write_text("".join(f"{line}\n" for line in lines), newline="\n")
    opened = read_parallel([tmp_path / "x.de", tmp_path / "x.en"])
    found = sorted((pair for _, pair in opened.pairs(*corpus.SPLITS)), key=lambda pair: pair.line)
    assert [pair.line for pair in found] == [pair.line for pair in plain]
    assert [pair.tgt.split() for pair in found] == [pair.tgt.split() for pair in plain]


def test_narrow_no_break_space(data: Path) -> None:
    """Keep out a loss of U+202F and U+00A0, which French has before ! and ? in a sentence."""
    path = data / "anki" / "eng-fra.2019-04-07.tsv"
    raw = path.read_bytes().decode()
    pairs = [pair for _, pair in read_parallel([path], ("1", "2")).pairs(*corpus.SPLITS)]
    for space in "\u00a0\u202f":
        kept = sum(side.count(space) for pair in pairs for side in pair[:2])
        assert 4_000 < raw.count(space) == kept


def test_third_column(data: Path, tmp_path: Path) -> None:
    """Keep out a licence as part of the translation, and one English sentence in train and test."""
    old = data / "anki" / "eng-fra.2019-04-07.tsv"
    new = tmp_path / "new.tsv"
    new.write_text("".join(f"{line}\tCC-BY 2.0\n" for line in read_lines(old)), newline="")
    found = {}
    for path in (old, new):
        found[path] = list(read_parallel([path], ("1", "2")).pairs(*corpus.SPLITS))
    assert found[old] == found[new]
    assert len(found[old]) == 167_130
    sides = {(pair.src, split) for split, pair in found[old]}
    assert len(sides) == len({src for src, _ in sides}) == 116_830

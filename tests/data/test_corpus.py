"""Lines, text, tables and parallel corpora from files as users have them; every fault's place."""

import bz2
import codecs
import gzip
import io
import lzma
import os
import pickle
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from seqmodels.data import corpus, readers
from seqmodels.data.corpus import SPLITS, Pair, ParallelCorpus, read_parallel


# -------------------------------------------------------------------------------------------- Files
def read_chunks(path: Path | str) -> list[str]:
    return list(readers.text_chunks(path))


def test_lines(tmp_path: Path) -> None:
    """Keeps out line ends other than LF, which shift every later pair, and marks left in words."""
    for raw, lines in (
        (b"a\nb\n", ["a", "b"]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"\n", [""]),
        (b"a\r\nb\rc\r\nd\r", ["a", "b\rc", "d"]),
        (b"\xef\xbb\xbfa\nb\n", ["a", "b"]),
        ("a\x85b\u2028c\x0cd\x1ce\nf\n".encode(), ["a\x85b\u2028c\x0cd\x1ce", "f"]),
        ("« Où\u00a0?\u202f»\n".encode(), ["« Où\u00a0?\u202f»"]),
        (b"a\x01\x1b[2J\x7f\xf4\x8f\xbf\xbf\n", ["a\x01\x1b[2J\x7f\U0010ffff"]),
    ):
        (tmp_path / "file.txt").write_bytes(raw)
        assert readers.read_lines(tmp_path / "file.txt") == lines
        assert readers.count_lines(tmp_path / "file.txt") == len(lines)


ENCODINGS: list[Callable[[str], bytes]] = [
    lambda text: text.encode("utf-8-sig"), lambda text: gzip.compress(text.encode())
]  # fmt: skip


@pytest.mark.parametrize("encode", ENCODINGS)
def test_chunks_are_the_text(
    encode: Callable[[str], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a character or a line end that falls between two chunks."""
    path = tmp_path / "a.txt"
    path.write_bytes(encode("ä\r\n\r\nöß\r\n€€€€€€€€€€\r\nlast\r"))
    for n in range(1, 12):
        monkeypatch.setattr(readers, "CHUNK_BYTES", n)
        chunks = read_chunks(path)
        assert "".join(chunks) == "ä\n\nöß\n€€€€€€€€€€\nlast\r"
        assert len(chunks) > 1
        assert readers.read_lines(path) == ["ä", "", "öß", "€€€€€€€€€€", "last"]
    monkeypatch.setattr(readers, "CHUNK_BYTES", 9)
    path.write_bytes(encode("a\nb\nc\n" * 9))
    assert all(chunk.endswith("\n") for chunk in readers.text_chunks(path))


@pytest.mark.parametrize(("raw", "fault"), [
    (b"\xef\xbb\xbfa\n" + b"b\n" * 15 + b"caf\xff\n", r"line 17: not UTF-8 \(byte 0xff\)$"),
    (b"a\n" * 30 + "ä".encode()[:1], r"line 31: not UTF-8 \(byte 0xc3\)$"),
    (b"a\n" * 30 + b"b\0", r"line 31: .*UTF-16"),
    (gzip.compress(b"a\nb\n" * 99, mtime=0)[:-20], "cannot be read: Compressed file ended"),
    ("a\nb\n".encode("utf-16-be"), "line 1: .*UTF-16"),
    (pickle.dumps(["a"]), r"line 1: not UTF-8 \(byte 0x80\)$"), (b"", "is empty$"),
    (b"\xef\xbb\xbf", "is empty$"),
])  # fmt: skip
def test_a_fault_has_its_line(raw: bytes, fault: str, tmp_path: Path, monkeypatch: Any) -> None:
    """Keeps out what is not text, and a line that is counted from the beginning of a chunk."""
    (tmp_path / "a.txt").write_bytes(raw)
    for n in (2**20, 4):
        monkeypatch.setattr(readers, "CHUNK_BYTES", n)
        for read in (readers.read_lines, read_chunks):
            with pytest.raises(ValueError, match=rf"a\.txt.* {fault}"):
                read(tmp_path / "a.txt")


def tar(text: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a"))
    return file.getvalue() + text


@pytest.mark.parametrize(("raw", "tool"), [
    ("ä\n".encode("utf-16"), "iconv"), (codecs.BOM_UTF16_BE + "ä\n".encode("utf-16-be"), "iconv"),
    ("a\nb\n".encode("utf-16-le"), "iconv"), (b"a\rb\r", "tr "), (b"PK\x03\x04", "unzip"),
    (b"7z\xbc\xaf", "7z x"), (bz2.compress(b"a\n"), "bunzip2"), (lzma.compress(b"a\n"), "unxz"),
    (pa.compress(b"a\n", "zstd", asbytes=True), "unzstd"), (tar(b""), "tar -xf"),
    (gzip.compress(tar(b"")), "tar -xf"), (b'<?xml version="1.0"?>\n<tmx>', "sed"),
    (b'\n<srcset setid="a">\n<seg id="1">a</seg>\n', "sed"), (b"<html><p>a", "sed"),
    (b"WEBVTT\n", "sed"), (b"1\n00:00:01,2 --> 3\na", "sed"),
], ids=lambda value: value[:20])  # fmt: skip
def test_what_is_not_read_says_what_converts_it(raw: bytes, tool: str, tmp_path: Path) -> None:
    """Keeps out bytes or tags that are learned, and a refusal that leaves a user alone."""
    (tmp_path / "a.de").write_bytes(raw)
    with pytest.raises(ValueError, match=rf"a\.de.* {tool}"):
        readers.read_lines(tmp_path / "a.de")


def test_tags_in_a_sentence_are_text(tmp_path: Path) -> None:
    """Keeps out a corpus that is refused for a sentence with a tag."""
    (tmp_path / "x").write_text("<b> is a tag\n1 10\n")
    assert readers.read_lines(tmp_path / "x") == ["<b> is a tag", "1 10"]


@pytest.mark.parametrize("read", [readers.read_lines, read_chunks])
def test_unreadable_files(read: Callable[..., list[str]], tmp_path: Path) -> None:
    """Keeps out a traceback, a pipe that is waited for, and a file that fills the memory."""
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "large", "wb") as large:
        large.truncate(2**40)
    for path, fault in (
        (tmp_path / "pipe", "is not a regular file"),
        ("/dev/zero", "is not a regular file"),
        (tmp_path / "none.txt", "does not exist"),
        (tmp_path, "cannot be read: Is a directory"),
        (tmp_path / "large", "line 1: "),
    ):
        with pytest.raises(ValueError, match=rf"^{path},? {fault}"):
            read(path)


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a file without line ends, which would fill the memory; a long line is read."""
    monkeypatch.setattr(readers, "MAX_LINE", 100)
    monkeypatch.setattr(readers, "CHUNK_BYTES", 10)
    path = tmp_path / "x.de"
    path.write_text("a\n" + "x" * 100)
    assert readers.read_lines(path) == ["a", "x" * 100]
    path.write_text("a\n" + "x" * 101)
    with pytest.raises(ValueError, match=r"x\.de, line 2: more than 100 characters$"):
        readers.read_lines(path)


def test_checksum(tmp_path: Path) -> None:
    """Keeps out a checksum that cannot tell where one text ends, and another than sha256sum's."""
    assert readers.sha256(["ab", "c"]) != readers.sha256(["a", "bc"])
    assert readers.sha256(["ab", "c"]) != readers.sha256(["c", "ab"])
    a_line = "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"  # echo a
    assert readers.sha256(["a"]) == a_line


# --------------------------------------------------------------------------------- Parallel corpora
@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a small corpus: one blank side in train, one test sentence that train has too."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    for name, text in {
        "train.de": "eins\nzwei\n \ndrei\n", "train.en": "one\ntwo\nnothing\nthree\n",
        "valid.de": "vier\n", "valid.en": "four\n",
        "test.de": "fünf\neins\n", "test.en": "five\n1\n",
    }.items():  # fmt: skip
        (folder / name).write_text(text, "utf-8", newline="\n")
    return folder


def read_pairs(opened: ParallelCorpus, *splits: str) -> list[Pair]:
    return sorted((pair for _, pair in opened.pairs(*splits or SPLITS)), key=lambda p: p.line)


def test_folder(folder: Path) -> None:
    """Keeps out pairs that are dropped, shifted or read once; a stale key; learning to copy."""
    tiny = read_parallel([folder])
    assert (tiny.name, tiny.src_lang, tiny.tgt_lang, tiny.size()) == ("tiny", "de", "en", 4)
    assert list(tiny.splits) == ["train", "valid", "test"]
    for _ in range(2):
        assert read_pairs(tiny, "train") == [
            Pair("eins", "one", 1), Pair("zwei", "two", 2), Pair(" ", "nothing", 3),
            Pair("drei", "three", 4),
        ]  # fmt: skip
    assert read_pairs(tiny, "test") == [Pair("fünf", "five", 1), Pair("eins", "1", 2)]
    assert read_parallel([folder]).key == tiny.key
    (folder / "valid.en").write_text("for\n")
    assert read_parallel([folder]).key != tiny.key
    (folder / "train.en").write_bytes((folder / "train.de").read_bytes().replace(b"\n", b"\r\n"))
    with pytest.raises(ValueError, match=r"train\.de and .*train\.en contain the same text"):
        read_pairs(read_parallel([folder]), "train")


def test_direction(folder: Path) -> None:
    """Keeps out a direction by chance, a fallback to another, files to be renamed or unpacked."""
    before = "valid"
    for name in ("val", "dev", "validation", "valid"):
        for code in ("de", "en"):
            (folder / f"{before}.{code}").rename(folder / f"{name}.{code}")
        opened, before = read_parallel([folder], ("de", None)), name
        assert read_pairs(opened, "valid") == [Pair("vier", "four", 1)]
    for path in [*folder.iterdir()]:
        path.write_bytes(gzip.compress(path.read_bytes()))
        path.rename(f"{path}.gz")
    for languages in (("en", None), (None, "de"), ("en", "de")):
        back = read_parallel([str(folder)], languages)
        assert (back.src_lang, back.tgt_lang) == ("en", "de")
        assert read_pairs(back, "valid") == [Pair("four", "vier", 1)]
    for languages in (("fr", None), (None, "fr"), ("en", "en")):
        with pytest.raises(ValueError, match=f"'{languages[0] or languages[1]}'.*'de' and 'en'$"):
            read_parallel([folder], languages)


def test_splits_from_other_files(folder: Path, tmp_path: Path) -> None:
    """Keeps out a split that is reversed, drawn although it is given, or replaced in silence."""
    train = [folder / "train.en", folder / "train.de"]
    for name, text in (("dev.en", "six\n"), ("dev.de", "sechs\n"), ("t.tsv", "de\ten\nx\ty\n")):
        (tmp_path / name).write_text(text)
    dev, tst = [str(tmp_path / "dev.de"), str(tmp_path / "dev.en")], [str(tmp_path / "t.tsv")]
    opened = read_parallel(train)
    both = corpus.add_split(corpus.add_split(opened, "valid", dev), "test", tst)
    assert read_pairs(both, "valid") == [Pair("six", "sechs", 1)]
    assert read_pairs(both, "test") == [Pair("y", "x", 2)]
    assert len(read_pairs(both, "train")) == 4
    assert len({opened.key, corpus.add_split(opened, "valid", dev).key, both.key}) == 3
    for split in ("valid", "test"):
        with pytest.raises(ValueError, match=f"tiny has its own {split} split"):
            corpus.add_split(read_parallel([folder]), split, dev)


def test_a_folder_of_more_languages(folder: Path) -> None:
    """Keeps out a refusal of the two that are named, and a label that is the whole ending."""
    for path in list(folder.iterdir()):
        split, code = path.name.split(".")
        path.rename(folder / f"{split}.de-en.{code}")
        (folder / f"{split}.fr").write_text("un\ndeux\ntrois\n")
    with pytest.raises(ValueError, match="'de' and 'en' and 'fr'; name the two"):
        read_parallel([folder], ("en", None))
    opened = read_parallel([folder], ("en", "de"))
    assert (opened.src_lang, opened.tgt_lang) == ("en", "de")
    assert read_pairs(opened, "valid") == [Pair("four", "vier", 1)]


def test_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a split by chance, one that loses something or grows, a sentence in two splits."""
    pairs = [(f"Satz {i - i % 3 // 2}", f"sentence {i}") for i in range(3_000)]
    for i, code in enumerate(("de", "en")):
        (tmp_path / f"all.{code}").write_text("".join(f"{pair[i]}\n" for pair in pairs))
    opened = read_parallel([tmp_path / "all.de", tmp_path / "all.en"])
    assert (opened.name, opened.src_lang, opened.tgt_lang) == ("all", "de", "en")
    assert list(opened.splits) == ["train"]
    splits = {split: read_pairs(opened, split) for split in SPLITS}
    assert read_pairs(opened) == [Pair(src, tgt, i) for i, (src, tgt) in enumerate(pairs, 1)]
    for split in ("valid", "test"):
        assert 90 <= len(splits[split]) <= 210  # a twentieth is 150
    sources = [{pair.src for pair in part} for part in splits.values()]
    assert sum(map(len, sources)) == len(set().union(*sources))
    upper = [Pair(f"  {pair.src.upper()}", pair.tgt, pair.line) for pair in splits["test"]]
    again = opened._replace(splits={"train": lambda: iter(upper)})
    assert read_pairs(again, "test") == upper
    own = opened._replace(splits={**opened.splits, "test": lambda: iter(upper)})
    assert read_pairs(own, "test") == upper
    assert len(read_pairs(own, "train")) + len(read_pairs(own, "valid")) == 3_000
    monkeypatch.setattr(corpus, "MAX_HELD_OUT", 200)
    many = [Pair(f"{i}", "x", i) for i in range(10_000)]
    large = ParallelCorpus("x", "a", "b", {"train": lambda: iter(many)}, lambda: len(many), "")
    for split in ("valid", "test"):
        assert abs(len(read_pairs(large, split)) - 200) < 50


@pytest.mark.parametrize("names", [
    ("ok.de", "ok.en"), ("a.de.txt", "b.en.txt"), ("de.txt", "en.txt"), ("a.de", "b.txt"),
    ("ted.dev.de", "ted.dev.en"),  # dev may be a language: the last one counts
])  # fmt: skip
def test_languages_choose_between_two_files(names: tuple[str, str], tmp_path: Path) -> None:
    """Keeps out a direction that is only renamed: German to English with English's label."""
    paths = [tmp_path / name for name in names]
    for path, line in zip(paths, ("eins", "one"), strict=True):
        path.write_text(f"{line}\n")
    is_named = "b.txt" not in names
    for languages in [("en", "de")] + [("en", None), (None, "de")] * is_named:
        for given in (paths, paths[::-1]):
            opened = read_parallel(given, languages)
            assert (opened.src_lang, opened.tgt_lang) == ("en", "de")
            assert read_pairs(opened) == [Pair("one", "eins", 1)]
            assert opened.origins == (str(paths[1]), str(paths[0]))
    for languages in [("de", "de")] + [("fr", "de"), ("en", "fr")] * is_named:
        with pytest.raises(ValueError, match=f"'{'fr' if 'fr' in languages else 'de'}'"):
            read_parallel(paths, languages)


def test_two_files_without_languages(tmp_path: Path) -> None:
    """Keeps out a direction other than the files' order where nothing else tells it."""
    for name, line in (("a.txt", "eins"), ("b.txt", "one"), ("c.en", "1"), ("d.en", "i")):
        (tmp_path / name).write_text(f"{line}\n")
    unnamed = [tmp_path / "b.txt", tmp_path / "a.txt"]
    for languages in ((None, None), ("zh-Hans", "pt_BR")):
        opened = read_parallel(unnamed, languages)
        labels = languages if any(languages) else ("b.txt", "a.txt")
        assert (opened.src_lang, opened.tgt_lang) == labels
        assert read_pairs(opened) == [Pair("one", "eins", 1)]
    with pytest.raises(ValueError, match=r"^'klingon' is not a language code"):
        read_parallel(unnamed, ("klingon", "en"))
    same = [tmp_path / "d.en", tmp_path / "c.en"]
    assert read_pairs(read_parallel(same)) == [Pair("i", "1", 1)]
    with pytest.raises(ValueError, match=r"d\.en with .*c\.en has 'en' twice"):
        read_parallel(same, ("en", "de"))


TABLES = {
    "x.tsv": 'de\ten\tlicence\nEr sagte "ja\tNA\tCC\n\n12\tnull\tCC\r\n',
    "x.csv": 'licence,de,en\nCC,"Er sagte ""ja",NA\n\nCC,12,null\r\n',
    "x.jsonl": '{"de": "Er sagte \\"ja", "en": "NA"}\n\n{"en": "null", "de": "12", "n": 3}\r\n',
    "y.jsonl": '{"translation": {"de": "Er sagte \\"ja", "en": "NA"}}\n\n'
    '{"id": 7, "translation": {"de": "12", "en": "null"}}\n',
    "z.jsonl": '{"de": "Er sagte \\"ja", "en": null}\n\n{"de": "12", "en": "null"}\n',
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(name: str, tmp_path: Path) -> None:
    """Keeps out guesses: "NA" is a word, 12 a text, null a text, a quotation mark may be alone."""
    (tmp_path / name).write_text(TABLES[name], newline="")
    opened = read_parallel([tmp_path / name], ("de", "en"))
    assert (opened.name, opened.src_lang, opened.tgt_lang) == (name[0], "de", "en")
    header, first = "json" not in name, "" if name == "z.jsonl" else "NA"
    pairs = [Pair('Er sagte "ja', first, 1 + header), Pair("12", "null", 3 + header)]
    assert read_pairs(opened) == pairs
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    opened = read_parallel([path], ("de", "en"))
    assert (opened.name, read_pairs(opened)) == (name[0], pairs)


@pytest.mark.parametrize(("ending", "limit"), [("json", None), ("jsonl", None), ("jsonl", 1)])
def test_a_column_called_translation(ending: str, limit: int | None, tmp_path: Path) -> None:
    """Keeps out a traceback where the column holds texts, and not one for each language."""
    path = tmp_path / f"x.{ending}"
    path.write_text('{"text": "eins", "translation": "one"}\n')
    opened = read_parallel([path], (None, None), limit)
    assert (opened.src_lang, opened.tgt_lang) == ("text", "translation")
    assert read_pairs(opened) == [Pair("eins", "one", 1)]


def test_a_row_of_two_lines_counts_both(tmp_path: Path) -> None:
    """Keeps out rows counted in place of lines, and a header below a blank line taken for a row."""
    (tmp_path / "x.csv").write_text('\n"de",en\n"eins\nzwei",one\ndrei,three\n')
    pairs = read_pairs(read_parallel([tmp_path / "x.csv"], ("de", "en")))
    assert pairs == [Pair("eins\nzwei", "one", 4), Pair("drei", "three", 5)]


@pytest.mark.parametrize(("ending", "limit"), [("tsv", None), ("csv", 2), ("csv", None)])
def test_table_without_header(ending: str, limit: int | None, tmp_path: Path) -> None:
    """Keeps out a first pair that is taken for names, by our reader or by the hub's, and lost."""
    path = tmp_path / f"x.{ending}"
    comma = {"tsv": "\t", "csv": ","}[ending]
    path.write_text(f"No{comma}Non !\nHi.{comma}Salut !\n")  # no: Norwegian
    for numbers in (("2", "1"), ("2", None)):
        pairs = read_pairs(read_parallel([path], numbers, limit))
        assert {pair[:2] for pair in pairs} == {("Non !", "No"), ("Salut !", "Hi.")}
    for languages in ((None, None), (None, "fr")):
        with pytest.raises(ValueError, match=r"No \| Non !; .* --source 1 --target 2$"):
            read_parallel([path], languages, limit)


@pytest.mark.parametrize("ending", ["", "\tCC-BY 2.0 (France) Attribution: tatoeba.org #1 (a)"])
def test_text_with_tabs(ending: str, tmp_path: Path) -> None:
    """Keeps out a refusal of Anki's files as they come, and an attribution that is learned."""
    path = tmp_path / "deu.txt"
    path.write_text(f"No\tNein!{ending}\nHi. Bye.\tHallo! Ade!{ending}\n")
    for languages, limit in (((None, None), None), (("1", "2"), 2), (("2", "1"), None)):
        opened = read_parallel([path], languages, limit)
        step = -1 if languages[0] == "2" else 1
        expected = {("No", "Nein!")[::step], ("Hi. Bye.", "Hallo! Ade!")[::step]}
        assert {pair[:2] for pair in read_pairs(opened)} == expected
    path.write_text("en\tde\na\tb\n")
    assert read_pairs(read_parallel([path], ("de", None))) == [Pair("b", "a", 2)]
    path.write_text("a\tb\nc\n")
    with pytest.raises(ValueError, match=r"deu\.txt is neither a table"):
        read_parallel([path])


@pytest.mark.parametrize(("first", "languages", "expected"), [
    ("de,en,note", ("de", "en"), ("a", "b")), ("German,English", (None, None), ("a", "b")),
    ("ours,theirs", ("theirs", "ours"), ("b", "a")), ("ours,theirs", ("ours", None), ("a", "b")),
    ("en,fr", ("1", "2"), ("a", "b")), ("source,target", ("2", "1"), ("b", "a")),
])  # fmt: skip
@pytest.mark.parametrize("limit", [None, 1])
def test_a_header_is_not_a_pair(first, languages, expected, limit, tmp_path: Path) -> None:
    """Keeps out names that are learned as a sentence and its translation."""
    (tmp_path / "x.csv").write_text(f"{first}\n" + ",".join("abc"[: first.count(",") + 1]) + "\n")
    opened = read_parallel([tmp_path / "x.csv"], languages, limit)
    assert [pair[:2] for pair in read_pairs(opened)] == [expected]


@pytest.mark.parametrize(("name", "text", "fault"), [
    ("x.tsv", "de\tde\na\tb\n", ", line 1: "), ("x.tsv", "de\tfr\na\tb\n", " has 'de' and 'fr'$"),
    ("x.tsv", "de\ten\n", " has no rows$"),
    ("x.tsv", "de,en\na,b\n", " has fewer than two text columns: de,en$"),
    ("x.csv", 'de,en\na,"b\n', ", line 2: "), ("x.csv", 'de,en\na,"b" c\n', ", line 2: "),
    ("x.jsonl", '{"de": "a", "en": "b"}\n\n{"de": "\\ud83d\\ude00 \\udc00"}\n', ", line 3"),
    ("x.jsonl", '{"de": "a", "en": "b"}\n["c"]\n', ", line 2: not an object"),
    ("x.jsonl", '{"de": "a", "en": "b"}\n{"de": 1}\n', ", line 2: 'de'"),
    ("x.jsonl", '{"de": "a", "en": 1}\n', " has fewer than two text columns: de$"),
    ("x.jsonl", "", " is empty$"),
])  # fmt: skip
def test_bad_tables(name: str, text: str, fault: str, tmp_path: Path) -> None:
    """Keeps out a traceback from a parser, and rows that are dropped or filled in silence."""
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=re.escape(name) + fault):
        read_pairs(read_parallel([tmp_path / name], ("de", "en")))


def test_each_file_of_a_folder_by_its_own_header(tmp_path: Path) -> None:
    """Keeps out a split that is reversed, and a carriage return that is learned."""
    files = {"train": "de,en\r\nja,yes\r\n", "dev": "en,de\nno,nein\n", "test": "n,en,de\n1,a,b\n"}
    for name in ("train", "dev"):
        (tmp_path / f"{name}.csv").write_text(files[name], newline="")
    opened = read_parallel([tmp_path], ("de", "en"))
    assert read_pairs(opened, "train") == [Pair("ja", "yes", 2)]
    assert read_pairs(opened, "valid") == [Pair("nein", "no", 2)]
    (tmp_path / "test.csv").write_text(files["test"])
    with pytest.raises(ValueError, match=r"test\.csv has the columns n, en, de, and .*train\.csv"):
        read_parallel([tmp_path], ("de", "en"))
    (tmp_path / "test.csv").write_text("so,thus\nda,there\n")
    with pytest.raises(ValueError, match=r"test\.csv begins with so \| thus"):
        read_parallel([tmp_path], ("de", "en"))
    (tmp_path / "test.csv").rename(tmp_path / "more.csv")
    with pytest.raises(ValueError, match=r"more\.csv: name it by its split"):
        read_parallel([tmp_path], ("de", "en"))


def test_parts_of_a_table_are_train(tmp_path: Path) -> None:
    """Keeps out a part that is reversed, and the rows of a part under another one's lines."""
    (tmp_path / "part1.csv").write_text("de,en\nja,yes\nda,there\n")
    (tmp_path / "part2.csv").write_text("en,de\nno,nein\n")
    opened = read_parallel([tmp_path], ("de", "en"))
    pairs = [Pair("ja", "yes", 1), Pair("da", "there", 2), Pair("nein", "no", 3)]
    assert (read_pairs(opened), opened.size()) == (pairs, 3)
    limited = read_parallel([tmp_path], ("de", "en"), 2)
    assert (limited.size(), len(read_pairs(limited))) == (2, 2)
    assert {*read_pairs(limited)} < {*pairs}
    assert limited.key != opened.key


def test_two_tables_are_not_two_sides(tmp_path: Path) -> None:
    """Keeps out rows that are learned as sentences."""
    for name in ("a.csv", "b.jsonl", "c.de"):
        (tmp_path / name).write_text("de,en\n")
    for names in (("a.csv", "b.jsonl"), ("c.de", "a.csv")):
        with pytest.raises(ValueError, match=f"{names[0]} and .*{names[1]}: a table has"):
            read_parallel([tmp_path / name for name in names])


def test_a_split_with_another_ending_than_trains(folder: Path) -> None:
    """Keeps out a valid that lies there, and is drawn from train instead."""
    for code in ("de", "en"):
        (folder / f"train.{code}").rename(folder / f"train.clean.{code}")
    opened = read_parallel([folder])
    assert read_pairs(opened, "valid") == [Pair("vier", "four", 1)]
    assert read_pairs(opened, "test") == [Pair("fünf", "five", 1), Pair("eins", "1", 2)]
    (folder / "valid.raw.de").write_text("vier\n")
    with pytest.raises(ValueError, match=r"valid\.de and valid\.raw\.de; keep one for valid"):
        read_parallel([folder])


def test_identifiers_are_not_text(tmp_path: Path) -> None:
    """Keeps out a model of document numbers."""
    path = tmp_path / "x.jsonl"
    path.write_text('{"doc_id": "doc-7", "messages": [{"content": "a"}]}\n')
    with pytest.raises(ValueError, match="no text column 'text' or 'sentence', but 'doc_id'"):
        corpus.read_text_corpus([path])
    assert "".join(corpus.read_text_corpus([path], "doc_id").whole()) == "doc-7\n"
    path.write_text('{"body": "doc-7"}\n')
    assert "".join(corpus.read_text_corpus([path]).whole()) == "doc-7\n"


def test_sacrebleu_testset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a traceback from sacreBLEU, and a test set read from target to source."""
    for test, code in (("wmt99", "en"), ("wmt14", "xx")):
        with pytest.raises(ValueError, match=f"no test set {test} de-{code}"):
            corpus.sacrebleu_testset(test, "de", code)
    for code in ("de", "en"):
        (tmp_path / code).write_text(f"{code}\n")
    monkeypatch.setattr("sacrebleu.utils.get_source_file", lambda *_: tmp_path / "de")
    monkeypatch.setattr("sacrebleu.utils.get_reference_files", lambda *_: [tmp_path / "en", ""])
    assert [*corpus.sacrebleu_testset("wmt14", "de", "en")()] == [Pair("de", "en", 1)]
    monkeypatch.setattr("sacrebleu.utils.get_source_file", lambda *_: exit("no network"))
    with pytest.raises(ValueError, match=r"cannot fetch wmt14 de-en; .*SACREBLEU"):
        corpus.sacrebleu_testset("wmt14", "de", "en")

"""Corpora from files as people have them: lines, tables, folders; every fault's place."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import datasets
import pyarrow as pa
import pytest
from pyarrow import parquet
from toys import read, read_pairs

from seqmodels.data import SPLITS, corpora, text
from seqmodels.data.text import Corpus, Pair, open_pairs, open_text

pytestmark = pytest.mark.usefixtures("cached")


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files into a folder, which is created if need be."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def pairs_of(*data: Path | str, languages: Sequence[str | None] = (None, None)) -> list[Pair]:
    return read_pairs(open_pairs([*map(str, data)], languages))


# ------------------------------------------------------------------------------------------ Lines
@pytest.mark.parametrize(("raw", "lines"), [
    (b"a\nb\n", ["a", "b"]), (b"a\n\nb", ["a", "", "b"]), (b"\n", [""]),
    (b"\xef\xbb\xbfa\r\nb\r\n", ["a", "b"]),
    ("a\x85b\u2028c\x0cd\x1ce\nf\n".encode(), ["a\x85b\u2028c\x0cd\x1ce", "f"]),
    ("« Où\u00a0?\u202f»\n".encode(), ["« Où\u00a0?\u202f»"]),
])  # fmt: skip
def test_lines_end_at_line_feeds_alone(raw: bytes, lines: list[str], tmp_path: Path) -> None:
    write(tmp_path, {"x.txt": raw})
    assert [*text.read_lines(tmp_path / "x.txt")] == lines
    assert read(open_text([str(tmp_path / "x.txt")])) == raw.decode("utf-8-sig").replace("\r", "")


@pytest.mark.parametrize(("raw", "fault"), [
    (b"a\n" * 16 + b"caf\xe9\n", r", line 17: byte 0xe9 is not UTF-8; .* -f WINDOWS-1252"),
    ("ä\n".encode("utf-16"), r", line 1: byte 0xff is not UTF-8; .* -f UTF-16"),
    ("ä\n".encode("utf-32"), r", line 1: byte 0xff is not UTF-8; .* -f UTF-32"),
    ("\ufeffä\n".encode("utf-32-be"), r", line 1: byte 0xfe is not UTF-8; .* -f UTF-32"),
    (b"a\nb\0\n", ", line 2: a CR or a zero byte .* UTF-16"),
    (b"a\nb\rc\n", ", line 2: a CR or a zero byte .* tr "),
    (b"", " is empty$"),
])  # fmt: skip
@pytest.mark.parametrize("name", ["a.txt", "a.tsv"])
def test_a_bad_byte_is_named_with_file_and_line(
    raw: bytes, fault: str, name: str, tmp_path: Path
) -> None:
    path = write(tmp_path, {name: raw}) / name
    with pytest.raises(ValueError, match=f"^{path}{fault}"):
        [*text.TABLES.get(path.suffix, text.read_text_rows)(path)]


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"a.de": "eins\n"})
    for other, fault in ((tmp_path / "a.en", "is missing"), (tmp_path, "is not a file")):
        with pytest.raises(ValueError, match=f"^{other} {fault}"):
            open_pairs([str(tmp_path / "a.de"), str(other)])
    for ending in text.TABLES:
        with pytest.raises(ValueError, match=rf"'data/x\{ending}' does not exist"):
            open_pairs([f"data/x{ending}"])


# ---------------------------------------------------------------------------------- Two text files
def test_two_files_are_source_and_target(tmp_path: Path) -> None:
    write(tmp_path, {"t.en": "one\ntwo\n", "u.de": "eins\nzwei\n"})
    given = [str(tmp_path / "t.en"), str(tmp_path / "u.de")]
    opened = open_pairs(given)
    assert (opened.name, opened.languages) == ("t", ("en", "de"))
    assert pairs_of(*given) == read_pairs(opened) == [("one", "eins"), ("two", "zwei")]
    back = open_pairs(given, ("de", None))
    assert [*back.splits["train"]()] == [("eins", "one"), ("zwei", "two")]
    with pytest.raises(ValueError, match="has en, de; there is no 'fr'"):
        open_pairs(given, ("fr", None))
    write(tmp_path, {"u.de": "eins\n" + 5 * "\n"})  # as many bytes as before
    os.utime(given[1], (1, 1))
    assert open_pairs(given).key != opened.key
    with pytest.raises(ValueError, match=r"t\.en has 2 lines and .*u\.de has 6"):
        pairs_of(*given)
    for files, fault in ((given[:1] * 2, "given twice"), ([*given, "x"], "3 files were given")):
        with pytest.raises(ValueError, match=fault):
            open_pairs(files)


@pytest.mark.parametrize(("src", "tgt", "labels"), [
    ("a/train.de.spm", "a/train.en.spm", ["de", "en"]), ("de/x.txt", "en/x.txt", ["de", "en"]),
    ("a/own.txt", "a/other.txt", ["own", "other"]), ("n.eng", "b/n.deu", ["eng", "deu"]),
])  # fmt: skip
def test_files_are_labelled_by_where_their_names_differ(
    src: str, tgt: str, labels: list[str]
) -> None:
    assert text.label_files(Path(src), Path(tgt)) == labels


# --------------------------------------------------------------------------- A folder of SPLIT.LANG


FOLDER = {
    "train.de": "eins\nzwei\ndrei\n", "train.en": "one\ntwo\nthree\n", "val.de": "vier\n",
    "val.en": "four\n", "test.de": "fünf\neins\n", "test.en": "five\n1\n", "test.refs": "1\n2\n",
}  # fmt: skip


def test_a_folder_of_two_languages(tmp_path: Path) -> None:
    folder = write(tmp_path / "tiny", FOLDER)
    opened = open_pairs([str(folder)])
    assert (opened.name, opened.languages, [*opened.splits]) == ("tiny", ("de", "en"), [*SPLITS])
    assert read_pairs(opened, "valid") == [("vier", "four")]
    back = open_pairs([str(folder)], ("en", None))
    assert read_pairs(back, "test") == [("five", "fünf"), ("1", "eins")]
    write(folder, {"train.fr": "un\ndeux\ntrois\n"})
    with pytest.raises(ValueError, match=r"tiny has de, en, fr; .* with --source and --target"):
        open_pairs([str(folder)])
    with pytest.raises(ValueError, match=r"tiny has no valid\.fr, but one side of valid"):
        open_pairs([str(folder)], ("de", "fr"))


@pytest.mark.parametrize("n", [100, 2_000, 50_000])
def test_valid_and_test_are_drawn_by_the_source(n: int) -> None:
    train = [Pair(f"Satz {i % (n // 2)}", f"sentence {i}") for i in range(n)]
    opened = Corpus("x", {"train": lambda: iter(train)}, "", [])
    splits = {split: {pair.src for s, pair in opened.pairs() if s == split} for split in SPLITS}
    assert not splits["train"] & splits["valid"]
    assert not (splits["train"] | splits["valid"]) & splits["test"]
    expected = min(n // 20, text.MAX_HELD_OUT) // 2
    for split in ("valid", "test"):
        assert 0.6 * expected - 3 <= len(splits[split]) <= 1.4 * expected + 3
    assert text.uniform_hash("E\u0301t  straße") == text.uniform_hash("ét STRASSE")


# ----------------------------------------------------------------------------------------- Tables

CELLS = [("NA", "null"), ("2024-01-01", "007"), ("1.50", "true"), ("", "x")]
CELLS += [('say "a", b', "c\u2028\x85d")]
QUOTED = '"say ""a"", b"'


def rows_of(kind: str) -> str:
    """Return CELLS as the columns `de` and `en` of a file, between others."""
    if kind == "jsonl":
        return "".join(json.dumps({"n": 1, "de": s, "en": t}) + "\n" for s, t in CELLS)
    mark = {"csv": ",", "TSV": "\t", "semicolon.csv": ";"}[kind]
    sources = (s if mark == "\t" else s.replace('say "a", b', QUOTED) for s, _ in CELLS)
    rows = [("n", "de", "en"), *(("1", s, t) for s, (_, t) in zip(sources, CELLS, strict=True))]
    return "".join(f"{mark.join(row)}\n" for row in rows)


@pytest.mark.parametrize("kind", ["csv", "semicolon.csv", "TSV", "jsonl"])
def test_cells_are_read_as_they_are_written(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path, {f"x.{kind}": rows_of(kind)}) / f"x.{kind}"
    assert pairs_of(path) == CELLS
    assert pairs_of(path, languages=("en", "de")) == [(tgt, src) for src, tgt in CELLS]
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert pairs_of(path) == CELLS


def test_quotes_and_spaces_round_cells(tmp_path: Path) -> None:
    write(tmp_path, {
        "q.tsv": 'sep=\t\nde\ten\n"Ja, ""so"""\t"yes"\n"Nein\t5" "disk"\n',
        "s.csv": 'de , en\n"Ja, gut", yes \n\nNein, no\n',
        "e.csv": "sep=;\nde;en;n,m\nJa, gut;yes;1\nsep=;no;2\n",
    })  # fmt: skip
    assert pairs_of(tmp_path / "e.csv") == [("Ja, gut", "yes"), ("sep=", "no")]
    assert pairs_of(tmp_path / "q.tsv") == [('Ja, "so"', "yes"), ('"Nein', '5" "disk"')]
    assert pairs_of(tmp_path / "s.csv") == [("Ja, gut", "yes"), ("Nein", "no")]


def flat(rows: list[tuple[str, str]]) -> pa.Table:
    """Make a column for each language, as in bentrevett/multi30k."""
    return pa.table({"en": [t for _, t in rows], "n": [1] * len(rows), "de": [s for s, _ in rows]})


def nested(rows: list[tuple[str, str]]) -> pa.Table:
    """Make one column of both, as in wmt/wmt14 and Helsinki-NLP/opus_books."""
    return pa.table({"id": ["x"] * len(rows), "translation": [{"en": t, "de": s} for s, t in rows]})


@pytest.mark.parametrize("make", [flat, nested])
def test_parquet_in_both_layouts_of_the_hub(make: Callable[..., pa.Table], tmp_path: Path) -> None:
    write(tmp_path / "tiny", {"README.md": "# A data set\n"})
    (tmp_path / "tiny" / "data").mkdir()
    rows = [(f"Satz {i}", f"sentence {i}") for i in range(2_300)]
    splits = {
        "train-00000-of-00002": rows[:1_200], "train-00001-of-00002": rows[1_200:],
        "validation-00000-of-00001": [("a", "")], "test-00000-of-00001": [("b", "c")],
    }  # fmt: skip
    for name, some in splits.items():
        parquet.write_table(make(some), tmp_path / "tiny" / "data" / f"{name}.parquet")
    opened = open_pairs([str(tmp_path / "tiny")], ("de", None))
    assert (opened.name, opened.languages) == ("tiny", ("de", "en"))
    assert read_pairs(opened, "train") == rows
    assert read_pairs(opened, "valid", "test") == [("a", ""), ("b", "c")]
    first, second = (f"train-0000{i}-of-00002.parquet" for i in range(2))
    assert f"train: {first}, {second}" in opened.origins[0]
    *_, (place, _) = text.read_parquet(tmp_path / "tiny" / "data" / first)
    assert place.endswith(f"{first}, row 1200")
    limited = open_pairs([str(tmp_path / "tiny")], ("de", "en"), limit=40)
    drawn = read_pairs(limited, "train")
    assert drawn == read_pairs(limited, "train")
    assert limited.key != open_pairs([str(tmp_path / "tiny")], ("de", "en"), limit=41).key
    places = sorted({*map(rows.index, drawn)})
    assert (len(places), places[-1] - places[0] > 1_000) == (40, True)


def test_a_folder_of_tables(tmp_path: Path) -> None:
    folder = write(tmp_path / "tables", {
        "Train.CSV": "en,de\none,eins\n", "dev.csv": "de,en\nzwei,two\n",
        "test.csv": "de,en\ndrei,three\n",
    })  # fmt: skip
    opened = open_pairs([str(folder)], ("de", None))
    assert read_pairs(opened) == [("eins", "one"), ("zwei", "two"), ("drei", "three")]
    files = f"{folder}; train: Train.CSV; valid: dev.csv; test: test.csv"
    assert opened.origins == [files, "columns de and en"]
    write(folder, {"test.csv": "de,fr\ndrei,trois\n"})
    with pytest.raises(ValueError, match=r"test\.csv, line 2: 'en' is missing: de, fr"):
        read_pairs(open_pairs([str(folder)]))
    (folder / "Train.CSV").unlink()
    with pytest.raises(ValueError, match="has no split train, but valid, test"):
        open_pairs([str(folder)])


def test_a_split_is_the_word_that_begins_a_name(tmp_path: Path) -> None:
    folder = write(tmp_path / "texts", {"training_diary.txt": "a\n", "blood_test.txt": "b\n"})
    assert read(open_text([str(folder)])) == "b\na\n"
    write(folder / "test", {"blood.txt": "c\n"})
    with pytest.raises(ValueError, match=r"blood_test\.txt is of no split; begin its name with"):
        open_text([str(folder)])
    for name in ("training_diary.txt", "blood_test.txt"):
        (folder / name).rename(folder / f"train-{name}")
    write(folder, {".hidden.txt": "d\n", "README.md": "e\n"})
    opened = open_text([str(folder)])
    assert (read(opened, "train"), read(opened, "test")) == ("b\na\n", "c\n")
    with pytest.raises(ValueError, match=r"test has neither train\.LANG of two languages, nor"):
        open_pairs([str(write(tmp_path / "test", {"a.de": "eins\n", "a.en": "one\n"}))])


@pytest.mark.parametrize("line", [
    "<p>", "</doc>", '<seg id="1"> ja </seg> ', " <s> ja </s>", "<!-- x -->", "<?xml v='1'?>",
])  # fmt: skip
def test_markup_is_refused(line: str, tmp_path: Path) -> None:
    write(tmp_path, {"train.de": "<3 x\n", "train.en": "1 <2> 3\n", "test.en": "1\n" * 3})
    write(tmp_path, {"test.de": f"< a >\n<unk> ja\n{line}\n"})
    with pytest.raises(ValueError, match=r"test\.de, line 3 is markup, .*; give text alone"):
        pairs_of(tmp_path)


@pytest.mark.parametrize(("name", "content", "fault"), [
    ("x.csv", "de,en\na,b,c\nd,e\n", r", line 2: 3 cells, but columns de, en"),
    ("x.csv", "de,en\na,b\n\nd\n", r", line 4: 1 cells"),
    ("x.csv", 'de,en\n"a,b\nc",d\n', r", line 2: .*a row is one line, with closed quotes"),
    ("x.csv", "de,en\n", " has no rows"), ("x.csv", "de,en,en\na,b,c\n", r", line 2: "),
    ("x.tsv", "Deutsch\tEnglisch\na\tb\n", " has Deutsch, Englisch; name two columns"),
    ("x.tsv", "it\tes\nis\tist\nto\tzu\n", "are it and es columns, or words of a first row"),
    ("x.csv", "sep=|\nde|en\na|b\n", r" has sep=\| alone; give two text files, or"),
    ("x.tsv", "de,en\na,b\n", " has de,en alone; give two text files, or a table whose cells"),
    ("x.csv", "de,en\na,b\nc,<p>\n", ", column en, text 2 is markup, <p>"),
    ("x.csv", "de,en,fr\na,b,c\n", " has de, en, fr; name two columns"),
    ("x.jsonl", '{"de": NaN, "en": "a"}\n', ", line 1: 'de' is not a text"),
    ("x.jsonl", '{"de": "a", "en": "b"}\n\n{"de": "a"}\n', ", line 3: 'en' is missing"),
    ("x.jsonl", '{"de": "a",\n', ", line 1: not JSON"),
    ("x.jsonl", '\n{"de": "\\ud83d", "en": "b"}\n', ", line 2: not JSON in one line: .*surrogates"),
    ("x.jsonl", "[1]\n", ", line 1: not an object"),
    ("x.csv", b"\x1f\x8b\xff\0", ", line 1: byte 0x8b is not UTF-8; unpack the file"),
    ("x.txt.zip.csv", b"PK\xff", ", line 1: byte 0xff is not UTF-8; unpack the file"),
    ("x.parquet", "hello", " cannot be read: "), ("x.txt", "de\ten\na\tb\n", " is not a table"),
])  # fmt: skip
def test_no_line_is_lost_and_no_column_guessed(
    name: str, content: str | bytes, fault: str, tmp_path: Path
) -> None:
    path = write(tmp_path, {name: content}) / name
    with pytest.raises(ValueError, match=f"{path}:? ?{fault}".replace(":? ? ", ":? ")):
        pairs_of(path)


def test_numbers_of_json_stay_as_they_are_written(tmp_path: Path) -> None:
    path = write(tmp_path, {"x.jsonl": '{"sum": "1+1", "is": 2.0}\n{"sum": null, "is": 1e3}\n'})
    assert pairs_of(path / "x.jsonl", languages=("sum", "is")) == [("1+1", "2.0"), ("", "1e3")]


def test_names_of_languages() -> None:
    names = ["de", "pt_BR", "zh-Hans", "eng_Latn", "text", "deu", "DE", "id2", "d"]
    assert [*filter(text.LANGUAGE.fullmatch, names)] == names[:4]


# ------------------------------------------------------------------------------------ Running text
def test_a_text_is_cut_by_its_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = "".join(f"{i} €\n" for i in range(999))
    path = str(write(tmp_path, {"a.txt": content}) / "a.txt")
    for n in (7, 10_000):
        monkeypatch.setattr(text, "CHUNK", n)
        opened = open_text([path])
        assert (opened.name, opened.languages, read(opened)) == ("a.txt", (), content)
        assert len(read(opened, "train")) == int(0.9 * len(content))
        assert len(read(opened, "valid")) == int(0.95 * len(content)) - int(0.9 * len(content))
    cut = text.cut_text(lambda: text.read_book(Path(path)), corpora.NANOGPT)
    assert cut["test"] is cut["valid"]
    assert "".join(cut["test"]()) == content[int(0.9 * len(content)) :]
    with pytest.raises(ValueError, match=r"one text, or a folder with train\.txt"):
        open_text([path, path])
    for options in (("column", None), (None, 7)):
        with pytest.raises(ValueError, match="--column and --limit apply to tables"):
            open_text([path], *options)


ROWS = {"train": ["one", "two\n", "", "thrée"], "validation": ["four"], "test": ["five", "six"]}
TEXT = {"train": "one\ntwo\n\nthrée\n", "valid": "four\n", "test": "five\nsix\n"}


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "txt"])
def test_documents_in_splits(kind: str, tmp_path: Path) -> None:
    for split, rows in ROWS.items():
        path = tmp_path / f"{split}.{kind}"
        names = ("id", "sentence") if kind == "jsonl" else ("sentence", "text")
        ids = [*map(str, range(len(rows)))]
        table = datasets.Dataset.from_dict(dict(zip(names, (ids, rows), strict=True)))
        if kind == "txt":
            path.write_text(TEXT["valid" if split == "validation" else split])
        else:
            table.to_parquet(path) if kind == "parquet" else table.to_json(path)
    opened = open_text([str(tmp_path)])
    assert {split: read(opened, split) for split in SPLITS} == TEXT
    if kind == "parquet":
        assert read(open_text([str(tmp_path)], limit=3), "train").count("\n") == 3
    (tmp_path / f"test.{kind}").unlink()
    two = open_text([str(tmp_path)])
    assert two.splits["test"] is two.splits["valid"]
    assert read(two, "test") == TEXT["valid"]


def test_the_column_of_documents(tmp_path: Path) -> None:
    write(tmp_path, {"x.jsonl": '{"id": "doc-7", "body": "A\\u2028 text."}\n'})
    path = str(tmp_path / "x.jsonl")
    with pytest.raises(ValueError, match="has id, body; choose one with --column"):
        open_text([path])
    whole = open_text([path], "body")
    assert read(whole) == "A\u2028 text.\n"
    assert whole.key != open_text([path], "id").key
    only = write(tmp_path, {"y.csv": "review\nfine\n"}) / "y.csv"
    assert read(open_text([str(only)])) == "fine\n"
    with pytest.raises(ValueError, match="--limit applies to datasets of the hub"):
        open_text([str(only)], limit=7)


@pytest.mark.parametrize(("start", "end"), [
    ("*** START OF THE PROJECT GUTENBERG EBOOK X ***", "*** END OF THE PROJECT GUTENBERG EBOOK"),
    ("***START OF THIS PROJECT GUTENBERG EBOOK X", "End of the Project Gutenberg EBook of X"),
])  # fmt: skip
def test_a_book_without_its_licence(start: str, end: str, tmp_path: Path) -> None:
    book = "Once.\n*** a mark\n" * 30
    whole = f"Title\n{start}\n{book}{end}\n\n*** END OF THE PROJECT\nLICENSE\n"
    whole = whole.replace("\n", "\r\n")
    write(tmp_path, {"x.txt": whole, "y.txt": "START OF THE DAY\nend of the Project Gutenberg\n"})
    assert read(open_text([str(tmp_path / "x.txt")])) == book
    assert len(read(open_text([str(tmp_path / "y.txt")]))) == 46


# ---------------------------------------------------------------------------------- What is printed
def test_the_origin_and_the_beginning_of_each_split_are_shown(tmp_path: Path) -> None:
    folder = write(tmp_path / "tiny", {"train.de": "eins\nzwei\n", "train.en": "\x1bone\ntwo\n"})
    assert open_pairs([str(folder)]).first_lines().split("\n") == [
        f"{folder / 'train.de'}, {folder / 'train.en'}", r"train begins with: eins → \x1bone",
        "valid: drawn from train", "test: drawn from train",
    ]  # fmt: skip
    shown = {"word " * 99: ("word " * 16)[:79] + "…", "x" * 80: "x" * 80, " \n": "(blank)"}
    assert {given: text.preview(given) for given in shown} == shown


def test_letters_count_as_words_where_there_are_no_spaces() -> None:
    counts = {"Hi there .": 3, "嗨。": 1, "你敢！ OK": 3, "私は学生。": 4, "ทำดี": 3, "": 0}
    assert {written: text.count_words(written) for written in counts} == counts
    scripts = [text.unspaced_script([written]) for written in ("你敢 OK", "你 OK", "ทำดี")]
    assert scripts == ["han", None, "other"]
    assert text.unspaced_script(["OK"] * text.N_SAMPLED + ["你敢" * 9_999]) is None  # not all

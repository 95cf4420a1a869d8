"""Tables: headers, rows, files of a folder; every fault's place."""

import json
import re
from pathlib import Path

import pytest
from toys import read_pairs

from seqmodels.data import SPLITS
from seqmodels.data.running_text import read_text_corpus
from seqmodels.data.splits import Pair, read_parallel

TABLES = {
    "x.tsv": 'de\ten\tlicence\n"Ja, er\tNA\tCC\n\n12\tnull\tCC\r\n',
    "x.csv": 'licence,de,en\nCC,"""Ja, er",NA\n\nCC,12,null\r\n',
    "x.jsonl": '{"de": "\\"Ja, er", "en": "NA"}\n\n{"en": "null", "de": "12", "n": 3}\r\n',
    "y.jsonl": '{"translation": {"de": "\\"Ja, er", "en": "NA"}}\n\n'
    '{"id": 7, "translation": {"de": "12", "en": "null"}}\n',
    "z.jsonl": '{"de": "\\"Ja, er", "en": null}\n\n{"de": "12", "en": "null"}\n',
}


@pytest.mark.parametrize("limit", [None, 1])
def test_a_column_called_translation(limit: int | None, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "eins", "translation": "one"}\n')
    opened = read_parallel([path], (None, None), limit)
    assert (opened.src_lang, opened.tgt_lang) == ("text", "translation")
    assert read_pairs(opened) == [Pair("eins", "one")]


def test_a_row_of_two_lines_counts_both(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('\n"de",en\n"eins\nzwei",one\ndrei,three\n')
    opened = read_parallel([tmp_path / "x.csv"], ("de", "en"))
    assert read_pairs(opened) == [Pair("eins\nzwei", "one"), Pair("drei", "three")]
    with (tmp_path / "x.csv").open("a") as file:
        file.write("vier\n")
    with pytest.raises(ValueError, match=r"x\.csv, line 6: 1 columns, but the first line has 2"):
        read_pairs(opened)


@pytest.mark.parametrize(("ending", "limit"), [("tsv", None), ("csv", 2), ("csv", None)])
def test_without_a_header_numbers_are_needed(
    ending: str, limit: int | None, tmp_path: Path
) -> None:
    path = tmp_path / f"x.{ending}"
    comma = {"tsv": "\t", "csv": ","}[ending]
    path.write_text(f"No{comma}Non !\nHi.{comma}Salut !\n")  # no: Norwegian
    for numbers in (("2", "1"), ("2", None)):
        pairs = read_pairs(read_parallel([path], numbers, limit))
        assert {pair[:2] for pair in pairs} == {("Non !", "No"), ("Salut !", "Hi.")}
    for languages in ((None, None), (None, "fr")):
        with pytest.raises(ValueError, match=r"No \| Non !; .* --source 1 --target 2$"):
            read_parallel([path], languages, limit)


@pytest.mark.parametrize(("first", "languages", "expected"), [
    ("de,en,note", ("de", "en"), ("a", "b")), ("German,English", (None, None), ("a", "b")),
    ("ours,theirs", ("theirs", "ours"), ("b", "a")), ("ours,theirs", ("ours", None), ("a", "b")),
    ("en,fr", ("1", "2"), ("a", "b")), ("source,target", ("2", "1"), ("b", "a")),
])  # fmt: skip
@pytest.mark.parametrize("limit", [None, 1])
def test_a_header_is_not_a_pair(first, languages, expected, limit, tmp_path: Path) -> None:
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
    ("x.jsonl", '{"de": "a", "en": "b"}\n' + "[" * 200_000 + "\n", ", line 2: not JSON: "),
    ("x.json", '[{"de": "a", "en": "b"}, 3]', ", row 2: not an object"),
    ("x.json", "[1", ": not JSON: "), ("x.json", "[]", " has no rows"),
    ("x.json", '[{"de": "\\ud800", "en": "b"}]', ": not JSON: "),
])  # fmt: skip
def test_a_bad_row_is_named(name: str, text: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=re.escape(name) + fault):
        read_pairs(read_parallel([tmp_path / name], ("de", "en")))


def test_each_file_is_read_by_its_own_header(tmp_path: Path) -> None:
    files = {"train": "de,en\r\nja,yes\r\n", "dev": "en,de\nno,nein\n", "test": "n,en,de\n1,a,b\n"}
    for name in ("train", "dev"):
        (tmp_path / f"{name}.csv").write_text(files[name], newline="")
    opened = read_parallel([tmp_path], ("de", "en"))
    assert read_pairs(opened, "train") == [Pair("ja", "yes")]
    assert read_pairs(opened, "valid") == [Pair("nein", "no")]
    (tmp_path / "test.csv").write_text(files["test"])
    assert read_pairs(read_parallel([tmp_path], ("de", "en")), "test") == [Pair("b", "a")]
    for languages in ((None, None), ("de", None)):
        with pytest.raises(ValueError, match=r"test\.csv has .* n, en, de, and .*train\.csv"):
            read_parallel([tmp_path], languages)
    (tmp_path / "test.csv").write_text("so,thus\nda,there\n")
    with pytest.raises(ValueError, match=r"test\.csv begins with so \| thus"):
        read_parallel([tmp_path], ("de", "en"))
    (tmp_path / "test.csv").rename(tmp_path / "more.csv")
    with pytest.raises(ValueError, match=r"more\.csv: name it by its split"):
        read_parallel([tmp_path], ("de", "en"))


def test_parts_of_a_table_are_train(tmp_path: Path) -> None:
    (tmp_path / "part1.csv").write_text("de,en\nja,yes\nda,there\n")
    (tmp_path / "part2.csv").write_text("en,de\nno,nein\n")
    opened = read_parallel([tmp_path], ("de", "en"))
    pairs = [Pair("ja", "yes"), Pair("da", "there"), Pair("nein", "no")]
    assert read_pairs(opened) == pairs
    assert read_parallel([tmp_path], ("de", "en"), 2).key != opened.key


def test_a_folder_or_a_column_without_header(tmp_path: Path) -> None:
    for split, pair in (("train", "a,b"), ("val", "c,d"), ("test", "e,f")):
        (tmp_path / f"{split}.csv").write_text(pair)
    with pytest.raises(ValueError, match=r" \| .; .* --source 1 --target 2$"):
        read_parallel([tmp_path])
    opened = read_parallel([tmp_path], ("2", "1"))
    assert [read_pairs(opened, split) for split in SPLITS] == [
        [("b", "a")], [("d", "c")], [("f", "e")],
    ]  # fmt: skip
    path = tmp_path / "x.tsv"
    path.write_text("One day.\nAnother.\n" * 9)
    with pytest.raises(ValueError, match=r"One day\.; .* --column 1$"):
        read_text_corpus([path])
    everything = dict.fromkeys(SPLITS, (0.0, 1.0))
    opened = read_text_corpus([path], "1", shares=everything)
    assert "".join(opened.splits["train"]()) == path.read_text()
    path.write_text("text\nOne day.\n")
    opened = read_text_corpus([path], shares=everything)
    assert "".join(opened.splits["train"]()) == "One day.\n"


def test_a_split_is_named_by_the_nearest_name(tmp_path: Path) -> None:
    folder = tmp_path / "training data"
    folder.mkdir()
    for name in ("a", "dev", ".hidden"):
        (folder / f"{name}.csv").write_text(f"de,en\n{name},x\n")
    (tmp_path / "notes.txt").write_text("a note\n")
    opened = read_parallel([tmp_path])
    assert read_pairs(opened, "valid") == [("dev", "x")]
    assert read_pairs(opened._replace(splits={"train": opened.splits["train"]}), "train") == [
        ("a", "x")
    ]
    assert "not read: notes.txt" in opened.first_lines()


JSON = {
    "array.json": '[{"de": "2020-01-02", "en": "Good\\nday"}, {"en": "b", "de": null}]',
    "spread.json": '[\n {"de": "2020-01-02",\n  "en": "Good\\nday"},\n {"en": "b"}]\n',
    "lines.json": '\n{"de": "2020-01-02", "en": "Good\\nday"}\n\n{"en": "b", "n": 3}\n',
}


@pytest.mark.parametrize("name", JSON)
def test_json_is_an_array_or_a_row_a_line(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(JSON[name])
    pairs = [*read_parallel([tmp_path / name], ("de", "en")).pairs()]
    assert sorted(pair[:2] for _, pair in pairs) == [("", "b"), ("2020-01-02", "Good\nday")]


def test_a_number_after_many_texts_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    rows = [{"de": f"Satz {i}", "en": f"sentence {i}"} for i in range(30)] + [{"de": "x", "en": 4}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ValueError, match=r"x\.jsonl, line 31: 'en' is not a text"):
        next(read_text_corpus([path], "en").splits["valid"]())

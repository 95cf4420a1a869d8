"""Running text: files in their order, documents of tables, and splits."""

import hashlib
from pathlib import Path

import datasets
import pytest

from seqmodels.data import SPLITS, corpora
from seqmodels.data import text as text_files
from seqmodels.data.prepare import PrepareConfig, prepare, summarize
from seqmodels.data.running_text import TextCorpus, read_text_corpus

pytestmark = pytest.mark.usefixtures("cached")


def read(opened: TextCorpus, *splits: str) -> str:
    return "".join(part for split in splits or SPLITS for part in opened.splits[split]())


def test_files_are_read_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("one")
    (tmp_path / "a").write_text("two\n")
    (tmp_path / "c").write_text("three")
    opened = read_text_corpus([tmp_path / name for name in "bac"])
    assert read(opened) == "one\ntwo\nthree"
    assert opened.name == "b and 2 more"
    keys = [read_text_corpus([tmp_path / n for n in names]).key for names in ("bac", "abc", "ba")]
    assert opened.key == keys[0]
    assert len(set(keys)) == 3
    (tmp_path / "c").write_text("four!")
    assert read_text_corpus([tmp_path / name for name in "bac"]).key not in keys


def test_a_text_is_cut_by_its_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"{i} €\n" for i in range(999))
    (tmp_path / "a.txt").write_text(text, "utf-8")
    for n in (7, 2**20):
        monkeypatch.setattr(text_files, "CHUNK", n)
        opened = read_text_corpus([tmp_path / "a.txt"])
        assert read(opened) == text
        assert len(read(opened, "train")) == int(0.9 * len(text))
        assert len(read(opened, "train", "valid")) == int(0.95 * len(text))
        assert not opened.is_valid_tested
        opened = read_text_corpus([tmp_path / "a.txt"], shares=corpora.NANOGPT)
        assert read(opened, "train", "test") == text
        assert read(opened, "test") == read(opened, "valid") == text[int(0.9 * len(text)) :]
        assert opened.is_valid_tested
        assert opened.key != read_text_corpus([tmp_path / "a.txt"]).key


ROWS = {"train": ["one", "two\n", "", "thrée"], "validation": ["four"], "test": ["five", "six"]}
TEXT = {"train": "one\ntwo\n\nthrée\n", "valid": "four\n", "test": "five\nsix\n"}


def write_rows(folder: Path, kind: str, splits: dict[str, list[str]], column: str = "text") -> Path:
    """Write a folder as a dataset on the hub has it: a file for each split."""
    folder.mkdir()
    for split, rows in splits.items():
        other = [row[:1] for row in rows]
        columns = {column: rows, "other": other, "n": [*range(len(rows))]}
        table = datasets.Dataset.from_dict(columns)
        path = folder / f"{split}-00000-of-00001{kind}"
        table.to_parquet(path) if kind == ".parquet" else table.to_json(path)
    return folder


@pytest.mark.parametrize(("kind", "column"), [(".parquet", "body"), (".jsonl", "sentence")])
def test_a_folder_of_tables(kind: str, column: str, tmp_path: Path) -> None:
    folder = write_rows(tmp_path / "rows", kind, ROWS, column)
    opened = read_text_corpus([folder], column if column == "body" else None)
    assert opened.key != read_text_corpus([folder], "other").key
    for _ in range(2):
        assert {split: read(opened, split) for split in SPLITS} == TEXT
    assert not opened.is_valid_tested


def test_a_table_without_splits_is_cut(tmp_path: Path) -> None:
    rows = [f"row {i}" for i in range(100)]
    text = "".join(f"{row}\n" for row in rows)
    folder = write_rows(tmp_path / "rows", ".jsonl", {"train": rows})
    for data in (folder, *folder.iterdir()):
        opened = read_text_corpus([data])
        assert read(opened) == text
        assert len(read(opened, "train")) == int(0.9 * len(text))
    assert len(read(read_text_corpus([folder], limit=20)).split("\n")) == 21


@pytest.mark.parametrize("missing", ["validation", "test"])
def test_two_splits_are_enough(missing: str, tmp_path: Path) -> None:
    rows = {split: texts for split, texts in ROWS.items() if split != missing}
    opened = read_text_corpus([write_rows(tmp_path / "rows", ".jsonl", rows)])
    held_out = TEXT["test"] if missing == "validation" else TEXT["valid"]
    assert read(opened, "valid") == read(opened, "test") == held_out
    assert read(opened, "train") == TEXT["train"]
    ready = prepare(opened, PrepareConfig(tokenizer="bytes"), lambda line: None)
    assert ready.data["tested"] == "valid"
    once = (TEXT["train"] + held_out).encode()
    assert ready.data["sha256"] == hashlib.sha256(once).hexdigest()
    assert "test is valid" in summarize(ready.data)


@pytest.mark.parametrize("name", ["doc_id", "uid", "body", "1"])
def test_identifiers_are_not_text(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"{name}": "doc-7", "messages": [{{"content": "a"}}]}}\n')
    with pytest.raises(ValueError, match=f"no text column 'text' or 'sentence', but '{name}'"):
        read_text_corpus([path])
    assert "".join(read_text_corpus([path], name).whole()) == "doc-7\n"
    path.write_text(f'{{"{name}": "doc-7"}}\n{{"{name}": "A text."}}\n{{"{name}": "你敢"}}\n')
    assert "".join(read_text_corpus([path]).whole()) == "doc-7\nA text.\n你敢\n"


def test_files_named_by_splits_are_splits(tmp_path: Path) -> None:
    for split in ("train", "valid", "test", "other"):
        (tmp_path / f"wiki.{split}.tokens").write_text(f"the text of {split}\n" * 9)
    train, valid, test, other = (tmp_path / f"wiki.{s}.tokens" for s in (*SPLITS, "other"))
    opened = read_text_corpus([test, train, valid])
    expected = {split: f"the text of {split}\n" * 9 for split in SPLITS}
    assert {split: read(opened, split) for split in SPLITS} == expected
    assert read_text_corpus([train, valid]).is_valid_tested
    assert len(read(read_text_corpus([test, other]))) > len(expected["test"])
    with pytest.raises(ValueError, match=r"wiki\.other\.tokens: name it by its split"):
        read_text_corpus([train, valid, other])
    with pytest.raises(ValueError, match="given twice"):
        read_text_corpus([other, tmp_path / "." / other.name])
    (tmp_path / "deu.txt").write_text("Hi.\tHallo!\n" * 30)
    with pytest.raises(ValueError, match="'1', '2'; choose one with --column"):
        read_text_corpus([tmp_path / "deu.txt"])
    with pytest.raises(ValueError, match=r"deu\.txt is a table"):
        read_text_corpus([other, tmp_path / "deu.txt"])


BOOK = (
    "The Project Gutenberg eBook of Books\r\n\r\n"
    "*** START OF {} PROJECT GUTENBERG EBOOK BOOKS ***\r\n"
    "{}\r\nEnd of the Project Gutenberg EBook of Books\r\n\r\n"
    "*** END OF {} PROJECT GUTENBERG EBOOK BOOKS ***\r\nSTART: FULL LICENSE\r\n"
)


def test_licences_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "CHUNK", 1_000)
    books = ["Once.\n" * 3, "Twice.\n" * 200, "Never.\n"]  # the second is more than a chunk
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_bytes(BOOK.format("THE", books[0], "THE").encode())
    two.write_bytes("".join(BOOK.format("THIS", book, "THIS") for book in books[1:]).encode())
    opened = read_text_corpus([one, two])
    assert read(opened) == "\n".join(books) + "\n"
    raw = one.read_text() + two.read_text()
    assert opened.n_left_out() == len(raw) - len(read(opened))
    ready = prepare(opened, PrepareConfig(tokenizer="bytes"), lambda line: None)
    assert f"{opened.n_left_out():,} " in summarize(ready.data)
    late = tmp_path / "late.txt"  # its header is not in the first chunk
    late.write_text("A list.\n" * 150 + BOOK.format("THE", "Late.\n", "THE"))
    assert read(read_text_corpus([late])).strip() == "Late."
    other = tmp_path / "three.txt"
    other.write_text("\n*** START\nEnd of the Project Gutenberg\nthe text\n" * 9)
    opened = read_text_corpus([other])
    assert (opened.n_left_out(), read(opened)) == (0, other.read_text())

"""Running text: files, tables and books, cut into splits and tokenized once."""

import hashlib
import re
from pathlib import Path

import datasets
import pytest

from seqmodels.data import corpus, prepare, presets, readers, tokenizers
from seqmodels.data.batches import LINE_EVERY
from seqmodels.data.corpus import SPLITS, TextCorpus, read_text_corpus
from seqmodels.data.prepare import prepare_text, summarize_text

pytestmark = pytest.mark.usefixtures("cached")


def read(opened: TextCorpus, *splits: str) -> str:
    """Return some splits, or all of them."""
    return "".join(part for split in splits or SPLITS for part in opened.splits[split]())


def prepare_quietly(opened: TextCorpus, kind: str = "bytes", size: int = 300):
    """Prepare without a message."""
    return prepare_text(opened, kind, size, log=lambda line: None)


def test_files_are_read_in_their_order(tmp_path: Path) -> None:
    """Keeps out an order by name, words of two files that grow together, and a lost last one."""
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
    """Keeps out characters that are in two splits or in none, and a cut by bytes."""
    text = "".join(f"{i} €\n" for i in range(999))
    (tmp_path / "a.txt").write_text(text, "utf-8")
    for n in (7, 2**20):
        monkeypatch.setattr(readers, "CHUNK_BYTES", n)
        opened = read_text_corpus([tmp_path / "a.txt"])
        assert read(opened) == text
        assert len(read(opened, "train")) == int(0.9 * len(text))
        assert len(read(opened, "train", "valid")) == int(0.95 * len(text))
        assert not opened.is_valid_tested
        opened = read_text_corpus([tmp_path / "a.txt"], shares=presets.NANOGPT)
        assert read(opened, "train", "test") == text
        assert read(opened, "test") == read(opened, "valid")
        assert opened.is_valid_tested


ROWS = {"train": ["one", "two\n", "", "thrée"], "validation": ["four"], "test": ["five", "six"]}
TEXT = {"train": "one\ntwo\n\nthrée\n", "valid": "four\n", "test": "five\nsix\n"}


def write_rows(folder: Path, kind: str, splits: dict[str, list[str]], column: str = "text") -> Path:
    """Write a folder as a dataset on the hub has it: a file for each split."""
    folder.mkdir()
    for split, rows in splits.items():
        table = datasets.Dataset.from_dict({column: rows, "n": [*range(len(rows))]})
        path = folder / f"{split}-00000-of-00001{kind}"
        table.to_parquet(path) if kind == ".parquet" else table.to_json(path)
    return folder


@pytest.mark.parametrize(("kind", "column"), [(".parquet", "body"), (".jsonl", "sentence")])
def test_a_folder_of_tables(kind: str, column: str, tmp_path: Path) -> None:
    """Keeps out splits that are cut anew, rows that are lost, and columns that are not texts."""
    folder = write_rows(tmp_path / "rows", kind, ROWS, column)
    opened = read_text_corpus([folder], column if column == "body" else None)
    for _ in range(2):
        assert {split: read(opened, split) for split in SPLITS} == TEXT
    assert not opened.is_valid_tested


def test_a_table_without_splits_is_cut(tmp_path: Path) -> None:
    """Keeps out a dataset with train alone being refused, or tested on what it was trained on."""
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
    """Keeps out a dataset without test, as many are, being refused, and silence about it."""
    rows = {split: texts for split, texts in ROWS.items() if split != missing}
    opened = read_text_corpus([write_rows(tmp_path / "rows", ".jsonl", rows)])
    held_out = TEXT["test"] if missing == "validation" else TEXT["valid"]
    assert read(opened, "valid") == read(opened, "test") == held_out
    assert read(opened, "train") == TEXT["train"]
    ready = prepare_quietly(opened)
    assert ready.data["tested"] == "valid"
    assert "test is valid" in summarize_text(ready.data)


BOOK = (
    "The Project Gutenberg eBook of Books\r\n\r\n"
    "*** START OF {} PROJECT GUTENBERG EBOOK BOOKS ***\r\n"
    "{}\r\nEnd of the Project Gutenberg EBook of Books\r\n\r\n"
    "*** END OF {} PROJECT GUTENBERG EBOOK BOOKS ***\r\nSTART: FULL LICENSE\r\n"
)


def test_licences_are_left_out(tmp_path: Path) -> None:
    """Keeps out Project Gutenberg's headers and licences, which would be learned and tested."""
    books = ["Once.\n" * 3, "Twice.\n" * 200_000, "Never.\n"]  # the second is more than a chunk
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_bytes(BOOK.format("THE", books[0], "THE").encode())
    two.write_bytes("".join(BOOK.format("THIS", book, "THIS") for book in books[1:]).encode())
    opened = read_text_corpus([one, two])
    assert read(opened) == "\n".join(books) + "\n"
    raw = one.read_text() + two.read_text()
    assert opened.n_left_out() == len(raw) - len(read(opened))
    assert f"{opened.n_left_out():,} " in summarize_text(prepare_quietly(opened).data)
    other = tmp_path / "three.txt"
    other.write_text("\n*** START\nEnd of the Project Gutenberg\nthe text\n" * 9)
    opened = read_text_corpus([other])
    assert (opened.n_left_out(), read(opened)) == (0, other.read_text())


@pytest.mark.parametrize("kind", ["bytes", "words"])
@pytest.mark.parametrize("text", ["\n \n" * 500, "x", "abc"])
def test_an_empty_split(kind: str, text: str, tmp_path: Path) -> None:
    """Keeps out a model of blank lines, and a division by zero where a split has nothing."""
    (tmp_path / "x.txt").write_text(text)
    with pytest.raises(ValueError, match=r"^x\.txt has no text in (train|valid)"):
        prepare_quietly(read_text_corpus([tmp_path / "x.txt"]), kind)


def test_tokens_are_the_whole_text(tmp_path: Path) -> None:
    """Keeps out tokens that are lost between chunks, or that overflow their bytes on disk."""
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{i} spoke, and went.\n" for i in range(400)))
    opened = read_text_corpus([path])
    ready = prepare_quietly(opened, "bpe", 600)
    for split in SPLITS:
        ids = getattr(ready, split)
        assert ready.tokenizer.decode(ids.slice(0, len(ids))) == read(opened, split)
        assert len(ids) == ready.data[f"n_tokens_{split}"]
    assert prepare_quietly(opened, "bpe", 260).train.ids.dtype.itemsize == 2
    assert prepare_quietly(opened, "characters").train.ids.dtype.itemsize == 1
    assert ready.data["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_every_token_has_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a message about a line that no one finds, across chunks of any size."""
    text = "".join(f"{i} spoke,\n\nand went.\n" for i in range(400))
    (tmp_path / "a.txt").write_text(text)
    for i, size in enumerate((3, 31, 33, 5_000_000)):
        monkeypatch.setattr(readers, "CHUNK_BYTES", size)
        opened = read_text_corpus([tmp_path / "a.txt"])
        ids = prepare_quietly(opened, "bytes", 300 + i).train
        written = tokenizers.Bytes().decode(ids.slice(0, len(ids)))
        assert text.startswith(written)
        for j in range(0, len(ids), 97):
            line = 1 + written[:j].count("\n")
            assert line - written[max(0, j - LINE_EVERY) : j].count("\n") <= ids.line(j) <= line
    assert prepare_quietly(opened, "words").train.line(40) == 0  # no word has a line feed


def test_unknown_tokens_are_counted(tmp_path: Path) -> None:
    """Keeps out tokens of test in the vocabulary, and a perplexity that is low by ⁇."""
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{'common' if i % 4 else f'word{i}'} " for i in range(4_000)))
    ready = prepare_quietly(read_text_corpus([path]), "words")
    assert ready.data["n_unknown_test"] == 50
    assert ready.test.slice(0, 9_999).count(tokenizers.UNK) == 50
    assert "50 tokens of test are unknown: 25.13%" in summarize_text(ready.data)
    path.write_text("ab" * 950 + "cd" * 50)
    ready = prepare_quietly(read_text_corpus([path]), "characters")
    assert ready.tokenizer.vocab_size == 4 + 2
    assert ready.data["n_unknown_test"] == ready.data["n_tokens_test"]


def test_tokens_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out work that is done again, and tokens of a text that has changed since."""
    path, messages = tmp_path / "a.txt", []
    path.write_text("".join(f"{i} spoke, and went.\n" for i in range(400)))

    def make(kind: str, size: int) -> prepare.PreparedText:
        return prepare_text(read_text_corpus([path]), kind, size, log=messages.append)

    first = make("bpe", 300)
    with monkeypatch.context() as patch:
        patch.setattr(prepare, "encode_text", None)
        again = make("bpe", 300)
    assert again.data == first.data
    assert again.train.slice(0, 99) == first.train.slice(0, 99)
    assert len(messages) == 1
    make("bpe", 310)
    make("words", 300)
    path.write_text("another text, which is as short as can be\n" * 30)
    make("bpe", 300)
    assert len(messages) == 4


def test_texts_of_the_results(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out another split than nanoGPT's, by a single character, and another novel."""
    monkeypatch.setenv("SEQMODELS_DATA", str(data))
    plays = corpus.open_text(["shakespeare"])
    train, valid = read(plays, "train"), read(plays, "valid")
    assert (len(train), len(valid), read(plays, "test")) == (1_003_854, 111_540, valid)
    assert tokenizers.Characters.train([train]).vocab_size == tokenizers.N_SPECIALS + 65
    novel = corpus.open_text(["war-and-peace"])
    book = read(novel)
    assert not re.search("[\r\ufeff]|Gutenberg|\\*\\*\\*", book)
    assert (book.split()[0], book.split()[-1], novel.n_left_out()) == ("An", "conscious.", 19_277)
    for name, text in (("shakespeare", train + valid), ("war-and-peace", book)):
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        assert presets.checksum_warning(name, sha256) == ""
    raw = (data / "wikitext2" / "wiki.valid.tokens").read_text("utf-8")
    assert len(tokenizers.Spaces.train([raw]).encode(raw)) == 217_646  # as published

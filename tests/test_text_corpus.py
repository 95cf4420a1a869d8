"""Running text: read from files, tables and the hub, and tokenized once."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.error import URLError

import datasets
import pytest

from seqmodels.data import corpus, hub, prepare, presets, readers, tokenizers
from seqmodels.data.corpus import SPLITS, TextCorpus, read_text_corpus
from seqmodels.data.prepare import prepare_text, text_summary
from seqmodels.data.readers import text_chunks

DATA = Path(os.environ.get("SEQMODELS_DATA", Path(__file__).parents[1] / "../shared/data"))
Fetch = Callable[..., None]


pytestmark = pytest.mark.usefixtures("cached")


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of real text."""
    if not DATA.is_dir():
        pytest.skip(f"no real text at {DATA}")
    monkeypatch.setenv("SEQMODELS_DATA", str(DATA))
    return DATA


def read_text(path: Path) -> str:
    """Return a file's text."""
    return "".join(text_chunks(path))


def whole(opened: TextCorpus, split: str) -> str:
    """Return a split."""
    return "".join(opened.splits[split]())


# ------------------------------------------------------------------------------------- Text files


def test_pieces_are_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a character or a line end that falls between two pieces."""
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffä\r\n\r\nöß\r\n€€€€€€€€€€\r\nlast\r".encode())
    for n in range(1, 12):
        monkeypatch.setattr(readers, "CHUNK_BYTES", n)
        found = list(text_chunks(path))
        assert "".join(found) == "ä\n\nöß\n€€€€€€€€€€\nlast\r"
        assert len(found) > 1
    monkeypatch.setattr(readers, "CHUNK_BYTES", 9)
    path.write_bytes(b"a\nb\nc\n" * 9)
    assert all(piece.endswith("\n") for piece in text_chunks(path))


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"a\n" * 30 + b"b\xffc\n", r"line 31: not UTF-8 \(byte 0xff\)$"),
        (b"a\n" * 30 + b"b\0", r"line 31: a zero byte, "),
        (b"a\n" * 30 + "ä".encode()[:1], r"line 31: not UTF-8 \(byte 0xc3\)$"),
        ("€".encode() * 9 + b"\x80", r"line 1: not UTF-8 \(byte 0x80\)$"),
        (b"a\rb\rc", "line 1: no line feed, only carriage returns"),
        (b"", "a.txt is empty$"),
        (b"\xef\xbb\xbf", "a.txt is empty$"),
    ],
)
def test_what_is_no_text_has_its_line(
    raw: bytes, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a line that is counted from the beginning of a piece."""
    (tmp_path / "a.txt").write_bytes(raw)
    for n in (2**20, 4):
        monkeypatch.setattr(readers, "CHUNK_BYTES", n)
        with pytest.raises(ValueError, match=why):
            read_text(tmp_path / "a.txt")


def test_files_are_read_in_their_order(tmp_path: Path) -> None:
    """Keeps out an order by name, words of two files that grow together, and a lost last one."""
    (tmp_path / "b").write_text("one")
    (tmp_path / "a").write_text("two\n")
    (tmp_path / "c").write_text("three")
    opened = read_text_corpus([tmp_path / name for name in "bac"])
    assert "".join(whole(opened, split) for split in SPLITS) == "one\ntwo\nthree"
    assert opened.name == "b and 2 more"
    keys = [read_text_corpus([tmp_path / n for n in names]).key for names in ("bac", "abc", "ba")]
    assert opened.key == keys[0]
    assert len(set(keys)) == 3
    (tmp_path / "c").write_text("four!")
    assert read_text_corpus([tmp_path / name for name in "bac"]).key not in keys


def test_a_text_is_cut_by_its_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out characters that are in two splits or in none, and a cut by bytes."""
    said = "".join(f"{i} €\n" for i in range(999))
    (tmp_path / "a.txt").write_text(said, "utf-8")
    for n in (7, 2**20):
        monkeypatch.setattr(readers, "CHUNK_BYTES", n)
        opened = read_text_corpus([tmp_path / "a.txt"])
        parts = [whole(opened, split) for split in SPLITS]
        assert "".join(parts) == said
        assert len(parts[0]) == int(0.9 * len(said))
        assert abs(len(parts[1]) - len(parts[2])) <= 1
        opened = read_text_corpus([tmp_path / "a.txt"], shares=presets.NANOGPT)
        assert whole(opened, "train") + whole(opened, "test") == said
        assert whole(opened, "test") == whole(opened, "valid")
        assert opened.is_valid_tested


# ----------------------------------------------------------------------------------------- Tables

ROWS = {"train": ["one", "two\n", "", "thrée"], "validation": ["four"], "test": ["five", "six"]}
SAID = {"train": "one\ntwo\n\nthrée\n", "valid": "four\n", "test": "five\nsix\n"}


def write_rows(folder: Path, kind: str, splits: dict[str, list[str]], column: str = "text") -> Path:
    """Write a folder as a set on the hub has it: a file for each split."""
    folder.mkdir()
    for split, rows in splits.items():
        table = datasets.Dataset.from_dict({column: rows, "n": [*range(len(rows))]})
        path = folder / f"{split}-00000-of-00001{kind}"
        path.parent.mkdir(exist_ok=True)
        if kind == ".parquet":
            table.to_parquet(path)
        elif kind == ".csv":
            table.to_csv(path, index=False)
        else:
            lines = (json.dumps({column: row, "n": i}) for i, row in enumerate(rows))
            path.write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.mark.parametrize("kind", [".parquet", ".jsonl", ".csv"])
@pytest.mark.parametrize("column", ["text", "sentence", "body"])
def test_a_folder_of_tables(kind: str, column: str, tmp_path: Path) -> None:
    """Keeps out splits that are cut anew, rows that are lost, and columns that are not texts."""
    folder = write_rows(tmp_path / "made", kind, ROWS, column)
    opened = read_text_corpus([folder], column if column == "body" else None)
    assert {split: whole(opened, split) for split in SPLITS} == SAID
    assert whole(opened, "train") == SAID["train"]  # as often as one likes
    assert not opened.is_valid_tested


def test_the_hub_is_read_as_a_folder_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a path through the hub that no test takes: its id, its configuration, its rows."""
    folder = write_rows(tmp_path / "made", ".parquet", ROWS)
    asked = []

    def load_dataset(path: str, name: str | None, **told: object) -> object:
        asked.append((path, name, told["revision"]))
        return datasets.DatasetDict.from_parquet(
            {split: str(*folder.glob(f"{split}-*")) for split in ROWS}, cache_dir=str(tmp_path)
        )

    monkeypatch.setattr(hub.datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(hub, "latest_revision", lambda name: "abc")
    opened = corpus.open_text(["wikitext-2"])
    assert asked == [("Salesforce/wikitext", "wikitext-2-v1", "abc")]
    assert opened.name == "wikitext-2"
    assert {split: whole(opened, split) for split in SPLITS} == SAID


def test_a_table_without_splits_is_cut(tmp_path: Path) -> None:
    """Keeps out a set with train alone being refused, or tested on what it was trained on."""
    rows = [f"{i} said" for i in range(100)]
    said = "".join(f"{row}\n" for row in rows)
    folder = write_rows(tmp_path / "made", ".jsonl", {"train": rows})
    for data in (folder, *folder.iterdir()):
        opened = read_text_corpus([data])
        assert "".join(whole(opened, split) for split in SPLITS) == said
        assert len(whole(opened, "train")) == int(0.9 * len(said))


@pytest.mark.parametrize("missing", ["validation", "test"])
def test_two_splits_are_enough(missing: str, tmp_path: Path) -> None:
    """Keeps out a set without test, as many are, being refused, and silence about it."""
    rows = {split: said for split, said in ROWS.items() if split != missing}
    opened = read_text_corpus([write_rows(tmp_path / "made", ".jsonl", rows)])
    held = SAID["test"] if missing == "validation" else SAID["valid"]
    assert whole(opened, "valid") == whole(opened, "test") == held
    assert whole(opened, "train") == SAID["train"]
    ready = prepare_text(opened, "bytes", 300, log=lambda line: None)
    assert ready.data["tested"] == "valid"
    assert "test is valid" in text_summary(ready.data)


def test_some_rows_are_streamed(tmp_path: Path) -> None:
    """Keeps out a limit that is not kept, or that cuts the test."""
    rows = {"train": [f"{i}" for i in range(500)], "test": ["five", "six"]}
    folder = write_rows(tmp_path / "made", ".jsonl", rows)
    opened = read_text_corpus([folder], limit=20)
    drawn = whole(opened, "train").split()
    assert len(drawn) == len(set(drawn)) == 20
    assert whole(opened, "test") == SAID["test"]


def test_lines_of_a_folder_of_text(tmp_path: Path) -> None:
    """Keeps out blank lines that are lost where each split is a file of text."""
    (tmp_path / "made").mkdir()
    for split in ("train", "valid", "test"):
        (tmp_path / "made" / f"{split}.txt").write_text(f"{split}\n\nis here\n")
    opened = read_text_corpus([tmp_path / "made"])
    assert whole(opened, "valid") == "valid\n\nis here\n"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            {"column": "words"},
            "has no text column 'words', but 'a', 'b'; choose one with --column$",
        ),
        ({"column": "n"}, "has no text column 'n', but 'a', 'b'; choose one with --column$"),
        ({}, "has no text column 'text' or 'sentence', but 'a', 'b'; choose one with --column$"),
    ],
)
def test_a_column_that_is_not_there(given: dict[str, str], why: str, tmp_path: Path) -> None:
    """Keeps out a column by chance, a bare KeyError, and a column of numbers."""
    (tmp_path / "a.jsonl").write_text('{"a": "x", "b": "y", "n": 1}\n' * 3)
    with pytest.raises(ValueError, match=why):
        read_text_corpus([tmp_path / "a.jsonl"], **given)


def test_mistakes_with_files(tmp_path: Path) -> None:
    """Keeps out flags that are silently not used, and a table that is read as a text."""
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    both = [tmp_path / "a.txt", tmp_path / "a.jsonl"]
    with pytest.raises(ValueError, match=r"a\.jsonl is a table; several files must all be text"):
        read_text_corpus(both)
    with pytest.raises(
        ValueError, match=r"^a limit applies only to a table or the hub; text files are"
    ):
        read_text_corpus(both[:1], limit=3)
    with pytest.raises(
        ValueError, match=r"^a column applies only to a table or the hub; text files are"
    ):
        read_text_corpus(both[:1], column="text")
    with pytest.raises(ValueError, match=r"b\.txt does not exist; give the path of a UTF-8 text"):
        read_text_corpus([tmp_path / "a.txt", tmp_path / "b.txt"])
    with pytest.raises(
        ValueError, match=r"b\.txt does not exist; it is not a known corpus and not OWNER/NA"
    ):
        read_text_corpus([tmp_path / "b.txt"])
    with pytest.raises(
        ValueError, match=r"^nobody/nothing cannot be read: .* without a network, give"
    ):
        read_text_corpus(["nobody/nothing"])
    with pytest.raises(
        ValueError, match=r"to use tinystories without a network, put it into a fold"
    ):
        corpus.open_text(["tinystories"])


# ---------------------------------------------------------------------------------------- Presets


@pytest.fixture
def internet(monkeypatch: pytest.MonkeyPatch) -> Fetch:
    """Return a function that says what every address gives, or with what it fails."""

    def give(content: bytes | Exception) -> None:
        def urlopen(address: str, timeout: float) -> io.BytesIO:
            if isinstance(content, Exception):
                raise content
            return io.BytesIO(content)

        monkeypatch.setattr(presets, "urlopen", urlopen)

    return give


def test_a_text_is_fetched_once(
    internet: Fetch, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a download for every run, one that is not the text, and one without network."""
    names = b"emma\nolivia\nava\n" * 50
    internet(URLError("no route"))
    with pytest.raises(
        ValueError,
        match=r"^https://raw.*names\.txt cannot be fetched: .*no route.*"
        r"; to use names without a network, put it into a folder ",
    ):
        corpus.open_text(["names"])
    internet(b"<html>Please log in.</html>")
    with pytest.raises(
        ValueError, match=r"names\.txt returned something else; to use names without"
    ):
        corpus.open_text(["names"])
    internet(names)
    known = presets.TEXT["names"]._replace(sha256=hashlib.sha256(names).hexdigest())
    monkeypatch.setitem(presets.TEXT, "names", known)
    opened = corpus.open_text(["names"])
    assert opened.name == "names"
    assert "".join(whole(opened, split) for split in SPLITS).encode() == names
    internet(URLError("no route"))
    assert corpus.open_text(["names"]).key == opened.key
    ready = prepare_text(opened, "bytes", 300, log=lambda line: None)
    assert presets.checksum_warning("names", ready.data["sha256"]) == ""
    (cached / "names.txt").write_bytes(names[5:])
    ready = prepare_text(corpus.open_text(["names"]), "bytes", 300, log=lambda line: None)
    note = presets.checksum_warning("names", ready.data["sha256"])
    assert note == "names is not the text known by this name: scores will differ"
    assert (
        presets.checksum_warning("mine.txt", "any")
        == presets.checksum_warning("tinystories", "any")
        == ""
    )


BOOK = """\ufeffThe Project Gutenberg EBook\r
*** START OF THIS PROJECT GUTENBERG EBOOK A BOOK ***\r
\r
It was.\r
It is.\r
\r
End of the Project Gutenberg EBook of A Book\r
\r
*** END OF THIS PROJECT GUTENBERG EBOOK A BOOK ***\r
*** START: FULL LICENSE ***\r
"""


def test_a_frame_is_left_out(internet: Fetch) -> None:
    """Keeps out licences that are learned by heart, and a page that is not a book."""
    internet(b"<html>Try later.</html>")
    with pytest.raises(ValueError, match=r"2600\.txt\.utf-8 returned something else; to use war-a"):
        corpus.open_text(["war-and-peace"])
    internet(BOOK.replace("THIS", "THE").encode())  # of today: other marks, another checksum
    opened = corpus.open_text(["war-and-peace"])
    assert "".join(whole(opened, split) for split in SPLITS) == "\nIt was.\nIt is.\n\n"
    assert opened.n_left_out() == len(BOOK.replace("THIS", "THE").replace("\r", "")) - 1 - 17
    ready = prepare_text(opened, "bytes", 300, log=lambda line: None)
    told = text_summary(ready.data)
    assert f"{opened.n_left_out()} characters of Project Gutenberg's header and licence are" in told
    assert presets.checksum_warning("war-and-peace", ready.data["sha256"])


def test_shakespeare(data: Path) -> None:
    """Keeps out another split than nanoGPT's, by a single character."""
    opened = corpus.open_text(["shakespeare"])
    train, valid = whole(opened, "train"), whole(opened, "valid")
    assert (len(train), len(valid), len(train + valid)) == (1_003_854, 111_540, 1_115_394)
    assert len(set(train + valid)) == len(set(train)) == 65
    assert whole(opened, "test") == valid
    assert train.startswith("First Citizen:\nBefore we proceed any further, hear me speak.\n\n")
    digest = hashlib.sha256(f"{train}{valid}".encode()).hexdigest()
    assert presets.checksum_warning("shakespeare", digest) == ""


def test_war_and_peace(data: Path) -> None:
    """Keeps out carriage returns, a byte-order mark, the header and the footer."""
    opened = corpus.open_text(["war-and-peace"])
    book = "".join(whole(opened, split) for split in SPLITS)
    assert not re.search("[\r\ufeff]|Gutenberg|\\*\\*\\*", book)
    raw = read_text(data / presets.TEXT["war-and-peace"].local)
    assert (len(raw), opened.n_left_out()) == (len(book) + 19_277, 19_277)
    assert book.split()[:3] == ["An", "Anonymous", "Volunteer,"]
    assert book.split()[-6:] == ["of", "which", "we", "are", "not", "conscious."]
    assert (
        presets.checksum_warning("war-and-peace", hashlib.sha256(book.encode()).hexdigest()) == ""
    )


FRAMED = (
    "The Project Gutenberg eBook of Made\r\n\r\n"
    "*** START OF THE PROJECT GUTENBERG EBOOK MADE ***\r\n"
    "{}\r\nEnd of the Project Gutenberg EBook of Made\r\n\r\n"
    "*** END OF THE PROJECT GUTENBERG EBOOK MADE ***\r\nSTART: FULL LICENSE\r\n"
)


def test_any_book_of_gutenberg(tmp_path: Path) -> None:
    """Keeps out a licence that is learned, and tested, with a book that has no name here."""
    books = ["Once.\n" * 3, "Twice.\n" * 200_000, "Never.\n"]
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_bytes(FRAMED.format(books[0]).encode())
    two.write_bytes("".join(FRAMED.format(book) for book in books[1:]).encode())
    (tmp_path / "three.txt").write_text("\n*** START\nEnd of the Project Gutenberg\nsaid\n" * 9)
    opened = read_text_corpus([one, two])
    assert "".join(whole(opened, split) for split in SPLITS) == "\n".join(books) + "\n"
    raw = len(read_text(one)) + len(read_text(two))
    assert opened.n_left_out() == raw - len("\n".join(books)) - 1
    data = prepare_text(opened, "bytes", 300, log=lambda line: None).data
    left_out = (
        f"{opened.n_left_out():,} characters of Project Gutenberg's header and licence are left"
    )
    assert left_out in text_summary(data)
    opened = read_text_corpus([tmp_path / "three.txt"])
    assert opened.n_left_out() == 0
    said = "".join(whole(opened, split) for split in SPLITS)
    assert said == (tmp_path / "three.txt").read_text()


@pytest.mark.parametrize("kind", ["bytes", "words"])
def test_white_space_is_no_text(kind: str, tmp_path: Path) -> None:
    """Keeps out a model of blank lines, and a vocabulary that is blamed for them."""
    (tmp_path / "x.txt").write_text("\n \n" * 500)
    for said in ("\n \n" * 500, "x"):
        (tmp_path / "x.txt").write_text(said)
        with pytest.raises(
            ValueError, match=r"^x\.txt has no text in (train|valid), or only white space"
        ):
            prepare_text(read_text_corpus([tmp_path / "x.txt"]), kind, 300, log=lambda line: None)


def test_wikitext_keeps_its_tokens(data: Path) -> None:
    """Keeps out a perplexity of other tokens than those of the corpus, such as `< unk >`."""
    path = data / "wikitext2" / "wiki.valid.tokens"
    raw = path.read_text("utf-8")
    tokenizer = tokenizers.Spaces.train([raw])
    ids = tokenizer.encode(raw)
    assert len(ids) == 217_646  # as published, <eos> of each line among them
    assert tokenizer.tokens(ids)[:6] == ["\\n", "=", "Homarus", "gammarus", "=", "\\n"]
    assert tokenizer.encode("<unk> @,@ \n")[-1] == tokenizer.encode("\n")[0] > tokenizers.UNK
    assert len(tokenizer.encode("<unk> @,@")) == 2
    assert [line.split() for line in tokenizer.decode(ids[:500]).split("\n")[:9]] == [
        line.split() for line in raw.split("\n")[:9]
    ]


def test_other_real_texts(data: Path) -> None:
    """Keeps out titles, blank lines and stories that do not come back from their tokens."""
    wiki = data / "wikitext2" / "wiki.valid.tokens"
    stories = data / "tinystories" / "smallgpt.tiny_stories.txt"
    assert len(re.findall(r"^ = [^=].* = $", read_text(wiki), re.MULTILINE)) == 60
    assert whole(corpus.open_text(["names"]), "train").count("\n") > 28_000
    for path in (wiki, stories):
        ready = prepare_text(read_text_corpus([path]), "bpe", 500, log=lambda line: None)
        split_ids = [ids.slice(0, len(ids)) for ids in (ready.train, ready.valid, ready.test)]
        assert "".join(map(ready.tokenizer.decode, split_ids)) == read_text(path)
        assert ready.data["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


# ----------------------------------------------------------------------------------------- Tokens


def test_tokens_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out work that is done again, and tokens of a text that has changed since."""
    path, said = tmp_path / "a.txt", []
    path.write_text("".join(f"{i} said, and went.\n" for i in range(400)))
    first = prepare_text(read_text_corpus([path]), "bpe", 300, log=said.append)
    assert [re.sub("in .*", "", line) for line in said] == ["a.txt: tokenizing; cached "]
    with monkeypatch.context() as patch:
        patch.setattr(prepare, "encode_text", None)
        again = prepare_text(read_text_corpus([path]), "bpe", 300, log=said.append)
    assert again.data == first.data
    assert again.train.slice(0, 99) == first.train.slice(0, 99)
    assert len(said) == 1
    (folder,) = (tmp_path / "cache").glob("*/")
    (folder / "made.json").unlink()
    prepare_text(read_text_corpus([path]), "bpe", 300, log=said.append)
    prepare_text(read_text_corpus([path]), "bpe", 310, log=said.append)
    path.write_text("another text, which is as short as can be\n" * 30)
    prepare_text(read_text_corpus([path]), "bpe", 300, log=said.append)
    assert len(said) == 4

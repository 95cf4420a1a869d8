"""Readers: every trap of real files, and every message."""

import gzip
import os
import pickle
import re
from pathlib import Path

import pytest

from seqmodels import corpus
from seqmodels.corpus import Pair, read_lines, read_parallel, read_text, sha256

DATA = Path(os.environ.get("SEQMODELS_DATA", Path(__file__).parents[1] / "../shared/data"))


@pytest.fixture
def data() -> Path:
    """Return the folder of real text."""
    if not DATA.is_dir():
        pytest.skip(f"no real text at {DATA}")
    return DATA


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


@pytest.fixture
def written(tmp_path: Path):
    """Return a function that writes bytes to a file and returns its path."""

    def write(raw: bytes) -> Path:
        (tmp_path / "file.txt").write_bytes(raw)
        return tmp_path / "file.txt"

    return write


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\n\n", ["a", ""]),
        (b"\n", [""]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\r\nc\r", ["a\rb", "c"]),
        (b"\xef\xbb\xbfa\nb\n", ["a", "b"]),
        ("a\x85b\u2028c\x0cd\x1ce\nf\n".encode(), ["a\x85b\u2028c\x0cd\x1ce", "f"]),
        ("« Où\u00a0?\u202f»\n".encode(), ["« Où\u00a0?\u202f»"]),
    ],
)
def test_lines(raw: bytes, lines: list[str], written) -> None:
    """Keep out line ends other than LF, which shift every later pair, and marks left in words."""
    assert read_lines(written(raw)) == lines


def test_text(written) -> None:
    """Keep out carriage returns and the byte-order mark as characters to be learned."""
    assert read_text(written(b"\xef\xbb\xbfa\r\n\r\nb\rc\x0c\n")) == "a\n\nb\rc\x0c\n"


@pytest.mark.parametrize("read", [read_lines, read_text])
def test_not_utf8(read, written) -> None:
    """Keep out a decoding error that names an offset in megabytes instead of a line."""
    path = written(b"\xef\xbb\xbfa\n" + b"b\n" * 15 + b"caf\xff\n")
    with pytest.raises(ValueError, match=rf"^{path}, line 17: not UTF-8 \(byte 0xff\)$"):
        read(path)
    with pytest.raises(ValueError, match=r"file\.txt, line 1: not UTF-8 \(byte 0xff\)$"):
        read(written("a\n".encode("utf-16")))


@pytest.mark.parametrize("read", [read_lines, read_text])
def test_empty_file(read, written) -> None:
    """Keep out an empty split, which fails only when a batch is drawn."""
    for raw in (b"", b"\xef\xbb\xbf"):
        with pytest.raises(ValueError, match=r"file\.txt is empty$"):
            read(written(raw))


@pytest.mark.parametrize("read", [read_lines, read_text])
def test_not_text(read, written) -> None:
    """Keep out UTF-16, old Macs' line ends and archives, which train for an hour on nothing."""
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le"):
        with pytest.raises(ValueError, match=r"^.*file\.txt, line 1: a zero byte, .*UTF-16\?$"):
            read(written("a\nb\n".encode(encoding)))
    with pytest.raises(ValueError, match=r"file\.txt, line 3: a zero byte"):
        read(written(b"a\nb\nc\0d\n"))
    for raw in (b"a\rb\rc\r", b"a\rb"):
        with pytest.raises(ValueError, match=r"file\.txt, line 1: no line feed, only carriage"):
            read(written(raw))
    with pytest.raises(ValueError, match=r"file\.txt, line 1: not UTF-8 \(byte 0x8b\)"):
        read(written(gzip.compress(b"a\nb\n")))
    for raw in (pickle.dumps(["a"]), b"PK\x03\x04"):
        with pytest.raises(ValueError, match=r"file\.txt is .*pickle"):
            read(written(raw))


@pytest.mark.parametrize("read", [read_lines, read_text])
def test_control_characters_are_kept(read, written) -> None:
    """Keep out a reader that drops or refuses what is odd and still text."""
    odd = "a\x01\x1b[2J\x7f\u200b\ufeff\U0010ffff\rb\n"
    assert "".join(read(written(odd.encode()))) == odd.removesuffix("\n" * (read is read_lines))


@pytest.mark.parametrize("read", [read_lines, read_text])
def test_no_plain_file(read, tmp_path: Path) -> None:
    """Keep out a pipe that makes a command wait for ever, and a file that fills the memory."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(ValueError, match=r"is no plain file; it is not read$"):
            read(path)
    with open(tmp_path / "large", "wb") as large:
        large.truncate(corpus.MOST_BYTES + 1)
    with pytest.raises(ValueError, match=r"large has 1,073,741,825 bytes, more than the 1,073"):
        read(tmp_path / "large")


@pytest.mark.parametrize("read", [read_lines, read_text])
def test_unreadable_file(read, tmp_path: Path) -> None:
    """Keep out a traceback for a path with a typing error."""
    with pytest.raises(ValueError, match=r"none\.txt does not exist; give the path of a UTF-8"):
        read(tmp_path / "none.txt")
    with pytest.raises(ValueError, match=r"cannot be read: Is a directory$"):
        read(tmp_path)


def test_parallel(folder: Path) -> None:
    """Keep out pairs that are dropped, doubled or shifted without a word."""
    tiny = read_parallel(folder)
    assert tiny.name == "tiny"
    assert (tiny.src_lang, tiny.tgt_lang) == ("de", "en")
    assert list(tiny.splits) == ["train", "valid", "test"]
    assert tiny.splits["train"] == [
        Pair("eins", "one", line=1), Pair("zwei", "two", line=2), Pair("drei", "three", line=4),
    ]  # fmt: skip
    assert tiny.splits["test"] == [Pair("fünf", "five", line=1), Pair("eins", "1", line=2)]
    assert tiny.n_dropped == {"train": 1, "valid": 0, "test": 0}
    assert tiny.n_overlap == 1


def test_direction(folder: Path) -> None:
    """Keep out a direction by chance, and a checksum by which the same data look different."""
    forth, back = read_parallel(folder, source="de"), read_parallel(str(folder), source="en")
    assert forth == read_parallel(folder)
    assert (back.src_lang, back.tgt_lang) == ("en", "de")
    assert back.splits["valid"] == [Pair("four", "vier", line=1)]
    assert (forth.n_overlap, back.n_overlap) == (1, 0)
    assert back.sha256 == forth.sha256
    (folder / "valid.en").write_text("for\n")
    assert read_parallel(folder).sha256 != forth.sha256


def test_unknown_source(folder: Path) -> None:
    """Keep out a silent fallback to the other direction."""
    with pytest.raises(ValueError, match=r"^source is 'fr'; .*tiny has 'de' and 'en'$"):
        read_parallel(folder, source="fr")


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
        read_parallel(tmp_path)


def test_missing_split(folder: Path) -> None:
    """Keep out a run without validation or test, and one complaint per file."""
    (folder / "valid.de").unlink()
    (folder / "test.en").unlink()
    needed = r"train\.de, train\.en, valid\.de, valid\.en, test\.de, test\.en"
    with pytest.raises(ValueError, match=rf"tiny has no valid\.de, test\.en; needed: {needed}$"):
        read_parallel(folder)


def test_unequal_lines(folder: Path) -> None:
    """Keep out `zip`, which cuts the longer file and hides the shift."""
    (folder / "valid.en").write_text("four\nfive\n")
    with pytest.raises(ValueError, match=r"valid\.de has 1 lines and .*valid\.en has 2; line n"):
        read_parallel(folder)


def test_a_copy_is_no_translation(folder: Path) -> None:
    """Keep out one language twice, which every model with attention learns at once."""
    (folder / "train.en").write_bytes((folder / "train.de").read_bytes().replace(b"\n", b"\r\n"))
    with pytest.raises(ValueError, match=r"train\.de and .*train\.en hold the same text; one must"):
        read_parallel(folder)


def test_only_blank_pairs(folder: Path) -> None:
    """Keep out a split with no pair left."""
    (folder / "valid.en").write_text(" \n")
    with pytest.raises(ValueError, match=r"valid\.de and .*valid\.en have no line with text on bo"):
        read_parallel(folder)


def test_not_a_folder(folder: Path) -> None:
    """Keep out a traceback for a file, or a path with a typing error, in a folder's place."""
    for path, reason in ((folder / "train.de", "Not a directory"), (folder / "x", "No such file")):
        with pytest.raises(ValueError, match=rf"cannot be read: {reason}.*; give a folder with"):
            read_parallel(path)


def test_permission(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out a bare PermissionError, from the folder or from a file in it."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(corpus.files, "read", refuse)
        with pytest.raises(ValueError, match=r"train\.de cannot be read: Permission denied$"):
            read_parallel(folder)
    monkeypatch.setattr(corpus.os, "listdir", refuse)
    with pytest.raises(ValueError, match=r"tiny cannot be read: Permission denied; give a folder"):
        read_parallel(folder)


def test_checksum() -> None:
    """Keep out a checksum that cannot tell where one text ends and the next starts."""
    assert sha256(["ab", "c"]) != sha256(["a", "bc"])
    assert sha256(["ab", "c"]) != sha256(["c", "ab"])
    assert sha256(iter(["ab", "c"])) == sha256(["ab", "c"])


def test_bible(data: Path) -> None:
    """Keep out a reader that shifts, drops or alters real sentences."""
    bible = read_parallel(data / "bible")
    assert (bible.name, bible.src_lang, bible.tgt_lang) == ("bible", "de", "en")
    assert {split: len(pairs) for split, pairs in bible.splits.items()} == {
        "train": 28_944,
        "valid": 621,
        "test": 610,
    }
    assert set(bible.n_dropped.values()) == {0}
    listed = dict(
        reversed(line.split("  ")) for line in read_lines(data / "SHA256SUMS") if "  " in line
    )
    path = next(path for path in listed if path.endswith("bible/train.de"))
    assert sha256(pair.src for pair in bible.splits["train"]) == listed[path]


def test_traps_in_real_files(data: Path) -> None:
    """Keep out what the made-up lines above do not think of."""
    english = read_lines(data / "ntrex128" / "newstest2019-src.eng.txt")
    vietnamese = read_lines(data / "ntrex128" / "newstest2019-ref.vie.txt")
    assert len(english) == len(vietnamese) == 1_997
    assert not any("\r" in line for line in english)
    book = read_text(data / "gutenberg" / "war_and_peace.txt")
    assert not book.startswith("\ufeff")
    assert "\r" not in book
    with pytest.raises(ValueError, match=r"multi30k has no valid\.de, valid\.en, test\.de, test"):
        read_parallel(data / "multi30k")

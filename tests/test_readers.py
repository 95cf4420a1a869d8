"""Readers: every trap of real files, and every message."""

import gzip
import os
import pickle
from pathlib import Path

import pytest

from seqmodels.data import readers
from seqmodels.data.readers import read_lines, sha256, text_chunks


def read_text(path: Path | str) -> str:
    """Return a file's text."""
    return "".join(text_chunks(path))


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
    with pytest.raises(ValueError, match=r"file\.txt, line 1: not UTF-8 \(byte 0x80\)"):
        read(written(pickle.dumps(["a"])))


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
        with pytest.raises(ValueError, match=r"is not a regular file; it is not read$"):
            read(path)
    with open(tmp_path / "large", "wb") as large:
        large.truncate(2**40)
    with pytest.raises(ValueError, match=r"large, line 1: a zero byte"):
        read(tmp_path / "large")


@pytest.mark.parametrize("read", [read_lines, read_text])
def test_unreadable_file(read, tmp_path: Path) -> None:
    """Keep out a traceback for a path with a typing error."""
    with pytest.raises(ValueError, match=r"none\.txt does not exist; give the path of a UTF-8"):
        read(tmp_path / "none.txt")
    with pytest.raises(ValueError, match=r"cannot be read: Is a directory$"):
        read(tmp_path)


def test_long_line(tmp_path: Path) -> None:
    """Keep out a file without line ends, which would fill the memory."""
    (tmp_path / "x.de").write_text("x" * (readers.MAX_LINE + 1))
    with pytest.raises(ValueError, match=r"x\.de, line 1: more than 16,777,216 characters$"):
        read_lines(tmp_path / "x.de")


def test_checksum() -> None:
    """Keep out a checksum that cannot tell where one text ends and the next starts."""
    assert sha256(["ab", "c"]) != sha256(["a", "bc"])
    assert sha256(["ab", "c"]) != sha256(["c", "ab"])
    assert sha256(iter(["ab", "c"])) == sha256(["ab", "c"])


def test_carriage_returns(data: Path) -> None:
    """Keep out a carriage return at the end of every word that ends a line."""
    names = ("newstest2019-src.eng.txt", "newstest2019-ref.vie.txt")
    paths = [data / "ntrex128" / name for name in names]
    assert all(b"\r\n" in path.read_bytes() for path in paths)
    assert [len(read_lines(path)) for path in paths] == [1_997, 1_997]
    assert not any("\r" in line for path in paths for line in read_lines(path))


def test_byte_order_mark(data: Path) -> None:
    """Keep out U+FEFF as the first character to be learned."""
    book = data / "gutenberg" / "war_and_peace.txt"
    assert book.read_bytes().startswith(b"\xef\xbb\xbf")
    assert not read_text(book).startswith("\ufeff")
    assert not read_lines(book)[0].startswith("\ufeff")
    assert "\r" not in read_text(book)

"""Lines, text and tables from files as users have them, and the place of every fault."""

import gzip
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqmodels.data import readers
from seqmodels.data.readers import read_lines, sha256, text_chunks


def read_chunks(path: Path | str) -> list[str]:
    """Return a file's text, in chunks."""
    return list(text_chunks(path))


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
        assert read_lines(tmp_path / "file.txt") == lines
        assert readers.count_lines(tmp_path / "file.txt") == len(lines)


def test_chunks_are_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a character or a line end that falls between two chunks."""
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffä\r\n\r\nöß\r\n€€€€€€€€€€\r\nlast\r".encode())
    for n in range(1, 12):
        monkeypatch.setattr(readers, "CHUNK_BYTES", n)
        chunks = read_chunks(path)
        assert "".join(chunks) == "ä\n\nöß\n€€€€€€€€€€\nlast\r"
        assert len(chunks) > 1
        assert read_lines(path) == ["ä", "", "öß", "€€€€€€€€€€", "last"]
    monkeypatch.setattr(readers, "CHUNK_BYTES", 9)
    path.write_bytes(b"a\nb\nc\n" * 9)
    assert all(chunk.endswith("\n") for chunk in text_chunks(path))


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"\xef\xbb\xbfa\n" + b"b\n" * 15 + b"caf\xff\n", r"line 17: not UTF-8 \(byte 0xff\)$"),
        (b"a\n" * 30 + "ä".encode()[:1], r"line 31: not UTF-8 \(byte 0xc3\)$"),
        (b"a\n" * 30 + b"b\0", r"line 31: .*UTF-16"),
        (b"a\rb\rc", "line 1: .*carriage returns"),
        ("a\nb\n".encode("utf-16"), r"line 1: not UTF-8 \(byte 0xff\)$"),
        ("a\nb\n".encode("utf-16-be"), "line 1: .*UTF-16"),
        (gzip.compress(b"a\nb\n", mtime=0), r"line 1: not UTF-8 \(byte 0x8b\)$"),
        (pickle.dumps(["a"]), r"line 1: not UTF-8 \(byte 0x80\)$"),
        (b"", "is empty$"),
        (b"\xef\xbb\xbf", "is empty$"),
    ],
)
def test_a_fault_has_its_line(raw: bytes, fault: str, tmp_path: Path, monkeypatch: Any) -> None:
    """Keeps out what is not text, and a line that is counted from the beginning of a chunk."""
    (tmp_path / "a.txt").write_bytes(raw)
    for n in (2**20, 4):
        monkeypatch.setattr(readers, "CHUNK_BYTES", n)
        for read in (read_lines, read_chunks):
            with pytest.raises(ValueError, match=rf"a\.txt.* {fault}"):
                read(tmp_path / "a.txt")


@pytest.mark.parametrize("read", [read_lines, read_chunks])
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
    for n in (100, 101):
        path.write_text("a\n" + "x" * n)
        if n == 100:
            assert read_lines(path) == ["a", "x" * 100]
        else:
            with pytest.raises(ValueError, match=r"x\.de, line 2: more than 100 characters$"):
                read_lines(path)


def test_checksum(tmp_path: Path) -> None:
    """Keeps out a checksum that cannot tell where one text ends, and another than sha256sum's."""
    assert sha256(["ab", "c"]) != sha256(["a", "bc"])
    assert sha256(["ab", "c"]) != sha256(["c", "ab"])
    a_line = "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"  # echo a
    assert sha256(["a"]) == a_line

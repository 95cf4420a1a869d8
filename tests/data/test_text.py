"""Lines and text from files as users have them; every fault's place."""

import bz2
import codecs
import gzip
import io
import lzma
import os
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from seqmodels.data import text


def read_chunks(path: Path | str) -> list[str]:
    return list(text.text_chunks(path))


def test_lines_end_at_line_feeds_alone(tmp_path: Path) -> None:
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
        assert text.read_lines(tmp_path / "file.txt") == lines
        assert text.count_lines(tmp_path / "file.txt") == len(lines)


ENCODINGS: list[Callable[[str], bytes]] = [
    lambda text: text.encode("utf-8-sig"), lambda text: gzip.compress(text.encode())
]  # fmt: skip


@pytest.mark.parametrize("encode", ENCODINGS)
def test_chunks_are_the_text(
    encode: Callable[[str], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(encode("ä\r\n\r\nöß\r\n€€€€€€€€€€\r\nlast\r"))
    for n in range(1, 12):
        monkeypatch.setattr(text, "CHUNK_BYTES", n)
        chunks = read_chunks(path)
        assert "".join(chunks) == "ä\n\nöß\n€€€€€€€€€€\nlast\r"
        assert len(chunks) > 1
        assert text.read_lines(path) == ["ä", "", "öß", "€€€€€€€€€€", "last"]
    monkeypatch.setattr(text, "CHUNK_BYTES", 9)
    path.write_bytes(encode("a\nb\nc\n" * 9))
    assert all(chunk.endswith("\n") for chunk in text.text_chunks(path))


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
    (tmp_path / "a.txt").write_bytes(raw)
    for n in (2**20, 4):
        monkeypatch.setattr(text, "CHUNK_BYTES", n)
        for read in (text.read_lines, read_chunks):
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
    (tmp_path / "a.de").write_bytes(raw)
    with pytest.raises(ValueError, match=rf"a\.de.* {tool}"):
        text.read_lines(tmp_path / "a.de")


def test_tags_in_a_sentence_are_text(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("<b> is a tag\n1 10\n")
    assert text.read_lines(tmp_path / "x") == ["<b> is a tag", "1 10"]


@pytest.mark.parametrize("read", [text.read_lines, read_chunks])
def test_unreadable_files_are_refused_at_once(
    read: Callable[..., list[str]], tmp_path: Path
) -> None:
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


def test_the_length_of_a_line_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_LINE", 100)
    monkeypatch.setattr(text, "CHUNK_BYTES", 10)
    path = tmp_path / "x.de"
    path.write_text("a\n" + "x" * 100)
    assert text.read_lines(path) == ["a", "x" * 100]
    path.write_text("a\n" + "x" * 101)
    with pytest.raises(ValueError, match=r"x\.de, line 2: more than 100 characters$"):
        text.read_lines(path)


def test_the_checksum_is_that_of_sha256sum(tmp_path: Path) -> None:
    assert text.sha256(["ab", "c"]) != text.sha256(["a", "bc"])
    assert text.sha256(["ab", "c"]) != text.sha256(["c", "ab"])
    a_line = "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"  # echo a
    assert text.sha256(["a"]) == a_line

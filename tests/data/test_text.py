"""Lines and text from files as users have them; every fault's place."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
        (b"\xef\xbb\xbfa\nb\n\xef\xbb\xbfc\n", ["a", "b", "c"]),
        ("a\x85b\u2028c\x0cd\x1ce\nf\n".encode(), ["a\x85b\u2028c\x0cd\x1ce", "f"]),
        ("« Où\u00a0?\u202f»\n".encode(), ["« Où\u00a0?\u202f»"]),
        (b"a\x01\x1b[2J\x7f\xf4\x8f\xbf\xbf\n", ["a\x01\x1b[2J\x7f\U0010ffff"]),
    ):
        (tmp_path / "file.txt").write_bytes(raw)
        assert text.read_lines(tmp_path / "file.txt") == lines


def test_parts_of_long_lines_are_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffä\r\n\r\nöß\r\n€€€€€€€€€€\r\nlast\r".encode())
    assert text.read_lines(path) == ["ä", "", "öß", "€€€€€€€€€€", "last"]
    for n in (1, 2, 3, 4, 5, 11, 33):
        monkeypatch.setattr(text, "MAX_LINE", n)
        assert "".join(text.text_chunks(path)) == "ä\n\nöß\n€€€€€€€€€€\nlast\r"
    assert text.read_lines(path)[3] == "€€€€€€€€€€"  # 32 bytes
    monkeypatch.setattr(text, "MAX_LINE", 29)
    with pytest.raises(ValueError, match=r"a\.txt, line 4: more than 29 bytes$"):
        text.read_lines(path)


def test_chunks_end_where_lines_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "CHUNK", 5)
    (tmp_path / "a").write_text("ab\nc\nd\nef\ng")
    assert [*text.text_chunks(tmp_path / "a")] == ["ab\nc\n", "d\nef\n", "g"]


@pytest.mark.parametrize(("raw", "fault"), [
    (b"\xef\xbb\xbfa\n" + b"b\n" * 15 + b"caf\xff\n", r"line 17: not UTF-8 \(byte 0xff\)"),
    (b"a\n" * 30 + "ä".encode()[:1], "line 31: not UTF-8"),
    ("ä\n".encode("utf-16"), "line 1: .* iconv"),
    ("a\nb\n".encode("utf-16-be"), "line 1: .* iconv"),
    (b"a\rb\r", "has lines that end in CR; .* tr "),
    (b"", "is empty$"), (b"\xef\xbb\xbf", "is empty$"),
])  # fmt: skip
@pytest.mark.parametrize("read", [text.read_lines, read_chunks])
def test_what_is_not_text_is_refused(raw: bytes, fault: str, read: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(raw)
    with pytest.raises(ValueError, match=rf"a\.txt.* {fault}"):
        read(tmp_path / "a.txt")


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


def test_the_checksum_is_that_of_sha256sum(tmp_path: Path) -> None:
    assert text.sha256(["ab", "c"]) != text.sha256(["a", "bc"])
    assert text.sha256(["ab", "c"]) != text.sha256(["c", "ab"])
    a_line = "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"  # echo a
    assert text.sha256(["a"]) == a_line

"""What is known of large files: kept by a stamp, and found out anew when they change."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from seqmodels.data import cache, readers, text_corpus
from seqmodels.data.presets import read_text_corpus
from seqmodels.data.readers import text_chunks

pytestmark = pytest.mark.usefixtures("cached")


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that counts as large, written a minute ago."""
    monkeypatch.setattr(cache, "LARGE_BYTES", 8)
    path = tmp_path / "large.txt"
    write(path, "a line\n" * 9)
    return path


def write(path: Path, content: str, age_s: float = 60) -> None:
    """Write a file, as if some time ago."""
    path.write_text(content)
    os.utime(path, (time.time() - age_s,) * 2)


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let reading a file fail."""
    monkeypatch.setattr(readers, "_scan", lambda _: pytest.fail("read again"))
    monkeypatch.setattr(cache.hashlib, "file_digest", lambda *_: pytest.fail("read again"))


def test_a_large_file_is_read_once(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a start that hashes a terabyte, and one kind of knowledge that ousts another."""
    found = readers.scan(large), cache.file_sha256(large)
    assert found[0] == (found[1], 9)
    forbid(monkeypatch)
    assert (readers.scan(large), cache.file_sha256(large)) == found
    large.rename(large.with_name("other"))
    with pytest.raises(pytest.fail.Exception):
        readers.scan(large.with_name("other"))


def test_an_edited_file_is_noticed(large: Path) -> None:
    """Keeps out a changed corpus that is taken for the old one: even of the same size and time."""
    before = readers.scan(large)
    times = os.stat(large)
    large.write_text("b line\n" * 9)
    os.utime(large, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert readers.scan(large) != before
    write(large, "a line\n" * 9, age_s=30)
    assert readers.scan(large) == before


def test_a_file_that_is_being_written_is_not_kept(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out the checksum of a file that changes while it is read, or in the same tick."""

    def edit() -> str:
        write(large, "c line\n" * 9, age_s=50)
        return "old"

    assert cache.of_file(large, "what", edit) == "old"
    assert cache.of_file(large, "what", lambda: "new") == "new"
    assert cache.of_file(large, "what", lambda: "newer") == "new"
    write(large, "d line\n" * 9, age_s=0)
    assert cache.of_file(large, "what", lambda: "first") == "first"
    assert cache.of_file(large, "what", lambda: "second") == "second"


@pytest.mark.parametrize("damage", ["not json", "[]", '{"stamp": 1}'])
def test_what_is_kept_is_not_trusted(large: Path, damage: str) -> None:
    """Keeps out a traceback from a damaged cache, or where nothing can be kept."""
    before = readers.scan(large)
    (kept,) = (cache.cache_dir() / "files").iterdir()
    kept.write_text(damage)
    assert readers.scan(large) == before
    kept.unlink()
    kept.parent.rmdir()
    kept.parent.write_text("a file")
    assert readers.scan(large) == before


def test_the_length_of_a_large_text_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a start that reads a large text to its end only to show how it begins."""
    monkeypatch.setattr(cache, "LARGE_BYTES", 8)
    path, read = tmp_path / "a.txt", list[str]()
    path.write_text("a line\n" * 999)
    os.utime(path, (path.stat().st_mtime - 60,) * 2)
    monkeypatch.setattr(readers, "CHUNK_BYTES", 70)
    monkeypatch.setattr(text_corpus, "text_chunks", lambda p: map(note, text_chunks(p)))

    def note(piece: str) -> str:
        read.append(piece)
        return piece

    known = [*read_text_corpus([path]).splits["valid"]()]
    read.clear()
    again = read_text_corpus([path])
    assert "a line" in again.first_line()
    assert len(read) < 4
    assert [*again.splits["valid"]()] == known


def test_a_small_file_is_always_read(tmp_path: Path) -> None:
    """Keeps out a cache of thousands of small files, whose damage would not be noticed."""
    write(tmp_path / "a", "text\n")
    readers.scan(tmp_path / "a")
    assert not (cache.cache_dir() / "files").exists()
    with pytest.raises(ValueError, match="none does not exist"):
        readers.scan(tmp_path / "none")

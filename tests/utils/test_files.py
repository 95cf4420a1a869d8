"""Which folders and files are ours, and locks."""

import errno
import os
from pathlib import Path

import filelock
import pytest

from seqmodels.utils import files


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_new_or_empty_folder_becomes_ours(tmp_path: Path) -> None:
    for folder in (tmp_path / "a" / "b", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        assert files.check_folder(folder, "export")
        assert folder.exists() == (folder.name == "empty")
        assert files.claim_folder(folder, "export") == folder
        assert names(folder) == {files.MARK}
        (folder / "other.txt").write_text("more")
        assert files.claim_folder(folder, "export") == folder
        with pytest.raises(ValueError, match="comparison; nothing is written"):
            files.claim_folder(folder, "comparison")
        assert names(folder) == {files.MARK, "other.txt"}


@pytest.mark.parametrize("name", ["gpt-seed1.json", "gpt.json"])
def test_a_comparison_without_a_mark_is_known_by_its_records(name: str, tmp_path: Path) -> None:
    content = '{\n "schema": "seqmodels.record/4"}'
    (tmp_path / "notes.txt").write_text(content)
    (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match="seqmodels comparison"):
        files.claim_folder(tmp_path, "comparison")
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match="seqmodels export"):
        files.claim_folder(tmp_path, "export")
    assert files.claim_folder(tmp_path, "comparison") == tmp_path
    assert names(tmp_path) == {"notes.txt", name}


def test_a_folder_that_another_process_marks_is_taken(tmp_path: Path) -> None:
    half = tmp_path / f".{files.MARK}.0123abcd{files.PART}"
    half.write_text("compar")
    assert files.claim_folder(tmp_path, "comparison") == tmp_path
    assert names(tmp_path) == {half.name, files.MARK}


def test_a_folder_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gpt-seed1.json").write_text("{}")

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(files, "read_beginning", refuse)
    with pytest.raises(ValueError, match=r"cannot be read: .*Permission denied.*gpt-seed1\.json"):
        files.check_folder(tmp_path, "comparison")


def test_without_locks_a_folder_is_used_and_a_note_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(self: filelock.FileLock, **_: bool) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    files.Lock(tmp_path)
    assert "without locks: use it from one process" in capsys.readouterr().out


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ValueError, match="is not a folder"):
            files.claim_folder(path, "lesson")


@pytest.mark.parametrize(("name", "content"), [
    ("a.html", "<title>a · seqmodels</title>"),
    ("README.md", "# Results\n\nMade from the records in these folders by `seqmodels plot`."),
    ("a.SVG", "<title>a</title>\n <desc>"), ("a.png", "Software\0seqmodels"),
])  # fmt: skip
def test_a_file_of_another_is_refused(name: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / name
    assert files.claim_file(path) == path
    path.write_text("notes, by `seqmodels plot` or not")
    with pytest.raises(ValueError, match="was not written by seqmodels"):
        files.claim_file(path)
    path.write_text(content)
    assert files.claim_file(path) == path
    path.with_name("a.txt").write_text(content)
    with pytest.raises(ValueError, match=r"a\.txt was not written"):
        files.claim_file(path.with_name("a.txt"))


def test_a_lock_names_its_owner(tmp_path: Path) -> None:
    for name, target in ((files.LOCK, tmp_path), (".gpt-seed1.lock", tmp_path / "gpt-seed1")):
        assert not files.is_held(tmp_path, name)
        lock = files.Lock(tmp_path, name)
        assert files.is_held(tmp_path, name)
        with pytest.raises(ValueError, match=f"{target} is in use by process {os.getpid()} on "):
            files.Lock(tmp_path, name, patience_s=0.01)
        lock.release()
        assert not names(tmp_path)

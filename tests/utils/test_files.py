"""Which folders and files are ours, and locks."""

import time
from pathlib import Path

import pytest

from seqmodels.utils import files


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_new_or_empty_folder_becomes_ours(tmp_path: Path) -> None:
    for folder in (tmp_path / "a" / "b", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        assert files.check_folder(folder, "export")
        assert files.claim_folder(folder, "export") == folder
        assert names(folder) == {files.MARK}
        (folder / "other.txt").write_text("more")
        assert files.claim_folder(folder, "export") == folder
        with pytest.raises(ValueError, match="comparison; nothing is written"):
            files.claim_folder(folder, "comparison")
        assert names(folder) == {files.MARK, "other.txt"}


def test_a_comparison_without_a_mark_is_known_by_its_records(tmp_path: Path) -> None:
    (tmp_path := tmp_path / "gpt").mkdir()
    content = '{\n "schema": "seqmodels.record/4"}'
    (tmp_path / "notes.txt").write_text(content)
    (tmp_path / "gpt-seed1.json").write_text("mine")
    with pytest.raises(ValueError, match="seqmodels comparison"):
        files.claim_folder(tmp_path, "comparison")
    (tmp_path / "gpt-seed1.json").write_text(content)
    with pytest.raises(ValueError, match="seqmodels export"):
        files.claim_folder(tmp_path, "export")
    with pytest.raises(ValueError, match="seqmodels reproduction"):
        files.claim_folder(tmp_path, "reproduction")
    assert files.claim_folder(tmp_path, "comparison") == tmp_path
    assert files.claim_folder(tmp_path.parent, "reproduction") == tmp_path.parent
    assert names(tmp_path) == {"notes.txt", "gpt-seed1.json"}


@pytest.mark.parametrize(("name", "content"), [
    ("a.html", "<title>a · seqmodels</title>"), ("a.png", "Software\0seqmodels"),
    ("a.SVG", "<cc:Agent>\n      <dc:title>seqmodels</dc:title>\n"), ("a.md", files.TABLES_END),
])  # fmt: skip
def test_a_file_of_another_is_refused(name: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / name
    assert files.claim_file(path) == path
    path.write_text("notes by `seqmodels plot`\n <desc>by hand</desc>\n <metadata>\n  <rdf:RDF")
    with pytest.raises(ValueError, match="was not written by seqmodels"):
        files.claim_file(path)
    path.write_text(content)
    assert files.claim_file(path) == path
    path.with_name("a.txt").write_text(content)
    with pytest.raises(ValueError, match=r"a\.txt was not written"):
        files.claim_file(path.with_name("a.txt"))


def test_a_lock_has_one_owner_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "GRACE_S", 0.1)
    start = time.monotonic()
    with files.lock(tmp_path), pytest.raises(ValueError, match=f"{tmp_path} is in use by another"):
        files.lock(tmp_path).__enter__()
    assert time.monotonic() - start >= files.GRACE_S
    assert not names(tmp_path)

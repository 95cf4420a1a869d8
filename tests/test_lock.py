"""A folder has one owner, and links in it are not followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from seqmodels.utils import files


def test_a_folder_has_one_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out two processes that write over each other; the owner is named."""
    monkeypatch.setattr(files, "GRACE_S", 0.1)
    held = files.Lock(tmp_path)
    with pytest.raises(ValueError, match=rf"is in use by process {os.getpid()} on .* since 20"):
        files.Lock(tmp_path)
    held.release()
    files.Lock(tmp_path).release()


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Keeps out a folder of a stranger's by which a file elsewhere is written over."""
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "run"
    elsewhere.write_text("mine")
    folder.mkdir()
    for name in ("tables.md", files.LOCK):
        (folder / name).symlink_to(elsewhere)
    files.write(folder / "tables.md", "theirs")
    with pytest.raises(ValueError, match="cannot be written to"):
        files.Lock(folder)
    assert elsewhere.read_text() == "mine"

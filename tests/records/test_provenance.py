"""Where a run comes from."""

import subprocess
from pathlib import Path

import pytest

from seqmodels.records import provenance


def test_a_commit_is_the_clones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    copy = tmp_path / "venv" / "record.py"
    copy.parent.mkdir()
    copy.write_text("")
    monkeypatch.setattr(provenance, "__file__", str(copy))
    commit = provenance.read_commit.__wrapped__  # without the cache
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    git += ["-c", "commit.gpgsign=false"]
    (tmp_path / "theirs.txt").write_text("")
    for command in (["init", "-q"], ["add", "theirs.txt"], ["commit", "-qm", "theirs"]):
        subprocess.run([*git, *command], check=True)
    assert commit() is None
    for command in (["add", "."], ["commit", "-qm", "ours"]):
        subprocess.run([*git, *command], check=True)
    clean = commit() or ""
    assert len(clean) == 40
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "gpt-seed1.json").write_text("{}")
    subprocess.run([*git, "add", "."], check=True)
    assert commit() == clean  # a comparison that writes its second record
    copy.write_text("changed")
    assert commit() == f"{clean}+"
    monkeypatch.setenv("PATH", "/nowhere")  # git is not installed
    assert commit() is None

"""Records on the disk, and the commit that they name."""

import json
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT
from fake_records import fake_rows

from seqmodels.records import io as record
from seqmodels.utils import files


def test_a_record_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suffixes, replace = [], files.write

    def write(path: Path, content: str | bytes) -> Path:
        suffixes.append(path.name.removeprefix("gpt-seed1"))
        return replace(path, content)

    monkeypatch.setattr(files, "write", write)
    rows = [row | {"hyp": "a\u2028b"} for row in fake_rows(1, 0.5)]
    rows[0] |= {"hyp": "Bär"}
    saved = record.load(ROOT / "results" / "translation-grammar" / "gpt-seed1.json")
    saved["tests"][0] |= {"primary_metric": "nats"}
    path = tmp_path / "gpt-seed1.json"
    record.save(path, saved, rows)
    assert record.load(path) == saved
    lines = path.with_suffix(".jsonl").read_text(encoding="utf-8").split("\n")
    assert [json.loads(line)["hyp"] for line in lines[:2]] == ["Bär", "a\u2028b"]
    assert "Bär" in lines[0]
    assert suffixes == [".jsonl", ".sums.json.gz", ".json"]
    path.write_text('{"schema": "seqmodels.record/3"}')
    with pytest.raises(ValueError, match=r"'seqmodels\.record/3'"):
        record.load(path)


def test_a_commit_is_the_clones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    copy = tmp_path / "venv" / "record.py"
    copy.parent.mkdir()
    copy.write_text("")
    monkeypatch.setattr(record, "__file__", str(copy))
    commit = record.read_commit.__wrapped__  # without the cache
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

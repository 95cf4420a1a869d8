"""The commands of the lesson: users' mistakes, folders of folders, and what they need."""

import subprocess
import sys
from pathlib import Path

import pytest
from browser import data_of
from conftest import RESULTS, ROOT, Call, check_one_line, copy_records

from seqmodels.cli import main

CALLS = [
    ("report @ @ --out @/a.html", "twice"),
    ("report @/two @ --out @/a.html", "/two"),
    ("site --runs @/two --out @/site", "/two"),
    ("site --runs @ --out @/notes.md", "notes.md"),
    (f"site --runs {RESULTS / 'recall'} --out @", "empty folder"),
]


@pytest.mark.parametrize(("flags", "word"), CALLS, ids=lambda value: str(value)[:40])
def test_a_mistake_gets_one_line(flags: str, word: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    for name in ("notes.md", "index.html"):
        (tmp_path / name).write_text("my notes on `seqmodels`\n")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    result = call(main, *flags.replace("@", str(tmp_path)).split(" "))
    check_one_line(result, word)
    assert result[1] == ""
    assert before.items() <= {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}.items()


@pytest.mark.slow
def test_a_report_of_a_folder_of_folders(call: Call, tmp_path: Path) -> None:
    for name, model in (("b", "gpt"), ("a", "transformer")):
        copy_records(RESULTS / "recall", tmp_path / name, model=model)
    assert call(main, "report", tmp_path, "--out", tmp_path / "r.html")[0] == 0
    assert [folder["name"] for folder in data_of(tmp_path / "r.html")["folders"]] == ["a", "b"]


def test_the_report_needs_no_torch() -> None:
    program = "import sys; sys.modules['torch'] = None; from lesson import report"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)

"""Budgets: the lines of each part, its flags and names, and what a run passes on its way."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from seqmodels.cli.main import COMMANDS
from seqmodels.models import FIVE
from seqmodels.models.variants.table import CLASSES

CODE, WEB, PAGES = (".py",), (".js", ".css", ".html"), (".md",)
LINES: dict[str, tuple[int, tuple[str, ...], tuple[str, ...]]] = {
    "core": (12_500, ("seqmodels",), CODE),
    "tasks": (6_370, ("tasks",), CODE),
    "lesson": (2_900, ("lesson",), CODE),
    "lesson, web": (2_600, ("lesson",), WEB),
    "tools and benchmarks": (1_200, ("tools", "benchmarks"), CODE),
    "tests": (12_800, ("tests",), (*CODE, ".js")),
    "pages": (3_300, (".",), PAGES),
}
"""The most lines of each part, its folders, and the endings of its files."""
N_FLAGS, N_COMMANDS, N_VARIANTS, N_README, N_WHERE = 24, 11, 30, 120, 15
JOINTS = {"run": 19, "functions": 329, "files": 44}
"""The most files that a run enters beside the models, and functions and files of a command."""


def tracked_files() -> list[Path]:
    """Return the files of the repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a clone")
    return [ROOT / name for name in listed.stdout.split("\0") if (ROOT / name).is_file()]


def count_lines(folders: tuple[str, ...], endings: tuple[str, ...]) -> int:
    """Return the lines of the repository's files below some folders; figures' tables are none."""
    paths = [path for path in tracked_files() if path.suffix in endings]
    paths = [p for p in paths if any(p.is_relative_to(ROOT / folder) for folder in folders)]
    paths = [p for p in paths if p.name != "tables.md" and "benchmarks/results" not in str(p)]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


@pytest.mark.parametrize("part", LINES)
def test_each_part_keeps_its_budget_of_lines(part: str) -> None:
    most, folders, endings = LINES[part]
    assert count_lines(folders, endings) <= most


def test_few_commands_flags_and_names() -> None:
    from tasks.translation.__main__ import PARSER

    assert len(COMMANDS) <= N_COMMANDS
    flags = PARSER.format_help().split("\noptions:")[1]
    assert sum(line.startswith("  --") for line in flags.splitlines()) <= N_FLAGS
    assert len(CLASSES) <= N_VARIANTS
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= N_README
    rows = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Where")[2]
    assert sum(line.startswith("| ") for line in rows.splitlines()) - 2 <= N_WHERE


@pytest.fixture(scope="module")
def own_run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what a run of the Transformer on two files of one's own calls and imports."""
    folder, draw = tmp_path_factory.mktemp("own"), random.Random(3)
    for side in ("de", "en"):
        lines = [" ".join(draw.choices("abcdefgh", k=draw.randint(2, 9))) for _ in range(150)]
        text = "".join(f"{line} {side}{i}\n" for i, line in enumerate(lines))
        (folder / f"own.{side}").write_text(text, encoding="utf-8")
    command = [sys.executable, "tests/traced.py", "tasks.translation", "--size", "smoke", "--data"]
    command += [str(folder / "own.de"), str(folder / "own.en"), "--models", "transformer"]
    command += ["--tokens", "500", "--out", str(folder / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def test_a_run_passes_few_functions_in_few_files(own_run: dict[str, Any]) -> None:
    run = [name for name in own_run["run"] if not name.startswith("seqmodels/models/")]
    found = {"run": len(run), "functions": own_run["functions"], "files": len(own_run["files"])}
    assert {name: n for name, n in found.items() if n > JOINTS[name]} == {}, own_run


def test_a_run_imports_only_what_it_trains(own_run: dict[str, Any]) -> None:
    modules = set(own_run["modules"])
    chapters = {f"seqmodels.models.{name}" for name in FIVE} - {"seqmodels.models.transformer"}
    grammar = {f"tasks.synthetic.{name}" for name in ("grammar", "lexicon", "trees")}
    assert not modules & (chapters | grammar)

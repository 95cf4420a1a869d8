"""README and docs: short enough to be read, links that lead somewhere, commands that exist."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from cogapp import Cog

from benchmarks.__main__ import build_parser as benchmarks_parser
from seqmodels.cli.main import build_parser

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [README, *DOCS, *sorted(ROOT.glob("*/README.md")), *sorted(ROOT.glob("tasks/*/README.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

each_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


# ------------------------------------------------------------------------------------------ Links


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings."""
    heads = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@each_page
def test_links_lead_somewhere(path: Path) -> None:
    """Keeps out a link to a file that has moved, or to a heading that has another name."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        there = path.parent / name if name else path
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_every_page_is_found_from_the_readme() -> None:
    """Keeps out a page that no link leads to."""
    text = README.read_text(encoding="utf-8")
    assert all(f"(docs/{path.name})" in text for path in DOCS)


@pytest.mark.slow
def test_a_model_of_ones_own_is_compared(tmp_path: Path) -> None:
    """Keeps out a tutorial whose files do not run, or whose model no table shows."""
    text = (ROOT / "docs" / "your-model.md").read_text(encoding="utf-8")
    model, program = (block for kind, block in FENCE.findall(text) if kind == "python")
    (tmp_path / "bag.py").write_text(model, encoding="utf-8")
    (tmp_path / "compare.py").write_text(program, encoding="utf-8")
    (command,) = [words for words in commands(ROOT / "docs" / "your-model.md") if words]
    argv = [sys.executable, *command[1:], "--tokens", "600"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = {path.name for path in (tmp_path / "runs" / "bag").glob("*-seed1.json")}
    assert made == {"bag-seed1.json", "rnn_encdec-seed1.json", "bahdanau-seed1.json"}
    row = next(line for line in done.stdout.splitlines() if line.startswith("Bag of words"))
    assert len(row.split()) > 4


# --------------------------------------------------------------------------------------- Commands


def commands(path: Path) -> Iterator[list[str]]:
    """Yield the words of each command in a page's sh blocks."""
    for kind, block in FENCE.findall(path.read_text(encoding="utf-8")):
        if kind == "sh":
            for line in block.replace("\\\n", " ").splitlines():
                lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
                lexer.whitespace_split = True
                words: list[str] = []
                for word in [*lexer, "&&"]:
                    if word in ("&&", "|"):
                        yield words
                        words = []
                    else:
                        words.append(word)


def parse_module(name: str, argv: list[str]) -> None:
    """Give the arguments of `python -m NAME` to its parser; exit where it refuses them."""
    if name.startswith("tasks."):
        import_module(f"{name}.__main__").PARSER.parse_args(argv)
    elif name == "benchmarks":
        benchmarks_parser().parse_args(argv)
    elif name == "tasks":
        own = {"--corpora", "--out"} | flags_of(ROOT / "tasks" / "__main__.py")
        assert {word for word in argv if word.startswith("--")} <= own
    else:
        path = ROOT / f"{name.replace('.', '/')}.py"
        path = path if path.exists() else path.with_suffix("") / "__main__.py"
        assert {word for word in argv if word.startswith("--")} <= flags_of(path)


def flags_of(path: Path) -> set[str]:
    """Return the flags that a program defines."""
    calls = [n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Call)]
    names = [call.args[0] for call in calls if call.args]
    found = {name.value for name in names if isinstance(name, ast.Constant)}
    return {name for name in found if isinstance(name, str) and name.startswith("--")}


def check(words: list[str], project: dict[str, Any]) -> None:
    """Check that a command of ours parses, and that the files and extras it names exist."""
    while "=" in words[0]:  # a variable for the command
        words = words[1:]
    match words:
        case ["python", "-m", module, *argv]:
            parse_module(module, argv)
        case ["seqmodels", *argv]:
            made = str(ROOT / "results")  # in place of a folder that the reader has made
            build_parser().parse_args([made if w.startswith("runs/") else w for w in argv])
        case ["pip", "install", *rest]:
            for extras in re.findall(r"\.\[([\w,]+)\]", " ".join(rest)):
                assert set(extras.split(",")) <= project["optional-dependencies"].keys()
            assert not {word for word in rest if word.endswith(".lock")} - {"requirements.lock"}
        case ["git", "diff", *rest]:
            assert all((ROOT / word).exists() for word in rest if not word.startswith("-"))
        case ["python", "compare.py", *_]:
            pass  # the tutorial's own file, which has its own test
        case ["python", script, *_]:
            assert (ROOT / script).exists()
        case [program, *_]:
            assert program in {
                "python3", ".", "pytest", "ruff", "mypy", "pre-commit", "uv", "echo", ".ci/run",
            }  # fmt: skip


@each_page
def test_commands_are_parsed_by_their_programs(path: Path) -> None:
    """Keeps out a command that cannot be pasted: a flag, an extra, a file that no longer exists."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for words in commands(path):
        check(words, project)


# ----------------------------------------------------------------------------------- What is said


def test_numbers_are_those_of_the_records() -> None:
    """Keeps out a number on a page that the committed records do not hold, or no longer."""
    pages = [str(README), str(ROOT / "docs" / "results.md")]
    assert Cog().main(["cog", "-P", "--check", "-I", str(ROOT), *pages]) == 0


def test_the_citation_names_the_software_and_the_papers() -> None:
    """Keeps out a citation of another version, and a paper that is taught and not credited."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cited["cff-version"] == "1.2.0"
    assert (cited["version"], cited["license"]) == (project["version"], project["license"])
    assert cited["authors"][0]["name"] in (ROOT / "LICENSE").read_text("utf-8")
    table = README.read_text(encoding="utf-8").partition("## The five models")[2]
    papers = re.findall(r"\]\((https://(?:arxiv|cdn)[^)]+)\)", table.partition("\n## ")[0])
    assert [paper["url"] for paper in cited["references"]] == papers

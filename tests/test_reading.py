"""Reading: comparable chapters, few arrows, links, commands that exist, a size that stays small."""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from conftest import ROOT

from seqmodels.cli.main import build_parser
from seqmodels.models import FIVE, PAPERS
from seqmodels.records.io import load as load_record
from tools import diffs

CHAPTERS = [ROOT / "seqmodels" / "models" / f"{name}.py" for name in PAPERS]
LIBRARY = sorted((ROOT / "seqmodels").rglob("*.py"))
TASKS = sorted((ROOT / "tasks").rglob("*.py"))
LESSON = sorted((ROOT / "lesson").rglob("*.py"))
PROGRAMS = [*LIBRARY, *TASKS, *LESSON, *sorted((ROOT / "benchmarks").rglob("*.py"))]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_of(path: Path) -> str:
    """Return the name under which a file is imported."""
    return name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


MODULES = {module_of(path): path for path in PROGRAMS}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the modules that a file names, wherever in the file it does."""
    found = set()
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(parts if node.level else []), *filter(None, [node.module])])
            inner = {f"{base}.{alias.name}" for alias in node.names} & MODULES.keys()
            found |= inner or {base}
    return frozenset(found)


def tops(names: frozenset[str] | set[str]) -> set[str]:
    """Return the packages of modules."""
    return {name.partition(".")[0] for name in names}


# ---------------------------------------------------------------------------------------- Chapters
@pytest.mark.parametrize("pair", diffs.PAIRS, ids="-".join)
def test_each_changed_line_has_its_equation_or_is_plumbing(pair: tuple[str, str]) -> None:
    rows = diffs.tagged(*pair)
    assert [line for _, line in rows] == diffs.diff(*pair), "run python -m tools.diffs"
    tags = [tag for tag, _ in rows]
    head = diffs.path_of(*pair).read_text(encoding="utf-8").splitlines()[0]
    assert head.endswith(f"{len(tags)} changed lines, {tags.count('plumbing')} plumbing")


# ------------------------------------------------------------------------------------------ Arrows
ROOMS = [
    "utils", "interface", "models", "search", "contract", "data", "evaluation", "records",
    "training", "inference", "experiments", "report", "comparison", "cli",
]  # fmt: skip
"""From the ground up: a room knows those before it."""


def room_of(module: str) -> str:
    """Return the sub-package of a module of the library, or the module on the top level."""
    return module.split(".")[1] if "." in module else ""


def test_packages_import_only_those_below_them() -> None:
    for path in LIBRARY:
        above = {"tasks", "lesson", "tests", "results", "benchmarks"}
        assert not tops(imports(path)) & above, path
        is_command = room_of(module_of(path)) == "cli"
        assert is_command or '"lesson.' not in path.read_text(encoding="utf-8"), path
        if room := room_of(module_of(path)):
            below = ROOMS[: ROOMS.index(room) + 1]
            ours = {name for name in imports(path) if tops({name}) == {"seqmodels"}}
            assert {room_of(name) for name in ours} <= {*below, ""}, path


def test_tasks_and_lesson_do_not_import_each_other() -> None:
    for path in TASKS:
        assert "lesson" not in tops(imports(path)), path
    for path in LESSON:
        assert not tops(imports(path)) & {"tasks", "tests", "results", "benchmarks"}, path


def test_figures_help_and_the_report_need_no_torch() -> None:
    tasks = [path.parent.name for path in sorted(ROOT.glob("tasks/*/figure.py"))]
    program = (
        "import sys; sys.modules['torch'] = None; from seqmodels.report import figures; "
        "from seqmodels.cli.main import build_parser; import tasks.flags; build_parser(); "
        f"assert all(figures.drawings_of(task, 'FIGURES') for task in {tasks}); "
    ) + "from lesson import report" * bool(LESSON)
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


# -------------------------------------------------------------------------------------------- Pages
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [README, *DOCS, *sorted(ROOT.glob("*/README.md")), *sorted(ROOT.glob("tasks/*/README.md"))]
if not LESSON:  # it can be deleted, with tests/lesson
    PAGES = [page for page in PAGES if "../lesson/" not in page.read_text(encoding="utf-8")]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

each_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings."""
    heads = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@each_page
def test_links_lead_to_a_file_and_a_heading(path: Path) -> None:
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\((?!https?://|\.\./\.\./actions)([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        there = path.parent / name if name else path
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


@pytest.mark.slow
def test_the_wheel_trains_what_a_clone_trains(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="77")
    copy = tmp_path / "clone"
    left_out = shutil.ignore_patterns(".*", "runs", "__pycache__", "*.egg-info", "build")
    shutil.copytree(ROOT, copy, ignore=left_out)
    program = "from setuptools import build_meta; build_meta.build_wheel('..')"
    subprocess.run([sys.executable, "-c", program], cwd=copy, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    packages = {top for top in tops if not top.endswith(".dist-info")}
    assert packages == {"seqmodels", "tasks", "lesson"}
    expected = {name_of(path) for path in (*LIBRARY, *TASKS, *LESSON)}
    assert {name for name in names if name.endswith(".py")} == expected
    kept = {name.rpartition("/")[2] for name in names if "/results/translation-live/" in name}
    live = {path.stem for path in (ROOT / "results/translation-live").glob("*-seed1.json")}
    assert {*FIVE} <= {name.partition("-")[0] for name in live}
    kinds = {f"{name}.{kind}" for name in live for kind in ("json", "safetensors")}
    assert kept == kinds | {"vocabulary.json", "significance.json", "opening.json"}
    zipfile.ZipFile(wheel).extractall(site := tmp_path / "site")
    chapter = (ROOT / "seqmodels" / "models" / "lstm_seq2seq.py").read_text(encoding="utf-8")
    (tmp_path / "mine.py").write_text(chapter.replace("class LSTMSeq2Seq(", "class Mine("), "utf-8")
    flags = ["--size=smoke", "--tokens=200", "--precision=float32", "--device=cpu", "--models"]
    flags += ["gpt", f"{tmp_path / 'mine.py'}:Mine", "--out"]
    env = os.environ | {"OMP_NUM_THREADS": "2"}  # one process for each run

    def run(home: Path, *argv: object) -> str:
        command, its = [sys.executable, "-m", *map(str, argv)], {"PYTHONPATH": str(home)}
        done = subprocess.run(command, cwd=home, env=env | its, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(ROOT, "tasks.copy", *flags, tmp_path / "ours")
    task = "seqmodels.cli.main", "run", "copy"
    assert "Mine, seed 1: training on " in run(site, *task, *flags, tmp_path / "wheels")
    assert "2 runs" in run(site, *task, "--dry-run", *flags, tmp_path / "dry")
    for name in ("gpt-seed1.json", "Mine-seed1.json"):
        ours, theirs = (load_record(tmp_path / kind / name) for kind in ("ours", "wheels"))
        for key in ("task", "model", "data", "tests", "weights_sha256"):
            assert getattr(ours, key) == getattr(theirs, key), key


WITH_COMMANDS = [*PAGES, *ROOT.glob("tasks/*/*.py")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"].keys()


def flags_of(parser: argparse.ArgumentParser, name: str = "") -> set[str]:
    """Return the flags of a program, or of its subcommand; fail if there is none."""
    if name:
        (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        parser = commands.choices[name]
    return {flag for action in parser._actions for flag in action.option_strings}


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda path: str(path.relative_to(ROOT)))
def test_named_commands_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"seqmodels run \w+\.py", "python -m tasks.copy", text)  # has the same flags
    text = re.sub(r"seqmodels run (?=[a-z_]+\b)", "python -m tasks.", text)
    for task, given in re.findall(r"python -m (tasks\.[a-z_.\d]+)((?: +[^\s`#]+)*)", text):
        is_folder = (ROOT / task.replace(".", "/")).is_dir()
        module = import_module(f"{task}.__main__" if is_folder else task)
        if parser := getattr(module, "PARSER", None):
            assert {*re.findall(r"--[\w-]+", given)} <= flags_of(parser)
    for tool, given in re.findall(r"python -m ((?:tools|benchmarks)[\w.]*)([^`\n#]*)", text):
        program = ROOT / tool.replace(".", "/")
        path = program / "__main__.py" if program.is_dir() else program.with_suffix(".py")
        known = path.read_text(encoding="utf-8")
        assert {*re.findall(r"--[\w-]+", given)} <= {*re.findall(r"--[\w-]+", known)}, tool
    for extras in re.findall(r"\.\[([\w,]+)\]", text):
        assert set(extras.split(",")) <= EXTRAS
    for script in re.findall(r"^python ([\w/]+/[\w/]+\.py)", text, re.MULTILINE):
        assert (ROOT / script).exists()
    for name, given in re.findall(r"(?:^|`) *seqmodels (\w[\w-]*)([^`\n#]*)", text, re.MULTILINE):
        assert {*re.findall(r"--[\w-]+", given)} <= flags_of(build_parser(), name)

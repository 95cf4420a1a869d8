"""The commands that pages and tasks name in their text exist, with their flags."""

import argparse
import re
from importlib import import_module
from pathlib import Path

import pytest

from seqmodels.cli.main import build_parser
from tasks.flags import TaskParser

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / "README.md", ROOT / "benchmarks" / "README.md", ROOT / "results" / "README.md"),
    *(*ROOT.glob("docs/*.md"), *ROOT.glob("tasks/*/*.py"), *ROOT.glob("tasks/*/README.md")),
]


def flags_of(parser: argparse.ArgumentParser, name: str = "") -> set[str]:
    """Return the flags of a program, or of its subcommand; fail if there is none."""
    if name:
        (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        parser = commands.choices[name]
    return {flag for action in parser._actions for flag in action.option_strings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_named_commands_exist(page: Path) -> None:
    """Keeps out a page that names a task, a subcommand or a flag that no longer exists."""
    text = page.read_text(encoding="utf-8")
    for task, given in re.findall(r"python -m (tasks\.[\w.]+)((?: +[^\s`#]+)*)", text):
        is_folder = (ROOT / task.replace(".", "/")).is_dir()
        module = import_module(f"{task}.__main__" if is_folder else task)
        if parser := getattr(module, "PARSER", None):
            assert {*re.findall(r"--[\w-]+", given)} <= flags_of(parser)
    shared = " ".join(flags_of(TaskParser("tasks.x", "")))
    for tool, given in re.findall(r"python -m ((?:tools|benchmarks)[\w.]*)([^`\n#]*)", text):
        program = ROOT / tool.replace(".", "/")
        path = program / "__main__.py" if program.is_dir() else program.with_suffix(".py")
        known = path.read_text(encoding="utf-8") + shared * (tool == "tools.trials")
        assert {*re.findall(r"--[\w-]+", given)} <= {*re.findall(r"--[\w-]+", known)}, tool
    for name, given in re.findall(r"(?:^|`) *seqmodels (\w+)([^`\n#]*)", text, re.MULTILINE):
        assert {*re.findall(r"--[\w-]+", given)} <= flags_of(build_parser(), name)

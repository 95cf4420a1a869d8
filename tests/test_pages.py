"""The commands that pages and tasks name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import Call

from seqmodels.commands import main
from tasks import bottleneck, distance, heads, ladder, next_token, positions, recall, translation

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("tasks/*.py"))]
PROGRAMS = {"seqmodels": main, "recall": recall, "translation": translation}
PROGRAMS |= {"next_token": next_token, "positions": positions, "heads": heads, "ladder": ladder}
PROGRAMS |= {"distance": distance}
PROGRAMS |= {"bottleneck": bottleneck}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_commands_that_are_named_exist(page: Path, call: Call) -> None:
    """Keeps out a page that names a task, a subcommand or a flag that no longer exists."""
    text = page.read_text(encoding="utf-8")
    for task, rest in re.findall(r"python -m tasks\.(\w+)((?: +[^\s`#]+)*)", text):
        program = PROGRAMS.get(task)
        if program is None:  # a maker of data that can be run by itself
            assert (ROOT / "tasks" / f"{task}.py").exists()
            continue
        help_text = call(program, "--help")[1]
        assert {flag for flag in re.findall(r"--[\w-]+", rest) if flag not in help_text} == set()
    for name, rest in re.findall(r"(?:^|`) *seqmodels (\w+)([^`\n#]*)", text, re.MULTILINE):
        code, help_text, _ = call(main, name, "--help")
        assert code == 0, name
        assert {flag for flag in re.findall(r"--[\w-]+", rest) if flag not in help_text} == set()

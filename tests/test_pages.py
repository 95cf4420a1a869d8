"""The commands that pages and tasks name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import Call

from seqmodels.cli import main
from tasks.bottleneck import __main__ as bottleneck
from tasks.distance import __main__ as distance
from tasks.heads import __main__ as heads
from tasks.ladder import __main__ as ladder
from tasks.next_token import __main__ as next_token
from tasks.positions import __main__ as positions
from tasks.recall import __main__ as recall
from tasks.translation import __main__ as translation

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
            assert (ROOT / "tasks" / task / "__main__.py").exists()
            continue
        help_text = call(program, "--help")[1]
        assert {flag for flag in re.findall(r"--[\w-]+", rest) if flag not in help_text} == set()
    for name, rest in re.findall(r"(?:^|`) *seqmodels (\w+)([^`\n#]*)", text, re.MULTILINE):
        code, help_text, _ = call(main, name, "--help")
        assert code == 0, name
        assert {flag for flag in re.findall(r"--[\w-]+", rest) if flag not in help_text} == set()

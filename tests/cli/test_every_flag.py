"""Every flag of every command has its effect, and every default is the one that its help names."""

import argparse
import re
import shlex
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from conftest import Call, exit_code, needs_lesson, needs_tasks

from seqmodels.cli import check, main, pages

COMMANDS = main.build_parser()._subparsers._group_actions[0].choices
TASKS = "translation", "next_token", "copy", "memory", "bottleneck", "mistakes"
LONG = "Although the clever cat watched the small horses, the friendly dog had often disappeared "
TEXT = f"'{LONG}because a brave child arrived.'"
PENALISED = "Although Anna has seen them, some clever horses disappear because the small mouse "
PENALISED += "loves all cars although Felix often arrives."

# -------------------------------------------------------------------------------- What is printed
TRANSLATE = f"translate rnn_encdec {TEXT} --beam 4"
GENERATE = "generate gpt 'the cat' --length 20 --temperature 4"
PRINTED = [
    (TRANSLATE, "--beam 2"),
    (f"translate rnn_encdec '{PENALISED}' --beam 4", "--length-penalty 0"),
    *((GENERATE, f"--{name}") for name in
      ("length 5", "temperature 1", "top-k 2", "top-p 0.3", "seed 0")),
    ("models", "--all"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "flag"), PRINTED)
def test_a_flag_moves_what_is_printed(command: str, flag: str, call: Call) -> None:
    code, out, _ = call(main, *shlex.split(command))
    changed = call(main, *shlex.split(f"{command} {flag}"))
    assert (code, changed[0]) == (0, 0)
    assert changed[1] != out


# ------------------------------------------------------------------------- What the lesson is told
TOLD: dict[str, tuple[str, tuple[Any, ...]]] = {
    "site --out @/s": ("build", ("@/s", None, False, False)),
    "site --out @/s --live @": ("build", ("@/s", "@", False, False)),
    "site --out @/s --single-file": ("build", ("@/s", None, True, False)),
    "site --out @/s --train": ("build", ("@/s", None, False, True)),
    "live @ --out @/a.html": ("write", ("@", "@/a.html")),
    "report @ --out @/a.html": ("write", ("@", "@/a.html", 24)),
    "report @ --out @/a.html --maps 7": ("write", ("@", "@/a.html", 7)),
    "export gpt --out @/e": ("export", ("gpt", "@/e", False)),
    "export gpt --out @/e --half": ("export", ("gpt", "@/e", True)),
    "exercise --mistake --out @": ("plant_mistake", ("", "@")),
    "exercise --mistake pads --out @": ("plant_mistake", ("pads", "@")),
    "exercise gpt --hide '(5)' '(6)' --out @": ("write_exercise", ("gpt", ["(5)", "(6)"], "@")),
}


@pytest.mark.parametrize("command", TOLD)
def test_a_flag_is_told_to_the_lesson(
    command: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lesson = Mock()
    checked = SimpleNamespace(n_tokens=3, difference=0.2, attention_difference=0.1)
    lesson.export.return_value = [], checked
    lesson.build.return_value = ["index", "other"]
    for module in (pages, check):
        monkeypatch.setattr(module, "import_beside", lambda _: lesson)
    code, out, err = call(main, *shlex.split(command.replace("@", str(tmp_path))))
    assert code == 0, err
    function, told = TOLD[command]
    said = {"build": "index", "plant_mistake": "find the mis", "write_exercise": "write the lines"}
    said["export"] = "by at most 2e-01 of the largest, weights of attention by 1e-01"
    assert said.get(function, "") in " ".join(out.split())
    (given,) = (asked.args for asked in getattr(lesson, function).call_args_list)
    here = [x.replace("@", str(tmp_path)) if isinstance(x, str) else x for x in told]
    assert [str(x) if isinstance(x, Path) else x for x in given] == here


# ------------------------------------------------------------------------- What a corpus is told
PAIRS, ROWS = "tasks.translation.corpus.open_pairs", "seqmodels.data.text.open_text"
OPENED: list[tuple[str, str, tuple[Any, ...]]] = [
    (PAIRS, "--data a b", (["a", "b"], (None, None), None)),
    (PAIRS, "--data a --source de --target en --limit 7", (["a"], ("de", "en"), 7)),
    (ROWS, "--data a --column c --limit 9", (["a"], "c", 9)),
]


@needs_tasks
@pytest.mark.parametrize(("function", "flags", "told"), OPENED)
def test_a_flag_is_told_to_the_corpus(
    function: str, flags: str, told: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Mock(side_effect=OSError("read no further"))
    monkeypatch.setattr("seqmodels.data.corpora.check_name", Mock())
    monkeypatch.setattr(function, opened)
    module = import_module(f"tasks.{'translation' if function == PAIRS else 'next_token'}.__main__")
    assert exit_code(monkeypatch, module, "--size", "smoke", *flags.split()) == 2
    assert opened.call_args.args == told


# ------------------------------------------------------------------------------- All of them
NOT_HERE = "--help --version --model --alignment"
"""The class of a run is in test_custom.py, drawings in test_cli.py."""


def test_no_flag_of_a_command_is_left_out() -> None:
    said = {*TOLD, *(f"{command} {flag}" for command, flag in PRINTED)}
    for name, parser in COMMANDS.items():
        own = " ".join([NOT_HERE, *(command for command in said if command.startswith(name))])
        assert [flag for flag in parser._option_string_actions if flag not in own] == [], name


def defaults(parser: argparse.ArgumentParser) -> list[tuple[argparse.Action, str]]:
    """Return what the help of each flag names as its default, up to a sign."""
    named = [(a, re.search(r"default: ([^;)]+)", a.help or "")) for a in parser._actions]
    return [(action, found[1]) for action, found in named if found]


CHOSEN = ["--tokenizer", "--context", "--out", "--mistake", "--block", "--column"]
"""Flags without a value until a task or a command has chosen it."""


@needs_lesson
@needs_tasks
def test_a_default_is_the_one_that_its_help_names() -> None:
    tasks = {name: import_module(f"tasks.{name}.__main__").PARSER for name in TASKS}
    for name, parser in (COMMANDS | tasks).items():
        for action, text in defaults(parser):
            default = action.default
            if action.dest == "models":
                default = parser.parse_args([]).models
            elif default is None:
                assert action.option_strings[0] in CHOSEN, (name, action.option_strings)
                continue
            values = default if isinstance(default, list | tuple) else [default]
            shown = ", ".join(f"{x:g}" if isinstance(x, float) else str(x) for x in values)
            assert re.match(rf"{re.escape(shown)}(,|$)", text), (name, action.option_strings)
    assert len(import_module("lesson.exercise").MISTAKES) == 8  # of which any is planted

"""Exercises: every equation of every chapter can be hidden, and a mistake is found at its line."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from itertools import count
from pathlib import Path

import pytest
import torch
from conftest import ROOT, Call, Pairs, Tiny, check_one_line
from torch.testing import assert_close

from lesson.exercise import (
    MISTAKES,
    TOLERANCE,
    check_exercise,
    compare,
    find_places,
    find_tags,
    plant_mistake,
    write_exercise,
)
from lesson.source import read_chapter
from seqmodels.cli import main
from seqmodels.models import PAPERS, import_class
from seqmodels.models.transformer import Config


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Path]:
    """Return folders, each another one: a file is imported once."""
    return (tmp_path / str(i) for i in count())


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in PAPERS if name != "gpt"]


@pytest.mark.parametrize("name", ["gpt", *SLOW])
def test_a_mistake_is_found_where_it_is(name: str, folders: Iterator[Path]) -> None:
    chapter = read_chapter(name)
    text = chapter.path.read_text(encoding="utf-8")
    tags = find_tags(text, chapter.own_class)
    assert len(tags) >= 3
    lines = text.split("\n")
    for number, (unit, tag) in tags.items():
        (folder := next(folders)).mkdir()
        fault = check_exercise(write_exercise(name, [tag], folder))
        assert fault.endswith(f", {tag}: not written yet."), fault
        head, _, comment = lines[number - 1].partition("  # ")
        if not re.match(r"\s*(return|\w+ =)", head) or "State(" in head or ", " in head:
            continue  # what is not one value
        left, value = re.match(r"(\s*(?:return|\w+ =) )(.*)", head).groups()
        (folder := next(folders)).mkdir()
        changed = [*lines[: number - 1], f"{left}2 * ({value})  # {comment}", *lines[number:]]
        (folder / f"{name}.py").write_text("\n".join(changed), encoding="utf-8")
        assert check_exercise(folder / f"{name}.py").startswith(f"{unit}, {tag}: ")
    (folder := next(folders)).mkdir()
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    assert check_exercise(folder / f"{name}.py") == ""


def test_the_exercises_of_the_teaching_page_are_written(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
    found = re.findall(r"\| `(\w+)` \| `--hide ([^`]*)` \|", page)
    assert [name for name, _ in found] == [*PAPERS]
    for name, tags in found:
        write_exercise(name, shlex.split(tags), tmp_path)


def test_an_exercise_hides_the_solution_and_keeps_files(tmp_path: Path, call: Call) -> None:
    argv = "exercise", "bahdanau", "--out", tmp_path / "week3", "--hide"
    check_one_line(call(main, *argv, "(99)"), "(99)")
    assert not any(tmp_path.iterdir())
    code, out, _ = call(main, *argv, "(5)", "(6)")
    path = tmp_path / "week3" / "bahdanau.py"
    assert (code, str(path) in out) == (0, True)
    text = path.read_text(encoding="utf-8")
    assert ".softmax(-1)" not in text
    assert text.count("NotImplementedError") == 2
    assert r"# \alpha_{ij} = \exp(e_{ij})" in text.partition("(6): return")[0]
    check_one_line(call(main, *argv, "(5)"), "exists")
    check_one_line(call(main, "check", path), "Attention.forward, (5): not written yet")
    path.write_text(re.sub(r"#  \(6\)", "", text))
    check_one_line(call(main, "check", path), "(6)")
    right = read_chapter("bahdanau").path.read_text(encoding="utf-8")
    for wrong, reason in (
        (right.replace("attention(state)", "attention()"), "TypeError"),
        ("x = (", "line 1"),
    ):
        other = tmp_path / reason / "bahdanau.py"  # a file is imported once
        other.parent.mkdir()
        other.write_text(wrong, encoding="utf-8")
        check_one_line(call(main, "check", other), reason)
    path.rename(tmp_path / "essay.py")
    check_one_line(call(main, "check", tmp_path / "essay.py"), "Bahdanau")
    (tmp_path / "gpt.py").touch()
    check_one_line(call(main, "check", tmp_path / "gpt.py"), "no model")


def test_a_trace_differs_above_the_tolerance() -> None:
    """And where it is no number, or another text, shape or line; the first difference counts."""
    right = torch.tensor([0.0, 1.0]).double()
    expected = [("f, (1)", [right, "text"]), ("g, (2)", [right])]
    least = torch.tensor([TOLERANCE, 0.0]).double()
    assert compare([("f, (1)", [right + least, "text"]), ("g, (2)", [right])], expected) == ""
    for found, fault in (
        ([right + 2 * least, "text"], "differs by up to 2e-06, in 1 of 2 numbers."),
        ([right * torch.nan, "text"], "differs by up to inf, everywhere."),
        ([right[:1], "text"], "has the shape (1,); (2,) is right."),
        ([right], "is something else than it should be."),
    ):
        assert compare([("f, (1)", found), ("g, (2)", [right * 3])], expected) == f"f, (1): {fault}"
    assert compare([("g, (2)", [right])], expected) == "f, (1): is not computed where it should be."


def test_a_difference_is_said_to_be_where_it_is() -> None:
    differs = torch.zeros(3, 2, 5, dtype=torch.bool)
    differs[1, 0, 3] = True
    assert find_places(differs, 1) == "at pads alone"  # the second source has two tokens
    differs[2, 1, 0] = True
    assert find_places(differs, 1) == "only for sources with pads"
    differs[0, 0, 0] = True
    assert find_places(differs, 1) == "in 3 of 30 numbers"
    assert find_places(~torch.zeros(4, 2).bool(), 1) == "everywhere"
    assert find_places(differs, 2) == "but not when it first runs"


PLANTED = dict.fromkeys(MISTAKES, "(1)") | {"no_output": "3.2.2", "no_causal_mask": "3.2.3"}
"""The equation that a mistake is in."""


def mend(text: str, mistake: str) -> str:
    """Return the chapter's own text where a mistake is: in all places, or in the last one."""
    right, wrong = MISTAKES[mistake]
    n_places = 1 if mistake == "one_projection" else -1  # keys have it as well
    right, wrong = (right, wrong) if wrong else (f"q @ k.mT{right}", "q @ k.mT")
    return right.join(text.rsplit(wrong, n_places))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found_until_it_is_mended(
    mistake: str, folders: Iterator[Path]
) -> None:
    (folder := next(folders)).mkdir()
    path = plant_mistake(mistake, folder)
    text = path.read_text(encoding="utf-8")
    assert f", {PLANTED[mistake]}: " in check_exercise(path)
    assert mistake not in text
    own = read_chapter("transformer").path.read_text(encoding="utf-8")
    assert mend(text, mistake) == own
    if mistake == "unscaled":
        for changed in (own, text.replace("q @ k.mT", "q @ k.mT / 32**0.5")):
            assert changed != text
            (folder := next(folders)).mkdir()
            (folder / "transformer.py").write_text(changed, encoding="utf-8")
            fault = check_exercise(folder / "transformer.py")
            assert fault == "" if changed == own else ", (1): " in fault


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_the_one_that_is_trained(
    mistake: str, tmp_path: Path, tiny: Tiny, pairs: Pairs
) -> None:
    path = plant_mistake(mistake, tmp_path)
    variant = tiny(f"transformer_{mistake}")
    sizes = {f.name: getattr(variant.config, f.name) for f in fields(Config)}
    planted = import_class(f"{path}:Transformer")(Config(**sizes)).double().eval()
    weights = variant.state_dict()
    planted.load_state_dict(weights, strict=False)
    if mistake == "one_projection":  # there, queries are computed as keys, here keys as queries
        shared = {name.replace("W_q", "W_k"): w for name, w in weights.items() if "W_q" in name}
        planted.load_state_dict(shared, strict=False)
    assert_close(planted(*pairs), variant(*pairs))


def test_any_mistake_is_planted_without_its_name(tmp_path: Path, call: Call) -> None:
    out = tmp_path / "week4"
    code, said, _ = call(main, "exercise", "--mistake", "--out", out)
    assert (code, any(name in said for name in MISTAKES)) == (0, False)
    result = call(main, "check", out / "transformer.py")
    assert any(f", {equation}: " in result[2] for equation in PLANTED.values())
    for wrong in (["--mistake"], ["--mistake", "no_tea"], ["gpt", "--mistake"], ["gpt"]):
        check_one_line(call(main, "exercise", *wrong, "--out", out), "")

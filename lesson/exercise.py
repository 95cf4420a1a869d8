"""Exercises: a chapter without some of its equations, or with a mistake, and a check of both.

A line with the tag of an equation is taken out; who writes it keeps the tag on the line that
assigns, or returns, the result. The check runs both files on the same weights and sources, and
compares what the tagged lines compute, in the order in which they run: the first difference is
where a mistake is, not where it is seen later. What the model returns is compared last.
"""

from __future__ import annotations

import ast
import random
from collections import Counter
from dataclasses import fields
from functools import cache
from itertools import zip_longest
from pathlib import Path
from traceback import extract_tb
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lesson.source import read_chapter, split_into_units
from lesson.trace import Named, run_everything, watch_lines
from seqmodels.contract import SIZES, V
from seqmodels.interface import BOS
from seqmodels.models import PAPERS
from seqmodels.utils import files
from seqmodels.utils.imports import import_class

TOLERANCE = 1e-6
"""Largest difference, in float64, of what an equation computes."""
MASKED = "score.masked_fill(~mask, -torch.inf)"
MISTAKES = {
    "score_mask": (f"{MASKED}.softmax(-1)", "(score * mask).softmax(-1)"),
    "weight_mask": (f"{MASKED}.softmax(-1)", "score.softmax(-1) * mask"),
    "finite_mask": (MASKED, "score.masked_fill(~mask, -10.0)"),
    "wrong_axis": (f"{MASKED}.softmax(-1)", f"{MASKED}.softmax(-2).masked_fill(~mask, 0.0)"),
    "unscaled": (" / q.shape[-1] ** 0.5", ""),
    "one_projection": ("self.W_q(x)", "self.W_k(x)"),
    "no_output": ("self.W_o(heads.transpose(1, 2).flatten(2))", "heads.transpose(1, 2).flatten(2)"),
    "no_causal_mask": ("position <= position.unsqueeze(1)", "position <= position.max()"),
}
"""Mistakes of tasks.mistakes: what is replaced in the Transformer's chapter, and by what."""
UNFUSED = "is_fused = True", "is_fused = False"
"""Lets the chapter train by its equations, which the mistakes are in."""


class Tag(NamedTuple):
    """A tagged line: its unit, its tag, and how many lines of this unit and tag are above it."""

    unit: str
    tag: str
    n: int


def find_tags(text: str, own_class: str) -> dict[int, Tag]:
    """Return the tagged lines of a program by their numbers."""
    tags: dict[int, Tag] = {}
    seen: Counter[tuple[str, str]] = Counter()
    for unit in split_into_units(text, own_class):
        for line in unit.lines:
            if line.tag:
                tags[line.number] = Tag(unit.name, line.tag, seen[unit.name, line.tag])
                seen[unit.name, line.tag] += 1
    return tags


def write_exercise(name: str, hidden: list[str], folder: Path) -> Path:
    """Write a chapter without the lines of some tags to a folder; return the path.

    Raises ValueError for a tag that the chapter does not have, where the file exists, and for a
    folder that is not ours.
    """
    chapter = read_chapter(name)
    text = chapter.path.read_text(encoding="utf-8")
    tags = find_tags(text, chapter.own_class)
    known = dict.fromkeys(tag.tag for tag in tags.values())
    if missing := [tag for tag in hidden if tag not in known]:
        raise ValueError(f"{name} has no {missing[0]!r}; it has {'; '.join(known)}")
    lines = text.split("\n")
    for number, tag in tags.items():
        if tag.tag in hidden:
            line = lines[number - 1]
            statement = ast.parse(line.strip()).body[0]
            start = line[: len(line) - len(line.lstrip())]
            kinds = {ast.Return: "return", ast.Expr: "call"}
            what = kinds.get(type(statement), line.split("=")[0].strip())
            todo = f'{start}raise NotImplementedError("{tag.tag}: {what} …")'
            lines[number - 1] = f"{todo}  #  {tag.tag}"
    return write_new(folder / f"{name}.py", "\n".join(lines))


def plant_mistake(mistake: str, folder: Path) -> Path:
    """Write the Transformer's chapter with one of MISTAKES to a folder; return the path.

    An empty name is any of them. Raises ValueError for an unknown one, and where the file exists.
    """
    if mistake and mistake not in MISTAKES:
        raise ValueError(f"there is no mistake {mistake!r}; choose from {', '.join(MISTAKES)}")
    text = read_chapter("transformer").path.read_text(encoding="utf-8")
    for old, new in (MISTAKES[mistake or random.choice([*MISTAKES])], UNFUSED):
        assert old in text
        text = text.replace(old, new)
    return write_new(folder / "transformer.py", text)


def write_new(path: Path, text: str) -> Path:
    """Write an exercise; raise ValueError if the file exists, or the folder is not ours."""
    if path.exists():
        raise ValueError(f"{path} exists; name another folder")
    return files.write(files.claim_folder(path.parent, "exercise") / path.name, text.encode())


def check_exercise(path: Path) -> str:
    """Return what is wrong with a student's chapter, in a sentence; empty if nothing is.

    Raises ValueError for a file that cannot be imported.
    """
    chapter, (expected, weights) = read_chapter(path.stem), trace_chapter(path.stem)
    try:
        found = Trace(path, chapter.own_class)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}."
    if lost := [tag for tag in expected.tags.values() if tag not in found.tags.values()]:
        return f"{lost[0].unit} has no line with the tag {lost[0].tag}: keep it where it was."
    try:
        found.run(import_class(f"{path}:{chapter.own_class}"), weights)
    except Exception as error:  # the student's code is unknown
        return compare(found, expected) or explain(error, path, found.tags)
    return compare(found, expected)


@cache
def trace_chapter(name: str) -> tuple[Trace, Any]:
    """Return what a chapter computes, and the weights with which it does."""
    chapter = read_chapter(name)
    trace = Trace(chapter.path, chapter.own_class)
    return trace, trace.run(import_class(PAPERS[name].class_path))


def explain(error: Exception, path: Path, tags: dict[int, Tag]) -> str:
    """Return what an error says about a student's file, at an equation if it is one of those."""
    numbers = [
        f.lineno for f in extract_tb(error.__traceback__) if f.filename == str(path.resolve())
    ]
    tag = next((tags[n] for n in reversed(numbers) if n in tags), None)
    where = f"{tag.unit}, {tag.tag}" if tag else f"line {numbers[-1]}" if numbers else path.name
    if isinstance(error, NotImplementedError):
        return f"{where}: not written yet."
    return f"{where}: {type(error).__name__}: {error}"


class Trace:
    """What the tagged lines of a file compute, in the order in which they run."""

    def __init__(self, path: Path, own_class: str):
        self.path = str(path.resolve())
        self.tags = find_tags(path.read_text(encoding="utf-8"), own_class)
        self.values: list[tuple[Tag, list[Any]]] = []

    def run(self, model_type: Any, weights: Any = None) -> Any:
        """Build the model with these weights, run all it does, and return its weights."""
        torch.manual_seed(1)
        has = {field.name for field in fields(model_type.config_type)}
        chosen = {k: v for k, v in SIZES.items() if k in has}
        src_mask = torch.arange(5) < torch.tensor([5, 2, 4]).unsqueeze(1)
        src = torch.arange(4, 19).view(3, 5) % V * src_mask
        tgt_in = torch.tensor([[BOS, 9, 5, 7], [BOS, 6, 6, 8], [BOS, 20, 11, 4]])
        with watch_lines(self.path, self.tags, self.add):
            model = model_type(model_type.config_type(**chosen)).double().eval()
            for p in model.parameters():
                torch.nn.init.normal_(p, std=0.5)
            if weights:
                model.load_state_dict(weights)
            results = run_everything(model, src, src_mask, tgt_in)
        unit = model_type.__name__
        self.values += [(Tag(unit, name, 0), [result]) for name, result in results.items()]
        return model.state_dict()

    def add(self, number: int, named: Named) -> None:
        """Add copies of what a line computes."""
        copies = [p.detach().clone() if isinstance(p, Tensor) else repr(p) for _, p in named]
        self.values.append((self.tags[number], copies))


def compare(found: Trace, expected: Trace) -> str:
    """Return where two traces first differ, and by how much, in a sentence; empty if nowhere."""
    for (tag, values), (wanted_tag, wanted) in zip(found.values, expected.values, strict=False):
        if tag != wanted_tag:
            return f"{wanted_tag.unit}, {wanted_tag.tag}: is not computed where it should be."
        where = f"{tag.unit}, {tag.tag}"
        for value, right in zip_longest(values, wanted):
            if isinstance(value, Tensor) and isinstance(right, Tensor):
                if value.shape != right.shape:
                    shapes = tuple(value.shape), tuple(right.shape)
                    return f"{where}: has the shape {shapes[0]}; {shapes[1]} is right."
                gaps = (value.double() - right.double()).abs().nan_to_num(torch.inf)
                gap = max(gaps.flatten().tolist(), default=0.0)
                if gap > TOLERANCE:
                    return f"{where}: differs by up to {gap:.3g}."
            elif isinstance(right, Tensor) or value != right:
                return f"{where}: is something else than it should be."
    return ""

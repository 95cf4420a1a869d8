"""Exercises: a chapter without some of its equations, or with a mistake, and a check of both.

A line with the tag of an equation is taken out; who writes it keeps the tag on the line that
assigns, or returns, the result. The check runs both files on the same weights and sources, and
compares what the tagged lines compute, in the order in which they run, and at last what the model
returns: the first difference is where a mistake is, not where it is seen later.
"""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from itertools import zip_longest
from pathlib import Path
from traceback import extract_tb
from typing import Any

import torch
from torch import Tensor

from lesson.source import EQUATIONS, read_chapter, split_into_units
from lesson.trace import Named, run_everything, watch_lines
from seqmodels.contract import SIZES, V
from seqmodels.interface import BOS
from seqmodels.models import PAPERS, import_class
from seqmodels.utils import files

TOLERANCE = 1e-6
"""Largest difference, in float64, of what an equation computes."""
SRC_MASK = torch.arange(5) < torch.tensor([5, 2, 4]).unsqueeze(1)
"""Real tokens of the three sources of the check."""
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
Values = list[tuple[str, list[Any]]]
"""What the tagged lines of a file compute, in the order in which they run, by their labels."""


@cache
def find_tags(text: str, own_class: str) -> dict[int, tuple[str, str]]:
    """Return unit and tag of the tagged lines of a program by their numbers."""
    units = split_into_units(text, own_class)
    return {line.number: (u.name, line.tag) for u in units for line in u.lines if line.tag}


def write_exercise(name: str, hidden: list[str], folder: Path) -> Path:
    """Write a chapter without the lines of some tags to a folder; return the path.

    The equation of each, in TeX, stands as a comment above the gap.
    Raises ValueError for a tag that the chapter does not have, where the file exists, and for a
    folder that is not ours.
    """
    chapter = read_chapter(name)
    text = chapter.path.read_text(encoding="utf-8")
    tags = find_tags(text, chapter.own_class)
    known = dict.fromkeys(tag for _, tag in tags.values())
    if missing := [tag for tag in hidden if tag not in known]:
        raise ValueError(f"{name} has no {missing[0]!r}; it has {'; '.join(known)}")
    lines = text.split("\n")
    for number, (unit, tag) in tags.items():
        if tag in hidden:
            entries = EQUATIONS[name][unit]
            line = lines[number - 1]
            statement = ast.parse(line.strip()).body[0]
            start = line[: len(line) - len(line.lstrip())]
            kinds = {ast.Return: "return", ast.Expr: "call"}
            what = kinds.get(type(statement), line.split("=")[0].strip())
            todo = f'{start}raise NotImplementedError("{tag}: {what} …")'
            tex = next(entry["tex"] for entry in entries if entry["tag"] == tag)
            above = "".join(f"{start}# {equation}\n" for equation in tex)
            lines[number - 1] = f"{above}{todo}  #  {tag}"
    return write_new(folder / f"{name}.py", "\n".join(lines))


def plant_mistake(mistake: str, folder: Path) -> Path:
    """Write the Transformer's chapter with one of MISTAKES to a folder; return the path.

    An empty name is any of them. Raises ValueError for an unknown one, and where the file exists.
    """
    if mistake and mistake not in MISTAKES:
        raise ValueError(f"there is no mistake {mistake!r}; choose from {', '.join(MISTAKES)}")
    text = read_chapter("transformer").path.read_text(encoding="utf-8")
    old, new = MISTAKES[mistake or random.choice([*MISTAKES])]
    assert old in text
    return write_new(folder / "transformer.py", text.replace(old, new))


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
        tags = find_tags(path.read_text(encoding="utf-8"), chapter.own_class)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}."
    own = find_tags(chapter.path.read_text(encoding="utf-8"), chapter.own_class)
    if lost := [*(Counter(own.values()) - Counter(tags.values()))]:
        return f"{lost[0][0]} has no line with the tag {lost[0][1]}: keep it where it was."
    found: Values = []
    try:
        trace(path, tags, import_class(f"{path}:{chapter.own_class}"), found, weights)
    except Exception as error:  # the student's code is unknown
        frames = extract_tb(error.__traceback__)
        numbers = [f.lineno for f in frames if f.filename == str(path.resolve())]
        tag = next((", ".join(tags[n]) for n in reversed(numbers) if n in tags), None)
        where = tag or (f"line {numbers[-1]}" if numbers else path.name)
        is_gap = isinstance(error, NotImplementedError)
        said = "not written yet." if is_gap else f"{type(error).__name__}: {error}"
        return compare(found, expected) or f"{where}: {said}"
    return compare(found, expected)


@cache
def trace_chapter(name: str) -> tuple[Values, Any]:
    """Return what a chapter computes, and the weights with which it does."""
    chapter, values = read_chapter(name), Values()
    tags = find_tags(chapter.path.read_text(encoding="utf-8"), chapter.own_class)
    return values, trace(chapter.path, tags, import_class(PAPERS[name].class_path), values)


def trace(
    path: Path, tags: Mapping[int, tuple[str, str]], model_type: Any, values: Values,
    weights: Any = None,
) -> Any:  # fmt: skip
    """Add what a file's tagged lines compute with these weights to values; return the weights."""
    torch.manual_seed(1)
    has = {field.name for field in fields(model_type.config_type)}
    chosen = {k: v for k, v in SIZES.items() if k in has}
    src = torch.arange(4, 19).view(3, 5) % V * SRC_MASK
    tgt_in = torch.tensor([[BOS, 9, 5, 7], [BOS, 6, 6, 8], [BOS, 20, 11, 4]])

    def observe(number: int, named: Named) -> None:
        copies = [p.detach().clone() if isinstance(p, Tensor) else repr(p) for _, p in named]
        values.append((", ".join(tags[number]), copies))

    with watch_lines(str(path.resolve()), tags, observe):
        model = model_type(model_type.config_type(**chosen)).double().eval()
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.5)
        if weights:
            model.load_state_dict(weights)
        results = run_everything(model, src, SRC_MASK, tgt_in)
    values += [(f"{model_type.__name__}, {name}", [result]) for name, result in results.items()]
    return model.state_dict()


def find_places(differs: Tensor, run: int) -> str:
    """Return where values differ: at pads alone, everywhere, in a part, or not in the first run."""
    if run > 1:
        return "but not when it first runs"
    if differs.shape[:1] == SRC_MASK.shape[:1]:
        if SRC_MASK.shape[1] in differs.shape[1:]:
            place = differs.shape.index(SRC_MASK.shape[1], 1)
            others = [i for i in range(1, differs.ndim) if i != place]
            if not ((differs.sum(others) if others else differs) * SRC_MASK).any():
                return "at pads alone"
        if not differs[0].any():
            return "only for sources with pads"
    n = int(differs.sum())
    return "everywhere" if differs.all() else f"in {n} of {differs.numel()} numbers"


def compare(found: Values, expected: Values) -> str:
    """Return where two traces first differ, and by how much, in a sentence; empty if nowhere."""
    runs = Counter[str]()
    for (where, values), (wanted_where, wanted) in zip(found, expected, strict=False):
        runs[where] += 1
        if where != wanted_where:
            return f"{wanted_where}: is not computed where it should be."
        for value, right in zip_longest(values, wanted):
            if isinstance(value, Tensor) and isinstance(right, Tensor):
                if value.shape != right.shape:
                    shapes = tuple(value.shape), tuple(right.shape)
                    return f"{where}: has the shape {shapes[0]}; {shapes[1]} is right."
                gap = (value.double() - right.double()).abs().nan_to_num(torch.inf)
                if max(gap.flatten().tolist(), default=0.0) > TOLERANCE:
                    places = find_places(gap > TOLERANCE, runs[where])
                    return f"{where}: differs by up to {float(gap.max()):.3g}, {places}."
            elif isinstance(right, Tensor) or value != right:
                return f"{where}: is something else than it should be."
    return ""

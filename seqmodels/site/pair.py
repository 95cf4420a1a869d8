"""Set two chapters side by side, unit by unit and line by line, and say why each unit changed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Literal

from seqmodels.site.source import Chapter, Line, Unit

MIN_SIMILARITY = 0.55
"""Two lines that share fewer of their words are not set side by side."""

Kind = Literal["same", "changed", "gone", "new"]


@dataclass(frozen=True)
class Row:
    """A line of the earlier chapter beside one of the later; None where there is none."""

    old: Line | None
    new: Line | None
    old_marks: Sequence[bool] = ()
    """Which characters the later line does not have; empty: the lines are the same."""
    new_marks: Sequence[bool] = ()

    @property
    def kind(self) -> Kind:
        """Return what happened to the line."""
        if self.old is None or self.new is None:
            return "new" if self.old is None else "gone"
        return "changed" if any((*self.old_marks, *self.new_marks)) else "same"


@dataclass(frozen=True)
class Block:
    """A unit in both chapters, or what only one of them has: a unit or a whole class."""

    name: str
    kind: Kind
    old: tuple[Unit, ...]
    new: tuple[Unit, ...]
    rows: tuple[Row, ...]
    why: str


def blocks(old: Chapter, new: Chapter) -> list[Block]:
    """Return all code of two chapters, each in its order; without reasons unless they follow."""
    names, later = ([unit.name for unit in chapter.units] for chapter in (old, new))
    tops, later_tops = ({unit.top for unit in chapter.units} for chapter in (old, new))
    reasons = reasons_by_pair().get(f"{old.name}-{new.name}", {})
    found = []

    def add(before: tuple[Unit, ...], after: tuple[Unit, ...], rows: Sequence[Row]) -> None:
        kinds = {row.kind for row in rows}
        kind = kinds.pop() if len(kinds) == 1 else "changed"
        name = (*before, *after)[0].name
        found.append(Block(name, kind, before, after, tuple(rows), reasons.get(name, "")))

    for kind, i, j, k, m in SequenceMatcher(None, names, later, autojunk=False).get_opcodes():
        if kind == "equal":
            for a, b in zip(old.units[i:j], new.units[k:m], strict=True):
                add((a,), (b,), compared(a.lines, b.lines, old.own_class, new.own_class))
            continue
        for units in grouped(old.units[i:j], later_tops):
            add(units, (), [Row(line, None) for unit in units for line in unit.lines])
        for units in grouped(new.units[k:m], tops):
            add((), units, [Row(None, line) for unit in units for line in unit.lines])
    return found


def grouped(units: Sequence[Unit], others: set[str]) -> list[tuple[Unit, ...]]:
    """Return the units, those of a class together if the other chapter does not have the class."""
    groups = groupby(units, key=lambda unit: unit.name if unit.top in others else unit.top)
    return [tuple(group) for _, group in groups]


def compared(old: Sequence[Line], new: Sequence[Line], old_class: str, new_class: str) -> list[Row]:
    """Return the lines of a unit side by side; the names of the models' classes are the same."""
    texts = [line.text.replace(old_class, "Model") for line in old]
    later = [line.text.replace(new_class, "Model") for line in new]
    rows: list[Row] = []
    for kind, i, j, k, m in SequenceMatcher(None, texts, later, autojunk=False).get_opcodes():
        if kind == "equal":
            rows += [Row(a, b) for a, b in zip(old[i:j], new[k:m], strict=True)]
        else:
            rows += paired(old[i:j], new[k:m])
    return rows


def paired(old: Sequence[Line], new: Sequence[Line]) -> list[Row]:
    """Set lines that changed side by side, the most alike first."""
    share, i, j = max(
        ((similarity(a, b), i, j) for i, a in enumerate(old) for j, b in enumerate(new)),
        default=(0.0, 0, 0),
    )
    if share < MIN_SIMILARITY:
        return [*(Row(line, None) for line in old), *(Row(None, line) for line in new)]
    row = Row(old[i], new[j], *marks(old[i].text, new[j].text))
    return [*paired(old[:i], new[:j]), row, *paired(old[i + 1 :], new[j + 1 :])]


def words(text: str) -> list[str]:
    """Return words, spaces and signs."""
    return re.findall(r"\w+|\s+|[^\w\s]", text)


def similarity(a: Line, b: Line) -> float:
    """Return how much of two lines is the same, from 0 to 1."""
    return SequenceMatcher(None, words(a.text), words(b.text), autojunk=False).ratio()


def marks(old: str, new: str) -> tuple[list[bool], list[bool]]:
    """Return which characters of two lines the other does not have."""
    a, b = words(old), words(new)
    flags: tuple[list[bool], list[bool]] = ([], [])
    for kind, i, j, k, m in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        flags[0].extend([kind != "equal"] * len("".join(a[i:j])))
        flags[1].extend([kind != "equal"] * len("".join(b[k:m])))
    return flags


@cache
def reasons_by_pair() -> dict[str, dict[str, str]]:
    """Return why each unit changed, by pair of chapters that follow each other."""
    text = (files("seqmodels.site") / "text" / "whys.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)

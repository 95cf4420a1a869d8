"""Set two chapters side by side, unit by unit and line by line, and say why each unit changed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from seqmodels.site.source import TEXT, Chapter, Line, Unit

MIN_SIMILARITY = 0.55
"""Two lines that share fewer of their words are not set side by side."""
WHYS: dict[str, dict[str, str]] = tomllib.loads((TEXT / "whys.toml").read_text(encoding="utf-8"))
"""Why each unit changed, by pair of chapters that follow each other."""


class Row(NamedTuple):
    """A line of the earlier chapter beside one of the later; None where there is none."""

    old: Line | None
    new: Line | None
    old_marks: Sequence[bool] = ()
    """Which characters the later line does not have; empty: the lines are the same."""
    new_marks: Sequence[bool] = ()

    @property
    def kind(self) -> str:
        """Return what happened to the line: same, changed, gone or new."""
        if self.old is None or self.new is None:
            return "new" if self.old is None else "gone"
        return "changed" if any((*self.old_marks, *self.new_marks)) else "same"


class Block(NamedTuple):
    """A unit in both chapters, or what only one of them has: a unit or a whole class."""

    name: str
    kind: str
    old: list[Unit]
    new: list[Unit]
    rows: list[Row]
    why: str


def blocks(old: Chapter, new: Chapter) -> list[Block]:
    """Return all code of two chapters, each in its order; without reasons unless they follow."""
    pairs: list[tuple[list[Unit], list[Unit], list[Row]]] = []
    names, later = ([unit.name for unit in chapter.units] for chapter in (old, new))
    for kind, i, j, k, m in SequenceMatcher(None, names, later, autojunk=False).get_opcodes():
        if kind == "equal":
            for a, b in zip(old.units[i:j], new.units[k:m], strict=True):
                pairs.append(([a], [b], side_by_side(a, b, old.own_class, new.own_class)))
            continue
        for units in by_class(old.units[i:j], later):
            pairs.append((units, [], [Row(line, None) for unit in units for line in unit.lines]))
        for units in by_class(new.units[k:m], names):
            pairs.append(([], units, [Row(None, line) for unit in units for line in unit.lines]))
    whys = WHYS.get(f"{old.name}-{new.name}", {})
    found = []
    for before, after, rows in pairs:
        name, kinds = (*before, *after)[0].name, {row.kind for row in rows}
        change = kinds.pop() if len(kinds) == 1 else "changed"
        found.append(Block(name, change, before, after, rows, whys.get(name, "")))
    return found


def by_class(units: Sequence[Unit], others: Sequence[str]) -> list[list[Unit]]:
    """Return the units, those of a class together if the other chapter does not have the class."""

    def group(unit: Unit) -> str:
        top = unit.name.partition(".")[0]
        return unit.name if top in others else top

    return [list(its) for _, its in groupby(units, key=group)]


def side_by_side(old: Unit, new: Unit, old_class: str, new_class: str) -> list[Row]:
    """Return the lines of a unit side by side; the names of the models' classes are the same."""
    before = [line.text.replace(old_class, "Model") for line in old.lines]
    after = [line.text.replace(new_class, "Model") for line in new.lines]
    rows: list[Row] = []
    for kind, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            rows += map(Row, old.lines[i:j], new.lines[k:m])
        else:
            rows += paired(old.lines[i:j], new.lines[k:m])
    return rows


def paired(old: Sequence[Line], new: Sequence[Line]) -> list[Row]:
    """Set lines that changed side by side, the most alike first."""
    share, i, j = max(
        (
            (SequenceMatcher(None, words(a), words(b), autojunk=False).ratio(), i, j)
            for i, a in enumerate(old)
            for j, b in enumerate(new)
        ),
        default=(0.0, 0, 0),
    )
    if share < MIN_SIMILARITY:
        return [*(Row(line, None) for line in old), *(Row(None, line) for line in new)]
    marks: tuple[list[bool], list[bool]] = ([], [])
    before, after = words(old[i]), words(new[j])
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        marks[0].extend([kind != "equal"] * len("".join(before[a:b])))
        marks[1].extend([kind != "equal"] * len("".join(after[c:d])))
    row = Row(old[i], new[j], *marks)
    return [*paired(old[:i], new[:j]), row, *paired(old[i + 1 :], new[j + 1 :])]


def words(line: Line) -> list[str]:
    """Return the words, spaces and signs of a line."""
    return re.findall(r"\w+|\s+|[^\w\s]", line.text)

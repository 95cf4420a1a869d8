"""Compare two chapters unit by unit and line by line, with a reason for each changed unit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from lesson.source import Chapter, Line, Unit, read_toml

MIN_SIMILARITY = 0.55
"""Least similarity, as SequenceMatcher.ratio of the words, of two lines set side by side."""
REASONS: dict[str, dict[str, str]] = read_toml("reasons")
"""The reason for the change of each unit, by pair of consecutive chapters."""


class LinePair(NamedTuple):
    """A line of the earlier chapter beside one of the later; None where there is none."""

    old: Line | None
    new: Line | None
    old_marks: Sequence[bool] = ()
    """True for each character that the other line does not have; empty: the lines are equal."""
    new_marks: Sequence[bool] = ()

    @property
    def kind(self) -> str:
        """Return the kind of change: same, changed, gone or new."""
        if self.old is None or self.new is None:
            return "new" if self.old is None else "gone"
        return "changed" if any((*self.old_marks, *self.new_marks)) else "same"


class Block(NamedTuple):
    """A unit in both chapters, or a unit or whole class that only one of them has."""

    name: str
    kind: str
    old: list[Unit]
    new: list[Unit]
    rows: list[LinePair]
    reason: str

    @property
    def rank(self) -> tuple[bool, int]:
        """Return the place in the list of changes: new equations first, what is the same last."""
        changed = [line for row in self.rows if row.kind != "same" for line in (row.old, row.new)]
        kinds = ("new", "changed", "gone", "same")
        return not any(line.tag for line in changed if line), kinds.index(self.kind)


def compare_chapters(old: Chapter, new: Chapter) -> list[Block]:
    """Return the blocks of two chapters in order; only consecutive chapters have reasons."""
    pairs: list[tuple[list[Unit], list[Unit], list[LinePair]]] = []
    names, later = ([unit.name for unit in chapter.units] for chapter in (old, new))
    for kind, i, j, k, m in SequenceMatcher(None, names, later, autojunk=False).get_opcodes():
        if kind == "equal":
            for a, b in zip(old.units[i:j], new.units[k:m], strict=True):
                pairs.append(([a], [b], pair_lines(a, b, old.own_class, new.own_class)))
            continue
        for units in group_by_class(old.units[i:j], later):
            pairs.append((units, [], [LinePair(line, None) for u in units for line in u.lines]))
        for units in group_by_class(new.units[k:m], names):
            pairs.append(([], units, [LinePair(None, line) for u in units for line in u.lines]))
    reasons = REASONS.get(f"{old.name}-{new.name}", {})
    blocks = []
    for before, after, rows in pairs:
        name, kinds = (*before, *after)[0].name, {row.kind for row in rows}
        change = kinds.pop() if len(kinds) == 1 else "changed"
        blocks.append(Block(name, change, before, after, rows, reasons.get(name, "")))
    return blocks


def group_by_class(units: Sequence[Unit], others: Sequence[str]) -> list[list[Unit]]:
    """Group the units of each class that is not in `others`, the units of the other chapter."""

    def group(unit: Unit) -> str:
        top = unit.name.partition(".")[0]
        return unit.name if top in others else top

    return [list(its) for _, its in groupby(units, key=group)]


def pair_lines(old: Unit, new: Unit, old_class: str, new_class: str) -> list[LinePair]:
    """Pair the lines of two units; the names of the models' classes count as equal."""
    before = [line.text.replace(old_class, "Model") for line in old.lines]
    after = [line.text.replace(new_class, "Model") for line in new.lines]
    rows: list[LinePair] = []
    for kind, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            rows += map(LinePair, old.lines[i:j], new.lines[k:m])
        else:
            rows += pair_changed_lines(old.lines[i:j], new.lines[k:m])
    return rows


def pair_changed_lines(old: Sequence[Line], new: Sequence[Line]) -> list[LinePair]:
    """Pair changed lines, the most similar two first."""
    similarity, i, j = max(
        (
            (SequenceMatcher(None, split_line(a), split_line(b), autojunk=False).ratio(), i, j)
            for i, a in enumerate(old)
            for j, b in enumerate(new)
        ),
        default=(0.0, 0, 0),
    )
    if similarity < MIN_SIMILARITY:
        return [*(LinePair(line, None) for line in old), *(LinePair(None, line) for line in new)]
    marks: tuple[list[bool], list[bool]] = ([], [])
    before, after = split_line(old[i]), split_line(new[j])
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        marks[0].extend([kind != "equal"] * len("".join(before[a:b])))
        marks[1].extend([kind != "equal"] * len("".join(after[c:d])))
    row = LinePair(old[i], new[j], *marks)
    return [
        *pair_changed_lines(old[:i], new[:j]),
        row,
        *pair_changed_lines(old[i + 1 :], new[j + 1 :]),
    ]


def split_line(line: Line) -> list[str]:
    """Split a line into words, spaces and signs."""
    return re.findall(r"\w+|\s+|[^\w\s]", line.text)

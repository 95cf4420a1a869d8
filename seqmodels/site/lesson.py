"""The lesson's pages: a chapter, two chapters side by side, and attention step by step."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from seqmodels.site import pair, source
from seqmodels.site.equations import GlyphSheet, equations_of
from seqmodels.site.source import Chapter, Line, Unit


@dataclass(frozen=True)
class Segment:
    """Lines of code, with what stands beside them."""

    name: str
    note: str
    equations: tuple[str, ...]
    lines: tuple[Line, ...]


def chapter(chapter: Chapter) -> dict[str, Any]:
    """Return the content of a chapter's page: its text, and its code beside prose and equations."""
    return {
        "chapter": chapter,
        "symbols": symbols(chapter.parts["Symbols"]),
        "differs": numbered(chapter.parts["Differs"]),
        "sections": sections(chapter),
        "sheet": GlyphSheet(),
    }


def pair_of(old: Chapter, new: Chapter) -> dict[str, Any]:
    """Return the content of the page of two chapters: all code side by side, and equations."""
    return {
        "old": old,
        "new": new,
        "blocks": pair.blocks(old, new),
        "equations": {
            (c.name, unit.name): equations_of(c, unit) for c in (old, new) for unit in c.units
        },
        "sheet": GlyphSheet(),
    }


def attention_steps() -> dict[str, Any]:
    """Return the content of the page on attention; its numbers are computed now."""
    from seqmodels.site import attention  # imports torch

    return {
        "steps": [(r, inspect.getdoc(r.function), code_of(r.function)) for r in attention.rungs()],
        "words": attention.WORDS.tolist(),
        "parameters": attention.count_by_part(),
    }


def sections(chapter: Chapter) -> list[tuple[str, list[list[Segment]]]]:
    """Return a chapter's sections: of each unit, its segments."""
    found: dict[str, list[list[Segment]]] = {}
    for unit in chapter.units:
        found.setdefault(unit.section, []).append(list(segments(chapter, unit)))
    return list(found.items())


def segments(chapter: Chapter, unit: Unit) -> Iterator[Segment]:
    """Yield the lines of a unit; one that computes an equation ends its segment."""
    equations = equations_of(chapter, unit)
    name, note, lines = unit.name, unit.note, list[Line]()
    for line in unit.lines:
        if line.note and lines:
            yield Segment(name, note, (), tuple(lines))
            name, note, lines = "", "", []
        lines.append(line)
        if line.tag or line.note:
            yield Segment(
                name, line.note or note, tuple(equations.get(line.number, ())), tuple(lines)
            )
            name, note, lines = "", "", []
    if lines:
        yield Segment(name, note, (), tuple(lines))


def symbols(text: str) -> list[list[tuple[str, int]]]:
    """Return the rows of a table of symbols: cells, and how many columns each one spans."""
    lines = textwrap.dedent(text).splitlines()
    starts = [match.start() for match in re.finditer(r"\S+", lines[0])]
    rows = []
    for line in lines:
        found = [(m.start(), m[0]) for m in re.finditer(r"\S+(?: \S+)*", line)]
        columns = [max(i for i, at in enumerate(starts) if at <= start) for start, _ in found]
        ends = [*columns[1:], len(starts)]
        rows.append([(cell, b - a) for (_, cell), a, b in zip(found, columns, ends, strict=True)])
    return rows


def numbered(text: str) -> list[str]:
    """Return the items of a numbered list."""
    return [
        " ".join(item.split())
        for item in re.split(r"^\d+\. ", textwrap.dedent(text), flags=re.M)[1:]
    ]


def code_of(function: Any) -> list[str]:
    """Return the lines of a function without its docstring."""
    return [line.text for line in source.lines_of(inspect.getsource(function)).values()]

"""Take a chapter, the file of a model, apart: the parts of its docstring, its code in units.

A unit is what a reader compares between chapters: a function, or what a class says before its
methods. Docstrings and the help below a field become notes beside the code, and the tag of an
equation leaves its line, so that a page can typeset it there.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from seqmodels.models import PAPERS, Paper

TAG = re.compile(r"\s+#  +(\S.*)$")
"""A comment at the right margin: the number of an equation or section, or a legend."""
RULER = re.compile(r"# -{20,} (\w+)$")
PRESETS = "presets"
"""The name of the unit that holds the sizes in a paper, whatever they are called."""


@dataclass(frozen=True)
class Line:
    """A line of code."""

    number: int
    text: str
    """Without its tag."""
    tag: str = ""
    """The numbers of the equations that it computes, as the chapter writes them."""
    note: str = ""
    """The help below a field."""


@dataclass(frozen=True)
class Unit:
    """A part of a chapter's code."""

    name: str
    """Such as GatedUnit.forward; the model's class is called Model in every chapter."""
    section: str
    """The ruler above it; empty for imports."""
    note: str
    """Its docstring."""
    lines: tuple[Line, ...]

    @property
    def top(self) -> str:
        """Return the class or function that it belongs to."""
        return self.name.partition(".")[0]


@dataclass(frozen=True)
class Chapter:
    """The file of a model, taken apart."""

    name: str
    entry: Paper
    path: Path
    title: str
    parts: dict[str, str]
    """The blocks of the docstring by their headings: Paper, Before, Idea …"""
    units: tuple[Unit, ...]
    own_class: str
    """The name of the model's class."""
    text: str = field(repr=False)

    @property
    def tagged(self) -> list[tuple[Unit, Line]]:
        """Return the lines that compute an equation, with their units."""
        return [(unit, line) for unit in self.units for line in unit.lines if line.tag]


def chapters() -> list[Chapter]:
    """Return the chapters in order of history; models registered by others have none."""
    ours = [name for name, e in PAPERS.items() if e.home.startswith("seqmodels.models.")]
    return [read(name) for name in ours]


@cache
def read(name: str) -> Chapter:
    """Read the chapter on a paper."""
    module, own_class = PAPERS[name].home.split(":")
    spec = find_spec(module)
    assert spec
    assert spec.origin
    path = Path(spec.origin)
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    title, *blocks = re.split(r"\n\n(?=[A-Z][a-z]+\n    )", ast.get_docstring(tree) or "")
    parts = dict(block.split("\n", 1) for block in blocks)
    units = tuple(units_of(tree, text, own_class))
    return Chapter(name, PAPERS[name], path, title, parts, units, own_class, text)


def units_of(tree: ast.Module, text: str, own_class: str) -> Iterator[Unit]:
    """Yield the units of a program in their order."""
    lines, rulers = lines_of(text), rulers_of(text)
    imports = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    sizes = [n for n in tree.body if isinstance(n, ast.Assign)]
    loose = {id(nodes[0]): (name, nodes) for name, nodes in
             (("imports", imports), (PRESETS, sizes)) if nodes}  # fmt: skip
    for node in tree.body:
        section = next((name for at, name in reversed(rulers) if at < node.lineno), "")
        if id(node) in loose:
            name, nodes = loose[id(node)]
            yield Unit(name, section, "", tuple(line for n in nodes for line in within(n, lines)))
        elif isinstance(node, ast.FunctionDef):
            yield Unit(
                node.name, section, ast.get_docstring(node) or "", tuple(within(node, lines))
            )
        elif isinstance(node, ast.ClassDef):
            name = "Model" if node.name == own_class else node.name
            methods = [n for n in node.body if isinstance(n, ast.FunctionDef)]
            inner = {line.number for m in methods for line in within(m, lines)}
            head = [line for line in within(node, lines) if line.number not in inner]
            yield Unit(name, section, ast.get_docstring(node) or "", tuple(head))
            for method in methods:
                qualified = f"{name}.{method.name}"
                yield Unit(
                    qualified,
                    section,
                    ast.get_docstring(method) or "",
                    tuple(within(method, lines)),
                )


def within(node: ast.stmt, lines: dict[int, Line]) -> list[Line]:
    """Return the lines of a statement, decorators included."""
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return [lines[i] for i in range(first, (node.end_lineno or 0) + 1) if i in lines]


def rulers_of(text: str) -> list[tuple[int, str]]:
    """Return the line numbers and names of the sections."""
    found = ((i, RULER.match(line)) for i, line in enumerate(text.splitlines(), 1))
    return [(i, match[1]) for i, match in found if match]


def lines_of(text: str) -> dict[int, Line]:
    """Return the lines of code by number: no blank line, docstring or ruler among them."""
    said: dict[int, str] = {}
    dropped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", [])
        for above, part in zip([None, *body], body, strict=False) if isinstance(body, list) else []:
            if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
                dropped |= set(range(part.lineno, (part.end_lineno or 0) + 1))
                if isinstance(above, ast.AnnAssign):
                    said[above.end_lineno or 0] = str(part.value.value)
    tags = tags_of(text)
    kept = {}
    for i, line in enumerate(text.splitlines(), 1):
        if line.strip() and i not in dropped and not line.startswith("#"):
            tag = tags.get(i, "")
            shown = TAG.sub("" if tag else r"  # \1", line)
            kept[i] = Line(i, shown, tag, said.get(i, ""))
    return kept


def tags_of(text: str) -> dict[int, str]:
    """Return the equation tags by line number: comments at the right margin with a number."""
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        match = TAG.search(token.line) if token.type == tokenize.COMMENT else None
        if match and re.search(r"\d", match[1]):
            found[token.start[0]] = match[1]
    return found

"""Parse a chapter, the file of a model: the sections of its docstring, and its code in units.

A unit is a function, or the body of a class before its methods; readers compare units between
chapters. Docstrings and the help below a field become notes beside the code, and the tag of an
equation leaves its line, so that a page can typeset it there.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

from latex2mathml.converter import convert
from markupsafe import Markup

from seqmodels.models import PAPERS, ModelInfo
from seqmodels.utils.imports import PACKAGE

LESSON = Path(__file__).parent
TEXT = LESSON / "text"
"""The folder of hand-written content: equations, reasons, and the figure of each chapter."""


def read_toml(name: str) -> Any:
    """Return the content of a file of this folder."""
    return tomllib.loads((TEXT / f"{name}.toml").read_text(encoding="utf-8"))


EQUATIONS: dict[str, Any] = read_toml("equations")
"""The equations of each tagged line, by chapter and unit."""
TAG = re.compile(r"\s+#  +(\S.*)$")
"""A comment at the right margin: the number of an equation or section, or a legend."""
RULER = re.compile(r"# -{20,} (\w+)$")


class Line(NamedTuple):
    """A line of code."""

    number: int
    text: str
    """Without its tag."""
    tag: str
    """The numbers of the equations that it computes, as the chapter writes them."""
    note: str
    """The help below a field."""

    @property
    def indent(self) -> int:
        """Return the number of spaces that it begins with."""
        return len(self.text) - len(self.text.lstrip())


class Unit(NamedTuple):
    """A part of a chapter's code."""

    name: str
    """Such as GatedUnit.forward; the model's class is called Model in every chapter."""
    section: str
    """The ruler above it; empty for imports."""
    note: str
    """Its docstring."""
    lines: list[Line]


class Chapter(NamedTuple):
    """The parsed file of a model."""

    name: str
    entry: ModelInfo
    path: Path
    title: str
    parts: dict[str, str]
    """The sections of the docstring by heading: Paper, Before, Idea …"""
    drawing: str
    """The drawing of the data flow at the end of Idea, as lines of text; may be empty."""
    units: list[Unit]
    own_class: str
    """The name of the model's class."""


def read_chapters() -> list[Chapter]:
    """Return the chapters in order of history; only our own models have one."""
    ours = [name for name, e in PAPERS.items() if e.class_path.startswith("seqmodels.models.")]
    return [read_chapter(name) for name in ours]


def read_chapter(name: str) -> Chapter:
    """Parse the chapter of a model."""
    module, own_class = PAPERS[name].class_path.split(":")
    path = PACKAGE / "models" / f"{module.rpartition('.')[2]}.py"
    text = path.read_text(encoding="utf-8")
    title, *blocks = re.split(
        r"\n\n(?=[A-Z][a-z]+\n    )", ast.get_docstring(ast.parse(text)) or ""
    )
    parts = dict(block.split("\n", 1) for block in blocks)
    parts["Idea"], _, drawing = parts["Idea"].partition("\n\n        ")
    drawing = dedent(f"        {drawing}")
    units = split_into_units(text, own_class)
    return Chapter(name, PAPERS[name], path, title, parts, drawing, units, own_class)


def read_letters(chapter: Chapter) -> dict[str, str]:
    """Return the letters of shapes in a chapter's code, and what they stand for in all chapters."""
    text = (PACKAGE / "interface.py").read_text(encoding="utf-8")
    legend = text.partition("Letters of shapes")[2].partition("D2, D3")[0]
    letters = re.findall(r"(?m)(?:^|  )([A-Z]v?) {1,2}(\S+(?: \S+)*)", legend)
    code = " ".join(line.text for unit in chapter.units for line in unit.lines)
    shapes = " ".join(re.findall(r'Tensor, "([^"]*)"', code))
    used = {"J", *re.findall(r"[A-Z](?:v|\d)?", shapes)}  # R, which all chapters have, is B × J
    multiples = {name: f"{name[1]} × D" for name in sorted(used) if name[1:].isdigit()}
    return {letter: meaning for letter, meaning in letters if letter in used} | multiples


def split_into_units(text: str, own_class: str) -> list[Unit]:
    """Return the units of a program in order.

    All imports are one unit, "imports"; all assignments, the sizes in the paper, are "presets".
    """
    kinds = {ast.Import: "imports", ast.ImportFrom: "imports", ast.Assign: "presets"}
    parts: list[tuple[str, ast.stmt]] = []
    for node in ast.parse(text).body:
        if name := kinds.get(type(node)) or getattr(node, "name", ""):
            name = "Model" if name == own_class else name
            parts.append((name, node))
            body = node.body if isinstance(node, ast.ClassDef) else []
            methods = [n for n in body if isinstance(n, ast.FunctionDef)]
            parts += [(f"{name}.{method.name}", method) for method in methods]
    owners: dict[int, str] = {}  # a method follows its class, and takes its lines from it
    heads: dict[str, ast.stmt] = {}
    for name, node in parts:
        first = min(n.lineno for n in (node, *getattr(node, "decorator_list", [])))
        owners |= dict.fromkeys(range(first, (node.end_lineno or 0) + 1), name)
        heads.setdefault(name, node)
    rulers = [(i, RULER.match(line)) for i, line in enumerate(text.splitlines(), 1)]
    lines = parse_lines(text)
    units = []
    for name, node in heads.items():
        above = [match[1] for i, match in rulers if match and i < node.lineno]
        is_documented = isinstance(node, ast.FunctionDef | ast.ClassDef)
        note = ast.get_docstring(node) if is_documented else ""  # type: ignore[arg-type]
        own = [line for line in lines if owners.get(line.number) == name]
        units.append(Unit(name, above[-1] if above else "", note or "", own))
    return units


def parse_lines(text: str) -> list[Line]:
    """Return the lines of code: no blank line, docstring or ruler among them."""
    notes: dict[int, str] = {}
    documentation: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", [])
        for above, part in zip([None, *body], body, strict=False) if isinstance(body, list) else []:
            if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
                documentation |= {*range(part.lineno, (part.end_lineno or 0) + 1)}
                if isinstance(above, ast.AnnAssign):
                    notes[above.end_lineno or 0] = str(part.value.value)
    lines = []
    for i, line in enumerate(text.splitlines(), 1):
        if line.strip() and i not in documentation and not line.startswith("#"):
            match = TAG.search(line)
            tag = match[1] if match and re.search(r"\d", match[1]) else ""  # otherwise a legend
            lines.append(Line(i, TAG.sub("" if tag else r"  # \1", line), tag, notes.get(i, "")))
    return lines


def convert_equations(chapter: Chapter, unit: Unit) -> dict[int, list[Markup]]:
    """Return the equations of a unit as MathML, by the number of the line that computes them."""
    tagged = [line for line in unit.lines if line.tag]
    entries = EQUATIONS.get(chapter.name, {}).get(unit.name, [])
    assert [line.tag for line in tagged] == [e["tag"] for e in entries], (chapter.name, unit.name)
    pairs = zip(tagged, entries, strict=True)
    return {line.number: [typeset(tex) for tex in e["tex"]] for line, e in pairs}


def typeset(tex: str) -> Markup:
    """Return MathML for a page: in HTML it needs no namespace, and is inline as it is."""
    return Markup(re.sub(r"^<math [^>]*>", "<math>", convert(tex)))

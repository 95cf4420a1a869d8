"""Read what each comparison asked and what was observed from the documentation and the tasks.

A finding in docs/ is a paragraph with the question, a figure, and a paragraph on what it shows. An
installed package without a clone has no docs, and its pages have questions and figures alone.
"""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from seqmodels.report.render_folder import TASKS

DOCS = (TASKS.parent / "docs" / "results.md", TASKS.parent / "docs" / "why.md")
"""The pages with findings, in their order."""
FIGURE = re.compile(r"!\[[^\]]*\]\(\.\./results/([\w-]+)/([\w-]+)\.svg\)")


class Finding(NamedTuple):
    """A figure of a folder of committed records, with its question and its answer."""

    folder: str
    figure: str
    title: str
    asked: str
    observed: str


def find_question(text: str) -> str:
    """Return the first sentence of a text that is a question; empty if there is none."""
    match = re.search(r"(?:^|(?<=[.?:] ))[^.?:]*\?", text)
    return match[0].lstrip("*") if match else ""


def read_findings() -> list[Finding]:
    """Return the findings in their order."""
    findings = []
    for path in DOCS:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
        for section in text.split("\n## ")[1:]:
            title, *paragraphs = re.split(r"\n\s*\n", section.strip())
            for above, figure, below in zip(
                paragraphs, paragraphs[1:], paragraphs[2:], strict=False
            ):
                if match := FIGURE.match(figure):
                    if lead := re.match(r"\*\*(.+?)\.?\*\* ", above):
                        title, above = lead[1], above[lead.end() :]
                    findings.append(Finding(match[1], match[2], title, clean(above), clean(below)))
    return findings


def clean(text: str) -> str:
    """Return Markdown without bold type, and without links that are not to the web."""
    text = re.sub(r" ?\((?:,? ?\[[^\]]+\]\((?!http)[^)]*\))+\)", "", text)
    text = re.sub(r"\[([^\]]+)\]\((?!http)[^)]*\)", r"\1", text)
    return " ".join(text.replace("**", "").split())


def read_question(task: str) -> str:
    """Return the first paragraph of a task's question and its command; empty without tasks."""
    path = TASKS / task / "__main__.py"
    if not path.is_file():
        return ""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    question, _, _ = docstring.partition("\nQuestion\n")[2].partition("\n\n")
    return f"{' '.join(question.split())} (`python -m tasks.{task}`)"

"""Read what the documentation asks and answers: findings of comparisons, and readers' questions.

A finding in docs/ is a paragraph with the question, a figure, and a paragraph on what it shows.
`tools.page_questions` fills the answers of questions.toml into docs/questions.md. An installed
package without a clone has no docs: its figures have questions alone, and readers' have no page.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import NamedTuple

from lesson.source import read_toml
from seqmodels.report.figures import TASKS

ROOT = TASKS.parent
FIGURE = re.compile(r"!\[[^\]]*\]\(\.\./results/([\w-]+)/([\w-]+)\.svg\)")


def read_page(name: str) -> str:
    """Return a page of the documentation without its comments; empty if it is not there."""
    path = ROOT / "docs" / name
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return re.sub(r"<!--.*?-->", "", text, flags=re.S)


def clean(text: str) -> str:
    """Return Markdown without bold type, and without links that are not to the web."""
    text = re.sub(r" ?\((?:,? ?\[[^\]]+\]\((?!http)[^)]*\))+\)", "", text)
    text = re.sub(r"\[([^\]]+)\]\((?!http)[^)]*\)", r"\1", text)
    return " ".join(text.replace("**", "").split())


# ------------------------------------------------------------------------- Findings of comparisons


class Finding(NamedTuple):
    """A figure of a folder of committed records, with its question and its answer."""

    folder: str
    figure: str
    title: str
    asked: str
    observed: str


def read_findings() -> list[Finding]:
    """Return the findings in their order."""
    findings = []
    pages = map(read_page, ("results.md",))
    for section in (part for page in pages for part in page.split("\n## ")[1:]):
        title, *paragraphs = re.split(r"\n\s*\n", section.strip())
        for above, figure, below in zip(paragraphs, paragraphs[1:], paragraphs[2:], strict=False):
            if match := FIGURE.match(figure):
                if lead := re.match(r"\*\*(.+?)\.?\*\* ", above):
                    title, above = lead[1], above[lead.end() :]
                findings.append(Finding(match[1], match[2], title, clean(above), clean(below)))
    return findings


def find_question(text: str) -> str:
    """Return the first sentence of a text that is a question; empty if there is none."""
    match = re.search(r"(?:^|(?<=[.?:] ))[^.?:]*\?", text)
    return match[0].lstrip("*") if match else ""


def read_question(task: str) -> str:
    """Return the first paragraph of a task's question and its command; empty without tasks."""
    path = TASKS / task / "__main__.py"
    if not path.is_file():
        return ""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    question, _, _ = docstring.partition("\nQuestion\n")[2].partition("\n\n")
    return f"{' '.join(question.split())} (`python -m tasks.{task}`)"


# ------------------------------------------------------------------------------ Readers' questions


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question, and what answers it; paths are relative to the root of the repository."""

    ask: str
    answer: str
    """A template for `tools.page_questions`; without a record, what would measure it."""
    missing: str = ""
    """What the record does not show."""
    record: str = ""
    figure: str = ""
    command: str = ""
    read: str = ""
    """A page, and a heading in it."""
    page: str = ""
    """A page of the lesson, such as the name of a chapter."""

    @property
    def is_measured(self) -> bool:
        """Whether its record is there."""
        return bool(self.record) and (ROOT / self.record).exists()

    @property
    def chart(self) -> str:
        """The id that its figure has in the lesson's page of results."""
        return "-".join(self.figure.removesuffix(".svg").split("/")[-2:])


GROUPS: dict[str, list[Question]] = {
    title: [Question(**row) for row in rows] for title, rows in read_toml("questions").items()
}
"""The questions by heading."""


def read_answers() -> dict[str, str]:
    """Return the answers in the documentation by question; none without a clone."""
    parts = (part.split("\n\n") for part in read_page("questions.md").split("\n### ")[1:])
    return {ask: clean(answer) for ask, answer, *_ in parts}

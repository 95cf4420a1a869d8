"""Readers' questions, one source for docs/questions.md and for a page of the lesson.

`tools.page_questions` fills the answers of questions.toml into docs/questions.md, from which the
lesson reads them. An installed package without a clone has no docs, and its lesson no such page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lesson.results import clean
from lesson.source import read_toml
from seqmodels.report.render_folder import TASKS

ROOT = TASKS.parent
PAGE = ROOT / "docs" / "questions.md"


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
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    parts = (part.split("\n\n") for part in text.split("\n### ")[1:])
    return {ask: clean(answer) for ask, answer, *_ in parts}

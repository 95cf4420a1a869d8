"""docs/questions.md, from lesson/text/questions.toml: answers filled in from the records."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

from lesson.questions import GROUPS, Question
from seqmodels.models import PAPERS
from tools import (
    numbers,
    page_exhibits,
    page_mistakes,
    page_results,
    page_trials,
    page_why,
    page_words,
)
from tools.numbers import TRANSFORMER, say, span


class Expressions(Formatter):
    """Format templates whose fields are expressions, as in an f-string."""

    def get_field(
        self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, str]:
        """Return the value of an expression with these names."""
        return eval(field_name, dict(kwargs)), field_name


def mistake(model: str) -> str:
    """Format loss and BLEU with a mistake, and without it."""
    losses = (span(page_mistakes.final_losses(m), 2) for m in (model, TRANSFORMER))
    bleu = (page_mistakes.MISTAKES.mean(m) for m in (model, TRANSFORMER))
    return "the loss on valid is {} nats (without the mistake {}), and BLEU {:.0f} ({:.0f})".format(
        *losses, *bleu
    )


PAGES = {
    "exhibits": page_exhibits, "mistakes": page_mistakes, "results": page_results,
    "trials": page_trials, "why": page_why, "words": page_words,
}  # fmt: skip
NAMES = vars(numbers) | PAGES | {"mistake": mistake}
"""What the templates may name."""


def fill_answer(question: Question) -> str:
    """Return the answer to a question, or that it is not measured."""
    if question.record and not question.is_measured:
        return "**Not measured yet**: the command below does."
    text = Expressions().vformat(question.answer, (), NAMES)
    if question.ask.endswith("?") and not question.record:
        return f"**Not measured.** {text}"
    return f"{text} **Not measured**: {question.missing}" if question.missing else text


def list_links(question: Question) -> list[str]:
    """Return the links below an answer, and the command."""
    chapter = f"seqmodels/models/{question.page}.py" if question.page in PAPERS else ""
    links = {
        "figure": question.figure if question.is_measured else "",
        "records": question.record if question.is_measured else "",
        "more": question.read,
        "chapter": chapter,
    }
    command = [f"`{question.command}`"] if question.command else []
    places = {name: f"../{path}".removeprefix("../docs/") for name, path in links.items() if path}
    return [f"[{name}]({place})" for name, place in places.items()] + command


def confirm_pages() -> None:
    """Confirm what the other pages say of the records."""
    for page in PAGES.values():
        for name, confirm in vars(page).items():
            if name.startswith("confirm_"):
                confirm()


def count_questions() -> str:
    """Return how many questions are answered from records, how many in part, and how many not."""
    every = [q for group in GROUPS.values() for q in group if q.ask.endswith("?")]
    measured = [question for question in every if question.is_measured]
    in_part = sum(bool(question.missing) for question in measured)
    return (
        f"Of {len(every)} questions, {len(measured) - in_part} are answered from records, "
        f"{in_part} in part, and {len(every) - len(measured)} are not measured, or not yet."
    )


def anchor(title: str) -> str:
    """Return the anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def print_questions() -> None:
    """Print all questions, by heading."""
    confirm_pages()
    say(count_questions())
    print()
    say("Contents: " + " · ".join(f"[{title}](#{anchor(title)})" for title in GROUPS))
    for title, group in GROUPS.items():
        print(f"\n## {title}")
        for question in group:
            print(f"\n### {question.ask}\n")
            say(fill_answer(question))
            if links := list_links(question):
                print("\n" + " · ".join(links))

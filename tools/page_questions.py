"""docs/questions.md, from lesson/text/questions.toml, with numbers of records; docs/glossary.md."""

from __future__ import annotations

import re
from importlib import import_module

from lesson.exercise import MISTAKES
from lesson.glossary import GLOSSARY
from lesson.questions import GROUPS, Question
from seqmodels.models import PAPERS
from tools import numbers, page_mistakes
from tools.numbers import GPT, TRANSFORMER, Results, say, span

EXPRESSION = re.compile(r"\{(.+?)(?::([.,\w]+))?\}")
"""An expression in braces, and the format of its value."""


def mistake(model: str) -> str:
    """Format loss and BLEU with a mistake, and without it."""
    own, sound = (span(page_mistakes.final_losses(m), 2) for m in (model, TRANSFORMER))
    bleu = numbers.interval(page_mistakes.MISTAKES.difference(model, TRANSFORMER))
    loss = f"the loss on valid is {own} nats (without the mistake {sound})"
    return f"{loss} and BLEU changes by {bleu}, from {page_mistakes.MISTAKES.mean(TRANSFORMER):.0f}"


def relation(pair: str) -> str:
    """Format the largest share of weight that a head of GPT gives to a pair, and its prediction."""
    rows = Results("heads-gpt").rows(GPT, "heads", pair=pair)
    best = max(rows, key=lambda row: row["share"])
    return f"{best['share']:.0f} % ({max(best['by_offset'], best['by_part_of_speech']):.0f} %)"


NAMES_OF_PAGES = "exhibits", "memories", "mistakes", "results", "trials", "why", "words"
PAGES = {name: import_module(f"tools.page_{name}") for name in NAMES_OF_PAGES}
OWN = {"mistake": mistake, "relation": relation, "EIGHT": [*MISTAKES]}
NAMES = vars(numbers) | PAGES | OWN
"""What an expression may name."""


def fill_answer(question: Question) -> str:
    """Return the answer to a question, or that it is not measured."""
    if question.record and not question.is_measured:
        return "**Not measured yet**: the command below does."
    text = EXPRESSION.sub(lambda m: format(eval(m[1], NAMES), m[2] or ""), question.answer)
    if question.ask.endswith("?") and not question.record:
        return f"**Not measured.** {text}"
    return f"{text} **Not measured**: {question.missing}" if question.missing else text


def list_links(question: Question) -> list[str]:
    """Return the links below an answer, and the command."""
    chapter = f"seqmodels/models/{question.page}.py" if question.page in PAPERS else ""
    links = {"more": question.read, "chapter": chapter}
    if question.is_measured:
        links = {"figure": question.figure, "records": question.record} | links
    places = {name: f"../{path}".removeprefix("../docs/") for name, path in links.items() if path}
    command = [f"`{question.command}`"] if question.command else []
    return [f"[{name}]({place})" for name, place in places.items()] + command


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
    """Print all questions by heading, after confirming what the pages say of the records."""
    for page in PAGES.values():
        for name in dir(page):
            if name.startswith("confirm_"):
                getattr(page, name)()
    say(count_questions())
    print()
    say("Contents: " + " · ".join(f"[{title}](#{anchor(title)})" for title in GROUPS))
    for title, group in GROUPS.items():
        print(f"\n## {title}")
        for question in group:
            print(f"\n### {question.ask}\n")
            say(fill_answer(question))
            print("\n" + " · ".join(list_links(question)))


def glossary_table(name: str) -> str:
    """Return the words of a part of the glossary, and their meanings."""
    rows = [f"| **{word}** | {text} |" for word, text in GLOSSARY[name].items()]
    return "\n".join(["| word | meaning |", "| --- | --- |", *rows])

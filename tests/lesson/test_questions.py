"""Readers' questions: each is answered from a record, or says that it is not measured."""

import shlex
from importlib import import_module
from pathlib import Path

import pytest
from conftest import ROOT

from lesson.layout import slug
from lesson.questions import GROUPS, Question, read_answers
from seqmodels.cli.main import build_parser
from tools.page_questions import anchor, fill_answer, list_links

QUESTIONS = [question for group in GROUPS.values() for question in group]
ANSWERS = read_answers()


def test_docs_have_every_question_once_in_the_order_of_their_source() -> None:
    assert [*ANSWERS] == [q.ask for q in QUESTIONS]
    for name in (slug, anchor):
        assert len({name(title) for title in (*GROUPS, *ANSWERS)}) == len(GROUPS) + len(QUESTIONS)


def test_the_lesson_has_answers_and_links_to_its_pages(site_folder: Path) -> None:
    text = (site_folder / "questions.html").read_text(encoding="utf-8")
    sections = [part.partition('">')[0] for part in text.split('<h3 id="')[1:]]
    assert sections == [slug(ask) for ask in ANSWERS]
    own = text.split('<h3 id="what-does-one-head-do-">')[1].split("<h3")[0]
    assert '<p class="text">In each of 7 trainings, one head finds the noun' in own
    assert '<a href="one-head.html">In the lesson</a>' in own
    assert "<code>results/heads-full</code>" in own


@pytest.mark.parametrize("q", QUESTIONS, ids=lambda q: slug(q.ask)[:40])
def test_a_question_leads_to_a_record_or_says_that_it_is_not_measured(q: Question) -> None:
    if q.is_measured:
        assert (ROOT / q.figure).is_file() or (not q.figure and "no figure" in q.answer)
        assert q.read
        assert q.command
    elif q.ask.endswith("?"):
        assert ANSWERS[q.ask].startswith("Not measured")
    if q.command.startswith("python -m "):
        _, _, name, *argv = shlex.split(q.command)
        home = ROOT.joinpath(*name.split("."))
        module = import_module(f"{name}.__main__" if home.is_dir() else name)
        if parser := getattr(module, "PARSER", None):
            parser.parse_args(argv)
    elif q.command:
        build_parser().parse_args(shlex.split(q.command)[1:])


def test_an_answer_is_filled_in_from_a_record_that_is_there() -> None:
    row = {"ask": "Why?", "answer": "{span([1, 3])} of {1 + 4:.1f}", "missing": "more."}
    row |= {"figure": "results/memory.svg", "read": "docs/why.md#a", "command": "x --y"}
    q = Question(**row, record="results/memory.json", page="gpt")
    assert q.chart == "results-memory"
    assert fill_answer(q) == "1 to 3 of 5.0 **Not measured**: more."
    assert list_links(q) == [
        "[figure](../results/memory.svg)", "[records](../results/memory.json)", "[more](why.md#a)",
        "[chapter](../seqmodels/models/gpt.py)", "`x --y`",
    ]  # fmt: skip
    assert fill_answer(Question(**row)) == "**Not measured.** 1 to 3 of 5.0"
    later = Question(**row, record="results/of-tomorrow")
    assert fill_answer(later).startswith("**Not measured yet**")

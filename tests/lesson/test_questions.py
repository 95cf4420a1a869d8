"""Readers' questions: each is answered from a record, or says that it is not measured."""

import shlex
from importlib import import_module

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
    figure, records, read, chapter, command = list_links(q)
    assert figure == "[figure](../results/memory.svg)"
    assert (records, read) == ("[records](../results/memory.json)", "[more](why.md#a)")
    assert (chapter, command) == ("[chapter](../seqmodels/models/gpt.py)", "`x --y`")
    assert fill_answer(Question(**row)) == "**Not measured.** 1 to 3 of 5.0"
    later = Question(**row, record="results/of-tomorrow")
    assert fill_answer(later).startswith("**Not measured yet**")
    assert list_links(later) == [read, command]

"""Public functions, called wrongly: the error names the argument."""

import pickle
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import needs_tasks

import seqmodels
from seqmodels.utils.imports import import_beside

RUN = seqmodels.load("bahdanau")


@pytest.mark.parametrize(("function", "name", "wrong"), [
    (seqmodels.load, "run", 3),
    (RUN.translate, "texts", [None]),
    (RUN.translate, "beam", 1.5),
    (RUN.translate, "bem", 2),
    (RUN.align, "source", ["a"]),
])  # fmt: skip
def test_a_wrong_argument_is_named(function: Callable[..., Any], name: str, wrong: Any) -> None:
    right = {RUN.translate: {"texts": ["a"]}}.get(function, {})
    with pytest.raises(ValueError, match=rf"(?m)^{name}\b"):
        function(**right | {name: wrong})


def test_numbers_of_numpy_and_paths_are_taken() -> None:
    texts = ("The cat sleeps.", "The dog sees the cat.")
    wanted = RUN.translate([*texts], 2)
    assert RUN.translate(texts, np.int64(2), np.float64(1)) == wanted
    assert seqmodels.load(Path("bahdanau")).translate(texts, 2) == wanted
    assert RUN.translate(texts[1], 2) == wanted[1]


def test_public_functions_are_listed_and_pickled() -> None:
    assert dir(seqmodels) == seqmodels.__all__
    assert seqmodels.__version__ == metadata.version("seqmodels")
    for function in (seqmodels.load, seqmodels.compare, seqmodels.reorder):
        assert pickle.loads(pickle.dumps(function)) is function


@needs_tasks
def test_python_and_the_command_line_give_the_same_flags() -> None:
    flags = import_beside("tasks.flags")
    values: dict[str, Any] = {"models": "transformer", "seeds": np.array([1, 3])}
    values |= {"set": {"lr": 0.01}, "vary": {"d_k": [1, 4], "lr": (0.5,)}, "dry_run": True}
    values |= {"grid": False, "data": [Path("x.de"), "x.en"], "limit": 1e3, "out": Path("a")}
    argv = "--models transformer --vary d_k=1,4 --vary lr=0.5 --seeds 1 3 --set lr=0.01 --out a "
    argv += "--dry-run --data x.de x.en --limit 1000"
    parser = import_beside("tasks.translation.__main__").PARSER
    assert parser.parse(flags.to_words(values)) == parser.parse_args(argv.split())
    assert flags.to_words({"context": 0, "fresh": None}) == ["--context=0"]


def test_a_comparison_is_a_sequence_and_a_table() -> None:
    shipped = seqmodels.Comparison("translation-live")
    assert len(shipped) == len([*shipped]) == 6
    table = shipped.to_frame()
    own = table[(table.model == "gpt") & (table.metric == "bleu") & (table.test == "length")]
    (test,) = (each for each in next(r for r in shipped if r.model == "gpt").tests)
    scores = [each["bleu"] for each in (test.overall, *test.buckets)]
    for column, name in (("value", "value"), ("ci_low", "low"), ("ci_high", "high")):
        assert own[column].tolist() == [getattr(score, name) for score in scores]
    assert own.low.tolist()[1:] == [bucket.low for bucket in test.buckets]
    assert own.n.tolist() == [sum(own.n.tolist()[1:]), *(bucket.n for bucket in test.buckets)]
    for shown in (shipped, shipped.records[0], RUN):
        assert len(repr(shown).splitlines()) == 3
        assert len(repr(shown)) < 300
    value = f"{test.overall['bleu'].value:.1f}"
    assert f"<td>GPT</td><td>{value}</td>" in "".join(shipped._repr_html_().split())
    assert value in str(shipped)

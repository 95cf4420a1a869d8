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
from seqmodels.interface import device_of
from seqmodels.models import FIVE
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
    assert device_of(seqmodels.load("bahdanau", "meta").model) == "meta"
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
    shipped = seqmodels.Comparison("translation-grammar")
    assert len(shipped) == len([*shipped]) == 15
    gpt = "model == 'gpt' and label == 'GPT' and seed == 2"
    own = shipped.to_frame().query(f"{gpt} and metric == 'bleu' and test == 'length'")
    (test,) = next(r for r in shipped if (r.model, r.seed) == ("gpt", 2)).tests
    scores = [each["bleu"] for each in (test.overall, *test.buckets)]
    for column, name in (("value", "value"), ("ci_low", "low"), ("ci_high", "high")):
        assert own[column].tolist() == [getattr(score, name) for score in scores]
    ends = own[["low", "high"]].to_numpy().tolist()[1:]
    assert ends == [[bucket.low, bucket.high] for bucket in test.buckets]
    assert own.n.tolist() == [sum(own.n.tolist()[1:]), *(bucket.n for bucket in test.buckets)]
    for shown, head in ((shipped.records[0], "Record rnn_encdec"), (RUN, "TrainedModel bahdanau")):
        assert repr(shown).startswith(f"<{head}, seed 1: ")
        assert len(repr(shown).splitlines()) == 3
    assert repr(shipped).partition(": ")[2].splitlines() == [
        "15 records of translation", f"  models: {', '.join(FIVE)}", "  test sets: length>",
    ]  # fmt: skip
    every = [r.tests[0].overall["bleu"].value for r in shipped if r.model == "gpt"]
    value = f"{np.mean(every):.1f}"
    assert f"<td>GPT</td><td>{value}</td>" in "".join(shipped._repr_html_().split())
    assert value in str(shipped)

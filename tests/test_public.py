"""Public functions, called wrongly: they work, or one error names the argument."""

import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FunctionType, GeneratorType
from typing import Any

import numpy as np
import pytest
import torch
from conftest import ROOT, needs_tasks
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import options, toy

import seqmodels
from seqmodels.experiments import compare
from seqmodels.experiments.inference import TrainedModel
from seqmodels.models import PAPERS, register
from seqmodels.report import render_folder
from seqmodels.utils.imports import import_beside

RUN = seqmodels.load("bahdanau")
SRC = torch.tensor([[5, 6, 2]])
STATE = RUN.model.encode(SRC, SRC > 0)
VARIANT = replace(PAPERS["gpt"], variant_of="gpt")
PUBLIC: dict[Callable[..., Any], dict[str, Any]] = {
    seqmodels.build: {"name": "rnn_encdec", "vocab_size": 9},
    seqmodels.compare: {"task": "nothing"},
    seqmodels.load: {"run": "nothing"},
    seqmodels.reorder: {"state": STATE, "rows": SRC[0, :0], "sources": None, "shared": ()},
    seqmodels.unroll: {"model": RUN.model, "state": STATE, "tgt_in": SRC},
    seqmodels.Comparison: {"out": "nothing"},
    inspect.unwrap(compare.compare): {  # its types are also executed by the tests
        "task": toy(), "options": options(None, trained=Path("nothing")), "executor": None,
        "summarize": None,
    },
    register: {"name": "mine", "paper": VARIANT},
    render_folder.plot_folder: {"folder": Path("nothing"), "out": None, "own": None},
    render_folder.plot_results: {"root": Path("nothing")},
    TrainedModel: {
        "model": RUN.model, "tokenizer": RUN.tokenizer, "data": RUN.data, "record": None,
    },
    RUN.translate: {"texts": ["a"], "beam": 1, "length_penalty": 1.0},
    RUN.align: {"source": "a", "target": None},
    RUN.score: {"sources": ["a"], "references": ["b"], "beam": 1},
    RUN.search: {"sources": [[5]], "beam": 1, "length_penalty": 1.0},
    RUN.search_n_best: {"sources": [[5]], "n": 1, "beam": 2, "length_penalty": 1.0},
    RUN.make_example: {"src": [5], "tgt": [6]},
    RUN.align_ids: {"source": "a", "target_ids": [5]},
    RUN.encode_source: {"text": "a", "has_source_eos": None},
    RUN.encode_line: {"line": "a"},
    RUN.encode: {"text": "a"},
    RUN.normalize: {"text": "a"},
}  # fmt: skip
"""Every public function, with arguments of the right types, most of which are refused later."""
ITEMS = list | tuple | GeneratorType | np.ndarray | torch.Tensor
KINDS: dict[str, Any] = {
    **dict.fromkeys(("name", "task", "source", "text", "line"), str),
    **dict.fromkeys(("vocab_size", "beam", "n"), int | np.integer),
    **dict.fromkeys(("run", "out", "root", "path", "folder"), str | Path),
    **dict.fromkeys(("texts", "sources", "references", "own"), ITEMS),
    **dict.fromkeys(("src", "tgt", "target_ids"), list | np.ndarray | torch.Tensor),
    "length_penalty": int | float | np.number,
    "target": str, "has_source_eos": bool, "shared": tuple,
    "executor": (), "summarize": Callable,
}  # fmt: skip
"""The kinds of values that an argument can have, None aside: what is not here has a class."""
NONE = {"target", "has_source_eos", "executor", "summarize", "own", "record"}
"""Arguments that can be None."""

JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.text("ab", max_size=3),
    st.binary(max_size=2), st.builds(object), st.just(len), st.just(np.arange(3)),
    st.just(np.int64(2)), st.just(SRC), st.builds(Path, st.text("ab", max_size=3)),
    st.lists(st.one_of(st.none(), st.integers(-3, 3), st.text("ab", max_size=3)), max_size=2),
    st.builds(lambda: (x for x in (1, None))), st.just({"a": 1}), st.just({1}), st.just(Path),
)  # fmt: skip
bounded = settings(max_examples=25, derandomize=True, deadline=None, database=None)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def public_functions() -> Iterator[Callable[..., Any]]:
    """Walk what `seqmodels` exports and what `seqmodels.load` returns."""
    for name in seqmodels.__all__:
        if isinstance(value := getattr(seqmodels, name), FunctionType):
            yield value
    for name, method in vars(TrainedModel).items():
        if isinstance(method, FunctionType) and name[0] != "_":
            yield getattr(RUN, name)


def test_no_public_function_is_left_out() -> None:
    assert {*public_functions()} <= PUBLIC.keys()
    for function, arguments in PUBLIC.items():
        kinds = inspect.signature(function).parameters.values()
        assert [*arguments] == [p.name for p in kinds if p.kind is not p.VAR_KEYWORD], function
    names = {f"{f.__module__}.{f.__qualname__}" for f in PUBLIC}
    for page in ROOT.glob("docs/*.md"):
        for name in re.findall(r"`(seqmodels(?:\.\w+)+)`", page.read_text(encoding="utf-8")):
            value = pickle.loads(b"c" + "\n".join(name.rsplit(".", 1)).encode() + b"\n.")
            is_function = isinstance(value, FunctionType)
            assert not is_function or f"{value.__module__}.{value.__qualname__}" in names, name


def is_of_kind(name: str, value: Any, right: Any) -> bool:
    """Return whether a value is of a kind that the argument can have."""
    if value is None:
        return name in NONE or right is None
    if isinstance(value, bool):
        return KINDS.get(name) is bool
    return isinstance(value, KINDS.get(name) or type(right))


def call(function: Callable[..., Any], arguments: dict[str, Any]) -> str:
    try:
        function(**arguments)
    except (ValueError, TypeError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("function", "name"),
    [(function, name) for function, arguments in PUBLIC.items() for name in arguments],
    ids=lambda value: value if isinstance(value, str) else value.__qualname__,
)
def test_a_wrong_argument_is_named(function: Callable[..., Any], name: str) -> None:
    right = PUBLIC[function][name]

    @bounded
    @given(JUNK)
    def check(junk: Any) -> None:
        message = call(function, PUBLIC[function] | {name: junk})
        is_named = re.match(rf"{name}(\[\d+\])*=.", message)
        assert is_named or is_of_kind(name, junk, right), message
        assert len(message.splitlines()) <= 1

    check()


def test_what_stands_for_a_right_argument_works() -> None:
    texts = ["The cat sleeps.", "The dog sees the cat."]
    wanted = RUN.translate(texts, 2)
    for given_texts in ((text for text in texts), dict(enumerate(texts)).values(), np.array(texts)):
        assert RUN.translate(given_texts, np.int64(2), np.float32(1)) == wanted
    assert seqmodels.load(Path("bahdanau")).translate(texts, 2) == wanted
    assert seqmodels.build("gpt", np.int64(9), n_layers=1, d_model=8, n_heads=2).config.d_model == 8


def test_tokens_that_the_vocabulary_lacks_are_refused() -> None:
    n = RUN.tokenizer.vocab_size
    for token in (-1, n):
        for method, *given_tokens in (
            (RUN.search, [[5, token]]), (RUN.search_n_best, [[token]], 1, 2),
            (RUN.align_ids, "a", [token]),
        ):  # fmt: skip
            with pytest.raises(ValueError, match=f"no token {token}; tokens are from 0 to {n - 1}"):
                method(*given_tokens)
    assert RUN.align_ids("a", [n - 1]).tgt == RUN.tokenizer.tokens([n - 1])


def test_public_functions_are_pickled() -> None:
    for function in (seqmodels.load, seqmodels.compare, seqmodels.reorder):
        assert pickle.loads(pickle.dumps(function)) is function


@needs_tasks
@pytest.mark.parametrize("text", ["", "a\0b", "x" * 5_000], ids=["empty", "nul", "long"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="path"):
        seqmodels.load(text)
    with pytest.raises(ValueError, match=r"--out: .*path"):
        seqmodels.compare("copy", out=text)


@needs_tasks
def test_switches_are_true_or_false() -> None:
    for value in ("no", 0, [], "False"):
        with pytest.raises(ValueError, match=r"^fresh="):
            seqmodels.compare("copy", fresh=value)
    for name, value in (
        ("tokens", True),
        ("tokens", (0, (5,), 0)),
        ("lr", True),
        ("seeds", [True]),
    ):
        with pytest.raises(ValueError, match=rf"^{name}(\[0\])?="):
            seqmodels.compare("copy", **{name: value})
    read = import_beside("tasks.copy.__main__").PARSER.read_values
    assert read({"seeds": np.array([3, 2])}).seeds == [3, 2]
    assert read({"models": ["gpt"], "vary": {"n_heads": (n for n in (1, 2))}}).vary == [
        ("n_heads", [1, 2])
    ]

"""Anything at all, given to the parsers of files that a stranger may have written."""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seqmodels.comparison import trained
from seqmodels.data import tokenizers
from seqmodels.evaluation import external
from seqmodels.evaluation.external import Text
from seqmodels.models import build
from seqmodels.records import significance
from seqmodels.records.record import load as load_record
from seqmodels.report import ledger
from seqmodels.training import checkpoint
from tools.sizes import sizes_of

RESULTS = Path(__file__).parents[1] / "results"
FILES = {
    "recall/gpt-seed1.json": load_record,
    "recall/significance.json": significance.load,
    "ledger.json": lambda path: ledger.load(path.parent),
}
"""Valid files, and what reads them."""
ODD: list[Any] = [
    None, True, -1, 0, 1, 7, 20_000, 2**62, 10**30, 0.5, -1e308, math.nan, math.inf, "", "a",
    "../up", "\0", "\x1b[2J", "\ud800", "x" * 3_000, [], [[]], [0], {}, {"a": 1}, "(a+)+$",
]  # fmt: skip
"""Values that an edit puts in place of a valid one."""

many = settings(
    max_examples=100, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip


def check_refusal(error: ValueError, name: str) -> None:
    """Check that an error names the file, in one line."""
    assert name in str(error)
    assert len(str(error).splitlines()) == 1


@many
@given(data=st.binary(max_size=60) | st.text("a\r\n\x85\u2028\x0c\ufeff").map(str.encode))
def test_any_bytes_are_lines_or_refused(data: bytes, tmp_path: Path) -> None:
    """Keeps out a line cut or joined elsewhere than at a line feed, and a traceback."""
    path = tmp_path / "some.txt"
    path.write_bytes(data)
    try:
        (text,) = external.read_files([path])
    except ValueError as error:
        check_refusal(error, path.name)
    else:
        whole = data.removeprefix(codecs.BOM_UTF8).decode().removesuffix("\n")
        assert text.lines == [line.removesuffix("\r") for line in whole.split("\n")]


@many
@given(line=st.text("0123456789-?p \t", max_size=20))
def test_any_line_is_links_or_refused(line: str) -> None:
    """Keeps out a link that is lost or read from a part of a word, and a traceback."""
    try:
        (pair,) = external.parse_links(Text(Path("some.links"), [line])).links
    except ValueError as error:
        check_refusal(error, "some.links, line 1")
    else:
        words = external.LINE_NUMBER.sub("", line).split()
        written = {f"{i}{mark}{j}" for i, j in pair.possible for mark in "-?p"}
        assert all("-".join(map(str, map(int, split(word)))) in written for word in words)
        assert pair.sure <= pair.possible


def split(word: str) -> list[str]:
    """Return the two numbers of a link."""
    return word.replace("?", "-").replace("p", "-").split("-")


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in a JSON value as its container and its key."""
    for key in [*(value if isinstance(value, dict) else range(len(value)))]:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


@pytest.mark.parametrize("name", FILES)
def test_an_edited_file_is_read_or_refused(name: str, tmp_path: Path) -> None:
    """Keeps out a traceback, or an error without its file, for a value of any other type."""
    valid, path = json.loads((RESULTS / name).read_text("utf-8")), tmp_path / Path(name).name
    read: Callable[[Path], Any] = FILES[name]
    n_places = sum(1 for _ in places(valid))

    @many
    @given(place=st.integers(0, n_places - 1), odd=st.sampled_from(ODD))
    def check(place: int, odd: Any) -> None:
        edited = deepcopy(valid)
        container, key = [*places(edited)][place]
        container[key] = odd
        path.write_text(json.dumps(edited), encoding="utf-8")
        try:
            read(path)
        except ValueError as error:
            check_refusal(error, path.name)

    read(RESULTS / name)
    check()


def make_run(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a run of a tiny model; return its record and its weights."""
    tokenizer = tokenizers.BPE.train(["ka lo mi so. ka lo!", "mi so ka", "Où est-ce ?"] * 2, 270)
    small = {"d_model": 8, "d_embed": 6, "d_maxout": 4, "d_align": 4, "d_ff": 8, "n_heads": 2}
    small |= {"n_layers": 2, "n_positions": 40}
    sizes = {"vocab_size": tokenizer.vocab_size, **sizes_of(name, **small)}
    made = load_record(RESULTS / "recall" / "gpt-seed1.json")
    made |= {"model": name, "model_config": sizes, "alignment": None, "weights_sha256": None}
    record, weights = folder / f"{name}-seed1.json", folder / f"{name}-seed1.safetensors"
    record.write_text(json.dumps(made))
    checkpoint.save_weights(weights, build(name, **sizes).state_dict())
    tokenizer.save(folder / "tokenizer.json")
    return record, weights


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("rnn_encdec", {"d_model": 0}),
        ("bahdanau", {"d_model": 0}),
        ("transformer", {"d_model": 0}),
        ("transformer", {"n_heads": -1}),
        ("transformer", {"n_heads": True}),
        ("transformer", {"dropout": math.nan}),
        ("gpt", {"n_heads": 0}),
        ("gpt", {"n_heads": -2}),
        ("gpt", {"n_positions": 10**7}),
        ("lstm_seq2seq", {"n_layers": 10**7}),
    ],
)
def test_sizes_of_no_model(name: str, sizes: dict[str, float], tmp_path: Path) -> None:
    """Keeps out tracebacks and full memories that fuzzing has found: sizes of a stranger's."""
    path, _ = make_run(tmp_path, name)
    trained.load(path)
    made = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(made | {"model_config": made["model_config"] | sizes}))
    with pytest.raises(ValueError, match=f"{name}-seed1.*(a working model|match its record)"):
        trained.load(path)


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    """Keeps out a traceback in drawing the first token: a weight that is read seldom is enough."""
    _, weights = make_run(tmp_path, "gpt")
    weights.write_bytes(weights.read_bytes()[:-4] + b"\xff\xff\xff\x7f")
    with pytest.raises(ValueError, match=r"gpt-seed1\.safetensors contains non-finite numbers"):
        trained.load(tmp_path / "gpt-seed1")

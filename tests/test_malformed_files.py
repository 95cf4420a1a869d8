"""Parsers of files that a stranger may have written: each is read, or refused in one line."""

import codecs
import json
import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from conftest import RESULTS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seqmodels.evaluation import external
from seqmodels.evaluation.external import Text
from seqmodels.records import significance
from seqmodels.records.record import load as load_record
from seqmodels.report import ledger

PARSERS = {
    "recall/gpt-seed1.json": load_record,
    "recall/significance.json": significance.load,
    "ledger.json": lambda path: ledger.load_ledger(path.parent),
}
"""Valid files, and their parsers."""
ODD: list[Any] = [
    None, True, -1, 0, 7, 2**62, 10**30, 0.5, -1e308, math.nan, math.inf, "", "a",
    "../up", "\0", "\x1b[2J", "\ud800", "x" * 3_000, [], [[]], [0], {}, {"a": 1}, "(a+)+$",
]  # fmt: skip
"""Values that an edit puts in place of a valid one."""

many = settings(
    max_examples=60, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip


def check_refusal(error: ValueError, name: str) -> None:
    """Check that an error names the file, in one line, without commands for the terminal."""
    assert name in str(error)
    assert len(str(error).splitlines()) == 1
    assert "\x1b" not in str(error)


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
        for word in words:
            i, j = word.replace("?", "-").replace("p", "-").split("-")
            assert f"{int(i)}-{int(j)}" in written
        assert pair.sure <= pair.possible


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in a JSON value as its container and its key."""
    for key in [*(value if isinstance(value, dict) else range(len(value)))]:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


@pytest.mark.parametrize("name", PARSERS)
def test_an_edited_file_is_read_or_refused(name: str, tmp_path: Path) -> None:
    """Keeps out a traceback, or an error without its file, for a value of any other type."""
    valid, path = json.loads((RESULTS / name).read_text("utf-8")), tmp_path / Path(name).name
    parse: Callable[[Path], Any] = PARSERS[name]
    n_places = sum(1 for _ in places(valid))

    @settings(many, max_examples=30)
    @given(place=st.integers(0, n_places - 1), odd=st.sampled_from(ODD))
    def check(place: int, odd: Any) -> None:
        edited = deepcopy(valid)
        container, key = [*places(edited)][place]
        container[key] = odd
        path.write_text(json.dumps(edited), encoding="utf-8")
        try:
            parse(path)
        except ValueError as error:
            check_refusal(error, path.name)

    parse(RESULTS / name)
    check()


def test_a_record_gives_a_terminal_no_commands(tmp_path: Path) -> None:
    """Keeps out escape sequences from a record in tables, figures and messages."""
    content = json.loads((RESULTS / "recall" / "gpt-seed1.json").read_text())
    content["data"]["name"] = content["tests"][0]["axis"] = "\x1b[2J"
    content["signatures"]["bleu"] = "\x1b[2J"
    path = tmp_path / "gpt-seed1.json"
    path.write_text(json.dumps(content))
    assert "\x1b" not in json.dumps(load_record(path), ensure_ascii=False)
    assert load_record(path)["data"]["name"] == "\\x1b[2J"

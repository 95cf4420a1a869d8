"""Streams that are closed or full, narrow terminals, flags in any order, and similar names."""

import subprocess
import sys

import pytest

from seqmodels.utils.terminal import Parser, did_you_mean, format_table, wrap


@pytest.mark.skipif(sys.platform != "linux", reason="needs a POSIX shell and /dev/full")
@pytest.mark.parametrize(("redirected", "code", "message"), [
    ("models >&-", 2, "standard output is closed"),
    ("models >/dev/full", 1, "No space left"),
    ("translate bahdanau <&-", 2, "standard input is closed"),
    ("plot /nowhere 2>&-", 2, ""),
])  # fmt: skip
def test_closed_and_full_streams_get_one_line(redirected: str, code: int, message: str) -> None:
    command = f"exec {sys.executable} -W ignore -m seqmodels.cli.main {redirected}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == bool(message)


def test_lines_end_between_words_and_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/shared/runs/a-comparison-of-models/gpt-seed1.json"
    rows = [["model", "BLEU", "tokens/s"], ["gpt", "7.25", "1,234"]]
    monkeypatch.setenv("COLUMNS", "19")
    assert format_table(rows) == [
        "model  BLEU",
        "gpt    7.25",
        "model  tokens/s",
        "gpt       1,234",
    ]
    assert wrap(f"gpt: recorded in {path}.") == f"gpt: recorded in\n  {path}."
    monkeypatch.setenv("COLUMNS", "21")
    assert format_table(rows) == ["model  BLEU  tokens/s", "gpt    7.25     1,234"]
    monkeypatch.delenv("COLUMNS")
    assert wrap("a log has one line for " + "each message " * 20).count("\n") == 0
    for width, n_blocks in ((100, 1), (101, 2)):
        assert len(format_table([["a" * 40, "b" * 30, "c" * (width - 74)]])) == n_blocks


@pytest.mark.parametrize("order", [
    "run --beam 2 -- -x", "run -- -x", "--beam 2 run -- -x", "run --beam 2", "run - --beam 2",
])  # fmt: skip
def test_flags_may_stand_before_a_text_that_can_be_left_out(order: str) -> None:
    parser = Parser()
    parser.add_argument("run")
    parser.add_argument("text", nargs="?", default="-")
    parser.add_argument("--beam", default="2")
    args = parser.parse_args(order.split())
    assert vars(args) == {"run": "run", "text": "-x" if "-x" in order else "-", "beam": "2"}


def test_a_similar_name_is_one_of_those_given() -> None:
    assert did_you_mean("MYGPTT", ["gpt_conv", "MyGPT"]) == " (did you mean 'MyGPT'?)"
    assert did_you_mean("bert", ["gpt", "transformer"]) == ""
    assert did_you_mean("", ["gpt"]) == did_you_mean("gpt", []) == ""
    assert did_you_mean("x" * 10**7, ["gpt"]) == ""

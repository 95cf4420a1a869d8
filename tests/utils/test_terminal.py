"""Errors of a person, signals, narrow terminals, numbers and similar names."""

import io
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from seqmodels.models import paper_of
from seqmodels.models.registry import import_file
from seqmodels.utils import terminal
from seqmodels.utils.terminal import format_table, wrap


def test_lines_end_between_words_and_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/shared/runs/a-comparison-of-models/gpt-seed1.json"
    rows = [["model", "BLEU", "tokens/s"], ["gpt", "7.25", "1,234"]]
    monkeypatch.setenv("COLUMNS", "19")
    blocks = ["model  BLEU", "gpt    7.25", "model  tokens/s", "gpt       1,234"]
    assert format_table(rows) == blocks
    assert wrap(f"gpt: recorded in {path}.") == f"gpt: recorded in\n  {path}."
    monkeypatch.setenv("COLUMNS", "21")
    assert format_table(rows) == ["model  BLEU  tokens/s", "gpt    7.25     1,234"]
    monkeypatch.setenv("COLUMNS", "300")
    assert (terminal.terminal_width(), terminal.terminal_width(400)) == (100, 300)
    monkeypatch.delenv("COLUMNS")
    assert wrap("a log has one line for " + "each message " * 20).count("\n") == 0


def test_only_faults_of_ours_have_a_traceback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert terminal.did_you_mean("bagg", ["Bag"]) == " (did you mean 'Bag'?)"
    for error, line in (
        (lambda: paper_of("a\nb"), "FILE.py:CLASS"), (OSError("a\r\nb c"), "a b c"),
        ("\ud800".encode, "surrogates not allowed"), (MemoryError(), "out of memory"),
        (ModuleNotFoundError(name="ray.data"), "pip install ray"),
    ):  # fmt: skip
        with pytest.raises(SystemExit, match="2"):
            terminal.run_cli("task", Mock(side_effect=error))
        (printed,) = capsys.readouterr().err.splitlines()
        assert printed.startswith("task: ")
        assert printed.endswith(line)
    for fault in (KeyError("ours"), ValueError("of a library"), ModuleNotFoundError(name="lesson")):
        with pytest.raises(type(fault)):
            terminal.run_cli("task", Mock(side_effect=fault))
    with pytest.raises(ValueError, match="shorter"):  # of Python, in a line of ours
        terminal.run_cli("task", lambda: terminal.pad_columns([["a", "b"], ["c"]]))
    (tmp_path / "own.py").write_text("def refuse():\n    raise ValueError('an odd width')\n")
    with pytest.raises(SystemExit, match="2"):
        terminal.run_cli("task", import_file(tmp_path / "own.py").refuse)


@pytest.mark.parametrize("number", terminal.SIGNALS)
def test_a_signal_stops_a_command_unless_it_is_ignored(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    try:
        with pytest.raises(SystemExit, match="130"):
            terminal.run_cli("task", lambda: signal.raise_signal(number))
        assert signal.getsignal(number) is before
        signal.signal(number, signal.SIG_IGN)
        terminal.run_cli("task", lambda: signal.raise_signal(number))
    finally:
        signal.signal(number, before)
    assert capsys.readouterr().err == "task: stopped\n"


def test_a_command_stops_where_no_one_reads_and_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (stopped := KeyboardInterrupt()).add_note("the same command resumes")
    with pytest.raises(SystemExit, match="130"):
        terminal.run_cli("task", Mock(side_effect=stopped))
    assert capsys.readouterr().err == "task: stopped; the same command resumes\n"
    with ThreadPoolExecutor(1) as pool:
        pool.submit(terminal.run_cli, "task", Mock()).result()  # a thread receives no signal
    with (tmp_path / "out").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        with pytest.raises(SystemExit, match="1"):
            terminal.run_cli("task", Mock(side_effect=BrokenPipeError))
        assert (out.errors, out.line_buffering) == ("backslashreplace", True)


def test_a_bar_shows_run_phase_share_and_note(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", screen := io.StringIO())
    screen.isatty = lambda: True
    bar = terminal.ProgressBar("gpt")
    bar.detail, bar.bar.mininterval = "length", 0
    assert [*bar.track("search", [[7, 8, 9], [5]])] == [[7, 8, 9], [5]]
    bar.update("train", 1, 4)
    bar.update("train", 2, 4, "2.5 nats")
    for shown in ("gpt: search  75% |", " left, length", "gpt: train  50% |", " left, 2.5 nats"):
        assert shown in screen.getvalue()
    bar.log("recorded")
    assert capsys.readouterr().out == "gpt: recorded\n"
    bar.close()


def test_a_deferred_signal_arrives_at_the_end() -> None:
    done = []

    def run() -> None:
        with terminal.defer_signals():
            signal.raise_signal(signal.SIGTERM)
            done.append("step")
        done.append("next step")

    with pytest.raises(SystemExit):
        terminal.run_cli("task", run)
    assert done == ["step"]

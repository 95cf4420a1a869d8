"""The terminal: one line for an error, a traceback for a bug of our own."""

from __future__ import annotations

import io
import sys

import pytest

from seqmodels.utils import terminal


@pytest.mark.parametrize("error", [ValueError("a\nb\n  c"), OSError("a\r\nb c")])
def test_an_error_of_many_lines_is_one(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out messages of other libraries that fill the screen."""

    def fail() -> None:
        raise error

    with pytest.raises(SystemExit) as stopped:
        terminal.run_cli("task", fail)
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "task: a b c\n"


def test_our_own_mistakes_keep_their_traceback() -> None:
    """Keeps out a bug that is reported as if the person had made it."""

    def fail() -> None:
        raise KeyError("ours")

    with pytest.raises(KeyError):
        terminal.run_cli("task", fail)


def test_a_message_takes_the_place_of_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a message in the middle of a progress bar, and escapes in a file."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, expected in ((Terminal(), "\r\x1b[Ktask: no\n"), (io.StringIO(), "task: no\n")):
        monkeypatch.setattr(sys, "stderr", stream)
        assert terminal.print_error("task", "no", 2) == 2
        assert stream.getvalue() == expected

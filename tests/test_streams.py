"""Standard streams, pipes, memory limits and systems other than POSIX."""

import os
import subprocess
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest
from conftest import ROOT
from toy_task import flags, toy

from seqmodels.comparison import compare
from seqmodels.evaluation import external
from seqmodels.utils import terminal

PRINTS = "from seqmodels.utils.terminal import run_cli; run_cli('seqmodels', lambda: print({}))"
HELP = "import sys; sys.argv = ['seqmodels', '--help']; "
HELP += "from seqmodels.cli.main import main; main()"


@pytest.mark.parametrize(
    ("program", "streams", "code", "message"),
    [
        ("import time; time.sleep(0.3); " + PRINTS.format("'y'"), "> >(exec true)", 1, ""),
        (PRINTS.format("'y'"), "> /dev/full", 1, "No space left on device"),
        (PRINTS.format("'y'"), ">&-", 2, "is closed"),
        (HELP, "> /dev/full", 1, "No space left on device"),
        (PRINTS.format("1 / open('/nope')"), "2> /dev/full", 2, ""),
    ],
)
def test_streams_that_take_nothing(program: str, streams: str, code: int, message: str) -> None:
    """Keeps out tracebacks, `Exception ignored`, and success where what was asked for is lost."""
    env = os.environ | {"PYTHON": sys.executable, "PROGRAM": program, "PYTHONUNBUFFERED": ""}
    line = f'"$PYTHON" -c "$PROGRAM" {streams}'
    ended = subprocess.run(["bash", "-c", line], cwd=ROOT, env=env, capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (code, b"")
    assert message in ended.stderr.decode()
    assert len(ended.stderr.splitlines()) == bool(message)


def test_a_terminal_gets_no_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out escape sequences that a model has learned, or a stranger has planted."""
    text = "a\x1b[2J\x07b\x9b\tc\nd \u200c–ü"
    assert terminal.escape_for_terminal(text) == text
    monkeypatch.setattr(sys, "stdout", types.SimpleNamespace(isatty=lambda: True))
    assert terminal.escape_for_terminal(text) == "a\\x1b[2J\\x07b\\x9b\tc\nd \u200c–ü"


def test_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out another exit code, and advice to resume that begins again: --fresh does."""
    interrupted = Mock(side_effect=KeyboardInterrupt)
    with pytest.raises(SystemExit) as stopped:
        terminal.run_cli("seqmodels", interrupted)
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "seqmodels: stopped\n"
    monkeypatch.setattr(compare, "compare_in_folder", interrupted)
    for is_fresh in (False, True):
        with pytest.raises(KeyboardInterrupt) as advised:
            compare.compare(toy(), flags(tmp_path, fresh=is_fresh))
        assert ("without --fresh" in advised.value.__notes__[0]) == is_fresh


def test_pipes_are_scored(tmp_path: Path) -> None:
    """Keeps out a pipe that is refused, or read a second time."""
    for name, content in {"src": "a b\nc\n", "hyp": "x yz\nw\n"}.items():
        (tmp_path / name).write_text(content)
    pipe = tmp_path / "fifo"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(pipe.write_bytes, b"x yz\nw\n")
        _, ref, hyp = external.read_translations(tmp_path / "src", pipe, [tmp_path / "hyp"])
        assert ref.lines == hyp.lines == ["x yz", "w"]
        with pytest.raises(ValueError, match="are the same file"):  # no one waits for a writer
            external.read_translations(tmp_path / "src", pipe, [tmp_path / "." / "fifo"])


def test_counts_as_people_write_them() -> None:
    """Keeps out a count that is a float, or has to be written without exponent."""
    counts = [terminal.positive(text) for text in ("1e6", "1_000_000", "2.5e5", "7")]
    assert (counts, {*map(type, counts)}) == ([10**6, 10**6, 250_000, 7], {int})

"""Standard streams, pipes, memory limits and systems other than POSIX."""

from __future__ import annotations

import argparse
import errno
import os
import re
import subprocess
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import Call
from toy_task import flags, toy

from seqmodels.cli import main
from seqmodels.comparison import compare
from seqmodels.evaluation import external
from seqmodels.records import record
from seqmodels.report import systems
from seqmodels.utils import files, terminal

ROOT = Path(__file__).parents[1]

WINDOWS = """
import os, signal, sys
import filelock, portalocker, psutil  # these know Windows
import multiprocessing.reduction
from tqdm import tqdm

sys.modules["fcntl"] = sys.modules["resource"] = None
absent = {os: ["pread", "pwrite", "killpg", "fork", "O_NOFOLLOW", "set_blocking"]}
absent |= {signal: ["SIGHUP", "SIGKILL", "SIGPIPE"], multiprocessing.reduction: ["DupFd"]}
for module, names in absent.items():
    for name in names:
        delattr(module, name)
open_any = os.open

def open_file(path, *how, **more):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return open_any(path, *how, **more)

os.open = open_file
import importlib, pkgutil, benchmarks, seqmodels, tasks
for package in (seqmodels, tasks, benchmarks):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
from tasks.translation import __main__ as translation
translation.main("--size smoke --models lstm_seq2seq --tokens 500 --device cpu --out OUT".split())
"""
"""Take away what Windows lacks, import everything, train."""


@pytest.mark.slow
def test_it_runs_without_posix(tmp_path: Path) -> None:
    """Keeps out modules, flags and signals that exist on POSIX alone: nothing could start."""
    text = WINDOWS.replace("OUT", str(tmp_path / "out"))
    ended = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "out" / "lstm_seq2seq-seed1.json").exists()


def test_peak_memory_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a record without its memory where the system is not Linux: Windows knows a peak."""

    def absent(self: Path) -> str:
        raise FileNotFoundError(2, "No such file or directory", str(self))

    monkeypatch.setattr(Path, "read_text", absent)
    info = types.SimpleNamespace(rss=3)
    monkeypatch.setattr(psutil.Process, "memory_info", lambda self: info)
    assert record.peak_memory_bytes("cpu") == 3
    info.peak_wset = 7
    assert record.peak_memory_bytes("cpu") == 7


# --------------------------------------------------------------------------------------- streams

PRINTS = "from seqmodels.utils.terminal import run_cli; run_cli('seqmodels', lambda: print({}))"
HELP = "import sys; sys.argv = ['seqmodels', '--help']; "
HELP += "from seqmodels.cli.main import main; main()"


def shell(line: str, **variables: str) -> tuple[int, str, str]:
    """Run a line of bash, where $PYTHON is this Python; return the exit code, stdout and stderr."""
    env = os.environ | {"PYTHON": sys.executable} | variables
    ended = subprocess.run(["bash", "-c", line], cwd=ROOT, env=env, capture_output=True, timeout=60)
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


@pytest.mark.parametrize(
    ("program", "streams", "unbuffered", "code", "message"),
    [
        ("import time; time.sleep(0.3); " + PRINTS.format("'y'"), "> >(exec true)", "", 1, ""),
        (PRINTS.format("'y' * 10**6"), "> >(exec true)", "1", 1, ""),
        (PRINTS.format("'y'"), "> /dev/full", "", 1, "No space left on device"),
        (PRINTS.format("'y' * 10**6"), "> /dev/full", "1", 1, "No space left on device"),
        (PRINTS.format("'y'"), ">&-", "", 2, "is closed"),
        (HELP, "> /dev/full", "", 1, "No space left on device"),
        (PRINTS.format("1"), "2>&-", "", 0, ""),
        (PRINTS.format("1 / open('/nope')"), "2> /dev/full", "", 2, ""),
    ],
)
def test_streams_that_take_nothing(
    program: str, streams: str, unbuffered: str, code: int, message: str
) -> None:
    """Keeps out tracebacks, `Exception ignored`, and success where what was asked for is lost."""
    variables = {"PROGRAM": program, "PYTHONUNBUFFERED": unbuffered}
    result = shell(f'"$PYTHON" -c "$PROGRAM" {streams}', **variables)
    assert result[:2] == (code, "" if code else "1\n")
    assert message in result[2]
    assert len(result[2].splitlines()) == bool(message)


def test_a_terminal_gets_no_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out escape sequences that a model has learned, or a stranger has planted."""
    text = "a\x1b[2J\x07b\x9b\tc\nd \u200c–ü"
    assert terminal.escape_for_terminal(text) == text
    monkeypatch.setattr(sys, "stdout", types.SimpleNamespace(isatty=lambda: True))
    assert terminal.escape_for_terminal(text) == "a\\x1b[2J\\x07b\\x9b\tc\nd \u200c–ü"


def interrupted(*_: Any) -> None:
    """Receive Ctrl-C."""
    raise KeyboardInterrupt


def test_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out another exit code, and advice to resume that begins again: --fresh does."""
    with pytest.raises(SystemExit) as stopped:
        terminal.run_cli("seqmodels", lambda: interrupted())
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "seqmodels: stopped\n"
    monkeypatch.setattr(compare, "compare_in_folder", interrupted)
    for is_fresh in (False, True):
        with pytest.raises(KeyboardInterrupt) as advised:
            compare.compare(toy(), flags(tmp_path, fresh=is_fresh))
        assert ("without --fresh" in advised.value.__notes__[0]) == is_fresh


# ---------------------------------------------------------------------------------------- memory


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no ulimit -v")
@pytest.mark.parametrize("n_kib", [200_000, 500_000])
@pytest.mark.parametrize("argv", ["-m seqmodels.cli.main models", "-m tasks.recall --size smoke"])
def test_a_memory_limit(argv: str, n_kib: int, tmp_path: Path) -> None:
    """Keeps out the tracebacks of imports that have too little memory."""
    out = f"--out {tmp_path}" if "recall" in argv else ""
    line = f'ulimit -v {n_kib}; exec "$PYTHON" {argv} {out}'
    code, _, err = shell(line, OMP_NUM_THREADS="1")
    assert (code, len(err.splitlines())) == (2, 1), err
    assert "out of memory" in err


# ----------------------------------------------------------------------------------------- pipes


def test_pipes_are_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a pipe that is refused, read a second time, or without end."""
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
        with pytest.raises(ValueError, match="is not a regular file"):
            files.read(pipe)
        monkeypatch.setattr(files, "MAX_PIPE_BYTES", 1_000)
        pool.submit(pipe.write_bytes, b"y\n" * 501)
        with pytest.raises(ValueError, match="more than 1,000 bytes"):
            external.read_translations(pipe, tmp_path / "src", [tmp_path / "hyp"])


def test_a_figure_is_written_before_the_table_is_printed(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a `| head` that costs score.json: its reader has seen enough before the end."""

    def gone(*_: object, **__: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    for name in ("src", "ref", "hyp"):
        (tmp_path / name).write_text(f"{name} a\nb c\n")
    given = [f"--src={tmp_path / 'src'}", f"--ref={tmp_path / 'ref'}", str(tmp_path / "hyp")]
    monkeypatch.setattr(systems, "translation_table", gone)
    assert call(main, "score", *given, f"--out={tmp_path / 'out'}")[0] == 1
    assert {path.suffix for path in (tmp_path / "out").iterdir()} >= {".json", ".svg"}


# ------------------------------------------------------------------------------- numbers, advice


@pytest.mark.parametrize(
    ("text", "n"), [("1e6", 10**6), ("1_000_000", 10**6), ("2.5e5", 250_000), ("7", 7)]
)
def test_counts_as_people_write_them(text: str, n: int) -> None:
    """Keeps out `invalid positive value: '1e6'`."""
    assert terminal.positive(text) == n
    assert isinstance(terminal.positive(text), int)


@pytest.mark.parametrize("text", ["1.5", "1e-999999999", "nan", "", "0", "-1", "1e999999999"])
def test_invalid_counts(text: str) -> None:
    """Keeps out a fraction that is cut, and an endless power of ten; what was given is named."""
    with pytest.raises(argparse.ArgumentTypeError, match=re.escape(repr(text))):
        terminal.positive(text)

"""Ctrl-C, other signals and kills: what was trained is kept, and nothing runs on."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from checks import check_one_line
from conftest import ROOT

from tools.survival import PHASES, command, survive


@pytest.mark.slow
def test_kills_leave_no_trace(tmp_path: Path) -> None:
    """Keeps out any trace of a kill -9, in each phase; `python -m tools.survival` does more."""
    n, kills = survive(len(PHASES), ["lstm_seq2seq", "gpt"], 3_000, 1, tmp_path)
    assert n >= 1
    assert kills == dict.fromkeys(PHASES, 1)


def children(pid: int) -> list[int]:
    """Return the processes that train for a command: those of its children that are workers."""
    process = subprocess.run(["pgrep", "-P", str(pid), "-f", "spawn_main"], capture_output=True)
    return [int(line) for line in process.stdout.split()]


def is_running(pid: int) -> bool:
    """Return whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pgrep") is None, reason="pgrep lists the processes")
@pytest.mark.parametrize(
    ("number", "threads", "to", "code"),
    [
        (signal.SIGINT, 1, "command", 130),
        (signal.SIGHUP, 2, "command", 129),
        (signal.SIGTERM, 2, "suspended command", 143),
        (signal.SIGKILL, 2, "command", -9),
        (signal.SIGKILL, 2, "worker", 2),
    ],
)
def test_a_signal_stops_all_processes(
    number: signal.Signals, threads: int, to: str, code: int, tmp_path: Path
) -> None:
    """Keeps out a stop without a checkpoint or an end, a traceback, and processes that train on."""
    argv = command(tmp_path, ["gpt", "bahdanau"], 10_000_000)
    argv[argv.index("--checkpoint-every") + 1] = "1000"
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": str(threads)}
    with subprocess.Popen(
        argv, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        try:
            for _ in range(threads):  # one run at a time, or two
                assert "training on 10,000,000 tokens" in program.stdout.readline()
            workers = children(program.pid)
            assert len(workers) == 2 * (threads - 1)
            time.sleep(1.0)
            if to == "suspended command":
                program.send_signal(signal.SIGSTOP)
                time.sleep(2.0)
            os.kill(workers[0] if to == "worker" else program.pid, number)
            if to == "suspended command":
                program.send_signal(signal.SIGCONT)
            out, err = program.communicate(timeout=60)
        finally:
            program.kill()
    assert program.returncode == code
    if number != signal.SIGKILL:
        check_one_line((program.returncode, out, err), "translation: stopped", code=code)
        assert list(tmp_path.glob("*.checkpoint-000001-*"))
        assert not list(tmp_path.glob(".*.part"))
    if to == "worker":
        check_one_line((program.returncode, out, err), "process was killed", code=code)
    deadline = time.monotonic() + 5.0
    while (running := [pid for pid in workers if is_running(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not running

"""Ctrl-C, other signals and kills: what was done is kept, and nothing runs on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from checks import check_one_line
from conftest import Call
from toy_task import TOY

from seqmodels.comparison import launch
from seqmodels.comparison.runs import Run
from tasks.recall import __main__ as recall
from tools.survival import PHASES, command, survive

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_kills_leave_no_trace(tmp_path: Path) -> None:
    """Keeps out any trace of a kill -9, in each phase; `python -m tools.survival` does more."""
    n, kills = survive(len(PHASES), ["lstm_seq2seq", "gpt"], 3_000, 1, tmp_path)
    assert n >= 1
    assert kills == dict.fromkeys(PHASES, 1)


def busy() -> float:
    """Return how many times longer work takes now than where nothing else runs."""
    since, spent = time.monotonic(), time.thread_time()
    while time.thread_time() - spent < 0.2:
        pass
    return (time.monotonic() - since) / 0.2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["INT", "TERM", "HUP"],
)
@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_signal_stops_within_five_seconds(
    number: signal.Signals, code: int, threads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a stop without a checkpoint, a traceback, and a process that trains on."""
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    argv = command(tmp_path, ["gpt", "bahdanau"], 10_000_000)
    argv[argv.index("--checkpoint-every") + 1] = "1000"
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        argv, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        try:
            assert "training on 10,000,000 tokens" in program.stdout.readline()
            time.sleep(1.0)
            since = time.monotonic()
            program.send_signal(number)
            _, err = program.communicate(timeout=60)
        finally:
            program.kill()
    took = time.monotonic() - since
    assert program.returncode == code
    assert err == "translation: stopped; the same command resumes it\n"
    assert took < 5.0 * busy()
    assert list(tmp_path.glob("*.checkpoint-000001-*"))
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="programs cannot be suspended here")
def test_a_signal_to_a_suspended_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a signal that only a thread hears which the main one does not wait for."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    argv = command(tmp_path, ["gpt", "bahdanau"], 10_000_000)
    with subprocess.Popen(
        argv, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        try:
            assert "training on 10,000,000 tokens" in program.stdout.readline()
            time.sleep(2.0)
            program.send_signal(signal.SIGSTOP)
            time.sleep(3.0)
            program.terminate()
            program.send_signal(signal.SIGCONT)
            program.communicate(timeout=15 * busy())
        finally:
            program.kill()
    assert program.returncode == 143


# ------------------------------------------------------------------------------------------- Ctrl-C


@pytest.mark.usefixtures("undrawn")
def test_finished_runs_are_kept(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a stop that costs what was done; the same command goes on with the rest."""
    monkeypatch.setitem(recall.SIZES, "smoke", TOY)
    flags = ["--size", "smoke", "--models", "gpt", "rnn_encdec", "--tokens", 200, "--out", tmp_path]
    run_one = launch.run_one

    def stop_at_rnn(one: Run, *given: Any) -> dict[str, Any]:
        if one.name == "rnn_encdec":
            raise KeyboardInterrupt
        return run_one(one)

    monkeypatch.setattr(launch, "run_one", stop_at_rnn)
    check_one_line(call(recall, *flags), "stopped; the same command resumes", code=130)
    kept = tmp_path / "gpt-seed1.json"
    assert [path.name for path in tmp_path.glob("*-seed*.json")] == [kept.name]
    before = kept.stat().st_mtime_ns
    monkeypatch.setattr(launch, "run_one", run_one)
    code, out, _ = call(recall, *flags)
    assert code == 0
    assert "gpt, seed 1: recorded in" in out
    assert kept.stat().st_mtime_ns == before
    assert (tmp_path / "rnn_encdec-seed1.json").exists()


@pytest.mark.slow
def test_ctrl_c_in_training(tmp_path: Path) -> None:
    """Keeps out a traceback on Ctrl-C, from the real command in the middle of its training."""
    command = [sys.executable, "-m", "tasks.recall", "--size", "smoke", "--models", "rnn_encdec"]
    command += ["--tokens", "100_000_000", "--device", "cpu", "--out", str(tmp_path)]
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=env, **pipes) as program:
        try:
            assert "training on 100,000,000 tokens" in program.stdout.readline()
            program.send_signal(signal.SIGINT)
            out, err = program.communicate(timeout=60)
        finally:
            program.kill()
    check_one_line((program.returncode, out, err), "recall: stopped", code=130)
    assert not list(tmp_path.glob(".*.part"))


# -------------------------------------------------------------------------------------- two at once


def slow_pair(out: Path) -> tuple[list[str], dict[str, Any]]:
    """Return a command that trains two models at once for hours, and how to start it."""
    command = [sys.executable, "-m", "tasks.recall", "--size", "smoke"]
    command += ["--models", "rnn_encdec", "lstm_seq2seq", "--tokens", "100_000_000"]
    command += ["--device", "cpu", "--out", str(out)]
    env = os.environ | {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "PYTHONUNBUFFERED": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return command, {"cwd": ROOT, "env": env, **pipes}


def children(pid: int) -> list[int]:
    """Return the processes that train for a command: those of its children that are workers."""
    found = subprocess.run(["pgrep", "-P", str(pid), "-f", "spawn_main"], capture_output=True)
    return [int(line) for line in found.stdout.split()]


def is_running(pid: int) -> bool:
    """Return whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pgrep") is None, reason="pgrep tells what processes run")
@pytest.mark.parametrize(
    ("signals", "code", "message"),
    [
        ("parent", 130, "recall: stopped; the same command resumes"),
        ("child", 2, "recall: a training process was killed"),
        ("lost parent", -9, None),
    ],
)
def test_two_at_once_are_stopped(
    tmp_path: Path, signals: str, code: int, message: str | None
) -> None:
    """Keeps out tracebacks, a wait without end, and processes that train on for nobody."""
    command, how = slow_pair(tmp_path)
    with subprocess.Popen(command, **how) as program:
        try:
            begun = {program.stdout.readline().partition(",")[0] for _ in range(2)}
            assert begun == {"rnn_encdec", "lstm_seq2seq"}
            workers = children(program.pid)
            assert len(workers) == 2
            if signals == "child":
                os.kill(workers[0], signal.SIGKILL)
            else:
                program.send_signal(signal.SIGINT if signals == "parent" else signal.SIGKILL)
            out, err = program.communicate(timeout=60)
        finally:
            program.kill()
    assert program.returncode == code
    if message:
        check_one_line((program.returncode, out, err), message, code=code)
    assert not [pid for pid in workers if is_running(pid)]

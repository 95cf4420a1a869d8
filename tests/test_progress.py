"""What a person sees while runs are under way."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import pytest

from seqmodels.data.batches import Example
from seqmodels.evaluation.evaluate import free_running, teacher_forced
from seqmodels.training.loop import validate
from seqmodels.utils import progress
from seqmodels.utils.progress import ProgressBoard, ProgressUpdate, Reporter

ROOT = Path(__file__).parents[1]
TITLES = [f"lstm_seq2seq, seed {i}" for i in range(1, 11)]


class Clock:
    """A clock that only moves when asked."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Stop the time."""
    stopped = Clock()
    monkeypatch.setattr(progress, "time", stopped)
    return stopped


@pytest.fixture
def terminal() -> Iterator[tuple[TextIO, Callable[[], str]]]:
    """Open a terminal of 80 columns; yield its stream, and a function that reads what was drawn."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
    with open(theirs, "w", encoding="utf-8") as stream:

        def read() -> str:
            drawn = b""
            while select.select([ours], [], [], 0.3)[0]:
                drawn += os.read(ours, 4_096)
            return drawn.decode()

        yield stream, read
    os.close(ours)


def lines_of(drawn: str) -> list[str]:
    """Return what stood on the lines of a terminal, one after the other."""
    plain = re.sub(r"\x1b\[\w", "", drawn)
    return [line.rstrip() for line in re.split(r"[\r\n]+", plain) if line.strip()]


def test_evaluation_tells_how_far_it_is(tiny, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out minutes of silence: validation, teacher-forced scores and search count examples."""
    heard: list[ProgressUpdate] = []
    monkeypatch.setattr(Reporter, "send", heard.append)
    monkeypatch.setattr(Reporter, "run", "a run")
    monkeypatch.setattr(progress, "REPORT_EVERY_S", 0.0)
    monkeypatch.setattr("seqmodels.evaluation.evaluate.BATCH_TOKENS", 12)
    model, examples = tiny(name), [Example([5, 6, 7], [5, 6, 2])] * 9
    validate(model, examples, "cpu")
    teacher_forced(model, examples)
    free_running(model, examples, 1)
    free_running(model, examples, 2)
    every = {doing: [t.done for t in heard if t.phase == doing] for _, doing, *_ in heard}
    assert every == {
        "validation": [0, 4, 8, 9],
        "teacher-forced": [0, 4, 8, 9],
        "search": [0, 4, 8, 9, 0, 2, 4, 6, 8, 9],
    }
    assert {(t.run, t.total) for t in heard} == {("a run", 9)}


def test_a_run_tells_seldom(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a training that waits for its bar, and an end that is never reported."""
    heard: list[ProgressUpdate] = []
    monkeypatch.setattr(Reporter, "send", heard.append)
    for done in range(1_001):
        progress.report_progress("training", done, 1_000)
        clock.now_s += 0.01
    assert 45 <= len(heard) <= 55
    assert (heard[0].done, heard[-1].done) == (0, 1_000)


def test_the_bars_fit_80_columns(
    terminal: tuple[TextIO, Callable[[], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out losses that are cut off, lines that wrap, and bars that stay when all is done."""
    stream, read = terminal
    monkeypatch.setattr(sys, "stderr", stream)
    with ProgressBoard(TITLES, 2, 3) as board:
        board.since_s -= 100
        for i, title in enumerate(TITLES[:3]):
            board.receive(ProgressUpdate(title, "training", 0, 10**9, ""))
            note = "train 12.345, valid 12.345"
            board.receive(ProgressUpdate(title, "training", (i + 1) * 10**8, 10**9, note))
        board.runs[TITLES[0]].since_s -= 60
        board.receive(ProgressUpdate(TITLES[1], "teacher-forced", 30, 120, "test set {length}"))
        progress.log("a line between the bars")
        drawn = read()
    lines = lines_of(drawn)
    assert max(map(len, lines)) <= 80
    assert any(re.fullmatch(r"lstm_seq2seq, seed 3 training +30% .* 12\.345", at) for at in lines)
    assert any(re.search(r"seed 2 teacher-forced *25% .*test set \{length\}$", at) for at in lines)
    of_all = r"all runs +\d+% \|.*\| 2 of 12 runs done, 3 running, about \d+ min left"
    assert any(re.fullmatch(of_all, at) for at in lines)
    assert Reporter.send is None
    assert lines_of(read()) == []


def test_the_time_left_is_judged_by_the_runs_seen(clock: Clock) -> None:
    """Keeps out a time that forgets the runs to come, evaluation, or what was done before."""
    board = ProgressBoard(TITLES, 0, 2)
    assert board.remaining_s(clock.now_s) is None
    for title in TITLES[:2]:
        board.receive(ProgressUpdate(title, "training", 0, 1_000, ""))
    clock.now_s += 100
    board.receive(ProgressUpdate(TITLES[0], "training", 500, 1_000, ""))
    board.receive(ProgressUpdate(TITLES[0], "validation", 1, 2, ""))  # is not half a training
    whole_s = 200 * 1.25
    assert board.remaining_s(clock.now_s) == pytest.approx((10 * whole_s - 2 * 100 + 100) / 2)
    board.receive(ProgressUpdate(TITLES[1], "training", 500, 1_000, ""))
    assert board.remaining_s(clock.now_s) == pytest.approx((10 * whole_s - 2 * 100) / 2)
    clock.now_s += 100
    for title in TITLES[:2]:
        board.receive(ProgressUpdate(title, "search", 0, 9, ""))
    clock.now_s += 200  # now it is known how long evaluation takes
    for title in TITLES[:2]:
        board.end(title)
    assert board.remaining_s(clock.now_s) == pytest.approx(8 * 400 / 2)
    board.receive(ProgressUpdate(TITLES[2], "training", 900, 1_000, ""))  # goes on
    clock.now_s += 20
    board.receive(ProgressUpdate(TITLES[2], "training", 1_000, 1_000, ""))
    assert board.remaining_s(clock.now_s) == pytest.approx((200 + 7 * 400) / 2)
    assert board.summary(clock.now_s)[1].startswith("2 of 10 runs done, 1 running, about 25 min")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "5 s"), (44, "45 s"), (100, "2 min"), (5_000, "83 min"), (9_000, "2 h 30 min")],
)
def test_a_time_is_written_roughly(seconds: float, words: str) -> None:
    """Keeps out seconds where hours are meant."""
    assert progress.format_duration(seconds) == f"about {words}"


def test_a_file_gets_a_line_now_and_then(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """Keeps out bars and control characters in a log, and hours without a line."""
    with ProgressBoard(TITLES, 0, 2) as board:
        for _ in range(1_000):
            clock.now_s += 1
            for title in TITLES[:2]:
                done = int(clock.now_s - 100)
                board.receive(ProgressUpdate(title, "training", done, 10_000, "train 1.234"))
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("0 of 10 runs done, 2 running, about ")
    assert lines[0].endswith("; lstm_seq2seq, seed 2: training 2%, train 1.234")
    assert all(char.isprintable() for line in lines for char in line)


@pytest.mark.slow
@pytest.mark.parametrize("has_terminal", [True, False])
def test_workers_are_seen(has_terminal: bool, tmp_path: Path) -> None:
    """Keeps out runs in other processes that no one hears of, whoever watches."""
    program = [sys.executable, "-m", "tasks.recall", "--size", "smoke", "--tokens", "8000"]
    program += ["--models", "lstm_seq2seq", "gpt", "--device", "cpu", "--out", str(tmp_path)]
    env = os.environ | {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    if has_terminal:
        program = ["script", "-qec", f"stty cols 80 rows 30; {' '.join(program)}", "/dev/null"]
    done = subprocess.run(program, cwd=ROOT, env=env, capture_output=True, check=False)
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0, err
    for title in ("lstm_seq2seq, seed 1", "gpt, seed 1"):
        assert f"{title}: training on 8,000 tokens" in out
        score = r"symbol accuracy \d+\.\d %, \d+ s training, \d+ s evaluation"
        assert re.search(f"{title}: {score}", out)
    if has_terminal:
        lines = lines_of(out)
        for doing in ("training", "validation", "teacher-forced", "search"):
            assert any(re.match(rf"gpt, seed 1 +{doing}", line) for line in lines), doing
        assert any("1 of 2 runs done, 1 running" in line for line in lines)
    else:
        assert err == ""
        assert all(char.isprintable() or char == "\n" for char in out)

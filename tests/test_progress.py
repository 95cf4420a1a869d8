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
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import pytest

from seqmodels.data.batches import Example
from seqmodels.evaluation.evaluate import generate_targets, score_teacher_forced
from seqmodels.training.loop import validate
from seqmodels.utils import progress
from seqmodels.utils.progress import ProgressBoard, StatusFile

ROOT = Path(__file__).parents[1]
TITLES = [f"lstm_seq2seq, seed {i}" for i in range(1, 11)]


class Clock:
    """A clock that only moves when asked."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    time = monotonic


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Stop the time."""
    stopped = Clock()
    monkeypatch.setattr(progress, "time", stopped)
    return stopped


@pytest.fixture
def files(tmp_path: Path) -> dict[str, StatusFile]:
    """Return the status files of ten runs, by their titles."""
    return {title: StatusFile(tmp_path / f"{title}.json", title, 1_000) for title in TITLES}


def board_of(files: dict[str, StatusFile], n_recorded: int) -> ProgressBoard:
    """Return a board of the runs."""
    records = {title: file.path.parent / f"{title}.json" for title, file in files.items()}
    return ProgressBoard(records, n_recorded)


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
    heard: list[tuple[str, int, int]] = []
    one = StatusFile()
    monkeypatch.setattr(one, "update", lambda *given: heard.append(given))
    monkeypatch.setattr("seqmodels.evaluation.evaluate.BATCH_TOKENS", 12)
    model, examples = tiny(name), [Example([5, 6, 7], [5, 6, 2])] * 9
    validate(model, examples, "cpu", one)
    score_teacher_forced(model, examples, status=one)
    generate_targets(model, examples, 1, status=one)
    generate_targets(model, examples, 2, status=one)
    every = {doing: [done for phase, done, _ in heard if phase == doing] for doing, *_ in heard}
    assert every == {
        "validation": [0, 4, 8, 9],
        "teacher-forced": [0, 4, 8, 9],
        "search": [0, 4, 8, 9, 0, 2, 4, 6, 8, 9],
    }
    assert {total for *_, total in heard} == {9}


def test_a_run_writes_seldom(clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a training that waits for the disk, and a phase or an end that nobody sees."""
    one, written = StatusFile(tmp_path / "gpt-seed1.json", "gpt, seed 1"), []
    write = progress.files.write
    monkeypatch.setattr(
        progress.files, "write", lambda *a, **b: (written.append(one.now.done), write(*a, **b))
    )
    for done in range(1_001):
        one.update("training", done, 1_000, f"train {done}")
        clock.now_s += 0.01
    assert 4 <= len(written) <= 7
    assert (written[0], written[-1]) == (0, 1_000)
    one.update("search", 0, 7)
    known = progress.read_status(tmp_path / "gpt-seed1.json")
    assert known is not None
    assert (known.phase, known.done, known.total) == ("search", 0, 7)
    assert (known.tokens, known.budget, known.trained) == (1_000, 1_000, 1.0)


def test_the_bars_fit_80_columns(
    terminal: tuple[TextIO, Callable[[], str]],
    files: dict[str, StatusFile],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keeps out losses that are cut off, lines that wrap, and bars that stay when all is done."""
    stream, read = terminal
    monkeypatch.setattr(sys, "stderr", stream)
    with board_of(files, 2) as board:
        board.since_s -= 100
        for i, title in enumerate(TITLES[:3]):
            files[title].write(state="running", began=time.time() - 60)
            files[title].update("training", 0, 10**9)
            files[title].written_s = 0.0
            files[title].update("training", (i + 1) * 10**8, 10**9, "train 12.345, valid 12.345")
        files[TITLES[1]].update("teacher-forced", 30, 120, "test set {length}")
        files[TITLES[2]].line("a line between the bars")
        board.refresh()
        drawn = read()
    lines = lines_of(drawn)
    assert max(map(len, lines)) <= 80
    assert any(re.fullmatch(r"lstm_seq2seq, seed 3 training +30% .* 12\.345", at) for at in lines)
    assert any(re.search(r"seed 2 teacher-forced *25% .*test set \{length\}$", at) for at in lines)
    of_all = r"all runs +\d+% \|.*\| 2 of 12 runs done, 3 running, about \d+ min left"
    assert any(re.fullmatch(of_all, at) for at in lines)
    assert lines_of(read()) == []


def test_lines_are_printed_once(
    files: dict[str, StatusFile], capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out lines that come with each look at a file, or never, as the last ones of a run.

    A run that is lost and submitted again begins a new list.
    """
    board, one = board_of(files, 0), files[TITLES[0]]
    one.write(state="running", began=1.0)
    one.line("first")
    board.refresh()
    board.refresh()
    one.line("second")
    board.refresh()
    one.write(state="running", began=2.0, lines=["again"])
    board.refresh()
    one.line("last")
    board.end(TITLES[0])
    board.refresh()
    out = capsys.readouterr().out.splitlines()
    assert out == [f"{TITLES[0]}: {text}" for text in ("first", "second", "again", "last")]


def test_the_time_left_is_judged_by_the_runs_seen(
    clock: Clock, files: dict[str, StatusFile]
) -> None:
    """Keeps out a time that forgets the runs to come, evaluation, or what was done before."""
    board, (one, two, three, *_) = board_of(files, 0), files.values()

    def left_s() -> float | None:
        board.refresh()
        return board.remaining_s()

    assert left_s() is None
    for file in (one, two):
        file.write(state="running", began=clock.now_s)
        file.update("training", 0, 1_000)
    clock.now_s += 100
    one.update("training", 500, 1_000)
    one.update("validation", 1, 2)  # is not half a training
    done = 0.5 * progress.TRAINING_SHARE
    assert left_s() == pytest.approx(100 * (10 - done) / done)
    two.update("training", 500, 1_000)
    assert left_s() == pytest.approx(100 * (10 - 2 * done) / (2 * done))
    clock.now_s += 300
    for file in (one, two):
        file.write(state="recorded")
        board.end(file.now.run)
    assert left_s() == pytest.approx(400 * 8 / 2)
    three.write(state="running", began=clock.now_s)
    three.update("training", 500, 1_000)  # goes on
    clock.now_s += 20
    three.update("training", 1_000, 1_000)
    assert left_s() == pytest.approx(420 * (8 - 2 * done) / (2 + done))
    assert board.summary()[1].startswith("2 of 10 runs done, 1 running, about 21 min")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "5 s"), (44, "45 s"), (100, "2 min"), (5_000, "83 min"), (9_000, "2 h 30 min")],
)
def test_a_time_is_written_roughly(seconds: float, words: str) -> None:
    """Keeps out seconds where hours are meant."""
    assert progress.format_duration(seconds) == f"about {words}"


def test_a_file_gets_a_line_now_and_then(
    clock: Clock, files: dict[str, StatusFile], capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out bars and control characters in a log, and hours without a line."""
    board = board_of(files, 0)
    for file in [*files.values()][:2]:
        file.write(state="running", began=clock.now_s)
    for _ in range(1_000):
        clock.now_s += 1
        for file in [*files.values()][:2]:
            file.update("training", int(clock.now_s - 100), 10_000, "train 1.234")
        board.refresh()
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
        for doing in ("training", "validation|teacher-forced|search"):  # short phases pass unseen
            assert any(re.match(rf"gpt, seed 1 +({doing})", line) for line in lines), doing
        assert any("1 of 2 runs done, 1 running" in line for line in lines)
    else:
        assert err == ""
        assert all(char.isprintable() or char == "\n" for char in out)

"""Status files, and what is shown of the runs that write them."""

import io
import os
import platform
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seqmodels.utils import progress

PAIR = ["rnn_encdec", "gpt"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return a clock that stands still unless the test moves it."""
    clock = SimpleNamespace(now_s=1_000.0)
    now = {"monotonic": lambda: clock.now_s, "time": lambda: clock.now_s}
    monkeypatch.setattr(progress, "time", SimpleNamespace(**now))
    return clock


def test_a_status_is_written_at_intervals(tmp_path: Path, clock: SimpleNamespace) -> None:
    path, written = tmp_path / "gpt-seed1.json", []
    file = progress.StatusFile(path, "gpt, seed 1", 100)
    file.detail = "test set length"
    for _ in file.track("search", [[1, 2], [3], [4, 5, 6], [7]]):
        written.append(progress.read_status(path).done)
        clock.now_s += 0.9  # of the 2 s between two writes
    assert written == [0, 0, 0, 6]
    now = progress.read_status(path)
    assert (now.phase, now.done, now.total, now.note) == ("search", 7, 7, "test set length")
    assert (now.host, now.process, now.time) == (platform.node(), os.getpid(), clock.now_s)
    file.update("training", 30, 120, "train 1.000")  # a new phase is written at once
    now = progress.read_status(path)
    assert (now.note, now.tokens, now.budget, now.first_tokens) == ("train 1.000", 30, 120, 30)


def board_of(folder: Path, n: int) -> tuple[progress.ProgressBoard, list[Any]]:
    """Return a board of n runs beside three recorded ones, with a status file of each."""
    records = {f"run {i}": folder / f"{i}.json" for i in range(n)}
    running = [progress.StatusFile(path, title, 100) for title, path in records.items()]
    for i, file in enumerate(running):
        file.write(state="running")
        file.update("search", i, n, f"note {i}")
    return progress.ProgressBoard(records, 3), running


def test_a_terminal_shows_a_bar(tmp_path: Path, clock: Any, monkeypatch: Any, capsys: Any) -> None:
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "READ_EVERY_S", 600.0)
    monkeypatch.setenv("COLUMNS", "200")
    board, running = board_of(tmp_path, 3)

    def bar() -> str:
        board.refresh()
        return str(board.bar).strip()

    with board:
        runs = [
            f"run {i}: search {share}, note {i}" for i, share in enumerate(("0%", "33%", "67%"))
        ]
        assert bar() == f"0% |          | 3 of 6 runs done, 3 running: {'; '.join(runs)}"
        clock.now_s += 10.0
        board.end("run 1")
        line = f"about 20 s left, 4 of 6 runs done, 2 running: {runs[0]}; {runs[2]}"
        assert bar() == f"33% |###3      | {line}"
        monkeypatch.setenv("COLUMNS", "60")
        assert bar() == "33% |###3      | about 20 s left, 4 of 6 runs done, 2 …"
        running[2].add_line("last words")
        board.end("run 2")
        board.end("run 0")
        assert bar() == "100% |##########| 6 of 6 runs done"
    assert capsys.readouterr().out == "run 2: last words\n"


def test_without_a_terminal_a_line_is_written_now_and_then(
    tmp_path: Path, clock: SimpleNamespace, capsys: Any
) -> None:
    board, (one, _) = board_of(tmp_path, 2)
    for pause_s in (179.0, 2.0, 170.0, 9.0, 9.0):
        clock.now_s += pause_s
        board.refresh()
    line = "3 of 5 runs done, 2 running: run 0: search 0%, note 0; run 1: search 50%, note 1\n"
    assert capsys.readouterr().out == 2 * line
    for text in ("first", "second", "resumed"):
        if text == "resumed":  # by another process
            one.write(lines=[])
        one.add_line(text)
        board.refresh()
    assert capsys.readouterr().out == "run 0: first\nrun 0: second\nrun 0: resumed\n"


def test_the_time_left_follows_from_the_runs_so_far(tmp_path: Path, clock: Any) -> None:
    records = {f"seed {i}": tmp_path / f"{i}.json" for i in range(10)}
    one, two, *_ = (progress.StatusFile(path, run, 1_000) for run, path in records.items())
    board = progress.ProgressBoard(records, 0)

    def left() -> str:
        board.refresh()
        return board.describe().partition(" left, ")[0]

    assert left() == "0 of 10 runs done"
    one.write(state="running")
    one.update("training", 0, 1_000)
    clock.now_s += 100
    one.update("training", 500, 1_000)
    one.update("validation", 1, 2)  # not half a training
    assert left() == "about 40 min"  # 100 s for 0.4 runs of 10
    clock.now_s += 300
    board.end(one.now.run)
    assert left() == "about 60 min"  # 400 s for one of 10
    two.write(state="running")
    two.update("training", 500, 1_000)  # resumed: what it had trained before does not count
    clock.now_s += 20
    two.update("training", 1_000, 1_000)
    assert left() == "about 41 min"  # 420 s for 1.4 runs, 8.2 are left


def test_durations_are_rounded() -> None:
    times = [progress.format_duration(s) for s in (1, 88, 95, 90 * 60, 8 * 3600 - 1)]
    expected = ["5 s", "90 s", "2 min", "1 h 30 min", "7 h 59 min"]
    assert times == [f"about {text}" for text in expected]

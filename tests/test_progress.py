"""Progress: the time left, from the status files of the runs so far."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqmodels.utils import progress
from seqmodels.utils.progress import ProgressBoard, StatusFile


class Clock:
    """A clock that only moves when asked."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    time = monotonic


def test_the_time_left_follows_from_the_runs_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a time that forgets the runs to come, evaluation, or what was done before."""
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    records = {f"seed {i}": tmp_path / f"{i}.json" for i in range(10)}
    one, two, three, *_ = (StatusFile(path, run, 1_000) for run, path in records.items())
    board = ProgressBoard(records, 0)

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
    half = 0.5 * progress.TRAINING_SHARE
    assert left_s() == pytest.approx(100 * (10 - half) / half)
    two.update("training", 500, 1_000)
    assert left_s() == pytest.approx(100 * (10 - 2 * half) / (2 * half))
    clock.now_s += 300
    for file in (one, two):
        file.write(state="recorded")
        board.end(file.now.run)
    assert left_s() == pytest.approx(400 * 8 / 2)
    three.write(state="running", began=clock.now_s)
    three.update("training", 500, 1_000)  # it resumes
    clock.now_s += 20
    three.update("training", 1_000, 1_000)
    assert left_s() == pytest.approx(420 * (8 - 2 * half) / (2 + half))
    share, line = board.summary()
    assert line.startswith("2 of 10 runs done, 1 running, about 21 min")
    assert share == pytest.approx(420 / (420 + board.remaining_s()))

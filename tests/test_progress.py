"""Progress: the status file of a run, the bars or lines drawn from it, and the time left."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqmodels.utils import progress
from seqmodels.utils.progress import ProgressBoard, StatusFile

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


def test_the_time_left_follows_from_the_runs_so_far(
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


def test_a_duration_is_rounded() -> None:
    """Keeps out seconds where hours are meant, at both sides of each change of unit."""
    for seconds, text in (
        (0, "5 s"), (44, "45 s"), (89, "90 s"), (90, "2 min"), (5_399, "90 min"),
        (5_400, "1 h 30 min"), (9_000, "2 h 30 min"),
    ):  # fmt: skip
        assert progress.format_duration(seconds) == f"about {text}"

"""The progress of a comparison on the terminal, drawn from the status files of its runs. No torch.

There is a bar for each active run and one for all of them; without a terminal, a line is written
every few minutes.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

from tqdm import tqdm

from seqmodels.utils import status, terminal
from seqmodels.utils.status import Status

READ_EVERY_S = 0.5
"""Time between two readings of the status files."""
LINE_EVERY_S = 180.0
"""Time between two lines where there is no terminal."""
MIN_ESTIMATE_S = 2.0
"""Before this, the speed is too uncertain for an estimate of the time left."""
MAX_BARS = 16
"""Bars of runs on a cluster, of which there can be hundreds."""
EVALUATION_SHARE = 0.25
"""Assumed ratio of evaluation time to training time, until a run has ended."""


class ProgressBoard:
    """The display of the runs of a comparison, as a context manager that follows their files.

    `records` are the paths of the records to be made, by the runs' titles. `n_at_once` is None
    where a cluster decides how many runs train at once. If it is not shown, as another process
    shows it, it does nothing.
    """

    def __init__(
        self,
        records: Mapping[str, Path],
        n_recorded: int,
        n_at_once: int | None,
        is_shown: bool = True,
    ):
        self.records, self.n_recorded, self.n_at_once = dict(records), n_recorded, n_at_once
        self.n = n_recorded + len(self.records)
        self.runs: dict[str, Status] = {}
        """The latest status of the runs that have begun."""
        self.ended: set[str] = set()
        self.n_lines: dict[tuple[str, float], int] = {}
        """How many lines of a run have been printed, by its title and when its process began."""
        self.lock, self.stopped = threading.RLock(), threading.Event()
        self.since_s = self.line_s = time.monotonic()
        self.bars: list[tqdm] = []
        self.is_shown, self.is_drawn = is_shown, is_shown and sys.stderr.isatty()
        self.watcher = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self) -> ProgressBoard:
        if self.is_drawn:
            n_bars = 1 + min(self.n_at_once or MAX_BARS, len(self.records))
            style = {"total": 1.0, "leave": False, "dynamic_ncols": True, "bar_format": " "}
            self.bars = [tqdm(position=i, **style) for i in range(n_bars)]
        if self.is_shown:
            self.watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        if self.is_shown:
            self.watcher.join()
            self.read_all()
        for bar in reversed(self.bars):
            bar.close()
        self.bars = []

    def watch(self) -> None:
        """Show what the files say, until the board is closed."""
        while not self.stopped.wait(READ_EVERY_S):
            self.refresh()

    def refresh(self) -> None:
        """Read the files of the runs that have not ended, print their new lines, and draw them."""
        with self.lock:
            self.read_all()
            self.draw()

    def read_all(self) -> None:
        """Read the status of all runs that have not ended."""
        for title in self.records:
            if title not in self.ended:
                self.read(title)

    def read(self, title: str) -> None:
        """Read the status of a run, and print its new lines."""
        latest = status.read(self.records[title])
        if latest is None:
            return
        if latest.state == "waiting":  # perhaps again, after its machine was lost
            self.runs.pop(title, None)
            return
        self.runs[title] = latest
        key = title, latest.began
        for text in latest.lines[self.n_lines.get(key, 0) :]:
            self.print(f"{title}: {text}")
        self.n_lines[key] = len(latest.lines)

    def end(self, title: str) -> None:
        """Note that a run has ended, and print its last lines."""
        with self.lock:
            if self.is_shown:
                self.read(title)
            self.ended.add(title)

    def print(self, line: str) -> None:
        """Print a line, above the bars if there are any."""
        if not self.is_shown:
            return
        with self.lock:
            tqdm.write(line) if self.bars else terminal.print_line(line)
            sys.stdout.flush()

    def running(self) -> list[Status]:
        """Return the status of the active runs."""
        return [known for title, known in self.runs.items() if title not in self.ended]

    def remaining_s(self) -> float | None:
        """Return an estimate of the time left, from the runs so far; None: not known yet.

        Runs that have not begun are expected to take as long as the others on average.
        """
        ratios = [
            (run.time - run.trained) / max(run.trained - run.began, 0.1)
            for title, run in self.runs.items()
            if title in self.ended and run.trained is not None
        ]
        whole, all_s, left = 1 + (fmean(ratios) if ratios else EVALUATION_SHARE), [], []
        for title, run in self.runs.items():
            if (training_s := run.training_s) is None:
                continue
            all_s.append(whole * training_s)
            if title not in self.ended:
                before = (run.first_tokens or 0) / run.budget  # trained in another process
                left.append(max(0.0, (whole - before) * training_s - (run.time - run.began)))
        if not all_s:
            return None
        left += [fmean(all_s)] * (len(self.records) - len(self.ended) - len(left))
        return max(sum(left) / (self.n_at_once or max(len(self.running()), 1)), *left, 0.0)

    def summary(self) -> tuple[float, str]:
        """Return the fraction of the time that has passed, and the line about all runs."""
        n_running, n_done, left_s = len(self.running()), len(self.ended), self.remaining_s()
        over_s = time.monotonic() - self.since_s
        line = f"{self.n_recorded + n_done} of {self.n} runs done, {n_running} running"
        if n_done == len(self.records):
            return 1.0, line
        if left_s is None or over_s < MIN_ESTIMATE_S:
            return 0.0, line
        return over_s / (over_s + left_s), f"{line}, {format_duration(left_s)} left"

    def draw(self) -> None:
        """Draw the bars; without a terminal, write a line if it is time for one."""
        if self.bars:
            *of_runs, of_all = self.bars
            running = self.running()
            for bar, run in zip(of_runs, running, strict=False):
                draw_bar(bar, f"{run.run:20.20} {run.phase:14.14}", run.share, run.note)
            for bar in of_runs[len(running) :]:
                bar.bar_format = " "
                bar.refresh()
            draw_bar(of_all, "all runs ", *self.summary())
        elif not self.is_drawn and time.monotonic() >= self.line_s + LINE_EVERY_S:
            self.line_s = time.monotonic()
            runs = "; ".join(describe(run) for run in self.running())
            terminal.print_line(f"{self.summary()[1]}: {runs}")


def draw_bar(bar: tqdm, name: str, share: float, note: str) -> None:
    """Draw a bar between a name and a note, cut off where the terminal ends."""
    left, right = (words.replace("{", "{{").replace("}", "}}") for words in (name, note))
    bar.n, bar.bar_format = share, f"{left}{share:4.0%} |{{bar:10}}| {right}"
    bar.refresh()


def describe(run: Status) -> str:
    """Format a run's status as text, for a file."""
    return f"{run.run}: {run.phase} {run.share:.0%}{', ' if run.note else ''}{run.note}"


def format_duration(seconds: float) -> str:
    """Format an approximate duration."""
    if seconds < 90:
        return f"about {max(5, 5 * round(seconds / 5))} s"
    if seconds < 90 * 60:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"

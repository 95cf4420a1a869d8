"""Progress of the runs of a comparison: every process reports, and one displays. No torch.

A run can have a process of its own. It sends each `ProgressUpdate` to the `ProgressBoard` of the
process that the user started, which draws a bar for each active run and one for all of them;
without a terminal, it writes a line every few minutes.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import fmean
from types import TracebackType
from typing import NamedTuple

from tqdm import tqdm

from seqmodels.utils import terminal

REPORT_EVERY_S = 0.2
"""Minimum time between two reports of a run."""
LINE_EVERY_S = 180.0
"""Time between two lines where there is no terminal."""
MIN_ESTIMATE_S = 2.0
"""Before this, the speed is too uncertain for an estimate of the time left."""
TRAINING, VALIDATION = "training", "validation"
MAX_BARS = 16
"""Bars of runs on a cluster, of which there can be hundreds."""
EVALUATION_SHARE = 0.25
"""Assumed ratio of evaluation time to training time, until a run has ended."""


# ----------------------------------------------------------------------------------- Reporting


class ProgressUpdate(NamedTuple):
    """The current activity of a run, and its progress."""

    run: str
    phase: str
    done: int
    total: int
    note: str

    @property
    def share(self) -> float:
        """Return the fraction that is done."""
        return self.done / max(self.total, 1)


class Reporter:
    """Who reports in this process, and to whom."""

    run = ""
    """The title of the current run."""
    detail = ""
    """A note for reports without one: the set being evaluated."""
    send: Callable[[ProgressUpdate | str], None] | None = None
    """Receives the reports; None: nobody does."""
    last_s = 0.0


def report_progress(phase: str, done: int, total: int, note: str = "") -> None:
    """Report a run's progress: always at its beginning and end, now and then in between."""
    if Reporter.send is None:
        return
    if 0 < done < total and time.monotonic() < Reporter.last_s + REPORT_EVERY_S:
        return
    Reporter.last_s = time.monotonic()
    Reporter.send(ProgressUpdate(Reporter.run, phase, done, total, note or Reporter.detail))


def track(phase: str, batches: Sequence[list[int]]) -> Iterator[list[int]]:
    """Yield the batches, and report how many of their examples are done."""
    done, total = 0, sum(map(len, batches))
    for batch in batches:
        report_progress(phase, done, total)
        yield batch
        done += len(batch)
    report_progress(phase, done, total)


def log(line: str) -> None:
    """Print one line, above the progress bars if there are any."""
    (Reporter.send or terminal.print_line)(line)


# --------------------------------------------------------------------------------- Displaying


@dataclass
class RunProgress:
    """One run, as known from its reports."""

    latest: ProgressUpdate
    first_share: float
    """Share of its training done at its first report: a resumed run does not begin at zero."""
    share: float
    since_s: float
    trained_s: float | None = None
    """When its training was complete."""
    ended_s: float | None = None

    def training_s(self, now_s: float) -> float | None:
        """Return an estimate of the whole training time; None while it is unknown."""
        until_s, more = self.trained_s or now_s, self.share - self.first_share
        return (until_s - self.since_s) / more if more > 0 else None


class ProgressBoard(AbstractContextManager["ProgressBoard"]):
    """The display of all runs of a comparison; nothing is shown where another process does.

    `n_parallel` is None where a cluster decides how many runs train at once.
    """

    def __init__(
        self, titles: Iterable[str], n_recorded: int, n_parallel: int | None, is_shown: bool = True
    ):
        self.waiting, self.n_parallel = list(titles), n_parallel
        self.n_recorded, self.n = n_recorded, n_recorded + len(self.waiting)
        self.runs: dict[str, RunProgress] = {}
        self.lock, self.since_s = threading.RLock(), time.monotonic()
        self.line_s, self.bars = self.since_s, list[tqdm]()
        self.is_shown, self.is_drawn = is_shown, is_shown and sys.stderr.isatty()

    def __enter__(self) -> ProgressBoard:
        Reporter.send = self.receive if self.is_shown else lambda _: None
        if self.is_drawn:
            n_lines = 1 + min(self.n_parallel or MAX_BARS, len(self.waiting))
            look = {"total": 1.0, "leave": False, "dynamic_ncols": True, "bar_format": " "}
            self.bars = [tqdm(position=i, **look) for i in range(n_lines)]
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        with self.lock:
            Reporter.send = None
            for bar in reversed(self.bars):
                bar.close()
            self.bars = []

    def receive(self, update: ProgressUpdate | str) -> None:
        """Receive a run's report and show it; a string is a line to print."""
        with self.lock:
            if isinstance(update, str):
                tqdm.write(update) if self.bars else terminal.print_line(update)
                sys.stdout.flush()
                return
            now_s = time.monotonic()
            is_training = update.phase in (TRAINING, VALIDATION)
            share = update.share if is_training else 1.0
            if update.run in self.waiting:
                self.waiting.remove(update.run)
                self.runs[update.run] = RunProgress(update, share, share, now_s)
            if (run := self.runs.get(update.run)) is None:
                return
            if update.phase != VALIDATION:
                run.share = share
            if not is_training:
                run.trained_s = run.trained_s or now_s
            run.latest = update
            self.show(now_s)

    def end(self, title: str) -> None:
        """Note that a run has ended."""
        with self.lock:
            if title in self.waiting:
                self.waiting.remove(title)
                self.n_recorded += 1
            elif title in self.runs:
                self.runs[title].ended_s = time.monotonic()
            self.show(time.monotonic())

    def running(self) -> list[RunProgress]:
        """Return the active runs."""
        return [run for run in self.runs.values() if run.ended_s is None]

    def remaining_s(self, now_s: float) -> float | None:
        """Return an estimate of the time left, from the runs so far; None: not known yet.

        Runs that have not begun are expected to take as long as the others on average.
        """
        ratios = [
            (run.ended_s - run.trained_s) / max(run.trained_s - run.since_s, 0.1)
            for run in self.runs.values()
            if run.ended_s and run.trained_s
        ]
        ratio, whole, left = fmean(ratios) if ratios else EVALUATION_SHARE, [], []
        for run in self.runs.values():
            if (training_s := run.training_s(now_s)) is None:
                continue
            whole.append(training_s * (1 + ratio))
            if run.ended_s is None:
                share = run.first_share * training_s  # trained before, in another process
                left.append(max(0.0, whole[-1] - share - (now_s - run.since_s)))
        n_unknown = len(self.waiting) + len(self.running()) - len(left)
        if not whole:
            return None
        left += [fmean(whole)] * n_unknown
        n_parallel = self.n_parallel or max(len(self.running()), 1)
        return max(sum(left) / n_parallel, max(left, default=0.0))

    def summary(self, now_s: float) -> tuple[float, str]:
        """Return the fraction of the time that has passed, and the line about all runs."""
        n_running, left_s = len(self.running()), self.remaining_s(now_s)
        n_done, over_s = self.n_recorded + len(self.runs) - n_running, now_s - self.since_s
        line = f"{n_done} of {self.n} runs done, {n_running} running"
        if left_s is None or over_s < MIN_ESTIMATE_S:
            return 0.0, line
        if not (n_running or self.waiting):
            return 1.0, line
        return over_s / (over_s + left_s), f"{line}, {format_duration(left_s)} left"

    def show(self, now_s: float) -> None:
        """Redraw the bars; without a terminal, write a line if it is time for one."""
        if self.bars:
            *of_runs, of_all = self.bars
            updates = [run.latest for run in self.running()]
            for bar, update in zip(of_runs, updates, strict=False):
                draw_bar(bar, f"{update.run:20.20} {update.phase:14.14}", update.share, update.note)
            for bar in of_runs[len(updates) :]:
                bar.bar_format = " "
                bar.refresh()
            draw_bar(of_all, "all runs ", *self.summary(now_s))
        elif self.is_shown and not self.is_drawn and now_s >= self.line_s + LINE_EVERY_S:
            self.line_s = now_s
            updates_line = "; ".join(format_update(run.latest) for run in self.running())
            terminal.print_line(f"{self.summary(now_s)[1]}: {updates_line}")


def draw_bar(bar: tqdm, name: str, share: float, note: str) -> None:
    """Draw a bar between a name and a note, cut off where the terminal ends."""
    left, right = (words.replace("{", "{{").replace("}", "}}") for words in (name, note))
    bar.n, bar.bar_format = share, f"{left}{share:4.0%} |{{bar:10}}| {right}"
    bar.refresh()


def format_update(update: ProgressUpdate) -> str:
    """Format a report as text, for a file."""
    note = f", {update.note}" if update.note else ""
    return f"{update.run}: {update.phase} {update.share:.0%}{note}"


def format_duration(seconds: float) -> str:
    """Format an approximate duration."""
    if seconds < 90:
        return f"about {max(5, 5 * round(seconds / 5))} s"
    if seconds < 90 * 60:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"

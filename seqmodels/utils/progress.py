"""Progress of the runs of a comparison: every process reports, and one displays. No torch.

A run can have a process of its own. It sends its progress, as `Told`, to the `Board` of the process
that the user started, which draws a bar for each active run and one for all of them; without a
terminal, it writes a line every few minutes.
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

TELL_EVERY_S = 0.2
"""Minimum time between two reports of a run."""
LINE_EVERY_S = 180.0
"""Time between two lines where there is no terminal."""
SURE_S = 2.0
"""Before this, the speed is too uncertain for an estimate of the time left."""
TRAINING, VALIDATION = "training", "validation"
EVALUATION = 0.25
"""Assumed ratio of evaluation time to training time, until a run has ended."""


# ----------------------------------------------------------------------------------- Reporting


class Told(NamedTuple):
    """The current activity of a run, and its progress."""

    run: str
    doing: str
    done: int
    total: int
    note: str

    @property
    def share(self) -> float:
        """Return the fraction that is done."""
        return self.done / max(self.total, 1)


class Here:
    """Who reports in this process, and to whom."""

    run = ""
    """The title of the current run."""
    about = ""
    """A note for reports without one: the set being evaluated."""
    send: Callable[[Told | str], None] | None = None
    """Receives the reports; None: nobody does."""
    last_s = 0.0


def tell(doing: str, done: int, total: int, note: str = "") -> None:
    """Report a run's progress: always at its beginning and end, now and then in between."""
    if Here.send is None:
        return
    if 0 < done < total and time.monotonic() < Here.last_s + TELL_EVERY_S:
        return
    Here.last_s = time.monotonic()
    Here.send(Told(Here.run, doing, done, total, note or Here.about))


def counted(doing: str, batches: Sequence[list[int]]) -> Iterator[list[int]]:
    """Yield the batches, and report how many of their examples are done."""
    done, total = 0, sum(map(len, batches))
    for batch in batches:
        tell(doing, done, total)
        yield batch
        done += len(batch)
    tell(doing, done, total)


def say(line: str) -> None:
    """Print one line, above the progress bars if there are any."""
    (Here.send or terminal.say)(line)


# --------------------------------------------------------------------------------- Displaying


@dataclass
class Seen:
    """One run, as known from its reports."""

    told: Told
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


class Board(AbstractContextManager["Board"]):
    """The display of all runs of a comparison."""

    def __init__(self, titles: Iterable[str], n_recorded: int, n_at_once: int):
        self.waiting, self.n_at_once = list(titles), n_at_once
        self.n_recorded, self.n = n_recorded, n_recorded + len(self.waiting)
        self.seen: dict[str, Seen] = {}
        self.lock, self.since_s = threading.RLock(), time.monotonic()
        self.line_s, self.bars = self.since_s, list[tqdm]()
        self.is_drawn = sys.stderr.isatty()

    def __enter__(self) -> Board:
        Here.send = self.hear
        if self.is_drawn:
            n_lines = 1 + min(self.n_at_once, len(self.waiting))
            look = {"total": 1.0, "leave": False, "dynamic_ncols": True, "bar_format": " "}
            self.bars = [tqdm(position=i, **look) for i in range(n_lines)]
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        with self.lock:
            Here.send = None
            for bar in reversed(self.bars):
                bar.close()
            self.bars = []

    def hear(self, told: Told | str) -> None:
        """Receive a run's report and show it; a string is a line to print."""
        with self.lock:
            if isinstance(told, str):
                tqdm.write(told) if self.bars else terminal.say(told)
                sys.stdout.flush()
                return
            now_s = time.monotonic()
            is_training = told.doing in (TRAINING, VALIDATION)
            share = told.share if is_training else 1.0
            if told.run in self.waiting:
                self.waiting.remove(told.run)
                self.seen[told.run] = Seen(told, share, share, now_s)
            if (run := self.seen.get(told.run)) is None:
                return
            if told.doing != VALIDATION:
                run.share = share
            if not is_training:
                run.trained_s = run.trained_s or now_s
            run.told = told
            self.show(now_s)

    def end(self, title: str) -> None:
        """Note that a run has ended."""
        with self.lock:
            if title in self.waiting:
                self.waiting.remove(title)
                self.n_recorded += 1
            elif title in self.seen:
                self.seen[title].ended_s = time.monotonic()
            self.show(time.monotonic())

    def running(self) -> list[Seen]:
        """Return the active runs."""
        return [run for run in self.seen.values() if run.ended_s is None]

    def left_s(self, now_s: float) -> float | None:
        """Return an estimate of the time left, from the runs so far; None: not known yet.

        Runs that have not begun are expected to take as long as the others on average.
        """
        ratios = [
            (run.ended_s - run.trained_s) / max(run.trained_s - run.since_s, 0.1)
            for run in self.seen.values()
            if run.ended_s and run.trained_s
        ]
        ratio, whole, left = fmean(ratios) if ratios else EVALUATION, [], []
        for run in self.seen.values():
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
        return max(sum(left) / self.n_at_once, max(left, default=0.0))

    def summary(self, now_s: float) -> tuple[float, str]:
        """Return the fraction of the time that has passed, and the line about all runs."""
        n_running, left_s = len(self.running()), self.left_s(now_s)
        n_done, over_s = self.n_recorded + len(self.seen) - n_running, now_s - self.since_s
        line = f"{n_done} of {self.n} runs done, {n_running} running"
        if left_s is None or over_s < SURE_S:
            return 0.0, line
        if not (n_running or self.waiting):
            return 1.0, line
        return over_s / (over_s + left_s), f"{line}, {in_words(left_s)} left"

    def show(self, now_s: float) -> None:
        """Redraw the bars; without a terminal, write a line if it is time for one."""
        if self.bars:
            *of_runs, of_all = self.bars
            told = [run.told for run in self.running()]
            for bar, one in zip(of_runs, told, strict=False):
                draw(bar, f"{one.run:20.20} {one.doing:14.14}", one.share, one.note)
            for bar in of_runs[len(told) :]:
                bar.bar_format = " "
                bar.refresh()
            draw(of_all, "all runs ", *self.summary(now_s))
        elif not self.is_drawn and now_s >= self.line_s + LINE_EVERY_S:
            self.line_s = now_s
            doing = "; ".join(in_short(run.told) for run in self.running())
            terminal.say(f"{self.summary(now_s)[1]}: {doing}")


def draw(bar: tqdm, name: str, share: float, note: str) -> None:
    """Draw a bar between a name and a note, cut off where the terminal ends."""
    left, right = (words.replace("{", "{{").replace("}", "}}") for words in (name, note))
    bar.n, bar.bar_format = share, f"{left}{share:4.0%} |{{bar:10}}| {right}"
    bar.refresh()


def in_short(told: Told) -> str:
    """Format a report as text, for a file."""
    note = f", {told.note}" if told.note else ""
    return f"{told.run}: {told.doing} {told.share:.0%}{note}"


def in_words(seconds: float) -> str:
    """Format an approximate duration."""
    if seconds < 90:
        return f"about {max(5, 5 * round(seconds / 5))} s"
    if seconds < 90 * 60:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"

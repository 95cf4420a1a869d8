"""How far the runs of a comparison are: every process tells, and one draws. No torch.

A run may be in a process of its own. What it does goes, as `Told`, to the `Board` of the process
that was started by the person: a bar for each run that is under way and one for all of them; or,
where no one watches a terminal, a line every few minutes.
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
"""How often a run tells how far it is, at most."""
LINE_EVERY_S = 180.0
"""How often a line is written where there is no terminal."""
SURE_S = 2.0
"""Until then the speed is no guide to the time left."""
TRAINING, VALIDATION = "training", "validation"
EVALUATION = 0.25
"""Time of a run's evaluation as a share of its training's, until one has ended."""


# ----------------------------------------------------------------------------------- Who tells


class Told(NamedTuple):
    """What a run does and how far it is."""

    run: str
    doing: str
    done: int
    total: int
    note: str

    @property
    def share(self) -> float:
        """Return how much of it is done, of 1."""
        return self.done / max(self.total, 1)


class Here:
    """Who tells in this process, and to whom."""

    run = ""
    """The title of the run under way."""
    about = ""
    """What is being evaluated."""
    send: Callable[[Told | str], None] | None = None
    """Where it is told; None: nowhere."""
    last_s = 0.0


def tell(doing: str, done: int, total: int, note: str = "") -> None:
    """Tell how far a run is: at its beginning and its end for sure, now and then in between."""
    if Here.send is None:
        return
    if 0 < done < total and time.monotonic() < Here.last_s + TELL_EVERY_S:
        return
    Here.last_s = time.monotonic()
    Here.send(Told(Here.run, doing, done, total, note or Here.about))


def counted(doing: str, batches: Sequence[list[int]]) -> Iterator[list[int]]:
    """Yield the batches and tell how many of their examples are done."""
    done, total = 0, sum(map(len, batches))
    for batch in batches:
        tell(doing, done, total)
        yield batch
        done += len(batch)
    tell(doing, done, total)


def say(line: str) -> None:
    """Print one line, between the bars where there are any."""
    (Here.send or terminal.say)(line)


# ----------------------------------------------------------------------------------- Who draws


@dataclass
class Seen:
    """One run, as far as it has told of itself."""

    told: Told
    first_share: float
    """Of its training, when it was first heard: a run that goes on does not begin at zero."""
    share: float
    since_s: float
    trained_s: float | None = None
    """When its training was complete."""
    ended_s: float | None = None

    def training_s(self, now_s: float) -> float | None:
        """Return how long all of its training takes; None while that cannot be known."""
        until_s, more = self.trained_s or now_s, self.share - self.first_share
        return (until_s - self.since_s) / more if more > 0 else None


class Board(AbstractContextManager["Board"]):
    """What the person sees of all runs of a comparison."""

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
        """Take in what a run tells, and show it; a text is a line to be printed."""
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
        """Take in that a run has ended."""
        with self.lock:
            if title in self.waiting:
                self.waiting.remove(title)
                self.n_recorded += 1
            elif title in self.seen:
                self.seen[title].ended_s = time.monotonic()
            self.show(time.monotonic())

    def running(self) -> list[Seen]:
        """Return the runs under way."""
        return [run for run in self.seen.values() if run.ended_s is None]

    def left_s(self, now_s: float) -> float | None:
        """Return how long the rest takes, judged by the runs that were seen; None: not known yet.

        Runs that are still to come take as long as the mean of the others.
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
                share = run.first_share * training_s  # was done before
                left.append(max(0.0, whole[-1] - share - (now_s - run.since_s)))
        n_unknown = len(self.waiting) + len(self.running()) - len(left)
        if not whole:
            return None
        left += [fmean(whole)] * n_unknown
        return max(sum(left) / self.n_at_once, max(left, default=0.0))

    def summary(self, now_s: float) -> tuple[float, str]:
        """Return how much of the time is over, and the line about all runs."""
        n_running, left_s = len(self.running()), self.left_s(now_s)
        n_done, over_s = self.n_recorded + len(self.seen) - n_running, now_s - self.since_s
        line = f"{n_done} of {self.n} runs done, {n_running} running"
        if left_s is None or over_s < SURE_S:
            return 0.0, line
        if not (n_running or self.waiting):
            return 1.0, line
        return over_s / (over_s + left_s), f"{line}, {in_words(left_s)} left"

    def show(self, now_s: float) -> None:
        """Draw the bars again; without a terminal, write a line if it is time for one."""
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
    """Draw a line: who does what, how far, how well; it is cut where the terminal ends."""
    left, right = (words.replace("{", "{{").replace("}", "}}") for words in (name, note))
    bar.n, bar.bar_format = share, f"{left}{share:4.0%} |{{bar:10}}| {right}"
    bar.refresh()


def in_short(told: Told) -> str:
    """Return the same for a file."""
    note = f", {told.note}" if told.note else ""
    return f"{told.run}: {told.doing} {told.share:.0%}{note}"


def in_words(seconds: float) -> str:
    """Write a time that is not known exactly."""
    if seconds < 90:
        return f"about {max(5, 5 * round(seconds / 5))} s"
    if seconds < 90 * 60:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"

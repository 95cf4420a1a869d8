"""Progress: the status file that each run writes, and the bar drawn from these. No torch.

A run trains in this process, in another one, or on another machine that shares the disk. The
command that launched it reads its status file.
"""

from __future__ import annotations

import os
import platform
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel
from tqdm import tqdm

from seqmodels.utils import files
from seqmodels.utils.terminal import one_line, terminal_width, wrap

STATUS_SUFFIX = ".status"
WRITE_EVERY_S = 2.0
"""Minimum time between two writes of a status, except when a phase begins or ends."""
READ_EVERY_S = 0.5
"""Time between two readings of the status files."""
LINE_EVERY_S = 180.0
"""Time between two lines where there is no terminal."""
N_BAR = 18
"""Characters of a bar before its description."""
BAR = "{percentage:3.0f}% |{bar:10}| {desc}"
TRAINING = "training"
TRAINING_SHARE = 0.8
"""Assumed share of training in the time of a run; the rest is its evaluation."""

# ----------------------------------------------------------------------------------- Status files


class Status(BaseModel):
    """The state of a run that is not recorded yet."""

    run: str
    """Title, such as "gpt, seed 1"."""
    state: Literal["waiting", "running", "stopped", "failed", "recorded"] = "waiting"
    phase: str = ""
    done: int = 0
    total: int = 0
    """Units of work in this phase: tokens or examples."""
    tokens: int = 0
    budget: int = 0
    """Target tokens to train on."""
    note: str = ""
    """Losses, the test set that is being evaluated, or the error of a failed run."""
    lines: list[str] = []
    """Messages to the user."""
    host: str = ""
    process: int = 0
    time: float = 0.0
    """Time of this status, in seconds since 1970."""
    first_tokens: int | None = None
    """Tokens trained when this process began: a resumed run does not begin at zero."""


def status_path(record: Path) -> Path:
    """Return the path of a run's status, from that of its record."""
    return record.with_name(f".{record.stem}{STATUS_SUFFIX}")


def read_status(record: Path) -> Status | None:
    """Return a run's status, given its record's path; None if it has none, or a damaged one."""
    with suppress(OSError, ValueError):
        return Status.model_validate(files.read_json(status_path(record)))
    return None


class StatusFile:
    """The status of a run, for the process that trains it; errors in writing it are ignored.

    Without a record's path, nothing is written.
    """

    def __init__(self, record: Path | None = None, title: str = "", budget: int = 0):
        self.path = status_path(record) if record else None
        self.now = Status(run=title, budget=budget)
        self.detail = ""
        """The note of updates without one, such as the test set that is being evaluated."""
        self.written_s = 0.0

    def update(self, phase: str, done: int, total: int, note: str = "") -> None:
        """Set the progress of the run in a phase; it is written at intervals."""
        now = self.now
        is_due = time.monotonic() >= self.written_s + WRITE_EVERY_S
        is_due = is_due or phase != now.phase or done >= total
        now.phase, now.done, now.total, now.note = phase, done, total, note or self.detail
        if phase == TRAINING:
            now.tokens, now.budget = done, total
            now.first_tokens = done if now.first_tokens is None else now.first_tokens
        if is_due:
            self.write()

    def track(self, phase: str, batches: Sequence[list[int]]) -> Iterator[list[int]]:
        """Yield the batches, and update the number of examples done."""
        done, total = 0, sum(map(len, batches))
        for batch in batches:
            self.update(phase, done, total)
            yield batch
            done += len(batch)
        self.update(phase, done, total)

    def add_line(self, text: str) -> None:
        """Add a message to the user, and write it at once."""
        self.write(lines=[*self.now.lines, text])

    def write(self, **changes: object) -> None:
        """Write the status, with some fields changed."""
        if self.path is None:
            return
        here = {"host": platform.node(), "process": os.getpid(), "time": time.time()}
        self.now = self.now.model_copy(update=here | changes)
        self.written_s = time.monotonic()
        with suppress(OSError):
            files.write(self.path, self.now.model_dump_json(), is_durable=False)

    def delete(self) -> None:
        """Delete the file."""
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Set the state to running, and at the end to recorded, stopped or failed."""
        self.write(state="running")
        try:
            yield
        except (KeyboardInterrupt, SystemExit):  # SLURM's jobs exit to be queued again
            self.write(state="stopped")
            raise
        except BaseException as error:
            self.write(state="failed", note=one_line(str(error) or type(error).__name__))
            raise
        self.write(state="recorded")


SILENT = StatusFile()
"""A status that is not written to disk."""

# -------------------------------------------------------------------------------------------- Bar


class ProgressBoard:
    """The display of the runs of a comparison, as a context manager that follows their files.

    `records` are the paths of the records to be made, by the runs' titles. A bar says how far they
    are; without a terminal, a line does so every few minutes.
    """

    def __init__(self, records: Mapping[str, Path], n_recorded: int):
        self.records, self.n_recorded = dict(records), n_recorded
        self.runs: dict[str, Status] = {}
        """The latest status of the runs that have begun."""
        self.ended: set[str] = set()
        self.n_lines: dict[str, int] = {}
        """How many lines of a run have been printed."""
        self.lock, self.stopped = threading.RLock(), threading.Event()
        self.since_s = self.line_s = time.monotonic()
        self.bar = tqdm(total=1.0, bar_format=BAR, leave=False, dynamic_ncols=True, disable=None)
        self.watcher = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self) -> ProgressBoard:
        self.watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.watcher.join()
        for title in self.records:
            self.read(title)  # for the last lines
        self.bar.close()

    def watch(self) -> None:
        """Refresh the board at intervals until it is closed."""
        while not self.stopped.wait(READ_EVERY_S):
            self.refresh()

    def refresh(self) -> None:
        """Read the files of the runs, print their new lines, and draw them."""
        with self.lock:
            for title in self.records:
                self.read(title)
            if not self.bar.disable:
                self.bar.n = self.count_done() / max(len(self.records), 1)
                width = terminal_width(2**16) - N_BAR - 1
                line = textwrap.shorten(self.describe(), width, placeholder=" …")
                self.bar.set_description_str(line)
            elif time.monotonic() >= self.line_s + LINE_EVERY_S:
                self.line_s = time.monotonic()
                self.print(self.describe())

    def read(self, title: str) -> None:
        """Read the status of a run that has not ended, and print its new lines."""
        if title in self.ended or (latest := read_status(self.records[title])) is None:
            return
        if latest.state == "waiting":  # perhaps again, after its machine was lost
            self.runs.pop(title, None)
            self.n_lines.pop(title, None)
            return
        self.runs[title] = latest
        n = self.n_lines.get(title, 0)
        for text in latest.lines[n if n <= len(latest.lines) else 0 :]:
            self.print(wrap(f"{title}: {text}"))
        self.n_lines[title] = len(latest.lines)

    def end(self, title: str) -> None:
        """Note that a run has ended, and print its last lines."""
        with self.lock:
            self.read(title)
            self.ended.add(title)

    def print(self, line: str) -> None:
        """Print a line, above the bar if there is one."""
        with self.lock:
            tqdm.write(line)
            sys.stdout.flush()

    def running(self) -> list[Status]:
        """Return the status of the active runs, in the order of the comparison."""
        return [self.runs[t] for t in self.records if t in self.runs and t not in self.ended]

    def count_done(self) -> float:
        """Return how many runs are done, counting those in training by their share."""
        trained = sum(run.tokens / max(run.budget, 1) for run in self.running())
        return len(self.ended) + TRAINING_SHARE * trained

    def describe(self) -> str:
        """Return the line about all runs: the time left at the speed so far, which is never cut."""
        n_ended, n, running = len(self.ended), len(self.records), self.running()
        done, left = f"{self.n_recorded + n_ended} of {self.n_recorded + n} runs done", ""
        resumed = ((run.first_tokens or 0) / max(run.budget, 1) for run in self.runs.values())
        before = TRAINING_SHARE * sum(resumed)
        if n_ended < n and (gained := self.count_done() - before) > 0:
            seconds = (time.monotonic() - self.since_s) * (n - self.count_done()) / gained
            left = f"{format_duration(seconds)} left, "
        parts = [
            f"{run.run}: {run.phase} {run.done / max(run.total, 1):.0%}, {run.note}".strip(", ")
            for run in running
        ]
        return f"{left}{done}" + (f", {len(running)} running: {'; '.join(parts)}" if parts else "")


def format_duration(seconds: float) -> str:
    """Format an approximate duration."""
    if seconds < 90:
        return f"about {max(5, 5 * round(seconds / 5))} s"
    if seconds < 90 * 60:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"

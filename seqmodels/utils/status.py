"""Status files: how far each run is, as written by the process that trains it. No torch.

A run trains in this process, in another one, or on another machine that shares the disk. Progress
bars, the command that launched it and `seqmodels status` all read its status file.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from seqmodels.utils import files
from seqmodels.utils.terminal import one_line

SUFFIX = ".status"
WRITE_EVERY_S = 2.0
"""Minimum time between two writes, except at the beginning and the end of a phase."""
TRAINING, VALIDATION = "training", "validation"


class Status(BaseModel):
    """The state of a run that is not recorded yet."""

    run: str
    """Title, such as "gpt, seed 1"."""
    state: Literal["waiting", "running", "failed", "recorded"] = "waiting"
    phase: str = ""
    done: int = 0
    total: int = 0
    """What is to be done in this phase."""
    tokens: int = 0
    budget: int = 0
    """Target tokens to train on."""
    note: str = ""
    """Losses, what is being evaluated, or why the run has failed."""
    lines: list[str] = []
    """Messages to the user."""
    host: str = ""
    process: int = 0
    time: float = 0.0
    """When this was written, in seconds since 1970."""
    began: float = 0.0
    """When this process began to train it."""
    first_tokens: int | None = None
    """Tokens trained when this process began: a resumed run does not begin at zero."""
    trained: float | None = None
    """When its training was complete."""

    @property
    def share(self) -> float:
        """Return the fraction of the phase that is done."""
        return self.done / max(self.total, 1)

    @property
    def training_s(self) -> float | None:
        """Return an estimate of the whole training time; None while it is unknown."""
        n_tokens = self.tokens - (self.first_tokens or 0)
        until = self.time if self.trained is None else self.trained
        return (until - self.began) * self.budget / n_tokens if n_tokens > 0 else None


def path_of(record: Path) -> Path:
    """Return the path of a run's status, from that of its record."""
    return record.with_name(f".{record.stem}{SUFFIX}")


def read(record: Path) -> Status | None:
    """Return a run's status, given its record's path; None if it has none, or a damaged one."""
    with suppress(OSError, ValueError):
        return Status.model_validate(files.read_json(path_of(record)))
    return None


class StatusFile:
    """The status of a run, for the process that trains it; errors in writing it are ignored.

    Without a record's path, nothing is written.
    """

    def __init__(self, record: Path | None = None, title: str = "", budget: int = 0):
        self.path = path_of(record) if record else None
        self.now = Status(run=title, budget=budget)
        self.detail = ""
        """The note of updates without one, such as the test set that is being evaluated."""
        self.written_s = 0.0

    def update(self, phase: str, done: int, total: int, note: str = "") -> None:
        """Say how far the run is in a phase; this is written now and then."""
        if self.path is None:
            return
        now, is_due = self.now, time.monotonic() >= self.written_s + WRITE_EVERY_S
        is_due = is_due or phase != now.phase or done >= total
        now.phase, now.done, now.total, now.note = phase, done, total, note or self.detail
        if phase == TRAINING:
            now.tokens, now.budget = done, total
            now.first_tokens = done if now.first_tokens is None else now.first_tokens
        elif phase != VALIDATION and now.trained is None:
            now.trained = time.time()
        if is_due:
            self.write()

    def track(self, phase: str, batches: Sequence[list[int]]) -> Iterator[list[int]]:
        """Yield the batches, and say how many of their examples are done."""
        done, total = 0, sum(map(len, batches))
        for batch in batches:
            self.update(phase, done, total)
            yield batch
            done += len(batch)
        self.update(phase, done, total)

    def line(self, text: str) -> None:
        """Say something to the user, at once."""
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
        """Say that the run is being trained, and then that it is recorded or has failed.

        The status of a run that is stopped is deleted: its checkpoint says how far it is.
        """
        self.write(state="running", began=time.time())
        try:
            yield
        except (KeyboardInterrupt, SystemExit):  # SLURM's jobs exit to be queued again
            self.delete()
            raise
        except BaseException as error:
            self.write(state="failed", note=one_line(str(error) or type(error).__name__))
            raise
        self.write(state="recorded")


SILENT = StatusFile()
"""For what nobody watches."""

"""Status files: how far each run of a folder is, by the process that trains it. No torch.

The runs of a comparison can be trained on many machines that share a disk. The files tell the
command that sent them there, and `seqmodels status`, how far each has come.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from seqmodels.utils import files, terminal
from seqmodels.utils.progress import TRAINING, ProgressUpdate, Reporter

SUFFIX = ".status"
WRITE_EVERY_S = 5.0
"""Minimum time between two writes, except where a run begins another phase."""


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
    """What it has reported, line by line."""
    host: str = ""
    process: int = 0
    time: float = 0.0
    """When this was written, in seconds since 1970."""

    @property
    def is_here(self) -> bool:
        """Return whether this process has written it."""
        return (self.host, self.process) == (platform.node(), os.getpid())


def path_of(record: Path) -> Path:
    """Return the path of a run's status, from that of its record."""
    return record.with_name(f".{record.stem}{SUFFIX}")


def read(record: Path) -> Status | None:
    """Return a run's status, given the path of its record; None if it has none."""
    return read_file(path_of(record))


def read_file(path: Path) -> Status | None:
    """Return what a file says; None if there is no such file, or it is not a status."""
    with suppress(OSError, ValueError):
        return Status.model_validate(files.read_json(path))
    return None


class StatusFile:
    """A run's status, as the one who trains it writes it; what the disk does not take is lost."""

    def __init__(self, record: Path, title: str, budget: int = 0):
        self.path = path_of(record)
        self.now = Status(run=title, budget=budget)
        self.written_s = 0.0

    def write(self, **changes: object) -> None:
        """Write the status, with some fields changed."""
        here = {"host": platform.node(), "process": os.getpid(), "time": time.time()}
        self.now = self.now.model_copy(update=here | changes)
        self.written_s = time.monotonic()
        with suppress(OSError):
            files.write(self.path, self.now.model_dump_json())

    def receive(self, update: ProgressUpdate | str) -> None:
        """Receive the run's report, and write it down if it is time."""
        if isinstance(update, str):
            self.write(lines=[*self.now.lines, update])
            return
        known = {"phase": update.phase, "done": update.done, "total": update.total}
        known |= {"note": update.note}
        if update.phase == TRAINING:
            known |= {"tokens": update.done, "budget": update.total}
        is_due = time.monotonic() >= self.written_s + WRITE_EVERY_S
        if is_due or update.phase != self.now.phase:
            self.write(**known)

    def withdraw(self) -> None:
        """Remove the file, unless it says that the run is being trained or has failed."""
        known = read_file(self.path)
        if known is None or known.state in ("waiting", "recorded"):
            self.remove()

    def remove(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            self.path.unlink()


@contextmanager
def reported(status: StatusFile) -> Iterator[None]:
    """Write down what the current run reports, besides sending it to whom it was sent before.

    The status of a run that is stopped is removed, as its checkpoint says how far it is.
    """
    send = Reporter.send

    def send_both(update: ProgressUpdate | str) -> None:
        status.receive(update)
        if send is not None:
            send(update)
        elif isinstance(update, str):
            terminal.print_line(update)

    Reporter.send, Reporter.run = send_both, status.now.run
    status.write(state="running")
    try:
        yield
    except (KeyboardInterrupt, SystemExit):  # SLURM's jobs exit when they are to be queued again
        status.remove()
        raise
    except BaseException as error:
        status.write(state="failed", note=terminal.one_line(str(error) or type(error).__name__))
        raise
    finally:
        Reporter.send = send
    status.write(state="recorded")

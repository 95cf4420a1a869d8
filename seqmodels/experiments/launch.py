"""Carry out the runs of a comparison: in this process, in a pool of processes, or elsewhere."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import torch

from seqmodels.experiments.plan import Plan
from seqmodels.experiments.run import Run, train_and_record
from seqmodels.models import register
from seqmodels.records.io import format_first_score
from seqmodels.records.schema import Record
from seqmodels.utils.files import owner
from seqmodels.utils.pool import ProcessPool
from seqmodels.utils.progress import ProgressBoard, read_status
from seqmodels.utils.terminal import (
    defer_signals,
    raise_stopped,
    signals_handled_by,
    wrap,
)

MAX_RESUBMISSIONS = 5
"""How often a run is submitted again after it was lost with the machine that trained it."""
SUMMARIZE_EVERY_S = 20.0
"""Least time between two summaries: short runs have one, at their end."""
Outcome = tuple[Record | None, str]
"""A run's record, or None and the error message."""
Summarize = Callable[[Path], str]
"""Draws the records of a folder so far, and returns their scores as text."""


class RunLostError(ConnectionError):
    """The machine or the process that carried out a run has ended: raised by a future's result."""


def n_parallel_runs(n_runs: int, device: str) -> int:
    """Return how many runs train in parallel, counting recorded ones, so that it never changes.

    Two models with one thread each train faster than one after the other with two threads: tensors
    are small, and threads synchronise on every operation.
    """
    return min(n_runs, torch.get_num_threads()) if device == "cpu" else 1


def n_remote_threads() -> int:
    """Return the number of threads, and of requested cores, of each run on a cluster."""
    return int(os.environ.get("OMP_NUM_THREADS") or 1)


def run_all(
    plan: Plan,
    n_parallel: int,
    executor: Executor | None = None,
    summarize: Summarize | None = None,
) -> list[str]:
    """Carry out the runs of a plan that are not recorded; return a line for each failure.

    They begin in the order of the plan. Without an executor, `n_parallel` runs at a time share the
    threads of this machine. `summarize` returns what is printed of the records so far.
    """
    todo = plan.missing
    try:
        for run in todo:
            run.status.write()
        paths = {run.title: run.path for run in todo}
        with ProgressBoard(paths, len(plan.recorded)) as board:
            reporter = Reporter(board, summarize)
            if executor:
                return submit_all(todo, executor, n_remote_threads(), reporter)
            if n_parallel > 1 and todo:
                with ProcessPool(n_parallel) as pool:
                    return submit_all(todo, pool, torch.get_num_threads() // n_parallel, reporter)
            failures = list[str]()
            with signals_handled_by(raise_stopped):
                for run in todo:
                    try:
                        outcome: Outcome = train_and_record(run), ""
                    except FAILURES as error:
                        outcome = None, explain(error)
                    failures += reporter.end(run, outcome)
            return failures
    finally:
        for run in todo:
            status = read_status(run.path)
            if status is None or status.state in ("waiting", "recorded"):
                run.status.delete()


class Reporter:
    """Prints the end of each run and, at intervals, a summary of all records so far."""

    def __init__(self, board: ProgressBoard, summarize: Summarize | None = None):
        self.board, self.summarize, self.summarized_s = board, summarize, time.monotonic()

    def end(self, run: Run, outcome: Outcome) -> list[str]:
        """Print a run's first score and how long it took, or return a line about its failure."""
        record, error = outcome
        self.board.end(run.title)
        if record is None:
            return [f"{run.title}: {error}"]
        times = f"{record.train_s:.0f} s training, {record.evaluate_s:.0f} s evaluation"
        self.board.print(wrap(f"{run.title}: {format_first_score(record)}, {times}"))
        is_due = time.monotonic() >= self.summarized_s + SUMMARIZE_EVERY_S
        if self.summarize and is_due and self.board.records.keys() - self.board.ended:
            try:
                self.board.print(self.summarize(run.path.parent))
            except (ValueError, OSError) as error:  # the other runs go on
                self.board.print(f"nothing is drawn yet: {error}")
            self.summarized_s = time.monotonic()
        return []


def submit_all(
    todo: Sequence[Run], executor: Executor, threads: int, reporter: Reporter
) -> list[str]:
    """Submit each run with so many threads; return a line for each failure.

    A run that is lost with its machine is submitted again, and resumes from its checkpoint. The
    loop polls: a signal to a suspended process can reach a thread that wakes no other.
    """
    failures, n_lost = list[str](), Counter[str]()
    waiting: dict[Future[Outcome], Run] = {}
    poll_s = 0.1 if isinstance(executor, ProcessPool) else 1.0
    try:
        for run in todo:
            waiting[executor.submit(execute, run, threads)] = run
        while waiting:
            for future in [future for future in waiting if future.done()]:
                run = waiting.pop(future)
                try:
                    outcome = future.result()
                except RunLostError as lost:
                    n_lost[run.title] += 1
                    if n_lost[run.title] <= MAX_RESUBMISSIONS:
                        reporter.board.print(wrap(f"{run.title}: {lost}; it is submitted again"))
                        run.status.write()
                        waiting[executor.submit(execute, run, threads)] = run
                        continue
                    outcome = None, f"{lost}, for the {MAX_RESUBMISSIONS + 1}th time"
                except BrokenProcessPool:
                    raise ValueError(
                        "a training process was killed, perhaps for lack of memory; the same "
                        "command resumes, and with OMP_NUM_THREADS=1 it trains one model at a time"
                    ) from None
                failures += reporter.end(run, outcome)
            time.sleep(poll_s if waiting else 0)
    except BaseException:
        with defer_signals():
            for future in waiting:
                future.cancel()
        raise
    return failures


# ---------------------------------------------------------------------------------------- One run


FAILURES = ValueError, RuntimeError, MemoryError
"""What a run can raise for a reason that a user can change; see `explain`."""


def explain(error: Exception) -> str:
    """Return why a run failed; raise an error again that no user can do anything about."""
    if isinstance(error, ValueError):
        return str(error)
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return "out of memory; what was trained is kept; choose smaller sizes"
    raise error


def execute(run: Run, threads: int) -> Outcome:
    """Carry out a run in another process, perhaps on another machine, with so many threads.

    Errors are returned: not every executor keeps the type of an exception. Waits for a process that
    still trains the run but has lost contact with its launcher.
    """
    if hasattr(signal, "pthread_sigmask"):  # Ray's workers block it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    if not run.path.parent.is_dir():
        return None, (
            f"{run.path.parent} does not exist for {owner()}; --out must be on a disk that all "
            "machines share"
        )
    if run.device == "cuda" and not torch.cuda.is_available():
        return None, f"there is no CUDA device for {owner()}"
    for name, info in [*run.spec.lineage.items()][::-1]:  # what it varies first
        register(name, info)
    torch.set_num_threads(threads)
    try:
        with signals_handled_by(raise_stopped):
            return train_and_record(run), ""
    except FAILURES as error:
        return None, explain(error)
    except KeyboardInterrupt:
        if multiprocessing.parent_process():  # which would begin the next run here
            os._exit(1)
        return None, "stopped; the same command resumes it"
    except OSError as error:
        return None, str(error)

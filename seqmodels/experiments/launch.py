"""Carry out the runs of a comparison: in this process, in a pool of processes, or elsewhere."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import torch

from seqmodels.evaluation.metrics import format_first_score
from seqmodels.experiments.runs import Run, train_if_missing
from seqmodels.models import paper_of
from seqmodels.training.loop import is_out_of_memory
from seqmodels.utils.files import owner
from seqmodels.utils.pool import ProcessPool
from seqmodels.utils.progress import ProgressBoard, read_status
from seqmodels.utils.terminal import defer_signals, raise_stopped, signals_handled_by

MAX_RESUBMISSIONS = 5
"""How often a run is submitted again after it was lost with the machine that trained it."""
Outcome = tuple[dict[str, Any] | None, str]
"""A run's record, or None and the error message."""


class RunLostError(ConnectionError):
    """The machine or the process that carried out a run has ended."""


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
    todo: Sequence[Run], n: int, n_parallel: int, executor: Executor | None = None
) -> list[str]:
    """Train, evaluate and record the missing ones of n runs; return a line for each failure.

    Without an executor, `n_parallel` runs at a time share the threads of this machine.
    """
    paths = {run.title: run.path for run in todo}
    newest_first = todo[::-1]
    longest_first = sorted(newest_first, key=is_quick)
    try:
        for run in todo:
            run.status.write()
        with ProgressBoard(paths, n - len(todo)) as board:
            if executor:
                threads = n_remote_threads()
                return submit_all(
                    longest_first,
                    lambda run: executor.submit(carry_out_remotely, run, threads),
                    board,
                    1.0,
                )
            if n_parallel == 1 or not todo:
                return submit_all(todo, ImmediateFuture, board)
            with ProcessPool(n_parallel) as pool:
                threads = torch.get_num_threads() // n_parallel
                return submit_all(
                    longest_first, lambda run: pool.submit(execute_or_exit, run, threads), board
                )
    finally:
        for run in todo:
            status = read_status(run.path)
            if status is None or status.state in ("waiting", "recorded"):
                run.status.delete()


def is_quick(run: Run) -> bool:
    """Return whether a run takes less time than most: a model with one vector, of usual width."""
    paper = paper_of(run.name)
    return paper.memory == "vector" and paper.width == 1


def submit_all(
    todo: Sequence[Run], submit: Callable[[Run], Any], board: ProgressBoard, poll_s: float = 0.1
) -> list[str]:
    """Submit runs, each of which gives a future; return a line for each failure.

    A run that is lost with its machine is submitted again, and resumes from its checkpoint. The
    loop polls: a signal to a suspended process can reach a thread that wakes no other.
    """
    failures, n_lost = list[str](), Counter[str]()
    waiting: dict[Any, Run] = {}
    try:
        for run in todo:
            waiting[submit(run)] = run
        while waiting:
            for future in [future for future in waiting if future.done()]:
                run = waiting.pop(future)
                try:
                    record, error = future.result()
                except RunLostError as lost:
                    n_lost[run.title] += 1
                    if n_lost[run.title] <= MAX_RESUBMISSIONS:
                        board.print(f"{run.title}: {lost}; it is submitted again")
                        run.status.write()
                        waiting[submit(run)] = run
                        continue
                    record, error = None, f"{lost}, for the {MAX_RESUBMISSIONS + 1}th time"
                except BrokenProcessPool:
                    raise ValueError(
                        "a training process was killed, perhaps for lack of memory; the same "
                        "command resumes, and with OMP_NUM_THREADS=1 it trains one model at a time"
                    ) from None
                board.end(run.title)
                if record:
                    board.print(f"{run.title}: {describe_result(record)}")
                else:
                    failures.append(f"{run.title}: {error}")
            time.sleep(poll_s if waiting else 0)
    except BaseException:
        with defer_signals():
            for future in waiting:
                future.cancel()
        raise
    return failures


def describe_result(record: dict[str, Any]) -> str:
    """Return a record's first score, and how long the run took."""
    times = f"{record['train_s']:.0f} s training, {record['evaluate_s']:.0f} s evaluation"
    return f"{format_first_score(record)}, {times}"


# ------------------------------------------------------------------------------ Carrying out a run


class ImmediateFuture:
    """A future of a run that is carried out in this process when its result is asked for."""

    def __init__(self, run: Run):
        self.run = run

    def done(self) -> bool:
        """Return whether the result can be asked for."""
        return True

    def result(self) -> Outcome:
        """Carry out the run."""
        return execute(self.run)

    def cancel(self) -> None:
        """Do nothing: it has not begun."""


def execute(run: Run, threads: int | None = None) -> Outcome:
    """Train, evaluate and record a run in this process, with so many threads.

    Errors that a user can fix are returned: not every executor keeps the type of an exception.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        with signals_handled_by(raise_stopped):
            return train_if_missing(run, math.inf), ""
    except ValueError as error:
        return None, str(error)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return None, "out of memory in evaluation; what was trained is kept"


def execute_or_exit(run: Run, threads: int) -> Outcome:
    """Carry out a run in a process of a pool; if asked to stop, exit after its checkpoint."""
    try:
        return execute(run, threads)
    except KeyboardInterrupt:
        os._exit(1)


TORCH_LOCK = threading.Lock()
"""One run at a time in a process: random numbers and settings of torch are the process's."""


def carry_out_remotely(run: Run, threads: int) -> Outcome:
    """Carry out a run on a machine of a cluster, with so many threads.

    Waits for a process that still trains the run but has lost contact with its launcher.
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
    try:
        with TORCH_LOCK:
            return execute(run, threads)
    except KeyboardInterrupt:
        return None, "stopped; the same command resumes it"
    except OSError as error:
        return None, str(error)

"""Carry out the runs of a comparison, by an executor: in this process, in others, or elsewhere."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from seqmodels.comparison.launchers import RunLostError, threads_elsewhere
from seqmodels.comparison.runs import Run, run_one
from seqmodels.evaluation.metrics import metric_of
from seqmodels.training.runtime import is_out_of_memory
from seqmodels.utils import status
from seqmodels.utils.lock import owner
from seqmodels.utils.progress import ProgressBoard
from seqmodels.utils.terminal import raise_stopped, signals_handled_by
from seqmodels.utils.workers import ProcessPool
from seqmodels.utils.world import world

MAX_LOSSES = 5
"""How often a run is submitted again after it was lost with the machine that trained it."""
POLL_S = 1.0
OUT_OF_MEMORY = "out of memory in evaluation; what was trained is kept"
Outcome = tuple[dict[str, Any] | None, str]
"""A run's record, or None and why there is none."""


def n_parallel_runs(n_runs: int, device: str) -> int:
    """Return how many runs train in parallel, counting recorded ones, so that it never changes.

    Two models with one thread each train faster than one after the other with two threads: tensors
    are small, and threads synchronise on every operation.
    """
    is_one = device == "cuda" or world().size > 1
    return 1 if is_one else min(n_runs, torch.get_num_threads())


def run_all(
    todo: Sequence[Run], n: int, n_parallel: int, executor: Executor | None = None
) -> list[str]:
    """Train, evaluate and record the missing ones of n runs; return a line for each failure.

    Without an executor, `n_parallel` runs at a time share the threads of this machine.
    """
    is_first, records = world().is_first, {run.title: run.path for run in todo}
    n_at_once = None if executor else n_parallel
    with (
        announced(todo if is_first else ()),
        ProgressBoard(records, n - len(todo), n_at_once, is_first) as board,
    ):
        if executor:
            return submit_all(
                todo, executor, partial(elsewhere, threads=threads_elsewhere()), board
            )
        if n_parallel == 1 or not todo:
            return submit_all(todo, InProcess(), carry_out, board)
        with ProcessPool(n_parallel) as pool:
            task = partial(carry_out_or_exit, threads=torch.get_num_threads() // n_parallel)
            return submit_all(todo, pool, task, board)


@contextmanager
def announced(todo: Sequence[Run]) -> Iterator[None]:
    """Mark runs as waiting; at the end, delete the status of those that still are, or recorded."""
    for run in todo:
        run.status.write()
    try:
        yield
    finally:
        for run in todo:
            known = status.read(run.path)
            if known is None or known.state in ("waiting", "recorded"):
                run.status.delete()


def submit_all(
    todo: Sequence[Run], executor: Executor, task: Callable[[Run], Outcome], board: ProgressBoard
) -> list[str]:
    """Carry out runs by an executor; return a line for each failure.

    A run that is lost with its machine is submitted again, and resumes from its checkpoint. It
    wakes every second: a signal to a suspended process can reach a thread that wakes no other.
    """
    is_here = isinstance(executor, InProcess)
    queue = deque(todo if is_here else reversed(todo))  # the newest models take longest
    waiting: dict[Future[Outcome], Run] = {}
    failures, losses = list[str](), Counter[str]()
    try:
        while queue or waiting:
            while queue and not (is_here and waiting):
                run = queue.popleft()
                waiting[executor.submit(task, run)] = run
            for future in wait(waiting, POLL_S, FIRST_COMPLETED).done:
                run = waiting.pop(future)
                try:
                    record, error = future.result()
                except RunLostError as lost:
                    losses[run.title] += 1
                    if losses[run.title] <= MAX_LOSSES:
                        board.print(f"{run.title}: {lost}; it is submitted again")
                        run.status.write()
                        queue.append(run)
                        continue
                    record, error = None, f"{lost}, for the {MAX_LOSSES + 1}th time"
                except BrokenProcessPool:
                    raise ValueError(
                        "a training process was killed, perhaps for lack of memory; the same "
                        "command resumes, and with OMP_NUM_THREADS=1 it trains one model at a time"
                    ) from None
                board.end(run.title)
                if record:
                    board.print(f"{run.title}: {describe(record)}")
                else:
                    failures.append(f"{run.title}: {error}")
    except BaseException:
        for future in waiting:
            future.cancel()
        raise
    return failures


def describe(record: dict[str, Any]) -> str:
    """Return a record's first score, and how long the run took."""
    test = record["tests"][0]
    metric = metric_of(key := test["primary_metric"])
    score = f"{test['overall'][key]['value']:.{metric.digits}f} {metric.unit}".rstrip()
    times = f"{record['train_s']:.0f} s training, {record['evaluate_s']:.0f} s evaluation"
    return f"{metric.label} {score}, {times}"


# ------------------------------------------------------------------------------------ Executors


class InProcess(Executor):
    """Carries out each task in this process, before `submit` returns."""

    def submit(self, task: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return a future that is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(task(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def carry_out(run: Run, threads: int | None = None) -> Outcome:
    """Train, evaluate and record a run in this process, with so many threads.

    Errors that a user can mend are values: not every executor keeps the type of an exception.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        with signals_handled_by(raise_stopped):
            return run_one(run, math.inf), ""
    except ValueError as error:
        return None, str(error)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error) or world().size > 1:  # the others have not failed
            raise
        return None, OUT_OF_MEMORY


def carry_out_or_exit(run: Run, threads: int) -> Outcome:
    """Carry out a run in a process of its own; if asked to stop, exit after its checkpoint."""
    try:
        return carry_out(run, threads)
    except KeyboardInterrupt:
        os._exit(1)


TORCH_LOCK = threading.Lock()
"""One run at a time in a process: random numbers and settings of torch are the process's."""


def elsewhere(run: Run, threads: int) -> Outcome:
    """Carry out a run on whatever machine this is, with so many threads.

    It waits for a process that still trains the run, cut off from the one that has launched it.
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
            return carry_out(run, threads)
    except KeyboardInterrupt:
        return None, "stopped; the same command resumes it"
    except OSError as error:
        return None, str(error)

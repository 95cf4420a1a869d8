"""Carry out runs: one after the other, several at once, or wherever an executor takes them."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from seqmodels.comparison.launchers import RunLostError, threads_elsewhere
from seqmodels.comparison.runs import Run, run_one
from seqmodels.evaluation.table import metric_of
from seqmodels.training.trainer import is_out_of_memory
from seqmodels.utils import status
from seqmodels.utils.lock import owner
from seqmodels.utils.progress import ProgressBoard, ProgressUpdate, Reporter, log
from seqmodels.utils.terminal import raise_stopped, signals_handled_by
from seqmodels.utils.workers import exit_with_parent, stop
from seqmodels.utils.world import world

OUT_OF_MEMORY = "out of memory in evaluation; what was trained is kept"


def run_all(
    todo: Sequence[Run], n: int, n_parallel: int, executor: Executor | None = None
) -> list[str]:
    """Train, evaluate and record the missing ones of n runs; return a line for each failure."""
    titles, is_first = [run.title for run in todo], world().is_first
    n_shown = n_parallel if executor is None else None
    announced = [run.status for run in todo if is_first]
    for file in announced:
        file.write()
    try:
        with ProgressBoard(titles, n - len(todo), n_shown, is_first) as board:
            if executor is not None:
                found: list[str | None] = run_elsewhere(todo, executor, board)
            elif n_parallel == 1 or not todo:
                found = [collect(run, partial(run_one, run), board) for run in todo]
            else:
                found = run_in_pool(todo, n_parallel, board)
    finally:
        for file in announced:
            file.withdraw()
    return [line for line in found if line]


def collect(run: Run, result: Callable[[], dict[str, Any]], board: ProgressBoard) -> str | None:
    """Wait for a run's record and print its score; return the error if it failed."""
    try:
        done = result()
    except BrokenProcessPool:
        raise ValueError(
            "a training process was killed, perhaps for lack of memory; the same command resumes, "
            "and with OMP_NUM_THREADS=1 it trains one model at a time"
        ) from None
    except ValueError as error:
        return f"{run.title}: {error}"
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error) or world().size > 1:  # the others have not failed
            raise
        return f"{run.title}: {OUT_OF_MEMORY}"
    finally:
        board.end(run.title)
    test = done["tests"][0]
    metric = metric_of(key := test["primary_metric"])
    score = f"{test['overall'][key]['value']:.{metric.digits}f} {metric.unit}".rstrip()
    times = f"{done['train_s']:.0f} s training, {done['evaluate_s']:.0f} s evaluation"
    log(f"{run.title}: {metric.label} {score}, {times}")
    return None


# ------------------------------------------------------------------------- Several at once
#
# Two models with one thread each train faster than one after the other with two threads: tensors
# are small, and threads synchronise on every operation.


def n_parallel_runs(n_runs: int, device: str) -> int:
    """Return how many runs train in parallel, counting recorded ones, so that it never changes."""
    is_one = device == "cuda" or world().size > 1
    return 1 if is_one else min(n_runs, torch.get_num_threads())


def start_worker(threads: int, messages: Any) -> None:
    """Set up a worker process, which reports to its parent and exits with it."""
    torch.set_num_threads(threads)
    Reporter.send = messages.put
    threading.Thread(target=exit_with_parent, daemon=True).start()


def run_in_worker(run: Run) -> dict[str, Any]:
    """Do one run; when the parent asks to stop, write a checkpoint and exit."""
    try:
        with signals_handled_by(raise_stopped):
            return run_one(run)
    except KeyboardInterrupt:
        os._exit(1)


@contextmanager
def workers(n: int, board: ProgressBoard) -> Iterator[ProcessPoolExecutor]:
    """Start n processes that share the threads; whatever goes wrong, none is left running.

    They get a few seconds to write their checkpoints.
    """
    context = multiprocessing.get_context("spawn")
    messages: Any = context.SimpleQueue()
    listener = threading.Thread(target=listen, args=(messages, board), daemon=True)
    listener.start()
    started = torch.get_num_threads() // n, messages
    pool = ProcessPoolExecutor(n, context, start_worker, started)
    try:
        yield pool
        messages.put(None)
        listener.join()
    except BaseException:
        stop(multiprocessing.active_children())
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def listen(messages: Any, board: ProgressBoard) -> None:
    """Pass the workers' messages on to the board, until None arrives."""
    while (message := messages.get()) is not None:
        board.receive(message)


def run_in_pool(todo: Sequence[Run], n: int, board: ProgressBoard) -> list[str | None]:
    """Carry out n runs at a time, each in a process; return an error or None for each."""
    with workers(n, board) as pool:
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # workers ignore Ctrl-C
        futures = {  # the newest models first: they take longest
            pool.submit(run_in_worker, run): run for run in reversed(todo)
        }
        signal.signal(signal.SIGINT, previous)
        return [collect(futures[f], f.result, board) for f in completed(futures)]


def completed(futures: Iterable[Future[Any]]) -> Iterator[Future[Any]]:
    """Yield each when it has ended, awake every second to heed a signal.

    A signal to a suspended process can reach another thread, which does not wake this one.
    """
    waiting = {*futures}
    while waiting:
        ended, waiting = wait(waiting, 1.0, FIRST_COMPLETED)
        yield from ended


# ------------------------------------------------------------------------------------ Elsewhere

MAX_LOSSES = 5
"""How often a run is taken up again after it was lost with the machine that trained it."""
POLL_S = 1.0
TURN = threading.Lock()
"""One run at a time in a process: random numbers and settings of torch are the process's."""


def run_launched(run: Run, threads: int) -> tuple[dict[str, Any] | None, str]:
    """Carry out a run on whatever machine this is; return its record, or why there is none.

    Errors that a user can mend are values here: not every executor keeps the type of an exception.
    It waits for a process that still trains the run, cut off from the one that has launched it.
    """
    try:
        with TURN, signals_handled_by(raise_stopped):
            if hasattr(signal, "pthread_sigmask"):  # Ray's workers block it
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            torch.set_num_threads(threads)
            if not run.path.parent.is_dir():
                raise ValueError(
                    f"{run.path.parent} does not exist for {owner()}; --out must be on a disk that "
                    "all machines share"
                )
            if run.device == "cuda" and not torch.cuda.is_available():
                raise ValueError(f"there is no CUDA device for {owner()}")
            return run_one(run, math.inf), ""
    except KeyboardInterrupt:
        return None, "stopped; the same command resumes it"
    except (ValueError, OSError) as error:
        return None, str(error)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return None, OUT_OF_MEMORY


def record_of(future: Future[tuple[dict[str, Any] | None, str]]) -> dict[str, Any]:
    """Return the record of a run that was launched; raise ValueError if there is none."""
    done, error = future.result()
    if done is None:
        raise ValueError(error)
    return done


def run_elsewhere(
    todo: Sequence[Run], executor: Executor, board: ProgressBoard
) -> list[str | None]:
    """Let an executor carry out runs, and show how far they are; return an error or None for each.

    One that is lost with its machine is submitted again, and resumes from its checkpoint.
    """
    threads, losses, failures = threads_elsewhere(), Counter[str](), list[str | None]()
    seen = {run.title: 0 for run in todo}
    waiting = {executor.submit(run_launched, run, threads): run for run in reversed(todo)}
    try:
        while waiting:
            ended = [*wait(waiting, POLL_S, FIRST_COMPLETED).done]
            for run in waiting.values():
                seen[run.title] = follow(run, seen[run.title], board)
            for future in ended:
                run = waiting.pop(future)
                lost = future.exception()
                if not isinstance(lost, RunLostError):
                    failures.append(collect(run, partial(record_of, future), board))
                elif losses[run.title] == MAX_LOSSES:
                    failures.append(f"{run.title}: {lost}, for the {MAX_LOSSES + 1}th time")
                else:
                    losses[run.title] += 1
                    board.receive(f"{run.title}: {lost}; it is submitted again")
                    run.status.write()
                    seen[run.title] = 0
                    waiting[executor.submit(run_launched, run, threads)] = run
    except BaseException:
        for future in waiting:
            future.cancel()
        raise
    return failures


def follow(run: Run, n_seen: int, board: ProgressBoard) -> int:
    """Show what a run elsewhere has written down; return how many of its lines have been shown."""
    known = status.read(run.path)
    if known is None or known.is_here:
        return n_seen
    for line in known.lines[n_seen:]:
        board.receive(line)
    if known.state == "running" and known.phase:
        board.receive(ProgressUpdate(run.title, known.phase, known.done, known.total, known.note))
    return len(known.lines)

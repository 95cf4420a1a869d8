"""Work in pieces, done in order by other processes if there are many; they end with this one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any, TypeVar

from seqmodels.utils.terminal import defer_signals

T = TypeVar("T")
R = TypeVar("R")

FEW = 16
"""Pieces up to which no process is started."""
AHEAD = 64
"""Pieces that wait for a process, or for their turn, at a time."""
STOP_S = 4.0
"""How long processes may take for their last step and checkpoint."""


class ProcessPool(ProcessPoolExecutor):
    """n processes that leave Ctrl-C to this one and end with it; stopped if an error is raised."""

    def __init__(self, n: int):
        super().__init__(n, multiprocessing.get_context("spawn"), start_worker)

    def submit(self, task: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a task; a process that is started for it ignores Ctrl-C from its beginning."""
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return super().submit(task, *args, **kwargs)
        finally:
            signal.signal(signal.SIGINT, previous)

    def __exit__(self, kind: Any, *_: object) -> None:
        self.shutdown(wait=kind is None, cancel_futures=True)
        if kind is not None:
            stop(multiprocessing.active_children())


class Workers:
    """Processes that share work; as a context manager, it leaves none behind.

    `executor` is where the work is done, such as a cluster; it is not shut down. Without one, a
    process for each available core is started when there is enough to do.
    """

    def __init__(self, executor: Executor | None = None):
        self.given, self.executor = executor, executor
        self.before = {child.pid for child in multiprocessing.active_children()}

    def map(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield what `work` returns for each item, in their order. Few items are done here.

        Raises what `work` raises for the first item that fails, and MemoryError if a process ends.
        """
        todo = iter(items)
        first = list(islice(todo, 0 if self.given else FEW))
        if not self.given and (len(first) < FEW or n_cores() == 1):
            yield from map(work, chain(first, todo))
            return
        self.executor = self.executor or start(n_cores())
        waiting: deque[Future[R]] = deque()
        try:
            for item in chain(first, todo):
                with without_main():
                    waiting.append(self.executor.submit(work, item))
                if len(waiting) >= AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenExecutor as fault:
            raise MemoryError("a process was ended from outside") from fault
        finally:
            for future in waiting if self.given else ():  # __exit__ ends own processes
                future.cancel()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if self.executor is None or self.given is not None:
            return
        if kind is not None:
            children = multiprocessing.active_children()
            stop(child for child in children if child.pid not in self.before)
        self.executor.shutdown(cancel_futures=True)


def stop(processes: Iterable[BaseProcess]) -> None:
    """Ask processes to end, and kill those that have not within STOP_S."""
    asked = [*processes]
    with defer_signals():
        deadline = time.monotonic() + STOP_S
        for process in asked:
            process.terminate()
        for process in asked:
            process.join(max(0.0, deadline - time.monotonic()))
            process.kill()


def n_cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def start(n: int) -> Executor:
    """Return n processes, which are started when they get work."""
    return ProcessPoolExecutor(n, multiprocessing.get_context("spawn"), start_worker)


@contextmanager
def without_main() -> Iterator[None]:
    """Let processes that are started meanwhile not import the program: only what they are to do.

    The program imports torch, which takes seconds and memory.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def start_worker() -> None:
    """Set up a process: Ctrl-C is its parent's business, with which it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=exit_with_parent, daemon=True).start()


def exit_with_parent() -> None:
    """Wait until the parent has ended, in whatever way, then exit."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)

"""Pools of processes of this machine, without torch."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import ParamSpec, TypeVar

from seqmodels.utils.terminal import defer_signals

P = ParamSpec("P")
T = TypeVar("T")
STOP_S = 4.0
"""How long processes of a pool may take for their last step and checkpoint."""


class ProcessPool(ProcessPoolExecutor):
    """n processes that leave Ctrl-C to this one and end with it; stopped if an error is raised."""

    def __init__(self, n: int):
        super().__init__(n, multiprocessing.get_context("spawn"), start_worker)

    def submit(self, task: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Submit a task; a process that is started for it ignores Ctrl-C from its beginning."""
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return super().submit(task, *args, **kwargs)
        finally:
            signal.signal(signal.SIGINT, previous)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(wait=kind is None, cancel_futures=True)
        if kind is None:
            return
        with defer_signals():
            processes, deadline = multiprocessing.active_children(), time.monotonic() + STOP_S
            for process in processes:
                process.terminate()
            for process in processes:
                process.join(max(0.0, deadline - time.monotonic()))
                process.kill()


def start_worker() -> None:
    """Set up a process of a pool: Ctrl-C is its parent's business, with which it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=exit_with_parent, daemon=True).start()


def exit_with_parent() -> None:
    """Wait until the parent has ended, in whatever way, then exit."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def n_cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1

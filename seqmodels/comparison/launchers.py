"""Executors that carry out runs on a Ray or SLURM cluster: the extras [ray] and [slurm].

Both are `concurrent.futures.Executor`. A future raises RunLostError if the machine or the process
ended that carried out its task. Machines must see the folders of runs, and the cache of corpora,
under the same paths.
"""

from __future__ import annotations

import argparse
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from seqmodels.data.cache import cache_dir, ensure_dir
from seqmodels.utils.terminal import defer_signals
from seqmodels.utils.world import world

STOP_S = 20.0
"""Grace period after cancellation, for the last step and checkpoint."""
POLL_S = 1.0
DAY_MIN = 24 * 60
"""Time limit of a SLURM job in minutes, unless SBATCH_TIMELIMIT says otherwise."""
MAX_TIMEOUTS = 100
"""How often a SLURM job that meets its time limit is queued again."""


class RunLostError(ConnectionError):
    """The machine or the process that carried out a run has ended."""


def threads_elsewhere() -> int:
    """Return the number of threads, and of cores that are asked for, of each run."""
    return int(os.environ.get("OMP_NUM_THREADS") or 1)


@contextmanager
def launched(args: argparse.Namespace) -> Iterator[Launcher | None]:
    """Connect to what --launcher names, if it is given; whatever goes wrong, cancel what runs.

    Raises ValueError if its package is not installed, or if it cannot be reached.
    """
    if args.launcher is None:
        yield None
        return
    if world().size > 1:
        raise ValueError("--launcher starts runs itself; leave out torchrun, or --launcher")
    try:
        launcher = (
            RayLauncher(args.device, args.address)
            if args.launcher == "ray"
            else SlurmLauncher(args.device)
        )
    except ModuleNotFoundError as error:
        raise ValueError(
            f"--launcher {args.launcher}: {error.name} is not installed; pip install {error.name}"
        ) from None
    try:
        yield launcher
    except BaseException:
        with defer_signals():
            launcher.shutdown(cancel_futures=True)
        raise
    launcher.shutdown()


class Launcher(Executor):
    """An executor on other machines: it knows their device, and cancels what already runs."""

    device: str
    """cpu or cuda."""

    def __init__(self) -> None:
        self.tasks: dict[Future[Any], Any] = {}
        """What Ray or submitit knows each task by."""

    def start(self, future: Future[Any], task: Callable[[], Any]) -> Any:
        """Start a task, whose result the future gets; return what it is known by."""
        raise NotImplementedError

    def stop(self, task: Any) -> None:
        """Ask a task to stop, as Ctrl-C does."""
        raise NotImplementedError

    def submit(self, task: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Let a machine carry out a task where there is room."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self.tasks[future] = self.start(future, partial(task, *args, **kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait until all tasks have ended; if they are cancelled, for STOP_S at most."""
        if cancel_futures:
            for future, task in self.tasks.items():
                if not future.done():
                    self.stop(task)
        if wait:
            futures.wait(self.tasks, STOP_S if cancel_futures else None)


# ------------------------------------------------------------------------------------------ Ray


class RayLauncher(Launcher):
    """Ray tasks, on a cluster at an address or on this machine."""

    def __init__(self, device: str, address: str | None):
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")  # of 20, each half a minute
        import ray

        super().__init__()
        self.is_own = not ray.is_initialized()
        if self.is_own:
            try:
                at = address or os.environ.get("RAY_ADDRESS") or "local"
                ray.init(at, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, RuntimeError, ValueError) as error:
                where = f"--address {address}" if address else "--launcher ray"
                why = str(error).partition("\n")[0]
                raise ValueError(f"{where}: Ray cannot be reached: {why}") from None
        has_gpu = ray.cluster_resources().get("GPU", 0) > 0
        self.device = ("cuda" if has_gpu else "cpu") if device == "auto" else device

    def start(self, future: Future[Any], task: Callable[[], Any]) -> Any:
        """Start a Ray task."""
        import ray

        needs = {"num_cpus": threads_elsewhere(), "num_gpus": int(self.device == "cuda")}
        ref = ray.remote(call).options(max_retries=0, **needs).remote(task)
        ref.future().add_done_callback(partial(copy_ray_result, future))
        return ref

    def stop(self, task: Any) -> None:
        """Raise KeyboardInterrupt in a task that runs; drop one that does not."""
        import ray

        ray.cancel(task, force=False)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait until all tasks have ended, then leave the cluster."""
        import ray

        super().shutdown(wait, cancel_futures=cancel_futures)
        if self.is_own:
            ray.shutdown()


def call(task: Callable[[], Any]) -> Any:
    """Carry out a task: Ray takes functions, and no other callables."""
    return task()


def copy_ray_result(future: Future[Any], done: Future[Any]) -> None:
    """Give a future the result of a Ray task, or why it has none."""
    from ray import exceptions

    error = done.exception()
    if error is None:
        future.set_result(done.result())
    elif isinstance(error, exceptions.TaskCancelledError):
        future.set_exception(CancelledError())
    elif isinstance(error, exceptions.RayTaskError):
        future.set_exception(error)
    else:
        future.set_exception(RunLostError(f"lost with its process ({type(error).__name__})"))


# ---------------------------------------------------------------------------------------- SLURM


class Job:
    """A task as submitit keeps it: at its time limit it is queued again, and resumes."""

    def __init__(self, task: Callable[[], Any]):
        self.task = task

    def __call__(self) -> Any:
        """Carry out the task."""
        return self.task()

    def checkpoint(self) -> Any:
        """Requeue: run the same task again; it resumes from its last checkpoint."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


class SlurmLauncher(Launcher):
    """SLURM jobs, by submitit, whose files are in the cache folder.

    Partition, account and time limit are given as for `sbatch`: SBATCH_PARTITION and so on.
    """

    def __init__(self, device: str, cluster: str = "slurm"):
        import submitit

        super().__init__()
        self.device = "cpu" if device == "auto" else device
        folder = ensure_dir(cache_dir() / "jobs")
        limits = {"slurm_max_num_timeout": MAX_TIMEOUTS} if cluster == "slurm" else {}
        try:
            self.executor = submitit.AutoExecutor(folder.absolute(), cluster, **limits)
        except RuntimeError as error:
            raise ValueError(f"--launcher slurm: {error}") from None
        self.executor.update_parameters(
            name="seqmodels",
            timeout_min=DAY_MIN,
            cpus_per_task=threads_elsewhere(),
            gpus_per_node=int(self.device == "cuda"),
        )
        self.is_open = True
        self.poller = threading.Thread(target=self.poll, daemon=True)
        self.poller.start()

    def start(self, future: Future[Any], task: Callable[[], Any]) -> Any:
        """Submit a job."""
        return self.executor.submit(Job(task))

    def stop(self, task: Any) -> None:
        """Cancel a job; one that runs receives a signal first."""
        task.cancel(check=False)

    def poll(self) -> None:
        """Settle the futures of jobs that have ended, until the launcher is shut down."""
        while self.is_open:
            for future, job in [*self.tasks.items()]:
                try:
                    if not future.done() and job.done():
                        copy_job_result(future, job)
                except Exception as error:  # raised where the future is waited for
                    future.set_exception(error)
            time.sleep(POLL_S)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait until all jobs have ended."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        self.is_open = False
        self.poller.join()


def copy_job_result(future: Future[Any], job: Any) -> None:
    """Give a future the result of a job, or why it has none; delete its pickles, keep its logs."""
    import submitit

    try:
        future.set_result(job.result())
    except submitit.core.utils.FailedJobError as error:
        future.set_exception(error)
    except submitit.core.utils.UncompletedJobError:
        logs = Path(job.paths.stderr)
        future.set_exception(RunLostError(f"lost with its job {job.job_id} (see {logs})"))
    for path in (job.paths.submitted_pickle, job.paths.result_pickle):
        path.unlink(missing_ok=True)

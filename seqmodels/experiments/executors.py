"""Executors that carry out runs on a Ray or SLURM cluster: the extras [ray] and [slurm].

Machines must see the folders of runs, and the cache of corpora, under the same paths.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqmodels.data.cache import cache_dir, ensure_dir
from seqmodels.experiments.launch import Outcome, RunLostError, n_remote_threads
from seqmodels.experiments.options import Options
from seqmodels.utils.terminal import defer_signals

STOP_S = 20.0
"""Grace period after cancellation, for the last step and checkpoint."""
POLL_S = 1.0
DAY_MIN = 24 * 60
"""Time limit of a SLURM job in minutes, unless SBATCH_TIMELIMIT says otherwise."""
MAX_TIMEOUTS = 100
"""How often a SLURM job that meets its time limit is queued again."""


@contextmanager
def connect_launcher(options: Options) -> Iterator[RayLauncher | SlurmLauncher | None]:
    """Connect to the cluster that --launcher names, if any; at the end, wait for cancelled tasks.

    Raises ModuleNotFoundError if its package is not installed, ValueError if it cannot be reached.
    """
    if not options.launcher:
        yield None
        return
    is_ray, device = options.launcher == "ray", options.device
    launcher = RayLauncher(device) if is_ray else SlurmLauncher(device)
    try:
        yield launcher
    finally:
        with defer_signals():
            deadline = time.monotonic() + STOP_S
            while not all(task.done() for task in launcher.tasks) and time.monotonic() < deadline:
                time.sleep(POLL_S)
            launcher.shutdown()


# ------------------------------------------------------------------------------------------ Ray


@dataclass(eq=False)
class RemoteTask:
    """A task on a cluster, as a future that can also be cancelled while it runs."""

    done: Callable[[], bool]
    """Returns whether it has ended."""
    get: Callable[[], Outcome]
    """Returns its result, or raises its error."""
    cancel: Callable[[], object]
    """Interrupts it if it runs, drops it otherwise."""
    name: str
    lost: type[Exception]
    """The error that `get` raises if the machine or the process has ended."""
    failed: type[Exception]
    """A subclass of it: what `get` raises for an error in the task itself."""

    def result(self) -> Outcome:
        """Return the task's result; raise its error, or RunLostError."""
        try:
            return self.get()
        except self.failed:
            raise
        except self.lost as error:
            raise RunLostError(f"lost with its {self.name} ({type(error).__name__})") from error


class RayLauncher(Executor):
    """Ray tasks, on the cluster at RAY_ADDRESS or, without it, on this machine."""

    def __init__(self, device: str):
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")  # of 20, each half a minute
        import ray

        self.ray, self.tasks = ray, list[RemoteTask]()
        self.is_own = not ray.is_initialized()
        if self.is_own:
            address = os.environ.get("RAY_ADDRESS") or "local"
            try:
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, RuntimeError, ValueError) as error:
                reason = str(error).partition("\n")[0]
                raise ValueError(
                    f"--launcher ray: no cluster can be reached (RAY_ADDRESS={address}): {reason}"
                ) from None
        has_gpu = ray.cluster_resources().get("GPU", 0) > 0
        self.device = ("cuda" if has_gpu else "cpu") if device == "auto" else device

    def submit(self, task: Callable[..., Any], /, *args: object, **_: object) -> Any:
        """Submit a task to any node with free resources."""
        ray, needs = self.ray, {"num_cpus": n_remote_threads()}
        needs["num_gpus"] = int(self.device == "cuda")
        ref = ray.remote(task).options(max_retries=0, **needs).remote(*args)
        submitted = RemoteTask(
            done=lambda: bool(ray.wait([ref], timeout=0)[0]),
            get=lambda: ray.get(ref),
            cancel=lambda: ray.cancel(ref, force=False),
            name="process",
            lost=ray.exceptions.RayError,
            failed=ray.exceptions.RayTaskError,
        )
        self.tasks.append(submitted)
        return submitted

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster."""
        if self.is_own:
            self.ray.shutdown()


# ---------------------------------------------------------------------------------------- SLURM


class SlurmLauncher(Executor):
    """SLURM jobs, by submitit, whose files are in the cache folder.

    Partition, account and time limit are given as for `sbatch`: SBATCH_PARTITION and so on.
    """

    def __init__(self, device: str, cluster: str = "slurm"):
        import submitit

        self.tasks = list[RemoteTask]()
        self.device = "cpu" if device == "auto" else device
        self.pickles = list[Path]()
        folder = ensure_dir(cache_dir() / "jobs")
        limits = {"slurm_max_num_timeout": MAX_TIMEOUTS} if cluster == "slurm" else {}
        try:
            self.executor = submitit.AutoExecutor(folder.absolute(), cluster, **limits)
        except RuntimeError as error:
            raise ValueError(f"--launcher slurm: {error}") from None
        self.executor.update_parameters(
            name="seqmodels",
            timeout_min=DAY_MIN,
            cpus_per_task=n_remote_threads(),
            gpus_per_node=int(self.device == "cuda"),
        )

    def submit(self, task: Callable[..., Any], /, *args: object, **_: object) -> Any:
        """Submit a job; at its time limit it is queued again, and resumes from its checkpoint."""
        from submitit.core.utils import FailedJobError, UncompletedJobError
        from submitit.helpers import Checkpointable

        class Requeued(Checkpointable):
            def __call__(self) -> Outcome:
                return task(*args)

        job = self.executor.submit(Requeued())
        submitted = RemoteTask(
            done=job.done,
            get=job.result,
            cancel=lambda: job.cancel(check=False),
            name=f"job {job.job_id}, see {job.paths.stderr}",
            lost=UncompletedJobError,
            failed=FailedJobError,
        )
        self.tasks.append(submitted)
        self.pickles += [job.paths.submitted_pickle, job.paths.result_pickle]
        return submitted

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Delete the pickles of all jobs, and keep their logs."""
        for path in self.pickles:
            path.unlink(missing_ok=True)

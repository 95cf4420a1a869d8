"""Executors that carry out runs on a Ray or SLURM cluster: the extras [ray] and [slurm].

Their futures raise RunLostError if the machine or the process ended that carried out the task, and
can also be cancelled while they run. Machines must see the folders of runs, and the cache of
corpora, under the same paths.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from seqmodels.data.cache import cache_dir, ensure_dir
from seqmodels.experiments.launch import RunLostError, n_remote_threads
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
    launcher = RayLauncher(device, options.address) if is_ray else SlurmLauncher(device)
    try:
        yield launcher
    finally:
        with defer_signals():
            deadline = time.monotonic() + STOP_S
            while not all(task.done() for task in launcher.tasks) and time.monotonic() < deadline:
                time.sleep(POLL_S)
            launcher.shutdown()


# ------------------------------------------------------------------------------------------ Ray


class RayLauncher(Executor):
    """Ray tasks, on a cluster at an address or on this machine."""

    def __init__(self, device: str, address: str | None):
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")  # of 20, each half a minute
        import ray

        self.ray, self.tasks = ray, list[RayTask]()
        self.is_own = not ray.is_initialized()
        if self.is_own:
            address = address or os.environ.get("RAY_ADDRESS") or "local"
            try:
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, RuntimeError, ValueError) as error:
                reason = str(error).partition("\n")[0]
                raise ValueError(
                    f"--launcher ray: no cluster can be reached (--address {address}): {reason}"
                ) from None
        has_gpu = ray.cluster_resources().get("GPU", 0) > 0
        self.device = ("cuda" if has_gpu else "cpu") if device == "auto" else device

    def submit(self, task: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Submit a task to any node with free resources."""
        needs = {"num_cpus": n_remote_threads(), "num_gpus": int(self.device == "cuda")}
        remote = self.ray.remote(task).options(max_retries=0, **needs)
        self.tasks.append(RayTask(self.ray, remote.remote(*args, **kwargs)))
        return self.tasks[-1]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster."""
        if self.is_own:
            self.ray.shutdown()


class RayTask:
    """A task on a Ray cluster, as a future."""

    def __init__(self, ray: Any, ref: Any):
        self.ray, self.ref = ray, ref

    def done(self) -> bool:
        """Return whether it has ended."""
        return bool(self.ray.wait([self.ref], timeout=0)[0])

    def result(self) -> Any:
        """Return the task's result, or raise its error."""
        try:
            return self.ray.get(self.ref)
        except self.ray.exceptions.RayTaskError:
            raise
        except self.ray.exceptions.RayError as error:
            raise RunLostError(f"lost with its process ({type(error).__name__})") from error

    def cancel(self) -> None:
        """Raise KeyboardInterrupt in a task that runs; drop one that does not."""
        self.ray.cancel(self.ref, force=False)


# ---------------------------------------------------------------------------------------- SLURM


class SlurmLauncher(Executor):
    """SLURM jobs, by submitit, whose files are in the cache folder.

    Partition, account and time limit are given as for `sbatch`: SBATCH_PARTITION and so on.
    """

    def __init__(self, device: str, cluster: str = "slurm"):
        import submitit

        self.tasks = list[SlurmTask]()
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
            cpus_per_task=n_remote_threads(),
            gpus_per_node=int(self.device == "cuda"),
        )

    def submit(self, task: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Submit a job; at its time limit it is queued again, and resumes from its checkpoint."""
        from submitit.helpers import Checkpointable

        class Requeued(Checkpointable):
            def __call__(self) -> Any:
                return task(*args, **kwargs)

        self.tasks.append(SlurmTask(self.executor.submit(Requeued())))
        return self.tasks[-1]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Delete the pickles of all jobs, and keep their logs."""
        for task in self.tasks:
            for path in (task.job.paths.submitted_pickle, task.job.paths.result_pickle):
                path.unlink(missing_ok=True)


class SlurmTask:
    """A job, as a future."""

    def __init__(self, job: Any):
        self.job = job
        self.done = job.done

    def result(self) -> Any:
        """Return the task's result, or raise its error."""
        from submitit.core.utils import FailedJobError, UncompletedJobError

        try:
            return self.job.result()
        except FailedJobError:
            raise
        except UncompletedJobError as error:
            job = f"{self.job.job_id} (see {self.job.paths.stderr})"
            raise RunLostError(f"lost with its job {job}") from error

    def cancel(self) -> None:
        """Cancel it; if it runs, it receives a signal first."""
        self.job.cancel(check=False)

"""Run a comparison: train, evaluate and record what is missing, here or on a cluster.

`compare` is the whole of it. Runs are carried out one by one in this process, by a pool of
processes, or by any object that has `submit` as a `concurrent.futures.Executor` has.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from tqdm import tqdm

from seqmodels.evaluation.metrics import metric_of
from seqmodels.experiments.run import recorded_settings, remove, train_and_record
from seqmodels.experiments.sweep import Options, Run, check_same_settings, list_runs
from seqmodels.experiments.task import Task
from seqmodels.models import register
from seqmodels.records import io as record
from seqmodels.training.checkpoint import SUFFIX, Checkpoint
from seqmodels.utils import files, terminal
from seqmodels.utils.terminal import defer_signals, raise_stopped, signals_handled_by, wrap

with warnings.catch_warnings(action="ignore"):  # in a notebook without ipywidgets
    from tqdm.auto import tqdm as notebook_bar

DAY_MIN = 24 * 60
"""Time limit of a SLURM job in minutes, unless SBATCH_TIMELIMIT says otherwise."""


class FailedRunsError(ValueError):
    """Some runs of a comparison failed; the others are recorded."""

    def __init__(self, out: Path, failed: Sequence[str]):
        super().__init__("; ".join(failed))
        self.out = out


def compare(task: Task, options: Options, executor: Any = None) -> Path | None:
    """Train every spec and seed without a record; return the folder, or None for a dry run.

    A run that was stopped resumes from its latest checkpoint. Runs are carried out by the executor
    if there is one, by what --launcher names, or on this machine. An executor's processes must see
    the folder, and the cache of corpora, under the same paths.

    Raises ValueError if the folder does not fit; FailedRunsError after all runs, if some failed.
    """
    if options.tensorboard:
        import_module("tensorboard")  # an extra: its lack is an error before any training
    if options.trained and not options.trained.is_dir():
        raise ValueError(f"--trained: no folder {options.trained}")
    out = options.out or Path("runs") / task.name
    device = resolve_device(options)
    if options.launcher or executor:
        out = out.absolute()
    runs = list_runs(task, options, out, device)
    recorded = check_folder(out, runs, options.fresh)
    for folder in (None if options.fresh else out, options.trained):
        if folder and any(folder.glob("*-seed*")):
            check_vocabulary(folder, task)
    missing = [run for run in runs if run.path not in recorded]
    n_parallel = n_parallel_runs(len(runs), device)
    if options.dry_run:
        times = [r.train_s + r.evaluate_s for r in recorded.values()] if missing else []
        minutes = -(-len(missing) // n_parallel) * mean(times) / 60 if times else 0
        about = f", {n_parallel} at once, in about {minutes:.1f} minutes" if times else ""
        print(f"to train: {len(missing)} of {len(runs)} runs{about}")
        return None
    files.claim_folder(out, "comparison")
    try:
        with files.lock(out):
            prepare_folder(out, runs, missing)
            if options.launcher:
                executor = {"ray": Ray, "slurm": Slurm}[options.launcher](device, out)
            failed = run_all(missing, n_parallel, executor)
    except KeyboardInterrupt as stopped:
        without = " without --fresh" if options.fresh else ""
        stopped.add_note(f"the same command{without} resumes it")
        raise
    if failed:
        raise FailedRunsError(out, failed)
    return out


def resolve_device(options: Options) -> str:
    """Return cpu, cuda or mps; auto is cuda if there is one here, otherwise cpu.

    Raises ValueError if a device is requested but not available.
    """
    choice = options.device
    if options.launcher:
        return "cpu" if choice == "auto" else choice
    has = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.mps.is_available()}
    if choice == "auto":
        return "cuda" if has["cuda"] else "cpu"
    if not has[choice]:
        raise ValueError(f"--device {choice}: there is none here; use --device cpu")
    return choice


def n_parallel_runs(n_runs: int, device: str) -> int:
    """Return how many runs train in parallel, counting recorded ones, so that it never changes.

    Two models with one thread each train faster than one after the other with two threads: tensors
    are small, and threads synchronise on every operation.
    """
    return min(n_runs, torch.get_num_threads()) if device == "cpu" else 1


# ------------------------------------------------------------------------------------- The folder


def check_folder(out: Path, runs: Sequence[Run], is_fresh: bool) -> dict[Path, record.Record]:
    """Return the records that a folder has of these runs, by their paths; change nothing.

    Raises ValueError if a run in the folder was made with other settings. One that is not among
    these shares with them its data and, except for what it varies, how it was trained.
    """
    planned, recorded = {run.path: run for run in runs}, dict[Path, record.Record]()
    first, common = runs[0].settings(), {"beam", *runs[0].task.training}
    first.pop("data.frozen", None)  # the origin of one half, which some models have
    stopped = [out / path.name.replace(SUFFIX, ".json") for path in out.glob(f"*-seed*{SUFFIX}")]
    paths = {*out.glob("*-seed*[0-9].json"), *stopped}
    for path in sorted(paths - (planned.keys() if is_fresh else set())):
        unrecorded = planned[path].class_settings() if path in planned else {}
        varied = {key for key in common if f"-{key}-" in path.name}
        now = {k: v for k, v in first.items() if k.startswith("data.") or k in common - varied}
        now = planned[path].settings() if path in planned else now
        if path.exists():
            old = record.load(path)
            check_same_settings(path, {**unrecorded, **recorded_settings(old)}, now)
            if path in planned:
                recorded[path] = old
                metric = planned[path].options.metric or ""
                if metric.rpartition(":")[2] not in ["", *(t.primary_metric for t in old.tests)]:
                    again = f"choose another --out, with --trained {out}"
                    raise ValueError(f"{path} was not scored by {metric}; {again}")
        else:
            _, state = Checkpoint(path).load()
            check_same_settings(path, {**unrecorded, **state["settings"]}, now)
    return recorded


def check_vocabulary(folder: Path, task: Task) -> None:
    """Raise ValueError if the runs of a folder read other tokens than the task's tokenizer gives.

    The sums of the data do not tell: words that are equally frequent can change places.
    """
    path = folder / "vocabulary.json"
    if path.exists() and json.dumps(files.read_json(path)) != json.dumps(task.tokenizer.fields):
        raise ValueError(
            f"{path} is another tokenizer than this task's; give it with --tokenizer, choose "
            "another --out, or start again with --fresh"
        )


def prepare_folder(out: Path, runs: Sequence[Run], missing: Sequence[Run]) -> None:
    """Make a folder ready for the missing runs; say which ones are recorded.

    What a killed process left is removed: halves of files, and checkpoints of recorded runs.
    """
    for part in out.glob(f".*{files.PART}"):
        part.unlink(missing_ok=True)
    for run in runs:
        if run not in missing:
            run.path.with_suffix(SUFFIX).unlink(missing_ok=True)
            print(wrap(f"{run.title}: recorded in {run.path}"))
        elif run.options.fresh:
            remove(run)
    runs[0].task.tokenizer.save(out / "vocabulary.json")


# ---------------------------------------------------------------------------------------- All runs


def run_all(missing: Sequence[Run], n_parallel: int, executor: Any = None) -> list[str]:
    """Carry out runs, in their order; return a line for each failure.

    Without an executor, `n_parallel` runs at a time share the threads of this machine. The end of
    each run is printed; a notebook has one bar for all.
    """
    failures, threads = list[str](), torch.get_num_threads()
    with ExitStack() as stack:
        ended: Generator[tuple[Run, str]] = ((run, execute(run, threads)) for run in missing)
        if executor:
            ended = submit_all(missing, executor, N_REMOTE_THREADS)
        elif n_parallel > 1 and missing:
            pool = stack.enter_context(process_pool(n_parallel))
            ended = submit_all(missing, pool, threads // n_parallel)
        stack.enter_context(closing(ended))
        is_hidden = sys.stderr.isatty() or None  # a terminal has a line for each run
        for run, error in notebook_bar(ended, "runs", len(missing), disable=is_hidden):
            if error:
                failures.append(f"{run.title}: {error}")
                tqdm.write(wrap(failures[-1]))
                continue
            result = record.load(run.path)
            seconds = f"trained in {result.train_s:.0f} s, evaluated in {result.evaluate_s:.0f} s"
            test = result.tests[0]
            metric, score = metric_of(test.primary_metric), test.overall[test.primary_metric]
            first = f"{metric.label} {score.value:.{metric.digits}f} {metric.unit}".rstrip()
            tqdm.write(wrap(f"{run.title}: {first}, {seconds}"))
    return failures


def submit_all(runs: Sequence[Run], executor: Any, threads: int) -> Generator[tuple[Run, str]]:
    """Submit each run with so many threads; yield those that have ended, and why they failed.

    The loop polls: a signal to a suspended process can reach a thread that wakes no other.
    """
    waiting = dict[Any, Run]()
    try:
        with getattr(executor, "batch", nullcontext)():
            for run in runs:
                waiting[executor.submit(execute, run, threads)] = run
        while waiting:
            for future in [future for future in waiting if future.done()]:
                run = waiting.pop(future)
                try:
                    error = future.result()
                except Exception as lost:  # with its process, or with its machine
                    error = f"lost ({type(lost).__name__}: {lost}); the same command resumes it"
                yield run, error
            time.sleep(0.1 if waiting else 0.0)
    finally:
        with defer_signals():
            for future in waiting:
                future.cancel()


def execute(run: Run, threads: int) -> str:
    """Carry out a run, perhaps in another process or on another machine, with so many threads.

    Returns why it failed, or nothing; a fault of ours is raised.
    """
    for name, info in [*run.spec.lineage.items()][::-1]:  # what it varies first
        register(name, info)
    torch.set_num_threads(threads)
    try:
        with signals_handled_by(raise_stopped):
            train_and_record(run)
    except (ValueError, OSError) as error:
        if not terminal.is_mistake(error):
            raise
        return str(error)
    except (torch.OutOfMemoryError, MemoryError):
        return "out of memory; what was trained is kept; choose smaller sizes"
    except KeyboardInterrupt:
        if multiprocessing.parent_process():  # a process of a pool would begin its next run
            os._exit(1)
        raise
    return ""


# --------------------------------------------------------------------------- Processes and clusters


@contextmanager
def process_pool(n: int) -> Iterator[Executor]:
    """Yield a pool of processes that leave Ctrl-C to this one, and end with it.

    If an error or a signal ends the block, each saves a checkpoint of its run first.
    """
    context, others = multiprocessing.get_context("spawn"), multiprocessing.active_children()
    lines: Any = context.Queue()
    for line in range(n):
        lines.put(line)
    pool = ProcessPoolExecutor(n, context, start_worker, (context.RLock(), lines))
    with pool, signals_handled_by(raise_stopped):
        try:
            yield pool
        except BaseException:
            with defer_signals():
                pool.shutdown(wait=False, cancel_futures=True)
                while processes := {*multiprocessing.active_children()}.difference(others):
                    for process in processes:  # again: Python drops what a destructor raises
                        process.terminate()
                    process.join(1.0)
            raise


def start_worker(lock: Any, lines: Any) -> None:
    """Set up a process of a pool: its line of the terminal, and its end with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tqdm.set_lock(lock)
    terminal.LINE = lines.get()
    threading.Thread(target=exit_with_parent, daemon=True).start()


def exit_with_parent() -> None:
    """Wait until the parent has ended, in whatever way, then exit."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


N_REMOTE_THREADS = int(os.environ.get("OMP_NUM_THREADS") or 1)
"""The number of threads, and of requested cores, of each run on a cluster."""


class Slurm(Executor):
    """SLURM jobs by submitit, as one array; partition and so on as for sbatch: SBATCH_PARTITION."""

    def __init__(self, device: str, out: Path, cluster: str = "slurm"):
        import submitit

        self.jobs = submitit.AutoExecutor(out / "jobs", cluster)
        cores, gpus = N_REMOTE_THREADS, int(device == "cuda")
        self.jobs.update_parameters(timeout_min=DAY_MIN, cpus_per_task=cores, gpus_per_node=gpus)
        self.batch = self.jobs.batch

    def submit(self, function: Any, /, *args: Any, **_: Any) -> Any:
        """Submit a job."""
        return self.jobs.submit(function, *args)


class Ray(Executor):
    """Ray tasks, on the cluster at RAY_ADDRESS or, without it, on this machine."""

    def __init__(self, device: str, out: Path):
        import ray

        ray.init(os.environ.get("RAY_ADDRESS", "local"), ignore_reinit_error=True)
        gpus = int(device == "cuda")
        self.remote: Any = ray.remote(num_cpus=N_REMOTE_THREADS, num_gpus=gpus, max_retries=0)

    def submit(self, function: Any, /, *args: Any, **_: Any) -> Any:
        """Submit a task."""
        return self.remote(function).remote(*args).future()

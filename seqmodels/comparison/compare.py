"""Run an experiment: train what is missing, evaluate, record, tabulate, plot."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from seqmodels.catalog import entry_of
from seqmodels.comparison import forecast
from seqmodels.comparison.runs import (
    Run,
    check_same_settings,
    run_one,
    settings_of,
    shared_settings,
)
from seqmodels.comparison.task import Task
from seqmodels.metrics.table import metric_of
from seqmodels.records import schema
from seqmodels.report import figures, reading, summary
from seqmodels.training.checkpoint import Checkpoints
from seqmodels.training.loop import fastest_precision
from seqmodels.training.tensorboard import check_installed
from seqmodels.training.trainer import TrainConfig, is_out_of_memory
from seqmodels.utils import files
from seqmodels.utils.lock import Lock
from seqmodels.utils.progress import ProgressBoard, Reporter, log
from seqmodels.utils.terminal import (
    defer_signals,
    ensure_out_folder,
    raise_stopped,
    signals_handled_by,
)
from seqmodels.utils.world import world


def resolve_device(choice: str) -> str:
    """Return cpu or cuda.

    Raises ValueError if cuda is requested but not available.
    """
    if choice == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda: no CUDA device is available here; use --device cpu")
    return "cuda" if choice != "cpu" and torch.cuda.is_available() else "cpu"


# ------------------------------------------------------------------------- Several at once
#
# Two models with one thread each train faster than one after the other with two threads: tensors
# are small, and threads synchronise on every operation.


def n_parallel_runs(n_runs: int, device: str) -> int:
    """Return how many runs train in parallel, counting recorded ones, so that it never changes."""
    is_one = device == "cuda" or world().size > 1
    return 1 if is_one else min(n_runs, torch.get_num_threads())


def start_worker(threads: int, messages: Any, folder_lock: Any) -> None:
    """Set up a worker process, which reports to its parent and exits with it."""
    torch.set_num_threads(threads)
    Reporter.send = messages.put
    threading.Thread(target=exit_with_parent, daemon=True).start()


def exit_with_parent() -> None:
    """Wait until the parent has ended, in whatever way, then exit."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def run_in_worker(run: Run) -> dict[str, Any]:
    """Do one run; when the parent asks to stop, write a checkpoint and exit."""
    try:
        with signals_handled_by(raise_stopped):
            return run_one(run)
    except KeyboardInterrupt:
        os._exit(1)


STOP_S = 4.0
"""Time limit for a worker's last step and checkpoint."""


@contextmanager
def workers(n: int, folder_lock: Lock, board: ProgressBoard) -> Iterator[ProcessPoolExecutor]:
    """Start n processes that share the threads; whatever goes wrong, none is left running.

    They also hold the folder's lock, and get a few seconds to write their checkpoints.
    """
    context = multiprocessing.get_context("spawn")
    messages: Any = context.SimpleQueue()
    listener = threading.Thread(target=listen, args=(messages, board), daemon=True)
    listener.start()
    started = torch.get_num_threads() // n, messages, folder_lock
    pool = ProcessPoolExecutor(n, context, start_worker, started)
    try:
        yield pool
        messages.put(None)
        listener.join()
    except BaseException:
        with defer_signals():
            deadline = time.monotonic() + STOP_S
            processes = multiprocessing.active_children()
            for process in processes:
                process.terminate()
            for process in processes:
                process.join(max(0.0, deadline - time.monotonic()))
                process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def listen(messages: Any, board: ProgressBoard) -> None:
    """Pass the workers' messages on to the board, until None arrives."""
    while (message := messages.get()) is not None:
        board.receive(message)


def run_all(todo: Sequence[Run], n: int, n_parallel: int, folder_lock: Lock | None) -> list[str]:
    """Train, evaluate and record the missing ones of n runs; return a line for each failure."""
    titles = [run.title for run in todo]
    with ProgressBoard(titles, n - len(todo), n_parallel, world().is_first) as board:
        if n_parallel == 1 or not todo or folder_lock is None:
            failures = [collect(run, partial(run_one, run), board) for run in todo]
        else:
            with workers(n_parallel, folder_lock, board) as pool:
                previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # workers ignore Ctrl-C
                futures = {  # the newest models first: they take longest
                    pool.submit(run_in_worker, run): run for run in reversed(todo)
                }
                signal.signal(signal.SIGINT, previous)
                failures = [collect(futures[f], f.result, board) for f in completed(futures)]
    return [line for line in failures if line]


def completed(futures: Iterable[Future[Any]]) -> Iterator[Future[Any]]:
    """Yield each when it has ended, awake every second to heed a signal.

    A signal to a suspended process can reach another thread, which does not wake this one.
    """
    waiting = {*futures}
    while waiting:
        ended, waiting = wait(waiting, 1.0, FIRST_COMPLETED)
        yield from ended


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
        return f"{run.title}: out of memory in evaluation; what was trained is kept"
    finally:
        board.end(run.title)
    test = done["tests"][0]
    metric = metric_of(key := test["primary_metric"])
    score = f"{test['overall'][key]['value']:.{metric.digits}f} {metric.unit}".rstrip()
    times = f"{done['train_s']:.0f} s training, {done['evaluate_s']:.0f} s evaluation"
    log(f"{run.title}: {metric.label} {score}, {times}")
    return None


# ------------------------------------------------------------------------ The comparison


Settings = dict[Path, dict[str, Any]]
"""Settings by the path of the record, which may not exist yet."""


def recorded_settings(out: Path) -> Settings:
    """Return the settings of a folder's records."""
    return {path: settings_of(schema.load(path)) for path in sorted(out.glob("*-seed*.json"))}


def checkpointed_settings(wanted: Sequence[Path]) -> Settings:
    """Return the settings of the requested runs that have a checkpoint."""
    stopped = {}
    for path in wanted:
        if not path.parent.is_dir():
            continue
        if (checkpoint := Checkpoints(path).latest(lambda line: None)) is not None:
            settings = checkpoint.state.get("settings")
            stopped[path] = settings if isinstance(settings, dict) else {}
    return stopped


def check_settings(runs: Sequence[Run], task: Task, recorded: Settings, stopped: Settings) -> None:
    """Raise ValueError if anything in the folder was made with other settings.

    A requested run may have been trained on fewer tokens: it is trained further.
    """
    now = {run.path: run.settings() for run in runs if {run.path} & {*recorded, *stopped}}
    for path, was in recorded.items():
        if path not in now:
            check_same_settings(path, was, shared_settings(task))
            continue
        check_same_settings(path, was | {"tokens": now[path]["tokens"]}, now[path])
        if was["tokens"] > now[path]["tokens"]:
            raise ValueError(
                f"{path} was trained on {was['tokens']:,} tokens, more than the "
                f"{now[path]['tokens']:,} requested; --fresh starts again"
            )
        weights = path.with_suffix(".safetensors")
        if was["tokens"] < now[path]["tokens"] and not weights.exists():
            raise ValueError(
                f"{weights} is missing, so the run cannot be trained further; --fresh starts again"
            )
    for path, was in stopped.items():
        if path in recorded and was.get("tokens", 0) > max(
            recorded[path]["tokens"], now[path]["tokens"]
        ):
            raise ValueError(
                f"{path.stem} was being trained further; --tokens {was['tokens']} resumes, --fresh "
                "starts again"
            )
        is_left = path in recorded and was.get("tokens") == recorded[path]["tokens"]
        if not is_left:  # otherwise left by a process killed after recording
            check_same_settings(path, was, now[path])


def default_folder(task: Task, args: argparse.Namespace) -> str:
    """Return the default folder name, from task, data and size."""
    data = (getattr(args, "data", None) or [])[:1]
    named = [Path(what).resolve().stem if Path(what).exists() else what for what in data]
    return re.sub(r"[^\w.-]+", "-", "-".join([task.name, *named, args.size]))


def with_precision(
    task: Task, precision: str, device: str, earlier: Iterable[Mapping[str, Any]] = ()
) -> Task:
    """Return the task with a precision; auto: that of earlier runs, the task's or the faster."""
    if precision == "auto":  # measured once, so that all runs are the same
        known = [was["precision"] for was in (*earlier, task.training) if "precision" in was]
        precision = known[0] if known else fastest_precision(device)
    return replace(task, training={**task.training, "precision": precision})


def compare(task: Task, args: argparse.Namespace) -> None:
    """Train every (seed, model) without a record; then draw and print all records.

    A run that was stopped resumes from its latest checkpoint.
    """
    if args.tensorboard:
        check_installed()
    world().check_shards(args.shards, args.fsdp)
    device = resolve_device(args.device)
    out = args.out or Path("runs") / default_folder(task, args)
    if args.dry_run:
        show_forecast(out, device, task, args)
        return
    ensure_out_folder(out)
    try:
        with locked(out) as lock:
            compare_in(out, device, task, args, lock)
    except KeyboardInterrupt as stopped:
        if not world().is_first:
            sys.exit(getattr(stopped, "code", 130))  # the first one says so
        without = " without --fresh" if args.fresh else ""
        stopped.add_note(f"the same command{without} resumes it")
        raise


@contextmanager
def locked(out: Path) -> Iterator[Lock | None]:
    """Lock a folder and remove what a killed process left; of several, the first process does."""
    held: list[Lock] = []
    world().from_first(lambda: held.append(Lock(out)))
    try:
        if held:
            files.remove_partial(out)
        yield held[0] if held else None
    finally:
        for lock in held:
            lock.release()


def compare_in(
    out: Path, device: str, task: Task, args: argparse.Namespace, lock: Lock | None
) -> None:
    """Compare in a folder that is locked, by this process or the first of several."""
    task, runs, recorded, stopped = plan(out, device, task, args)
    world().from_first(lambda: prepare_folder(out, runs, task, recorded, stopped, args.fresh))
    todo = [run for run in runs if is_missing(run, recorded)]
    failed = run_all(todo, len(runs), n_parallel_runs(len(runs), device), lock)
    if world().is_first and any(run.path.exists() for run in runs):
        drawn = figures.plot_folder(out)
        print(f"\n{summary.summary(reading.load_records(out))}")
        print(f"\nRecords, hypotheses, weights and figures are in {out}:")
        names = ", ".join(sorted(file.name for file in drawn))
        print(textwrap.fill(names, summary.WIDTH, initial_indent="  ", subsequent_indent="  "))
    if failed:
        raise ValueError("; ".join(failed))


def plan(
    out: Path, device: str, task: Task, args: argparse.Namespace
) -> tuple[Task, list[Run], Settings, Settings]:
    """Return the task as it is trained, all runs, and settings of those with record or checkpoint.

    Nothing is changed.
    """
    keys = [(name, seed) for seed in args.seeds for name in args.models]
    paths = [out / f"{name}-seed{seed}.json" for name, seed in keys]
    recorded, stopped = world().from_first(
        lambda: (recorded_settings(out), checkpointed_settings([] if args.fresh else paths))
    )
    if args.fresh:
        recorded = {path: was for path, was in recorded.items() if path not in paths}
    earlier = [*recorded.values(), *stopped.values()]
    training = world().from_first(
        lambda: with_precision(task, args.precision, device, earlier).training
    )
    shards = {"shards": args.shards} if args.shards > 1 else {}
    task = replace(task, training={**training, **shards})
    runs = []
    for (name, seed), path in zip(keys, paths, strict=True):
        lr = args.lr or task.recipe(name).lr
        cfg = TrainConfig(lr=lr, seed=seed, **task.training)
        every_s, entry = args.checkpoint_every, entry_of(name)
        run = Run(name, task, cfg, path, device, every_s, entry, args.tensorboard, args.fsdp)
        runs.append(run)
    return task, runs, recorded, stopped


def show_forecast(out: Path, device: str, task: Task, args: argparse.Namespace) -> None:
    """Print the estimated cost of the missing runs; raise ValueError if they do not fit."""
    task, runs, recorded, stopped = plan(out, device, task, args)
    check_settings(runs, task, recorded, stopped)
    n_parallel = n_parallel_runs(len(runs), device)
    threads, records = torch.get_num_threads() // n_parallel, forecast.records_at_hand(out)
    todo = [
        (run, run.cfg.tokens - recorded.get(run.path, {"tokens": 0})["tokens"])
        for run in runs
        if is_missing(run, recorded)
    ]
    found = forecast.forecasts(todo, threads, records)
    if world().is_first:
        print(forecast.table(found, len(runs) - len(todo), n_parallel))


def is_missing(run: Run, recorded: Settings) -> bool:
    """Return whether a run has no record with its budget."""
    return run.cfg.tokens > recorded.get(run.path, {"tokens": 0})["tokens"]


def prepare_folder(
    out: Path, runs: Sequence[Run], task: Task, recorded: Settings, stopped: Settings, fresh: bool
) -> None:
    """Check that the runs fit a folder, and remove what is not needed.

    Raises ValueError, before anything is changed, if they do not.
    """
    check_settings(runs, task, recorded, stopped)
    if fresh:
        for run in runs:
            run.remove()
    task.tokenizer.save(out / "tokenizer.json")
    for run in runs:
        was = recorded.get(run.path, {}).get("tokens")
        if was == stopped.get(run.path, {}).get("tokens", 0):
            run.checkpoints.remove()  # left by a process killed after recording
        if not is_missing(run, recorded):
            log(f"{run.title}: recorded in {run.path}")

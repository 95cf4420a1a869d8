"""Run a comparison: train, evaluate and record what is missing."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from seqmodels.comparison.arm import make_arms
from seqmodels.comparison.launch import n_parallel_runs, run_all, threads_elsewhere
from seqmodels.comparison.runs import (
    Run,
    check_same_settings,
    settings_of,
    shared_settings,
)
from seqmodels.comparison.task import Task
from seqmodels.records import record
from seqmodels.training.checkpoint import Checkpoints
from seqmodels.training.config import TrainConfig
from seqmodels.training.runtime import fastest_precision
from seqmodels.training.tensorboard import check_installed
from seqmodels.utils import files
from seqmodels.utils.files import LOCK, Lock
from seqmodels.utils.terminal import ensure_out_folder, print_line
from seqmodels.utils.world import world


def resolve_device(choice: str) -> str:
    """Return cpu or cuda.

    Raises ValueError if cuda is requested but not available.
    """
    if choice == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda: no CUDA device is available here; use --device cpu")
    return "cuda" if choice != "cpu" and torch.cuda.is_available() else "cpu"


Settings = dict[Path, dict[str, Any]]
"""Settings by the path of the record, which may not exist yet."""


def recorded_settings(out: Path) -> Settings:
    """Return the settings of a folder's records."""
    return {path: settings_of(record.load(path)) for path in sorted(out.glob("*-seed*.json"))}


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
            shared = shared_settings(task).items()
            own = {key: value for key, value in shared if key not in was["varied"]}
            check_same_settings(path, was, own)
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
    task: Task,
    precision: str,
    device: str,
    earlier: Iterable[Mapping[str, Any]] = (),
    is_here: bool = True,
) -> Task:
    """Return the task with a precision; auto: that of earlier runs, the task's or the faster.

    What is faster is measured once, so that all runs are the same; on a cluster, whose machines
    can differ, it is bfloat16 for GPUs and float32 for others.
    """
    if precision == "auto":
        known = [
            was["precision"]
            for was in (*earlier, task.training)
            if "precision" in was and "precision" not in was.get("varied", ())
        ]
        usual = "bfloat16" if device == "cuda" else "float32"
        faster = fastest_precision(device) if is_here and not known else usual
        precision = known[0] if known else faster
    return replace(task, training={**task.training, "precision": precision})


class FailedRunsError(ValueError):
    """Some runs of a comparison failed; the others are recorded."""

    def __init__(self, out: Path, failed: Sequence[str]):
        super().__init__("; ".join(failed))
        self.out = out


def compare(task: Task, args: argparse.Namespace, executor: Executor | None = None) -> Path | None:
    """Train every arm and seed without a record; return the folder, or None for a dry run.

    A run that was stopped resumes from its latest checkpoint. Runs are carried out by the executor
    if there is one, by what --launcher names, or on this machine. An executor's processes must see
    the folder under the same path.

    Raises ValueError if the folder does not fit; FailedRunsError after all runs, if some failed.
    """
    if args.tensorboard:
        check_installed()
    world().check_shards(args.shards)
    device = resolve_device("auto" if args.launcher else args.device)
    out = args.out or Path("runs") / default_folder(task, args)
    if args.dry_run:
        show_forecast(out, device, task, args)
        return None
    ensure_out_folder(out)
    try:
        with locked(out), launched(args) as launcher:
            device = launcher.device if launcher else device
            compare_in(out, device, task, args, executor or launcher)
    except KeyboardInterrupt as stopped:
        if not world().is_first:
            sys.exit(getattr(stopped, "code", 130))  # the first one says so
        without = " without --fresh" if args.fresh else ""
        stopped.add_note(f"the same command{without} resumes it")
        raise
    return out


def launched(args: argparse.Namespace) -> AbstractContextManager[Any]:
    """Connect to what --launcher names, if it is given."""
    if args.launcher is None:
        return nullcontext()
    from seqmodels.comparison import launchers

    return launchers.launched(args)


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Lock a folder and remove what a killed process left; of several, the first process does.

    Raises ValueError if another command uses it, or if one of its runs is still being trained.
    """
    lock = world().on_rank0(lambda: Lock(out))
    try:
        if lock:
            for path in out.glob(f".*-seed*{LOCK}"):  # of a command that was killed
                Lock(out, path.name).release()
            files.remove_partial(out)
        yield
        if lock:
            files.remove_partial(out)  # of machines that were lost
    finally:
        if lock:
            lock.release()


def compare_in(
    out: Path, device: str, task: Task, args: argparse.Namespace, executor: Executor | None
) -> None:
    """Compare in a folder that is locked, by this process or the first of several."""
    if executor:
        out = out.absolute()
    task, runs, recorded, stopped = plan(out, device, task, args)
    world().broadcast_from_rank0(
        lambda: prepare_folder(out, runs, task, recorded, stopped, args.fresh)
    )
    todo = [run for run in runs if is_missing(run, recorded)]
    failed = run_all(todo, len(runs), n_parallel_runs(len(runs), device), executor)
    if failed:
        raise FailedRunsError(out, failed)


def plan(
    out: Path, device: str, task: Task, args: argparse.Namespace
) -> tuple[Task, list[Run], Settings, Settings]:
    """Return the task as it is trained, all runs, and settings of those with record or checkpoint.

    Nothing is changed.
    """
    arms = make_arms(args.models, args.vary, task, args.lr)
    for arm in arms:
        arm.register()
    keys = [(arm, seed) for seed in args.seeds for arm in arms]
    paths = [out / f"{arm.name}-seed{seed}.json" for arm, seed in keys]
    recorded, stopped = world().broadcast_from_rank0(
        lambda: (recorded_settings(out), checkpointed_settings([] if args.fresh else paths))
    )
    if args.fresh:
        recorded = {path: was for path, was in recorded.items() if path not in paths}
    earlier = [*recorded.values(), *stopped.values()]
    training = world().broadcast_from_rank0(
        lambda: with_precision(task, args.precision, device, earlier, not args.launcher).training
    )
    shards = {"shards": args.shards} if args.shards > 1 else {}
    task = replace(task, training={**training, **shards})
    lean = replace(task, figures=())  # the process of a run need not import matplotlib
    runs = []
    for (arm, seed), path in zip(keys, paths, strict=True):
        lr = args.lr or task.recipe(arm.name).lr
        cfg = TrainConfig(**{"lr": lr, **task.training, **arm.training, "seed": seed})
        runs.append(Run(arm, lean, cfg, path, device, args.checkpoint_every, args.tensorboard))
    return task, runs, recorded, stopped


def show_forecast(out: Path, device: str, task: Task, args: argparse.Namespace) -> None:
    """Print the estimated cost of the missing runs; raise ValueError if they do not fit."""
    from seqmodels.comparison import forecast

    task, runs, recorded, stopped = plan(out, device, task, args)
    check_settings(runs, task, recorded, stopped)
    n_parallel, threads = None, threads_elsewhere()
    if not args.launcher:
        n_parallel = n_parallel_runs(len(runs), device)
        threads = torch.get_num_threads() // n_parallel
    records = forecast.records_at_hand(out)
    todo = [
        (run, run.cfg.tokens - recorded.get(run.path, {"tokens": 0})["tokens"])
        for run in runs
        if is_missing(run, recorded)
    ]
    forecasts = [forecast.forecast(run, tokens, threads, records) for run, tokens in todo]
    if world().is_first:
        print(forecast.table(forecasts, len(runs) - len(todo), n_parallel))


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
            run.checkpoints().remove()  # left by a process killed after recording
        if not is_missing(run, recorded):
            run.status.delete()  # also left by such a process
            print_line(f"{run.title}: recorded in {run.path}")

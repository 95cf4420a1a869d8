"""Run a comparison: train, evaluate and record what is missing."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from seqmodels.experiments.launch import n_parallel_runs, n_remote_threads, run_all
from seqmodels.experiments.runs import (
    Run,
    check_same_settings,
    hold_lock,
    recorded_settings,
    shared_settings,
)
from seqmodels.experiments.specs import expand_specs, fix_widths, task_specs, without_repeats
from seqmodels.experiments.task import Task
from seqmodels.models import MODELS
from seqmodels.records import io as record
from seqmodels.training.checkpoint import Checkpoints
from seqmodels.training.config import Precision
from seqmodels.utils import files
from seqmodels.utils.files import LOCK, Lock
from seqmodels.utils.imports import require
from seqmodels.utils.terminal import print_line

Settings = dict[Path, dict[str, Any]]
"""Settings by the path of the record, which may not exist yet."""


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
        require("tensorboard")
    if args.trained and not args.trained.is_dir():
        raise ValueError(f"--trained: no folder {args.trained}")
    device = resolve_device("auto" if args.launcher else args.device)
    out = args.out or Path("runs") / default_folder(task, args)
    if args.dry_run:
        print_forecast(out, device, task, args)
        return None
    files.claim_folder(out, "comparison")
    connection: AbstractContextManager[Any] = nullcontext()
    if args.launcher:
        from seqmodels.experiments import executors  # only here: few need it

        connection = executors.connect_launcher(args)
    try:
        with hold_lock(out), connection as launcher:
            device = launcher.device if launcher else device
            compare_in_folder(out, device, task, args, executor or launcher)
    except KeyboardInterrupt as stopped:
        without = " without --fresh" if args.fresh else ""
        stopped.add_note(f"the same command{without} resumes it")
        raise
    return out


def compare_in_folder(
    out: Path, device: str, task: Task, args: argparse.Namespace, executor: Executor | None
) -> None:
    """Compare in a folder that is locked by this process."""
    if executor:
        out = out.absolute()
    remove_leftovers(out)
    runs = plan_runs(out, device, task, args)
    todo = [run for run, is_recorded in runs if not is_recorded]
    for run, is_recorded in runs:
        if args.fresh:
            run.remove()
        if is_recorded:  # what is left was left by a process that was killed
            run.checkpoints().remove()
            run.status.delete()
            print_line(f"{run.title}: recorded in {run.path}")
    task.tokenizer.save(out / "tokenizer.json")
    kept = runs[0][0].task.training["precision"]
    chosen = choose_precision(task, args.precision, device, (), not args.launcher)
    if todo and kept != (without := chosen.training["precision"]):
        print_line(f"precision {kept}, as in the other runs in {out}; without them, {without}")
    if getattr(args, "data", None):  # the times of the built-in tasks are in their help
        print_forecast(out, device, task, args)
    failed = run_all(todo, len(runs), n_parallel_runs(len(runs), device), executor)
    files.remove_partial(out)  # of machines that were lost
    if failed:
        raise FailedRunsError(out, failed)


def remove_leftovers(out: Path) -> None:
    """Remove the locks and halves of files that a killed process left in a folder.

    Raises ValueError if one of its runs is still being trained.
    """
    for path in out.glob(f".*-seed*{LOCK}"):
        Lock(out, path.name).release()
    files.remove_partial(out)


def print_forecast(out: Path, device: str, task: Task, args: argparse.Namespace) -> None:
    """Print the estimated time of the missing runs; of a dry run, with a table.

    Raises ValueError if they do not fit.
    """
    from seqmodels.experiments import forecast

    runs = plan_runs(out, device, task, args)
    n_parallel, threads = None, n_remote_threads()
    if not args.launcher:
        n_parallel = n_parallel_runs(len(runs), device)
        threads = torch.get_num_threads() // n_parallel
    todo = [run for run, is_recorded in runs if not is_recorded]
    records = forecast.find_records(out)
    forecasts = [forecast.forecast_run(run, threads, records) for run in todo]
    describe = forecast.format_forecasts if args.dry_run else forecast.summarize_forecasts
    if args.dry_run or todo:
        print_line(describe(forecasts, len(runs) - len(todo), n_parallel))


# ---------------------------------------------------------------------------------- Planning runs


def plan_runs(
    out: Path, device: str, task: Task, args: argparse.Namespace
) -> list[tuple[Run, bool]]:
    """Return all runs, each with whether it is recorded; change nothing.

    Raises ValueError if anything in the folder was made with other settings.
    """
    specs = task_specs(args.models, task)
    if args.vary:
        specs = expand_specs(args.models, args.vary, args.grid)
    if args.same_width:
        task = fix_widths(task, args.models)
    for spec in specs:
        spec.register()
        if not hasattr(MODELS[spec.name].config_type, "source_floats"):
            raise ValueError(
                f"{spec.name}: its Config lacks the method source_floats(n), which returns how "
                "many numbers the decoder is given for a source of n tokens"
            )
    paths = {out / f"{spec.name}-seed{seed}.json": spec for seed in args.seeds for spec in specs}
    recorded, stopped = read_settings(out, paths, args.fresh)
    earlier = [was["precision"] for was in recorded.values() if "precision" not in was["varied"]]
    earlier += [
        was["precision"]
        for path, was in stopped.items()
        if "precision" in was and "precision" not in paths[path].training
    ]
    task = choose_precision(task, args.precision, device, earlier, not args.launcher)
    # The process of a run need not import matplotlib for the task's figures.
    task = replace(task, figures=())
    if args.vary:
        specs = without_repeats(specs, task, args.lr)
    runs = [
        Run(
            spec,
            task,
            spec.train_config(task, args.lr, seed),
            out / f"{spec.name}-seed{seed}.json",
            device,
            args.checkpoint_every,
            args.tensorboard,
            args.trained,
            args.snapshots,
        )
        for seed in args.seeds
        for spec in specs
    ]
    check_runs(runs, recorded, stopped)
    return [(run, run.path in recorded) for run in runs]


def read_settings(out: Path, wanted: Collection[Path], is_fresh: bool) -> tuple[Settings, Settings]:
    """Return the settings of a folder's records, and those of the wanted runs' checkpoints.

    Other runs that were stopped count as recorded with their data: they share the folder's
    tokenizer. Files that --fresh deletes are left out.
    """
    recorded = {
        path: recorded_settings(record.load(path)) for path in sorted(out.glob("*-seed*[0-9].json"))
    }
    names = {part.name.partition(".checkpoint-")[0] for part in out.glob("*-seed*.checkpoint-*")}
    for path in {out / f"{name}.json" for name in names} - {*wanted, *recorded}:
        checkpoint = Checkpoints(path).latest(lambda line: None)
        if checkpoint and (was := checkpoint.settings):
            own = [key for key in was if not key.startswith("data.")]
            recorded[path] = {**was, "varied": ["precision", *own]}
    if is_fresh:
        return {path: was for path, was in recorded.items() if path not in wanted}, {}
    stopped = {}
    for path in wanted:
        checkpoint = Checkpoints(path).latest(lambda line: None) if out.is_dir() else None
        if checkpoint:
            stopped[path] = checkpoint.settings
    return recorded, stopped


def check_runs(runs: Sequence[Run], recorded: Settings, stopped: Settings) -> None:
    """Raise ValueError if anything in the folder was made with other settings.

    A checkpoint beside a record is not looked at: a process that was killed left it.
    """
    shared, own = shared_settings(runs[0].task), {run.path for run in runs}
    for path, was in recorded.items():
        if path not in own:
            then, now = ({k: s[k] for k in s if k not in was["varied"]} for s in (was, shared))
            check_same_settings(path, then, now)
    for run in runs:
        if run.path in recorded or run.path in stopped:
            was = recorded.get(run.path) or stopped[run.path]
            check_same_settings(run.path, was, run.settings())


def default_folder(task: Task, args: argparse.Namespace) -> str:
    """Return the default folder name, from task, data and size."""
    data = (getattr(args, "data", None) or [])[:1]
    names = [Path(name).resolve().stem if Path(name).exists() else name for name in data]
    return re.sub(r"[^\w.-]+", "-", "-".join([task.name, *names, args.size]))


# ---------------------------------------------------------------------------- Device and precision


def resolve_device(choice: str) -> str:
    """Return cpu, cuda or mps; auto is cuda if there is one, otherwise cpu.

    Raises ValueError if a device is requested but not available.
    """
    has = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.mps.is_available()}
    if choice == "auto":
        return "cuda" if has["cuda"] else "cpu"
    if not has[choice]:
        raise ValueError(f"--device {choice}: there is none here; use --device cpu")
    return choice


def choose_precision(
    task: Task, choice: str, device: str, earlier: Sequence[str] = (), is_here: bool = True
) -> Task:
    """Return the task with a precision; auto: that of earlier runs, the task's or the processor's.

    On a cluster, whose machines can differ, it is bfloat16 for GPUs and float32 for others.
    """
    if choice == "auto":
        own = [task.training["precision"]] if "precision" in task.training else []
        if given := [*earlier, *own]:
            choice = given[0]
        elif is_here:
            choice = native_precision(device)
        else:
            choice = "bfloat16" if device == "cuda" else "float32"
    return replace(task, training={**task.training, "precision": choice})


def native_precision(device: str) -> Precision:
    """Return bfloat16 where the processor has instructions for its products: AVX512_BF16 or AMX.

    Only torch 2.11 and newer say which it has; with an older one, a CPU is given float32.
    """
    is_native = False
    if device == "cuda":
        is_native = torch.cuda.is_bf16_supported(including_emulation=False)
    elif device == "cpu" and hasattr(torch.cpu, "get_capabilities"):
        has = torch.cpu.get_capabilities()
        is_native = has.get("avx512_bf16", False) or has.get("amx_bf16", False)
    return "bfloat16" if is_native else "float32"

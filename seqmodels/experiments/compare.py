"""Run a comparison: train, evaluate and record what is missing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

from seqmodels.experiments.executors import connect_launcher
from seqmodels.experiments.forecast import format_forecast
from seqmodels.experiments.launch import Summarize, n_parallel_runs, run_all
from seqmodels.experiments.options import Options
from seqmodels.experiments.plan import Plan, plan_runs, resolve_device
from seqmodels.experiments.task import Task
from seqmodels.utils import files
from seqmodels.utils.files import LOCK, Lock
from seqmodels.utils.imports import require
from seqmodels.utils.terminal import wrap


class FailedRunsError(ValueError):
    """Some runs of a comparison failed; the others are recorded."""

    def __init__(self, out: Path, failed: Sequence[str]):
        super().__init__("; ".join(failed))
        self.out = out


def compare(
    task: Task,
    options: Options,
    executor: Executor | None = None,
    summarize: Summarize | None = None,
) -> Path | None:
    """Train every spec and seed without a record; return the folder, or None for a dry run.

    A run that was stopped resumes from its latest checkpoint. Runs are carried out by the executor
    if there is one, by what --launcher names, or on this machine. An executor's processes must see
    the folder under the same path. `summarize` returns what is printed while runs are missing.

    Raises ValueError if the folder does not fit; FailedRunsError after all runs, if some failed.
    """
    if options.tensorboard:
        require("tensorboard")
    if options.trained and not options.trained.is_dir():
        raise ValueError(f"--trained: no folder {options.trained}")
    device = resolve_device("auto" if options.launcher else options.device)
    out = options.out or Path("runs") / default_folder(task, options)
    if options.dry_run:
        print(format_forecast(plan_runs(out, device, task, options), out, options))
        return None
    files.claim_folder(out, "comparison")
    try:
        with Lock(out), connect_launcher(options) as launcher:
            device, executor = launcher.device if launcher else device, executor or launcher
            plan = prepare_folder(out.absolute() if executor else out, device, task, options)
            n_parallel = n_parallel_runs(plan.n_runs, device)
            failed = run_all(plan, n_parallel, executor, summarize)
            files.remove_partial(out)  # of machines that were lost
    except KeyboardInterrupt as stopped:
        without = " without --fresh" if options.fresh else ""
        stopped.add_note(f"the same command{without} resumes it")
        raise
    if failed:
        raise FailedRunsError(out, failed)
    return out


def prepare_folder(out: Path, device: str, task: Task, options: Options) -> Plan:
    """Plan the runs and make the folder ready for them; print what is recorded or unusual.

    What a killed process left is removed: locks, halves of files, and checkpoints of recorded runs.

    Raises ValueError if one of the folder's runs is still being trained, or does not fit.
    """
    for path in out.glob(f".*-seed*{LOCK}"):
        Lock(out, path.name).release()
    files.remove_partial(out)
    plan = plan_runs(out, device, task, options)
    for run in plan.missing if options.fresh else ():
        run.remove()
    for run in plan.recorded:
        run.checkpoints().remove()
        run.status.delete()
        print(wrap(f"{run.title}: recorded in {run.path}"))
    task.tokenizer.save(out / "tokenizer.json")
    if options.data and plan.missing:  # the times of the built-in tasks are in their help
        print(format_forecast(plan, out, options))
    return plan


def default_folder(task: Task, options: Options) -> str:
    """Return the default folder name, from task, data and size."""
    data = [Path(name).resolve().stem if Path(name).exists() else name for name in options.data]
    return re.sub(r"[^\w.-]+", "-", "-".join([task.name, *data[:1], options.size]))

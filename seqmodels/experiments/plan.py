"""Plan a comparison, without changing anything: its runs, and what the disk holds of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch

from seqmodels.experiments.options import Options
from seqmodels.experiments.run import Run, check_same_settings, recorded_settings, shared_settings
from seqmodels.experiments.specs import (
    drop_repeats,
    expand_specs,
    fix_widths,
    model_sizes,
    task_specs,
)
from seqmodels.experiments.task import Task
from seqmodels.models import Fields
from seqmodels.records import io as record
from seqmodels.training.checkpoint import Checkpoints


class Earlier(NamedTuple):
    """An earlier run of the folder, which may be one of those that are planned."""

    settings: Fields
    own: Collection[str]
    """Settings that it does not share with the other runs of the folder."""
    is_recorded: bool = False
    """Whether it has a record; otherwise, a checkpoint."""


class Plan(NamedTuple):
    """The runs of a comparison, each by seed and model."""

    recorded: list[Run]
    missing: list[Run]

    @property
    def n_runs(self) -> int:
        """Return the number of all runs."""
        return len(self.recorded) + len(self.missing)


def plan_runs(out: Path, device: str, task: Task, options: Options) -> Plan:
    """Return the runs of a comparison, given its folder.

    Raises ValueError if anything in the folder was made with other settings.
    """
    if options.same_width:
        task = fix_widths(task, options.models)
    training = {**task.training, "precision": options.precision}
    # The process of a run need not import matplotlib for the task's figures.
    task = replace(task, training=training, figures=())
    specs = task_specs(options.models, task)
    if options.vary:
        specs = expand_specs(options.models, options.vary, options.grid)
    sizes = {spec.name: model_sizes(spec, task) for spec in specs}
    if options.vary:
        specs = drop_repeats(specs, sizes, task, options.lr)
    runs = []
    for seed, spec in product(options.seeds, specs):
        cfg, path = spec.train_config(task, options.lr, seed), out / f"{spec.name}-seed{seed}.json"
        runs.append(Run(spec, task, cfg, sizes[spec.name], path, device, options))
    planned = {run.path: run for run in runs}
    folder = read_folder(out, planned)
    if options.fresh:
        folder = {path: earlier for path, earlier in folder.items() if path not in planned}
    check_settings(folder, planned)
    recorded = {path for path, earlier in folder.items() if earlier.is_recorded}
    return Plan(
        [run for run in runs if run.path in recorded],
        [run for run in runs if run.path not in recorded],
    )


# ------------------------------------------------------------------------------------- The folder


def read_folder(out: Path, planned: Mapping[Path, Run]) -> dict[Path, Earlier]:
    """Return the earlier runs of a folder, by the paths of their records.

    Of a run that was stopped and is not planned, the data are compared, whose tokenizer is the
    folder's; the rest is its own.
    """
    folder = {}
    for path in sorted(out.glob("*-seed*[0-9].json")):
        old = record.load(path)
        own = [*old.arm.training] if old.arm else []
        folder[path] = Earlier(recorded_settings(old), own, is_recorded=True)
    names = {part.name.partition(".checkpoint-")[0] for part in out.glob("*-seed*.checkpoint-*")}
    for path in sorted({out / f"{name}.json" for name in names} - folder.keys()):
        if checkpoint := Checkpoints(path).latest(lambda line: None):
            was = checkpoint.settings
            if path in planned:
                folder[path] = Earlier(was, planned[path].spec.training)
            elif was:
                own = [key for key in was if not key.startswith("data.")]
                folder[path] = Earlier(was, own)
    return folder


def check_settings(folder: Mapping[Path, Earlier], planned: Mapping[Path, Run]) -> None:
    """Raise ValueError if an earlier run was made with other settings."""
    shared = shared_settings(next(iter(planned.values())).task)
    for path, earlier in folder.items():
        if path not in planned:
            was, now = (
                {key: value for key, value in settings.items() if key not in earlier.own}
                for settings in (earlier.settings, shared)
            )
            check_same_settings(path, was, now)
    for path, run in planned.items():
        if path in folder:
            check_same_settings(path, folder[path].settings, run.settings())


# ------------------------------------------------------------------------------------------ Device


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

"""Plan a comparison, without changing anything: its runs, and what the disk holds of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import torch

from seqmodels.experiments.options import Options
from seqmodels.experiments.run import Run, check_same_settings, recorded_settings, shared_settings
from seqmodels.experiments.specs import (
    Spec,
    drop_repeats,
    expand_specs,
    fix_widths,
    model_sizes,
    task_specs,
)
from seqmodels.experiments.task import Task
from seqmodels.records import io as record
from seqmodels.training.checkpoint import Checkpoints


class RunState(Enum):
    """What the disk holds of a planned run."""

    NEW = "new"
    STOPPED = "stopped"
    """A checkpoint, from which it resumes."""
    RECORDED = "recorded"


class Earlier(NamedTuple):
    """An earlier run of the folder, which may be one of those that are planned."""

    state: RunState
    settings: Mapping[str, Any]
    own: Collection[str]
    """Settings that it does not share with the other runs of the folder."""


@dataclass(frozen=True)
class Plan:
    """The runs of a comparison, by seed and model."""

    runs: Sequence[tuple[Run, RunState]]

    @property
    def missing(self) -> list[Run]:
        """Return the runs without a record."""
        return [run for run, state in self.runs if state is not RunState.RECORDED]


def plan_runs(out: Path, device: str, task: Task, options: Options) -> Plan:
    """Return the runs of a comparison, given its folder.

    Raises ValueError if anything in the folder was made with other settings.
    """
    if options.same_width:
        task = fix_widths(task, options.models)
    specs = plan_specs(task, options)
    sizes = {spec.name: model_sizes(spec, task) for spec in specs}
    wanted = {
        out / f"{spec.name}-seed{seed}.json": spec for seed in options.seeds for spec in specs
    }
    folder = read_folder(out, wanted)
    if options.fresh:
        folder = {path: earlier for path, earlier in folder.items() if path not in wanted}
    training = {**task.training, "precision": options.precision}
    # The process of a run need not import matplotlib for the task's figures.
    task = replace(task, training=training, figures=())
    if options.vary:
        specs = drop_repeats(specs, sizes, task, options.lr)
    runs = [
        Run(
            spec,
            task,
            spec.train_config(task, options.lr, seed),
            sizes[spec.name],
            out / f"{spec.name}-seed{seed}.json",
            device,
            options,
        )
        for seed in options.seeds
        for spec in specs
    ]
    check_settings(folder, runs)
    states = [folder[run.path].state if run.path in folder else RunState.NEW for run in runs]
    return Plan([*zip(runs, states, strict=True)])


def plan_specs(task: Task, options: Options) -> list[Spec]:
    """Return the specs to train; raise ValueError for a model that cannot be compared."""
    specs = task_specs(options.models, task)
    if options.vary:
        specs = expand_specs(options.models, options.vary, options.grid)
    for spec in specs:
        if not hasattr(spec.model_type.config_type, "source_floats"):
            raise ValueError(
                f"{spec.name}: its Config lacks the method source_floats(n), which returns how "
                "many numbers the decoder is given for a source of n tokens"
            )
    return specs


# ------------------------------------------------------------------------------------- The folder


def read_folder(out: Path, wanted: Mapping[Path, Spec]) -> dict[Path, Earlier]:
    """Return the earlier runs of a folder, by the paths of their records.

    Of a run that was stopped and is not wanted, the data are compared, whose tokenizer is the
    folder's; the rest is its own.
    """
    folder = {}
    for path in sorted(out.glob("*-seed*[0-9].json")):
        old = record.load(path)
        own = [*old.arm.training] if old.arm else []
        folder[path] = Earlier(RunState.RECORDED, recorded_settings(old), own)
    names = {part.name.partition(".checkpoint-")[0] for part in out.glob("*-seed*.checkpoint-*")}
    for path in sorted({out / f"{name}.json" for name in names} - folder.keys()):
        if checkpoint := Checkpoints(path).latest(lambda line: None):
            was = checkpoint.settings
            if path in wanted:
                folder[path] = Earlier(RunState.STOPPED, was, wanted[path].training)
            elif was:
                own = [key for key in was if not key.startswith("data.")]
                folder[path] = Earlier(RunState.STOPPED, was, own)
    return folder


def check_settings(folder: Mapping[Path, Earlier], runs: Sequence[Run]) -> None:
    """Raise ValueError if an earlier run was made with other settings."""
    planned = {run.path: run for run in runs}
    shared = shared_settings(runs[0].task)
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

"""Plan a comparison, without changing anything: its runs, and what the disk holds of each."""

from __future__ import annotations

from collections.abc import Mapping
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
    recorded = check_folder(out, {run.path: run for run in runs}, options.fresh)
    return Plan(
        [run for run in runs if run.path in recorded],
        [run for run in runs if run.path not in recorded],
    )


def check_folder(out: Path, planned: Mapping[Path, Run], is_fresh: bool) -> set[Path]:
    """Return which paths of a folder have records that are kept.

    Raises ValueError if an earlier run was made with other settings. One that is not planned shares
    with the planned ones what it does not vary; of one that was stopped only the data are known to
    be shared, whose tokenizer is the folder's.
    """
    shared, recorded = shared_settings(next(iter(planned.values())).task), set[Path]()
    was: Fields
    varied: Fields
    names = {part.name.partition(".checkpoint-")[0] for part in out.glob("*-seed*.checkpoint-*")}
    paths = {*out.glob("*-seed*[0-9].json"), *(out / f"{name}.json" for name in names)}
    for path in sorted(paths - (planned.keys() if is_fresh else set())):
        if path.exists():
            old = record.load(path)
            was, varied = recorded_settings(old), old.arm.training if old.arm else {}
            recorded.add(path)
        elif checkpoint := Checkpoints(path).latest(lambda line: None):
            was = checkpoint.state["settings"]
            varied = {key: value for key, value in was.items() if not key.startswith("data.")}
        else:
            continue
        if path in planned:
            check_same_settings(path, was, planned[path].settings())
        else:
            check_same_settings(path, *({k: v for k, v in settings.items() if k not in varied}
                                        for settings in (was, shared)))  # fmt: skip
    return recorded


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

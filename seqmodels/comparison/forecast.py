"""Estimate the cost of a comparison from existing records: FLOPs, time, memory and disk."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from seqmodels.comparison.runs import Run, build_model
from seqmodels.comparison.sizes import count_parameters, model_sizes
from seqmodels.records import record
from seqmodels.training.flops import flops_per_token
from seqmodels.utils.progress import format_duration
from seqmodels.utils.terminal import format_table

TRAINING_BYTES = 5 * 4
"""Bytes a parameter takes in training: its weight, gradient, AdamW's two moments, its best."""
CHECKPOINT_BYTES = 4 * 4
"""Bytes a parameter takes in a checkpoint, which has no gradients."""


class Forecast(NamedTuple):
    """The estimated cost of one run."""

    title: str
    tokens: int
    """Target tokens to train on."""
    flops: float
    """Operations of training, as in records."""
    seconds: float | None
    """Time of training; None: no record says how fast such a model is."""
    is_here: bool
    """Whether the records are of this machine, with as many threads."""
    memory_bytes: int
    """The most that a run of this model has held; without a record, of its tensors alone."""
    disk_bytes: int
    """The most on the disk at once: weights, and two checkpoints."""


def records_at_hand(out: Path) -> list[dict[str, Any]]:
    """Return all records in a folder, in those beside it, and in the clone's results."""
    folders = (out, *out.parent.glob("*"), *Path("results").glob("*"))
    found = []
    for folder in {path.resolve() for path in folders}:
        for path in sorted(folder.glob("*-seed*.json")):
            with suppress(ValueError, OSError):
                found.append(record.load(path))
    return found


def forecasts(
    todo: Sequence[tuple[Run, int]], threads: int, records: Sequence[dict[str, Any]]
) -> list[Forecast]:
    """Return the estimated cost of runs with these tokens left, on so many threads each."""
    costs: dict[str, tuple[float, int]] = {}
    for run, _ in todo:
        if run.name not in costs:  # seeds do not differ
            costs[run.name] = cost(run, records)
    return [forecast(run, tokens, costs[run.name], threads, records) for run, tokens in todo]


def cost(run: Run, records: Sequence[dict[str, Any]]) -> tuple[float, int]:
    """Return a run's operations per target token, and its parameters: recorded, or counted."""
    sizes = {"model": run.name, **model_sizes(run.name, run.task)}
    for r in records:
        is_same = {"model": r["model"], **r["model_config"]} == sizes
        if is_same and r["data"]["sha256"] == run.task.data["sha256"] and r.get("flops_per_token"):
            return r["flops_per_token"], r["n_parameters"]
    model = build_model(run)
    return flops_per_token(model, run.task.train, run.cfg), count_parameters(model)


def forecast(
    run: Run,
    tokens: int,
    costs: tuple[float, int],
    threads: int,
    records: Sequence[dict[str, Any]],
) -> Forecast:
    """Return the estimated cost of a run, from the records most like it."""
    here = record.provenance(run.device)["device"], threads, run.cfg.precision
    like = [r for r in records if r["model"] == run.name and r.get("flops_per_token")]
    like = [r for r in like if r["task"] == run.task.name] or like
    same = [r for r in like if place_of(r) == here]
    speeds = [r["flops_per_token"] * r["curve"][-1]["tokens"] / r["train_s"] for r in same or like]
    per_token, n = costs
    flops = tokens * per_token
    return Forecast(
        run.title,
        tokens,
        flops,
        flops / statistics.median(speeds) if speeds else None,
        bool(same),
        max([TRAINING_BYTES * n, *(r["peak_memory_bytes"] for r in same or like)]),
        (2 * CHECKPOINT_BYTES + 4) * n,
    )


def place_of(r: dict[str, Any]) -> tuple[str, int, str]:
    """Return what a run's speed depends on besides its model."""
    where = r["provenance"]
    return where["device"], where["threads"], r["train_config"]["precision"]


def table(found: Sequence[Forecast], n_recorded: int, n_parallel: int | None) -> str:
    """Return a table of forecasts, and a sentence on all of them.

    `n_parallel` is None where a cluster decides how many runs train at once.
    """
    if not found:
        return f"Nothing to train: all {n_recorded} runs are recorded. Nothing was written."
    head = ("run", "tokens", "TFLOP", "training", "memory", "disk")
    rows = [
        (
            f.title,
            f"{f.tokens:,}",
            f"{f.flops / 1e12:,.1f}",
            "unknown" if f.seconds is None else format_duration(f.seconds) + "*" * (not f.is_here),
            f"{f.memory_bytes / 2**20:,.0f} MiB",
            f"{f.disk_bytes / 2**20:,.0f} MiB",
        )
        for f in found
    ]
    lines = format_table([head, *rows], is_right=True)
    seconds = [f.seconds for f in found if f.seconds is not None]
    time = "for an unknown time"
    if len(seconds) == len(found):
        all_s = max(sum(seconds) / (n_parallel or 1), max(seconds, default=0.0))
        time = f"{format_duration(all_s)}, without evaluation"
    if any(f.seconds is not None and not f.is_here for f in found):
        lines.append("* from records of another machine, precision or number of threads")
    at_once = f"{n_parallel} at once" if n_parallel else "one after the other"
    to_train = f"To train: {len(found)} runs, {at_once}, {time}."
    return "\n".join([*lines, "", f"{to_train} Recorded: {n_recorded}. Nothing was written."])

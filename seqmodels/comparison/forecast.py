"""Estimate the cost of a comparison from existing records: time, memory and disk."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from seqmodels.comparison.arm import count_parameters
from seqmodels.comparison.runs import Run, build_model
from seqmodels.records import record
from seqmodels.utils.imports import HOME
from seqmodels.utils.progress import format_duration
from seqmodels.utils.terminal import format_table

TRAINING_BYTES = 5 * 4
"""Bytes a parameter takes in training: its weight, gradient, AdamW's two moments, its best."""
DISK_BYTES = 2 * 4 * 4 + 4
"""Bytes a parameter takes on the disk: two checkpoints without gradients, and the weights."""


class Forecast(NamedTuple):
    """The estimated cost of one run."""

    title: str
    tokens: int
    """Target tokens to train on."""
    seconds: float | None
    """Time of training; None: no record says how fast such a model is."""
    is_here: bool
    """Whether the records are of this machine, with as many threads."""
    memory_bytes: int
    """The most that a run of this model has held; without a record, of its tensors alone."""
    disk_bytes: int


def find_records(out: Path) -> list[dict[str, Any]]:
    """Return the records in a folder, in its sibling folders, and in the committed results."""
    folders = (out, *out.parent.glob("*"), *HOME.glob("results/*"))
    records = []
    for folder in {path.resolve() for path in folders}:
        for path in sorted(folder.glob("*-seed*[0-9].json")):
            with suppress(ValueError, OSError):
                records.append(record.load(path))
    return records


def forecast_run(run: Run, threads: int, records: Sequence[dict[str, Any]]) -> Forecast:
    """Return the estimated cost of a run on so many threads, from the most similar records."""
    here = record.provenance(run.device)["device"], threads, run.cfg.precision
    alike = [r for r in records if r["model"] == run.name]
    alike = [r for r in alike if r["task"] == run.task.name] or alike
    local = [r for r in alike if machine_of(r) == here]
    times = [r["train_s"] / r["curve"][-1]["tokens"] for r in local or alike]
    n_parameters = count_parameters(build_model(run))
    return Forecast(
        run.title,
        run.cfg.tokens,
        run.cfg.tokens * statistics.median(times) if times else None,
        bool(local),
        max([TRAINING_BYTES * n_parameters, *(r["peak_memory_bytes"] for r in local or alike)]),
        DISK_BYTES * n_parameters,
    )


def machine_of(r: dict[str, Any]) -> tuple[str, int, str]:
    """Return device, threads and precision, on which a run's speed depends."""
    provenance = r["provenance"]
    return provenance["device"], provenance["threads"], r["train_config"]["precision"]


def format_forecasts(forecasts: Sequence[Forecast], n_recorded: int, n_parallel: int | None) -> str:
    """Return a table of forecasts, and a sentence on all of them.

    `n_parallel` is None where a cluster decides how many runs train at once.
    """
    if not forecasts:
        return f"Nothing to train: all {n_recorded} runs are recorded."
    rows: list[tuple[str, ...]] = [("run", "tokens", "training", "memory", "disk")]
    for f in forecasts:
        time = "unknown" if f.seconds is None else format_duration(f.seconds)
        mark = "*" if f.seconds is not None and not f.is_here else ""
        sizes = (f"{n / 2**20:,.0f} MiB" for n in (f.memory_bytes, f.disk_bytes))
        rows.append((f.title, f"{f.tokens:,}", time + mark, *sizes))
    lines = format_table(rows, is_right=True)
    if any(f.seconds is not None and not f.is_here for f in forecasts):
        lines.append("* from records of another machine, precision or number of threads")
    summary = summarize_forecasts(forecasts, n_recorded, n_parallel)
    return "\n".join([*lines, "", f"{summary} Nothing was trained."])


def summarize_forecasts(
    forecasts: Sequence[Forecast], n_recorded: int, n_parallel: int | None
) -> str:
    """Return a sentence on the time of all runs; see `format_forecasts`."""
    seconds = [f.seconds or 0.0 for f in forecasts]
    time = format_duration(max([sum(seconds) / (n_parallel or 1), *seconds]))
    if any(f.seconds is None for f in forecasts):
        time = "an unknown time"
    at_once = f"{n_parallel} at once" if n_parallel else "one after the other"
    return (
        f"To train: {len(forecasts)} run{'s' * (len(forecasts) > 1)}, {at_once}, {time} without "
        f"evaluation. Recorded: {n_recorded}."
    )

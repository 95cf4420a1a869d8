"""Estimate the time of a comparison from existing records."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from seqmodels.experiments.runs import Run
from seqmodels.records import io as record
from seqmodels.records import provenance
from seqmodels.utils.imports import HOME
from seqmodels.utils.progress import format_duration
from seqmodels.utils.terminal import format_table


class Forecast(NamedTuple):
    """The estimated time of one run."""

    title: str
    tokens: int
    """Target tokens to train on."""
    seconds: float | None
    """Time of training; None: no record says how fast such a model is."""
    is_here: bool
    """Whether the records are of this machine, with as many threads."""


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
    """Return the estimated time of a run on so many threads, from the most similar records."""
    here = provenance.collect(run.device)["device"], threads, run.cfg.precision
    alike = [r for r in records if r["model"] == run.name]
    alike = [r for r in alike if r["task"] == run.task.name] or alike
    local = [r for r in alike if machine_of(r) == here]
    times = [r["train_s"] / r["curve"][-1]["tokens"] for r in local or alike]
    return Forecast(
        run.title,
        run.cfg.tokens,
        run.cfg.tokens * statistics.median(times) if times else None,
        bool(local),
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
    rows: list[tuple[str, ...]] = [("run", "tokens", "training")]
    for f in forecasts:
        time = "unknown" if f.seconds is None else format_duration(f.seconds)
        mark = "*" if f.seconds is not None and not f.is_here else ""
        rows.append((f.title, f"{f.tokens:,}", time + mark))
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

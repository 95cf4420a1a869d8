"""Estimate the time of a comparison from existing records."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import torch

from seqmodels.experiments.launch import n_parallel_runs, n_remote_threads
from seqmodels.experiments.options import Options
from seqmodels.experiments.plan import Plan
from seqmodels.experiments.run import Run
from seqmodels.records import io as record
from seqmodels.records import provenance
from seqmodels.records.schema import Record
from seqmodels.utils.imports import HOME
from seqmodels.utils.progress import format_duration
from seqmodels.utils.terminal import format_table


class Forecast(NamedTuple):
    """The estimated time of one run."""

    run: Run
    seconds: float | None
    """Time of training; None: no record says how fast such a model is."""
    is_here: bool
    """Whether the records are of this machine, with as many threads."""


def find_records(out: Path) -> list[Record]:
    """Return the records in a folder, in its sibling folders, and in the committed results."""
    folders = (out, *out.parent.glob("*"), *HOME.glob("results/*"))
    records = []
    for folder in {path.resolve() for path in folders}:
        for path in sorted(folder.glob("*-seed*[0-9].json")):
            with suppress(ValueError, OSError):
                records.append(record.load(path))
    return records


def forecast_run(run: Run, threads: int, records: Sequence[Record]) -> Forecast:
    """Return the estimated time of a run on so many threads, from the most similar records."""
    here = provenance.collect(run.device)["device"], threads, run.cfg.precision
    similar = [r for r in records if r.model == run.name]
    similar = [r for r in similar if r.task == run.task.name] or similar
    local = [
        r for r in similar
        if (r.provenance.device, r.provenance.threads, r.train_config["precision"]) == here
    ]  # fmt: skip
    times = [r.train_s / r.curve[-1].tokens for r in local or similar]
    seconds = run.cfg.tokens * statistics.median(times) if times else None
    return Forecast(run, seconds, bool(local))


def format_forecast(plan: Plan, out: Path, options: Options) -> str:
    """Return a sentence on the time of the missing runs; of a dry run, with a table."""
    n_parallel, threads = None, n_remote_threads()
    if not options.launcher:
        n_parallel = n_parallel_runs(len(plan.runs), plan.runs[0][0].device)
        threads = torch.get_num_threads() // n_parallel
    records, n_recorded = find_records(out), len(plan.runs) - len(plan.missing)
    forecasts = [forecast_run(run, threads, records) for run in plan.missing]
    if not forecasts:
        return f"Nothing to train: all {n_recorded} runs are recorded."
    summary = f"{summarize(forecasts, n_parallel)} Recorded: {n_recorded}."
    return tabulate(forecasts, summary) if options.dry_run else summary


def tabulate(forecasts: Sequence[Forecast], summary: str) -> str:
    """Return a table of forecasts with the sentence on all of them."""
    rows: list[tuple[str, ...]] = [("run", "tokens", "training")]
    for run, seconds, is_here in forecasts:
        time = "unknown" if seconds is None else format_duration(seconds)
        mark = "*" if seconds is not None and not is_here else ""
        rows.append((run.title, f"{run.cfg.tokens:,}", time + mark))
    lines = format_table(rows, is_right=True)
    if any("*" in time for _, _, time in rows):
        lines.append("* from records of another machine, precision or number of threads")
    return "\n".join([*lines, "", f"{summary} Nothing was trained."])


def summarize(forecasts: Sequence[Forecast], n_parallel: int | None) -> str:
    """Return a sentence on the time of all runs.

    `n_parallel` is None where a cluster decides how many train at once.
    """
    seconds = [f.seconds or 0.0 for f in forecasts]
    time = format_duration(max([sum(seconds) / (n_parallel or 1), *seconds]))
    if any(f.seconds is None for f in forecasts):
        time = "an unknown time"
    at_once = f"{n_parallel} at once" if n_parallel else "one after the other"
    runs = f"{len(forecasts)} run{'s' * (len(forecasts) > 1)}"
    return f"To train: {runs}, {at_once}, {time} without evaluation."

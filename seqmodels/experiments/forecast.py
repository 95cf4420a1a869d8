"""Estimate the time of a comparison from existing records."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

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
from seqmodels.utils.terminal import format_table, wrap


def find_records(out: Path) -> list[Record]:
    """Return the records in a folder, in its sibling folders, and in the committed results."""
    folders = (out, *out.parent.glob("*"), *HOME.glob("results/*"))
    records = []
    for folder in {path.resolve() for path in folders}:
        for path in sorted(folder.glob("*-seed*[0-9].json")):
            with suppress(ValueError, OSError):
                records.append(record.load(path))
    return records


def estimate_seconds(run: Run, threads: int, records: Sequence[Record]) -> float | None:
    """Return the time of training on so many threads, from the most similar records.

    They are of this model and, where there are some, of this task and this machine; None if no
    record says how fast such a model is.
    """
    here = provenance.collect(run.device)["device"], threads, run.cfg.precision
    similar = [r for r in records if r.model == run.name]
    similar = [r for r in similar if r.task == run.task.name] or similar
    local = [
        r for r in similar
        if (r.provenance.device, r.provenance.threads, r.train_config["precision"]) == here
    ]  # fmt: skip
    times = [r.train_s / r.curve[-1].tokens for r in local or similar]
    return run.cfg.tokens * statistics.median(times) if times else None


def format_forecast(plan: Plan, out: Path, options: Options) -> str:
    """Return a sentence on the time of the missing runs; of a dry run, with a table."""
    n_recorded, n_parallel = len(plan.recorded), None
    if not plan.missing:
        return f"Nothing to train: all {n_recorded} runs are recorded."
    if options.launcher:
        threads = n_remote_threads()
    else:
        n_parallel = n_parallel_runs(plan.n_runs, plan.missing[0].device)
        threads = torch.get_num_threads() // n_parallel
    records = find_records(out)
    times = [estimate_seconds(run, threads, records) for run in plan.missing]
    summary = f"{summarize(times, n_parallel)} Recorded: {n_recorded}."
    if not options.dry_run:
        return wrap(summary)
    rows = [("run", "tokens", "training")]
    for run, seconds in zip(plan.missing, times, strict=True):
        time = "unknown" if seconds is None else format_duration(seconds)
        rows.append((run.title, f"{run.cfg.tokens:,}", time))
    return "\n".join([*format_table(rows), "", wrap(f"{summary} Nothing was trained.")])


def summarize(times: Sequence[float | None], n_parallel: int | None) -> str:
    """Return a sentence on the time of all runs, given the seconds of each.

    `n_parallel` is None where a cluster decides how many train at once.
    """
    seconds = [time for time in times if time is not None]
    total = "an unknown time"
    if len(seconds) == len(times):
        total = format_duration(max(sum(seconds) / (n_parallel or 1), *seconds))
    at_once = f"{n_parallel} at once" if n_parallel else "one after the other"
    runs = f"{len(times)} run{'s' * (len(times) > 1)}"
    return f"To train: {runs}, {at_once}, {total} without evaluation."

"""The command `seqmodels status`: what each run of a folder is doing, on whatever machine."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from seqmodels.evaluation.metrics import metric_of
from seqmodels.records.record import load as load_record
from seqmodels.utils import status
from seqmodels.utils.lock import LOCK, is_held
from seqmodels.utils.progress import format_duration
from seqmodels.utils.terminal import format_table, printable

ENDED = ("recorded", "waiting", "stopped", "failed")
"""States of a run that no process is training; otherwise its state is its phase."""


class Row(NamedTuple):
    """A run, in words."""

    run: str
    state: str
    tokens: str
    note: str
    where: str = ""


def table(folder: Path) -> str:
    """Return a table of the runs that a folder knows, and their number by state.

    Raises ValueError if it knows none.
    """
    rows = [row_of(folder / f"{stem}.json") for stem in sorted({*stems(folder)})]
    if not rows:
        raise ValueError(f"{folder} has no runs; name the --out folder of a comparison")
    lines = format_table([Row("run", "state", "tokens", "loss or score", "where"), *rows])
    counts = Counter(row.state if row.state in ENDED else "running" for row in rows)
    return "\n".join([*lines, "", ", ".join(f"{n} {state}" for state, n in counts.items())])


def stems(folder: Path) -> Iterator[str]:
    """Yield the names of runs, such as gpt-seed1, once for each of their files."""
    pattern = re.compile(rf"\.?(\w+-seed\d+)(\.json|{status.SUFFIX}|{LOCK}|\.checkpoint-.*)")
    for path in folder.iterdir():
        if found := pattern.fullmatch(path.name):
            yield found[1]


def row_of(record: Path) -> Row:
    """Return what is known of a run: from its status while it is trained, or what it has left."""
    title, known = record.stem.replace("-seed", ", seed "), status.read(record)
    if is_held(record.parent, f".{record.stem}{LOCK}"):
        if known is None:
            return Row(title, "starting", "", "")
        ago = format_duration(max(0.0, time.time() - known.time))
        where = printable(f"process {known.process} on {known.host}, {ago} ago")
        tokens = f"{known.tokens:,} of {known.budget:,}"
        return Row(
            title, printable(known.phase) or "starting", tokens, printable(known.note), where
        )
    if known and known.state == "waiting" and is_held(record.parent, LOCK):
        return Row(title, "waiting", f"0 of {known.budget:,}", "")
    if known and known.state == "failed":
        return Row(title, "failed", f"{known.tokens:,} of {known.budget:,}", printable(known.note))
    return recorded(title, record) if record.exists() else stopped(title, record)


def recorded(title: str, path: Path) -> Row:
    """Return the tokens and the score of a recorded run."""
    record = load_record(path)
    test = record["tests"][0]
    metric = metric_of(key := test["primary_metric"])
    value = f"{test['overall'][key]['value']:.{metric.digits}f} {metric.unit}".rstrip()
    tokens = f"{record['curve'][-1]['tokens']:,}"
    return Row(title, "recorded", tokens, printable(f"{metric.label} {value}"))


def stopped(title: str, record: Path) -> Row:
    """Return how far a run is that was stopped or killed, from its checkpoint."""
    from seqmodels.site.unfinished import latest

    if (run := latest(record)) is None:
        return Row(title, "stopped", "", "")
    valid = [f"valid {point['valid_nats']:.3f}" for point in run["curve"][-1:]]
    tokens = f"{run['tokens']:,} of {run['train_config']['tokens']:,}"
    return Row(title, "stopped", tokens, "".join(valid))

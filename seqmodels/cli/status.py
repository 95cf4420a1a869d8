"""The command `seqmodels status`: the state of each run of a folder, on any machine."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from seqmodels.evaluation.metrics import format_first_score
from seqmodels.records import record as records
from seqmodels.utils.files import LOCK, is_held
from seqmodels.utils.progress import STATUS_SUFFIX, format_duration, read_status
from seqmodels.utils.terminal import format_table, printable

HEAD = ("run", "state", "tokens", "loss or score", "where")
ENDED = ("recorded", "waiting", "stopped", "failed")
"""States of a run that no process is training; otherwise its state is its phase."""


def format_status(folder: Path) -> str:
    """Return a table of the runs of a folder, or of the folders in it, and their number by state.

    Raises ValueError if there are none.
    """
    rows = []
    for one in records.find_folders(folder):
        for stem in sorted({*find_runs(one)}):
            title, *cells = status_row(one / f"{stem}.json")
            rows.append((title if one == folder else f"{one.name}: {title}", *cells))
    if not rows:
        raise ValueError(f"{folder} has no runs; name the --out folder of a comparison")
    lines = format_table([HEAD, *([printable(cell) for cell in row] for row in rows)])
    counts = Counter(state if state in ENDED else "running" for _, state, *_ in rows)
    return "\n".join([*lines, "", ", ".join(f"{n} {state}" for state, n in counts.items())])


def find_runs(folder: Path) -> Iterator[str]:
    """Yield the names of runs, such as gpt-seed1, once for each of their files."""
    pattern = re.compile(rf"\.?([\w.-]+-seed\d+)(\.json|{STATUS_SUFFIX}|{LOCK}|\.checkpoint-.*)")
    for path in folder.iterdir():
        if match := pattern.fullmatch(path.name):
            yield match[1]


def status_row(record: Path) -> tuple[str, str, str, str, str]:
    """Return the cells of a run, from its status, its record or its checkpoint."""
    title, status = record.stem.replace("-seed", ", seed "), read_status(record)
    is_trained = is_held(record.parent, f".{record.stem}{LOCK}")
    tokens = f"{status.tokens:,} of {status.budget:,}" if status else ""
    if status and is_trained:
        ago = format_duration(max(0.0, time.time() - status.time))
        process = f"process {status.process} on {status.host}, {ago} ago"
        return title, status.phase or "starting", tokens, status.note, process
    if is_trained:
        return title, "starting", "", "", ""
    if status and status.state == "waiting" and is_held(record.parent, LOCK):
        return title, "waiting", tokens, "", ""
    if status and status.state == "failed":
        return title, "failed", tokens, status.note, ""
    if record.exists():
        result = records.load(record)
        tokens = f"{result['curve'][-1]['tokens']:,}"
        return title, "recorded", tokens, format_first_score(result), ""
    return title, "stopped", *read_saved_progress(record), ""


def read_saved_progress(record: Path) -> tuple[str, str]:
    """Return the tokens and the loss of a run that was stopped or killed, from its checkpoint."""
    from seqmodels.site.unfinished import latest

    if (run := latest(record)) is None:
        return "", ""
    losses = [f"valid {point['valid_nats']:.3f}" for point in run["curve"][-1:]]
    return f"{run['tokens']:,} of {run['train_config']['tokens']:,}", "".join(losses)

"""The command `seqmodels status`: the state of each run of a folder, on any machine."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seqmodels.evaluation.metrics import format_first_score
from seqmodels.records import io as records
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
    states = read_states(folder)
    lines = [HEAD]
    for s in states:
        title = s["run"].replace("-seed", ", seed ")
        budget = f" of {s['budget']:,}" if s["budget"] else ""
        lines.append((
            title if s["folder"] == str(folder) else f"{Path(s['folder']).name}: {title}",
            s["state"], f"{s['tokens']:,}{budget}" if s["tokens"] is not None else "",
            s["note"], s["where"],
        ))  # fmt: skip
    table = format_table([[printable(cell) for cell in line] for line in lines])
    counts = Counter(s["state"] if s["state"] in ENDED else "running" for s in states)
    return "\n".join([*table, "", ", ".join(f"{n} {state}" for state, n in counts.items())])


def read_states(folder: Path) -> list[dict[str, Any]]:
    """Return the state of each run of a folder, or of the folders in it.

    Raises ValueError if there are none.
    """
    states = [
        {"folder": str(one), "run": stem, **read_state(one / f"{stem}.json")}
        for one in records.find_folders(folder)
        for stem in sorted({*find_runs(one)})
    ]
    if not states:
        raise ValueError(f"{folder} has no runs; name the --out folder of a comparison")
    return states


def find_runs(folder: Path) -> Iterator[str]:
    """Yield the names of runs, such as gpt-seed1, once for each of their files."""
    pattern = re.compile(rf"\.?([\w.-]+-seed\d+)(\.json|{STATUS_SUFFIX}|{LOCK}|\.checkpoint-.*)")
    for path in folder.iterdir():
        if match := pattern.fullmatch(path.name):
            yield match[1]


def read_state(record: Path) -> dict[str, Any]:
    """Return state, tokens, budget, note and place of a run: by its status, record, checkpoint."""
    status, is_trained = read_status(record), is_held(record.parent, f".{record.stem}{LOCK}")
    state: dict[str, Any] = dict.fromkeys(("state", "tokens", "budget"), None)
    state |= {"state": "stopped", "note": "", "where": ""}
    if status:
        state |= {"tokens": status.tokens, "budget": status.budget}
    if status and is_trained:
        ago = format_duration(max(0.0, time.time() - status.time))
        process = f"process {status.process} on {status.host}, {ago} ago"
        return state | {"state": status.phase or "starting", "note": status.note, "where": process}
    if is_trained:
        return state | {"state": "starting"}
    if status and status.state == "waiting" and is_held(record.parent, LOCK):
        return state | {"state": "waiting"}
    if status and status.state == "failed":
        return state | {"state": "failed", "note": status.note}
    if record.exists():
        result = records.load(record)
        tokens, note = result["curve"][-1]["tokens"], format_first_score(result)
        return state | {"state": "recorded", "tokens": tokens, "budget": None, "note": note}
    return state | read_saved_progress(record)


def read_saved_progress(record: Path) -> dict[str, Any]:
    """Return the tokens and the loss of a run that was stopped or killed, from its checkpoint."""
    from seqmodels.training.unfinished import latest

    if (run := latest(record)) is None:
        return {"tokens": None, "budget": None}
    losses = [f"valid {point['valid_nats']:.3f}" for point in run["curve"][-1:]]
    budget = run["train_config"]["tokens"]
    return {"tokens": run["tokens"], "budget": budget, "note": "".join(losses)}

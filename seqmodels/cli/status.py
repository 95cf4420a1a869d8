"""Show how far the runs of a folder are, on all machines."""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

from seqmodels.cli.arguments import Add, folder
from seqmodels.utils.files import LOCK, is_held
from seqmodels.utils.terminal import format_table, print_json

HEAD = ("run", "state", "tokens", "loss or score", "where")
ENDED = ("recorded", "waiting", "stopped", "failed")
"""States of a run that no process is training; otherwise its state is its phase."""


def add_arguments(arg: Add) -> None:
    """Add the arguments of the command."""
    arg("folder", type=folder, metavar="FOLDER", help="folder of a comparison, or of such folders")
    arg("--json", action="store_true", help="print one line of JSON")


def run(args: argparse.Namespace) -> None:
    """Print the state and progress of each run of a folder."""
    print_json(read_states(args.folder)) if args.json else print(format_status(args.folder))


def format_status(folder: Path) -> str:
    """Return a table of the runs of a folder, or of the folders in it, and their number by state.

    Raises ValueError if there are none.
    """
    states, lines = read_states(folder), [HEAD]
    for s in states:
        title = s["run"].replace("-seed", ", seed ")
        title = title if s["folder"] == str(folder) else f"{Path(s['folder']).name}: {title}"
        budget = f" of {s['budget']:,}" if s["budget"] else ""
        tokens = f"{s['tokens']:,}{budget}" if s["tokens"] is not None else ""
        lines.append((title, s["state"], tokens, s["note"], s["where"]))
    counts = Counter(s["state"] if s["state"] in ENDED else "running" for s in states)
    summary = ", ".join(f"{n} {state}" for state, n in counts.items())
    return "\n".join([*format_table(lines, is_right=False), "", summary])


def read_states(folder: Path) -> list[dict[str, Any]]:
    """Return the state of each run of a folder, or of the folders in it.

    Raises ValueError if there are none.
    """
    from seqmodels.records.io import find_folders

    run_file = re.compile(rf"\.?([\w.-]+-seed\d+)(\.json|\.status|{LOCK}|\.checkpoint-.*)")
    states = []
    for one in find_folders(folder):
        matches = [run_file.fullmatch(path.name) for path in one.iterdir()]
        names = sorted({match[1] for match in matches if match})
        states += [read_state(one / f"{name}.json") for name in names]
    if not states:
        raise ValueError(f"{folder} has no runs; name the --out folder of a comparison")
    return states


def read_state(record: Path) -> dict[str, Any]:
    """Return how far a run is, and where, by its status file or its record.

    `tokens` are those that it has been trained on, of its `budget`; None: not known.
    """
    from seqmodels.records import io
    from seqmodels.utils.progress import format_duration, read_status

    status, is_trained = read_status(record), is_held(record.parent, f".{record.stem}{LOCK}")
    about = {"folder": str(record.parent), "run": record.stem, "tokens": None, "budget": None}
    about |= {"state": "starting" if is_trained else "stopped", "note": "", "where": ""}
    if status and is_trained:
        ago = format_duration(max(0.0, time.time() - status.time))
        about["where"] = f"process {status.process} on {status.host}, {ago} ago"
        about["state"] = status.phase or "starting"
    elif status and status.state == "waiting" and is_held(record.parent, LOCK):
        about["state"] = "waiting"
    elif status and status.state == "failed":
        about["state"] = "failed"
    elif record.exists():
        result, status = io.load(record), None
        about |= {"state": "recorded", "tokens": result.curve[-1].tokens}
        about["note"] = io.format_first_score(result)
    if status:
        about |= {"tokens": status.tokens, "budget": status.budget, "note": status.note}
    return about

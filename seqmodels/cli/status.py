"""Show how far the runs of a folder are, on all machines."""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from seqmodels.cli.arguments import Add, folder
from seqmodels.utils.files import LOCK, is_held
from seqmodels.utils.terminal import format_table, print_json

HEAD = ("run", "state", "tokens", "loss or score", "where")
ENDED = ("recorded", "waiting", "stopped", "failed")
"""States of a run that no process is training; otherwise its state is its phase."""


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """How far a run is, and where."""

    folder: str
    run: str
    tokens: int | None = None
    """Target tokens that it has been trained on; None: not known."""
    budget: int | None = None
    """Target tokens to train on; None: not known, or all of them are."""
    state: str = "starting"
    note: str = ""
    """Its loss or score, or what went wrong."""
    where: str = ""


def add_arguments(arg: Add) -> None:
    """Add the arguments of the command."""
    arg("folder", type=folder, metavar="FOLDER", help="folder of a comparison, or of such folders")
    arg("--json", action="store_true", help="print one line of JSON")


def run(args: argparse.Namespace) -> None:
    """Print the state and progress of each run of a folder."""
    if args.json:
        print_json([asdict(state) for state in read_states(args.folder)])
    else:
        print(format_status(args.folder))


def format_status(folder: Path) -> str:
    """Return a table of the runs of a folder, or of the folders in it, and their number by state.

    Raises ValueError if there are none.
    """
    states, lines = read_states(folder), [HEAD]
    for s in states:
        title = s.run.replace("-seed", ", seed ")
        title = title if s.folder == str(folder) else f"{Path(s.folder).name}: {title}"
        budget = f" of {s.budget:,}" if s.budget else ""
        tokens = f"{s.tokens:,}{budget}" if s.tokens is not None else ""
        lines.append((title, s.state, tokens, s.note, s.where))
    counts = Counter(s.state if s.state in ENDED else "running" for s in states)
    summary = ", ".join(f"{n} {state}" for state, n in counts.items())
    return "\n".join([*format_table(lines), "", summary])


def read_states(folder: Path) -> list[RunStatus]:
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


def read_state(record: Path) -> RunStatus:
    """Return the state of a run: by its status file, its record or its checkpoint."""
    from seqmodels.records import io
    from seqmodels.utils.progress import format_duration, read_status

    status, is_trained = read_status(record), is_held(record.parent, f".{record.stem}{LOCK}")
    unknown = state = RunStatus(folder=str(record.parent), run=record.stem)
    if status:
        state = replace(state, tokens=status.tokens, budget=status.budget)
    if status and is_trained:
        ago = format_duration(max(0.0, time.time() - status.time))
        place = f"process {status.process} on {status.host}, {ago} ago"
        return replace(state, state=status.phase or "starting", note=status.note, where=place)
    if is_trained:
        return state
    if status and status.state == "waiting" and is_held(record.parent, LOCK):
        return replace(state, state="waiting")
    if status and status.state == "failed":
        return replace(state, state="failed", note=status.note)
    if record.exists():
        result = io.load(record)
        tokens, note = result.curve[-1].tokens, io.format_first_score(result)
        return replace(unknown, state="recorded", tokens=tokens, note=note)
    return read_progress(replace(unknown, state="stopped"), record)


def read_progress(state: RunStatus, record: Path) -> RunStatus:
    """Return the state of a run that was stopped or killed with tokens and loss, if it has any."""
    from seqmodels.training.unfinished import latest

    if (run := latest(record)) is None:
        return state
    losses = [f"valid {point.valid_nats:.3f}" for point in run.record.curve[-1:]]
    budget = run.record.train_config.tokens
    return replace(state, tokens=run.tokens, budget=budget, note="".join(losses))

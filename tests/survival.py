"""Kill a comparison repeatedly, and check that it still ends with the same results.

A smoke comparison is killed (SIGKILL) while it trains, writes a checkpoint, evaluates, records and
draws: either all its processes or only the main one. The same command then resumes it. Once
finished it is compared byte by byte with an uninterrupted one.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PHASES = {
    "training": r"\.checkpoint\.",
    "checkpointing": r"\.checkpoint\..*\.part$",
    "evaluation": r"-seed\d+\.safetensors$",
    "recording": r"-seed\d+\.json.*\.part$",
    "drawing": r"\.(svg|png).*\.part$",
}
"""Phases of a comparison, by the name of a file that shows that one has begun."""
VARYING = {"seconds", "speed", "train_s", "evaluate_s", "events", "provenance"}
"""Fields of a record that may differ between equal runs."""


def command(
    out: Path, models: Sequence[str], tokens: int, module: str = "tests.hurried"
) -> list[str]:
    """Return the command of a small comparison that writes a checkpoint every few steps."""
    flags = ["--size", "smoke", "--device", "cpu", "--models", *models]
    return [sys.executable, "-m", module, *flags, "--tokens", str(tokens), "--out", str(out)]


def begin(argv: list[str]) -> Any:
    """Start a program in its own process group, on two threads."""
    env = os.environ | {"OMP_NUM_THREADS": "2", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        argv, cwd=ROOT, env=env, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def kill_in(phase: str, program: Any, out: Path, rng: random.Random) -> bool:
    """Wait for a phase and kill the program in it; return False if it ended first."""
    delay = rng.uniform(0, 1.0 if phase in ("training", "evaluation") else 0.004)
    before = names_in(out)
    while program.poll() is None:
        if any(re.search(PHASES[phase], name) for name in names_in(out) - before):
            time.sleep(delay)
            if program.poll() is None:
                is_all = rng.random() < 0.5
                (os.killpg if is_all else os.kill)(program.pid, signal.SIGKILL)
                program.wait()
                program.stdout.close()  # orphans may still hold the other end; do not wait for them
                return True
        time.sleep(0.0005)
    return False


def names_in(folder: Path) -> set[str]:
    return {entry.name for entry in os.scandir(folder)} if folder.is_dir() else set()


def results(out: Path) -> dict[str, Any]:
    """Return weights, hypotheses, and records without VARYING, which must be identical."""

    def fixed(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: fixed(v) for k, v in value.items() if k not in VARYING}
        return [fixed(v) for v in value] if isinstance(value, list) else value

    files = {path.name: path.read_bytes() for path in sorted(out.glob("*-seed*"))}
    records = {name: json.loads(files[name]) for name in files if name.endswith(".json")}
    return files | fixed(records)


def survive(models: Sequence[str], tokens: int, folder: Path) -> None:
    """Kill a comparison in each phase, and let it end; raise AssertionError with what differs."""
    rng, whole, killed = random.Random(1), folder / "whole", folder / "killed"
    wanted = finish(begin(command(whole, models, tokens)), whole)
    assert len(wanted) == 4 * len(models), sorted(wanted)
    for phase in PHASES:
        program = begin(command(killed, models, tokens))
        while not kill_in(phase, program, killed, rng):  # it ended before
            check_same(finish(program, killed), wanted)
            shutil.rmtree(killed)
            program = begin(command(killed, models, tokens))
    check_same(finish(begin(command(killed, models, tokens)), killed), wanted)


def finish(program: Any, out: Path) -> dict[str, Any]:
    """Return the results of a program that ends without an error or a half-written file."""
    output, _ = program.communicate()
    assert program.returncode == 0, output
    assert not [name for name in names_in(out) if ".part" in name]
    return results(out)


def check_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    differ = [name for name in {*wanted, *found} if wanted.get(name) != found.get(name)]
    assert not differ, f"{sorted(differ)} are not those of an uninterrupted comparison"


def miss_a_signal(started: Path) -> None:
    """Drop the exception that the first signal raises, as Python does in a destructor."""
    from seqmodels.utils.terminal import raise_stopped, signals_handled_by

    with signals_handled_by(raise_stopped):
        started.touch()
        with suppress(KeyboardInterrupt):
            time.sleep(99)
        time.sleep(99)

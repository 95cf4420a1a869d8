"""Kill a comparison repeatedly, and check that it still ends with the same results.

    python -m tools.survival --kills 50

A smoke comparison is killed (SIGKILL) at random moments, in turn while it trains, writes a
checkpoint, evaluates, records and draws: either all its processes or only the main one. The same
command then resumes it. A finished comparison is compared byte by byte with an uninterrupted one,
and the next one begins.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqmodels.models import PAPERS
from seqmodels.utils.terminal import Parser, positive

ROOT = Path(__file__).parents[1]
PHASES = ("training", "checkpointing", "evaluation", "recording", "drawing")
MAX_PER_COMPARISON = 10
TIMES = {"seconds", "speed", "train_s", "evaluate_s", "peak_memory_bytes"}
"""Fields of a record that hold times and memory."""


def command(out: Path, models: Sequence[str], tokens: int) -> list[str]:
    """Return the command of a small comparison that writes a checkpoint every few steps."""
    flags = ["--size", "smoke", "--device", "cpu", "--precision", "float32"]
    flags += ["--checkpoint-every", "0.05"]
    program = [sys.executable, "-m", "tasks.translation", *flags, "--models", *models]
    return [*program, "--tokens", str(tokens), "--out", str(out)]


def begin(argv: list[str]) -> Any:
    """Start a program in its own process group, on two threads."""
    env = os.environ | {"OMP_NUM_THREADS": "2", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        argv, cwd=ROOT, env=env, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def is_in(phase: str, out: Path, before: frozenset[str]) -> bool:
    """Return whether the files in a folder show that this phase has begun."""
    try:
        names = {entry.name for entry in os.scandir(out)} - before
    except FileNotFoundError:
        return False
    writing = [name for name in names if name.endswith(".part")]
    return any({
        "training": ".checkpoint-" in name,
        "checkpointing": ".checkpoint-" in name and name in writing,
        "evaluation": name.endswith(".safetensors") and ".checkpoint-" not in name,
        "recording": "seed" in name and ".json" in name and name in writing,
        "drawing": (".svg" in name or ".png" in name) and name in writing,
    }[phase] for name in names)  # fmt: skip


def kill_in(phase: str, program: Any, out: Path, rng: random.Random) -> bool:
    """Wait for a phase and kill the program in it; return False if it ended first."""
    delay = rng.uniform(0, 1.0 if phase in ("training", "evaluation") else 0.004)
    before = frozenset(entry.name for entry in os.scandir(out)) if out.is_dir() else frozenset()
    while program.poll() is None:
        if is_in(phase, out, before):
            time.sleep(delay)
            if program.poll() is None:
                is_all = rng.random() < 0.5
                (os.killpg if is_all else os.kill)(program.pid, signal.SIGKILL)
                program.wait()
                program.stdout.close()  # orphans may still hold the other end; do not wait for them
                return True
        time.sleep(0.0005)
    return False


def results(out: Path) -> dict[str, Any]:
    """Return weights, hypotheses, and records without times and events, which must be identical."""

    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: timeless(v) for k, v in value.items() if k not in TIMES}
        return [timeless(v) for v in value] if isinstance(value, list) else value

    files: dict[str, Any] = {}
    for path in sorted(out.glob("*-seed*")):
        files[path.name] = path.read_bytes()
        if path.suffix == ".json":
            record = json.loads(files[path.name])
            files[path.name] = timeless(
                {k: v for k, v in record.items() if k not in ("events", "provenance")}
            )
    return files


def survive(
    n_kills: int, models: Sequence[str], tokens: int, seed: int, folder: Path
) -> tuple[int, Counter[str]]:
    """Kill n times; return the number of finished comparisons, and the kills per phase.

    Raises AssertionError with what differs.
    """
    rng, kills = random.Random(seed), Counter[str]()
    process = subprocess.run(
        command(folder / "whole", models, tokens), cwd=ROOT, capture_output=True, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "2"}, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    wanted, phases = results(folder / "whole"), itertools.cycle(PHASES)
    phase = next(phases)
    assert len(wanted) == 4 * len(models), sorted(wanted)
    for n in itertools.count(1):
        out, n_here = folder / f"killed-{n}", 0
        argv = command(out, models, tokens)
        while True:
            program = begin(argv)
            is_over = n_here == MAX_PER_COMPARISON or kills.total() == n_kills
            if not is_over and kill_in(phase, program, out, rng):
                kills[phase] += 1
                n_here += 1
                print(f"kill {kills.total():3} in comparison {n}, {phase}", flush=True)
                phase = next(phases)
                continue
            output, _ = program.communicate()
            assert program.returncode == 0, output
            break
        files = results(out)
        differ = [name for name in {*wanted, *files} if wanted.get(name) != files.get(name)]
        assert not differ, (
            f"comparison {n} differs from the uninterrupted one in {sorted(differ)}: see {folder}"
        )
        left = [path.name for path in out.iterdir() if ".part" in path.name]
        assert not left, f"comparison {n} left {left}"
        print(f"comparison {n}: {len(files)} files identical to the uninterrupted one", flush=True)
        if kills.total() == n_kills:
            return n, kills
    raise AssertionError("endless")


def main() -> None:
    """Run the test, and print a summary."""
    p = Parser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--kills", type=positive, default=50)
    p.add_argument("--models", nargs="+", default=list(PAPERS))
    p.add_argument("--tokens", type=positive, default=15_000)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    since = time.perf_counter()
    folder = Path(tempfile.mkdtemp())  # kept if something differs
    n, kills = survive(args.kills, args.models, args.tokens, args.seed, folder)
    shutil.rmtree(folder)
    counts = ", ".join(f"{kills[phase]} in {phase}" for phase in PHASES)
    print(
        f"{kills.total()} of {kills.total()} kills left no trace ({counts}): {n} comparisons ended "
        f"byte-identical to an uninterrupted one, in {time.perf_counter() - since:.0f} s"
    )


if __name__ == "__main__":
    main()

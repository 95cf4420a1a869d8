"""Compare the working tree's speed with a commit's: two long-lived processes take turns."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.workloads import precisions

ROOT = Path(__file__).parent.parent
N_DRAWS = 2_000


class Ratio(NamedTuple):
    """The median of the ratios new / old of all rounds, and its 95 % interval."""

    median: float
    low: float
    high: float


def ratio_of(new: Sequence[float], old: Sequence[float]) -> Ratio:
    """Return the speedup of new over old, with a bootstrap interval over the rounds."""
    ratios = [a / b for a, b in zip(new, old, strict=True)]
    rng = random.Random(1)
    draws = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(N_DRAWS))
    low, high = draws[round(0.025 * N_DRAWS)], draws[round(0.975 * N_DRAWS) - 1]
    return Ratio(statistics.median(ratios), low, high)


def is_as_fast(ratio: Ratio, least: float = 0.97) -> bool:
    """Return whether the new one is as fast, within the tolerance or the noise."""
    return ratio.median >= least or ratio.low <= 1 <= ratio.high


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """Check out a commit into a temporary folder; raises ValueError if it is unknown."""
    with tempfile.TemporaryDirectory(prefix="against-") as scratch:
        tree, git = Path(scratch) / "tree", ["git", "-C", str(ROOT), "worktree"]
        done = subprocess.run([*git, "add", "--detach", str(tree), commit], capture_output=True)
        if done.returncode:
            raise ValueError(f"--against {commit}: {done.stderr.decode().splitlines()[-1]}")
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


@contextmanager
def side(tree: Path, size: str, seconds: float) -> Iterator[Callable[[dict[str, str]], float]]:
    """Start one commit's process; yield a function that requests a turn from it."""
    command = [sys.executable, str(ROOT / "benchmarks" / "turns.py"), size, str(seconds)]
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(tree)}
    with subprocess.Popen(
        command,
        cwd=tree,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # this process handles Ctrl-C
    ) as process:
        assert process.stdin
        assert process.stdout

        def ask(what: dict[str, str]) -> float:
            print(json.dumps(what), file=process.stdin, flush=True)
            if not (line := process.stdout.readline()):  # type: ignore[union-attr]
                raise ValueError(f"{what}: {tree} ended with exit code {process.wait()}")
            return float(json.loads(line))

        try:
            yield ask
        finally:
            process.kill()


def against(
    commit: str, workloads: Sequence[str], size: str, rounds: int, seconds: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rates of both commits, round by round, for each workload and precision."""
    with ExitStack() as stack:
        tree = stack.enter_context(worktree(commit))
        asks = {
            name: stack.enter_context(side(where, size, seconds))
            for name, where in (("old", tree), ("new", ROOT))
        }
        for workload in workloads:
            for precision in precisions():
                rates: dict[str, list[float]] = {name: [] for name in asks}
                for ask in asks.values():
                    ask({"workload": workload, "precision": precision})
                for i in range(rounds):
                    for name in sorted(asks, reverse=bool(i % 2)):
                        rates[name].append(asks[name]({}))
                yield f"{workload}, {precision}", rates

"""Compare the working tree's speed with a commit's: two long-lived processes take turns."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from seqmodels.evaluation.intervals import compute_interval

ROOT = Path(__file__).parent.parent


@contextmanager
def check_out(commit: str) -> Iterator[Path]:
    """Check out a commit into a temporary folder; raise ValueError if it is unknown."""
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
def serve(tree: Path, size: str) -> Iterator[Callable[[str], float]]:
    """Start one side's process; yield a function that asks it for a workload, or for a turn."""
    command = [sys.executable, str(ROOT / "benchmarks" / "turns.py"), size]
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(tree)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=tree, env=env, stdin=pipe, stdout=pipe, text=True
    ) as process:
        assert process.stdin
        assert process.stdout

        def ask(name: str) -> float:
            print(name, file=process.stdin, flush=True)
            return float(process.stdout.readline())  # type: ignore[union-attr]

        try:
            yield ask
        finally:
            process.kill()


def compare(
    commit: str, names: Sequence[str], size: str, rounds: int
) -> Iterator[tuple[str, tuple[float, float, float]]]:
    """Yield the mean logarithm of new / old of the rounds as a ratio with its 95 % interval."""
    with ExitStack() as stack:
        tree = stack.enter_context(check_out(commit))
        sides = [stack.enter_context(serve(where, size)) for where in (tree, ROOT)]
        for name in names:
            for ask in sides:
                ask(name)
            rates = np.zeros((rounds, 2))
            for i in range(rounds):
                for side in (0, 1) if i % 2 else (1, 0):
                    rates[i, side] = sides[side]("")
            yield name, ratio_of(rates)


def ratio_of(rates: np.ndarray) -> tuple[float, float, float]:
    """Return the geometric mean of new / old of rounds (rounds, 2), with its 95 % interval."""
    logs = np.log(rates[:, 1] / rates[:, 0])
    columns = np.stack([logs, np.ones(len(logs))], 1)
    found = compute_interval(columns, lambda sums: np.exp(sums[..., 0] / sums[..., 1]))
    value, low, high = (np.nan if end is None else end for end in found.values())
    return value, low, high

"""Measure the CPU time of a training step on several processes, against a model of throughput.

    python -m benchmarks.scale                    1 and 2 processes of one thread, in turns

A step on W processes costs each of them C / W + S + A: the batch's own time C, the share S that
every process has of a batch (reading it, the optimiser, rows that are padded anew), and A, the sum
of the gradients. Time is that of the processor, so that other load hardly matters.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from argparse import RawDescriptionHelpFormatter
from collections.abc import Iterator
from pathlib import Path

import torch

from seqmodels.catalog import CATALOG
from seqmodels.comparison.sizes import model_sizes
from seqmodels.data.batches import training_batches
from seqmodels.models import build
from seqmodels.training.trainer import TrainConfig, Trainer
from seqmodels.utils.terminal import Parser, guard, positive
from seqmodels.utils.world import world
from tasks.translation import builtin_task, parse

ROOT = Path(__file__).parents[1]
WARM_UP = 5
"""Steps before those that are measured."""


def steps_s(name: str, batch_tokens: int, n_steps: int) -> list[float]:
    """Return the processor's seconds of each step in this process, on batches in two shares."""
    task = builtin_task(parse(["--size", "laptop"]))
    torch.manual_seed(1)
    cfg = TrainConfig(tokens=10**9, lr=1e-4, batch_tokens=batch_tokens, shards=2)
    trainer = Trainer(build(name, **model_sizes(name, task)), cfg)
    batches, found = training_batches(task.train, batch_tokens, 1), []
    for _ in range(WARM_UP + n_steps):
        batch = next(batches)
        since = time.process_time()
        trainer.training_step(batch, [1])
        found.append(time.process_time() - since)
    return found[WARM_UP:]


def all_reduce_s(n_numbers: int, n: int = 50) -> float:
    """Return the processor's seconds in which this many gradients are summed."""
    p = torch.nn.Parameter(torch.zeros(n_numbers))
    p.grad = torch.ones(n_numbers)
    since = time.process_time()
    for _ in range(n):
        world().sum_gradients([p])
    return (time.process_time() - since) / n


def on_processes(n: int, flags: list[str]) -> dict[str, float]:
    """Return what the first of n processes measures."""
    program = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    argv = [*program, f"--nproc-per-node={n}", "-m", "benchmarks.scale", "--worker", *flags]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def rows(names: list[str], batch_tokens: int, n_steps: int, n_turns: int) -> Iterator[str]:
    """Yield a line of a table for each model: medians of the turns."""
    for name in names:
        flags = ["--models", name, "--batch-tokens", str(batch_tokens), "--steps", str(n_steps)]
        turns = [(on_processes(1, flags), on_processes(2, flags)) for _ in range(n_turns)]
        one, two, sums = (
            1e3 * statistics.median(turn[side][key] for turn in turns)
            for side, key in ((0, "step_s"), (1, "step_s"), (1, "all_reduce_s"))
        )
        yield (
            f"| {CATALOG[name].label} | {batch_tokens:,} | {one:.1f} | {two:.1f} | "
            f"{two / one:.2f} | {sums:.1f} | {2 * (two - sums) - one:.1f} |"
        )


def main() -> None:
    """Measure in turns, or be one of the processes that are measured."""
    p = Parser(prog="python -m benchmarks.scale", description=__doc__,
               formatter_class=RawDescriptionHelpFormatter)  # fmt: skip
    p.add_argument("--models", nargs="+", choices=[*CATALOG], default=[*CATALOG], metavar="NAME")
    p.add_argument("--batch-tokens", type=positive, default=1_600, metavar="N")
    p.add_argument("--steps", type=positive, default=40, metavar="N")
    p.add_argument("--turns", type=positive, default=3, metavar="N")
    p.add_argument("--worker", action="store_true", help="be one of the processes")
    args = p.parse_args()
    if args.worker:
        step_s = statistics.median(steps_s(args.models[0], args.batch_tokens, args.steps))
        found = {"step_s": step_s, "all_reduce_s": all_reduce_s(1_000_000)}
        if world().is_first:
            print(json.dumps(found))
        return
    load = os.getloadavg()[0]
    print(f"Milliseconds of the processor; load of the machine before: {load:.1f}\n")
    print("| model | batch | 1 process | 2, each | ratio | A, for 4 MB | S |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in rows(args.models, args.batch_tokens, args.steps, args.turns):
        print(row, flush=True)


if __name__ == "__main__":
    guard("benchmarks.scale", main)

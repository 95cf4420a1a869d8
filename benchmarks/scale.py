"""Measure the CPU time of a training step on one process and on two, against a model of throughput.

    python -m benchmarks.scale        all models, about 4 minutes

A step on W processes costs each of them C / W + S + A: the batch's own time C, the time S of what
every process does whatever its share, such as the optimiser, and the time A of summing the
gradients. CPU time is measured, so that other load hardly matters.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from argparse import RawDescriptionHelpFormatter
from pathlib import Path

import torch

from seqmodels.comparison.arm import model_sizes
from seqmodels.data.batches import training_batches
from seqmodels.models import PAPERS, build
from seqmodels.training import loop
from seqmodels.training.config import TrainConfig
from seqmodels.training.trainer import Trainer
from seqmodels.utils.terminal import Parser, run_cli
from seqmodels.utils.world import world
from tasks.translation.__main__ import PARSER, builtin_task

ROOT = Path(__file__).parents[1]
BATCH_TOKENS, WARM_UP, N_STEPS = 1_600, 5, 30
"""Size of a batch; steps before those that are measured; steps measured."""


def step_s(name: str) -> float:
    """Return the median CPU time of a step in this process, in seconds, with two shares a batch."""
    task = builtin_task(PARSER.parse_args(["--size", "laptop"]))
    torch.manual_seed(1)
    cfg = TrainConfig(tokens=10**9, lr=1e-4, batch_tokens=BATCH_TOKENS, shards=2)
    trainer = Trainer(build(name, **model_sizes(name, task)), cfg)
    batches, found = training_batches(task.train, BATCH_TOKENS, 1), []
    for _ in range(WARM_UP + N_STEPS):
        batch = next(batches)
        since = time.process_time()
        loop.training_step(trainer, trainer.prepare(batch))
        found.append(time.process_time() - since)
    return statistics.median(found[WARM_UP:])


def all_reduce_s(n_numbers: int, n: int = 50) -> float:
    """Return the CPU time of summing this many gradients, in seconds."""
    p = torch.nn.Parameter(torch.zeros(n_numbers))
    p.grad = torch.ones(n_numbers)
    since = time.process_time()
    for _ in range(n):
        world().sum_gradients([p])
    return (time.process_time() - since) / n


def on_processes(n: int, name: str) -> list[float]:
    """Return the times of a step and of a sum that the first of n processes measures."""
    program = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    argv = [*program, f"--nproc-per-node={n}", "-m", "benchmarks.scale", "--worker", name]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def row(name: str) -> str:
    """Return a model's line of the table, in milliseconds."""
    (one, _), (two, sums) = ([1e3 * s for s in on_processes(n, name)] for n in (1, 2))
    rest = 2 * (two - sums) - one
    label = PAPERS[name].label
    return f"| {label} | {one:.0f} | {two:.0f} | {two / one:.2f} | {sums:.1f} | {rest:.0f} |"


def main() -> None:
    """Print the table, or measure one model as one of the processes."""
    p = Parser(prog="python -m benchmarks.scale", description=__doc__,
               formatter_class=RawDescriptionHelpFormatter)  # fmt: skip
    p.add_argument("--models", nargs="+", choices=[*PAPERS], default=[*PAPERS], metavar="NAME",
                   help="models to measure (default: all)")  # fmt: skip
    p.add_argument("--worker", choices=[*PAPERS], metavar="NAME", help="measure as one process")
    args = p.parse_args()
    if args.worker:
        found = [step_s(args.worker), all_reduce_s(1_000_000)]
        if world().is_rank0:
            print(json.dumps(found))
        return
    print("| model | C + S: 1 process | 2, each | ratio | A | S |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in args.models:
        print(row(name), flush=True)


if __name__ == "__main__":
    run_cli("benchmarks.scale", main)

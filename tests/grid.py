"""Worker of test_grid.py: a comparison on Ray or by submitit on this machine, as a program.

python tests/grid.py local|slurm|ray OUT TOKENS [N_KILLS]

With Ray, the nodes are processes of this machine; now and then one of them is killed, and another
one joins.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partialmethod
from pathlib import Path
from typing import Any

from toy_task import flags, toy

from seqmodels.comparison import compare, launchers
from seqmodels.comparison.task import Recipe
from seqmodels.utils.terminal import run_cli
from tools.sizes import sizes_of

PAIR = ["rnn_encdec", "gpt"]
SIZES = {"d_embed": 8, "d_maxout": 8, "d_ff": 32, "n_heads": 2, "n_layers": 1, "n_positions": 64}


def compared(out: Path, tokens: int, **given: Any) -> None:
    """Train two models with dropout on the toy task."""
    recipes = {name: Recipe(sizes_of(name, **SIZES, dropout=0.2), 1e-2) for name in PAIR}
    training = {"tokens": tokens, "batch_tokens": 100, "n_validations": 4}
    compare.compare(
        toy(recipes=recipes, training=training),
        flags(out, models=PAIR, checkpoint_every=0.5, device="auto", **given),
    )


def wait_for_checkpoint(out: Path, seconds: float) -> None:
    """Wait until a run has written a checkpoint from now on, for so long at most."""
    since, until = time.time(), time.monotonic() + seconds
    while time.monotonic() < until:
        for path in out.glob("*.checkpoint-*"):
            with suppress(FileNotFoundError):  # a newer one has replaced it
                if path.stat().st_mtime > since:
                    return
        time.sleep(0.1)


def on_two_nodes(n_kills: int, out: Path, task: Callable[[str], None]) -> None:
    """Carry out a task at the address of a cluster of two nodes, of which some are killed."""
    from ray.cluster_utils import Cluster

    cluster, rng = Cluster(), random.Random(n_kills)
    cluster.add_node(num_cpus=0)
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    with ThreadPoolExecutor(1) as thread:  # nodes can be added by the main thread alone
        done, n_killed = thread.submit(task, cluster.address), 0
        while n_killed < n_kills and not wait([done], rng.uniform(4.0, 8.0)).done:
            wait_for_checkpoint(out, 20.0)
            cluster.remove_node(nodes.pop(rng.randrange(2)), allow_graceful=False)
            nodes.append(cluster.add_node(num_cpus=1))
            n_killed += 1
        done.result()
    print(f"{n_killed} nodes were killed")
    cluster.shutdown()


def main() -> None:
    """Compare as the command line says."""
    kind, out, tokens, n_kills = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    if kind == "slurm":
        init = partialmethod(launchers.SlurmLauncher.__init__, cluster="local")
        launchers.SlurmLauncher.__init__ = init  # type: ignore[method-assign]
    if n_kills:

        def train(address: str) -> None:
            compared(out, tokens, launcher="ray", address=address)

        on_two_nodes(int(n_kills[0]), out, train)
    else:
        compared(out, tokens, launcher=None if kind == "local" else kind)


if __name__ == "__main__":
    run_cli("grid", main)

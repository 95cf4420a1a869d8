"""Serve one side of `--against`: run a turn of work on request.

    python turns.py SIZE      in the root of a clone, whose own `benchmarks` it imports

Each line that it reads is the name of a workload to build, or empty for a turn of it. It answers
each with a rate in units per second, which is 0 after building.
"""

import os
import sys
import time
from collections.abc import Callable

sys.path[0] = os.getcwd()

import torch  # noqa: E402

from benchmarks import workloads  # noqa: E402


def measure_rate(work: Callable[[], float], seconds: float) -> float:
    """Repeat the work for at least `seconds`; return units per second."""
    done, since = 0.0, time.perf_counter()
    while True:
        done += work()
        if (elapsed := time.perf_counter() - since) >= seconds:
            return done / elapsed


def main() -> None:
    """Answer until the input ends."""
    size = workloads.SIZES[sys.argv[1]]
    torch.set_num_threads(1)
    for name in map(str.strip, sys.stdin):
        if name:
            torch.manual_seed(1)
            work = workloads.WORKLOADS[name](size)
            work()
        print(0.0 if name else measure_rate(work, size.seconds / 2), flush=True)


if __name__ == "__main__":
    main()

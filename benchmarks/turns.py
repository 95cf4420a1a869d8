"""Serve one side of `--against`: run a turn of work on request.

    python turns.py SIZE SECONDS      in the root of a clone, whose own `benchmarks` it imports

It reads JSON line by line: {"workload": …, "precision": …} builds the work, {} takes a turn. It
answers each line with a rate in units per second, which is 0 after building.
"""

import json
import os
import sys
import time
from collections.abc import Callable

sys.path[0] = os.getcwd()

import torch  # noqa: E402

from benchmarks import workloads  # noqa: E402


def build_work(name: str, precision: workloads.Precision, size: str) -> Callable[[], float]:
    """Build the work of this clone, which may be of an earlier commit."""
    torch.manual_seed(1)
    return workloads.WORKLOADS[name](workloads.SIZES[size], precision)


def measure_rate(work: Callable[[], float], seconds: float) -> float:
    """Repeat the work for at least `seconds`; return units per second."""
    done, since = 0.0, time.perf_counter()
    while True:
        done += work()
        if (elapsed := time.perf_counter() - since) >= seconds:
            return done / elapsed


def main() -> None:
    """Answer until the input ends."""
    size, seconds = sys.argv[1], float(sys.argv[2])
    torch.set_num_threads(1)
    for line in sys.stdin:
        asked, rate = json.loads(line), 0.0
        if asked:
            work = build_work(asked["workload"], asked["precision"], size)
            measure_rate(work, seconds / 4)
        else:
            rate = measure_rate(work, seconds)
        print(json.dumps(rate), flush=True)


if __name__ == "__main__":
    main()

"""Serve one side of `--against`: run a turn of work on request.

    python turns.py SIZE SECONDS      in the root of a clone, whose own `benchmarks` it imports

It reads JSON line by line: {"contest": …, "side": …} builds a side, {} takes a turn. It answers
each line with a rate in units per second, which is 0 after building.
"""

import json
import os
import sys

sys.path[0] = os.getcwd()

import torch  # noqa: E402

from benchmarks.contests import CONTESTS  # noqa: E402
from benchmarks.measure import SIZES, pace  # noqa: E402


def main() -> None:
    """Answer until the input ends."""
    size, seconds = SIZES[sys.argv[1]], float(sys.argv[2])
    torch.set_num_threads(1)
    for line in sys.stdin:
        asked, rate = json.loads(line), 0.0
        if asked:
            torch.manual_seed(1)
            sides = CONTESTS[asked["contest"]].sides(size)  # type: ignore[attr-defined]
            work = sides[asked["side"]]()
            pace(work, seconds / 4)
        else:
            rate = pace(work, seconds)
        print(json.dumps(rate), flush=True)


if __name__ == "__main__":
    main()

"""Measure preparing pairs.

    python -m benchmarks.tokenizing        400,000 made pairs, 3 times

It is all that a corpus needs: reading, cleaning, training a BPE, and encoding.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import RawDescriptionHelpFormatter
from pathlib import Path

from seqmodels.data import prepare
from seqmodels.data.prepare import PrepareConfig
from seqmodels.data.splits import read_parallel
from seqmodels.utils.terminal import Parser, positive, run_cli
from tools.large import write_pairs

ROOT = Path(__file__).parents[1]


def measure(folder: Path) -> float:
    """Prepare the corpus in a folder; return the seconds."""
    corpus = read_parallel([folder / "made.xx", folder / "made.yy"])
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        os.environ["SEQMODELS_CACHE"] = cache
        since = time.perf_counter()
        prepare.prepare(corpus, PrepareConfig(), lambda line: None)
        return time.perf_counter() - since


def in_process(folder: Path) -> float:
    """Return what a fresh process measures."""
    program = [sys.executable, "-m", "benchmarks.tokenizing", "--worker", str(folder)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout))


def main() -> None:
    """Print the seconds of each run, and their median."""
    p = Parser(prog="python -m benchmarks.tokenizing", description=__doc__,
               formatter_class=RawDescriptionHelpFormatter)  # fmt: skip
    p.add_argument("--pairs", type=positive, default=400_000, metavar="N")
    p.add_argument("--repeats", type=positive, default=3, metavar="N")
    p.add_argument("--worker", metavar="FOLDER", help="measure in this process")
    args = p.parse_args()
    if args.worker:
        print(json.dumps(measure(Path(args.worker))))
        return
    with tempfile.TemporaryDirectory() as name:
        write_pairs(Path(name), args.pairs)
        seconds = [in_process(Path(name)) for _ in range(args.repeats)]
    print(f"{', '.join(f'{s:.1f}' for s in seconds)} s; median {statistics.median(seconds):.1f} s")


if __name__ == "__main__":
    run_cli("benchmarks.tokenizing", main)

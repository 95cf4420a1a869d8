"""Train on a corpus that should not be held in memory: 5 million pairs, 200 steps, twice.

python -m tools.large prints the seconds before the first step and the peak memory, for a first
start and for a second one. The limits are 2 GB, and 10 s at the second start.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from seqmodels.utils.terminal import Parser, positive

ROOT = Path(__file__).parents[1]
STEPS = 200
PROGRAM = """
import sys, time
from seqmodels.training.trainer import Trainer
from tasks import translation

training_step = Trainer.training_step

def first(self, *args):
    print("first step at", time.time(), flush=True)
    Trainer.training_step = training_step
    return training_step(self, *args)

Trainer.training_step = first
translation.main(sys.argv[1:])
"""


def write_pairs(folder: Path, n: int) -> list[Path]:
    """Write n pairs of 3 to 19 words from a vocabulary of 50,000 with Zipfian frequencies."""
    rng = np.random.default_rng(1)
    letters = rng.integers(97, 123, (50_000, 9), np.uint8)
    words = np.array([bytes(row[: 2 + i % 8]).decode() for i, row in enumerate(letters)])
    paths = [folder / "made.xx", folder / "made.yy"]
    with open(paths[0], "w") as src, open(paths[1], "w") as tgt:
        for start in range(0, n, 10_000):
            sizes = rng.integers(3, 20, min(10_000, n - start))
            ids = np.minimum(rng.zipf(1.3, sizes.sum()), len(words)) - 1
            for file, shift in ((src, 0), (tgt, 7)):
                said = np.split(words[(ids + shift) % len(words)], sizes.cumsum()[:-1])
                file.write("".join(" ".join(sentence) + "\n" for sentence in said))
    return paths


def start(paths: list[Path], out: Path) -> tuple[float, float, int]:
    """Train; return the seconds before the first step, the total, and the peak memory in bytes."""
    since = time.time()
    flags = ["--models", "gpt", "--size", "smoke", "--tokens", str(STEPS * 900), "--out", str(out)]
    command = [sys.executable, "-c", PROGRAM, "--data", *map(str, paths), *flags]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}:\n{output}")
    first = next(line for line in output.split("\n") if line.startswith("first step at"))
    return float(first.split()[-1]) - since, time.time() - since, usage.ru_maxrss * 1024


def main() -> None:
    """Write the corpus, train twice, print the measurements."""
    p = Parser(prog="python -m tools.large", description=__doc__)
    p.add_argument("--pairs", type=positive, default=5_000_000, metavar="N")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["SEQMODELS_CACHE"] = str(folder / "cache")
        paths = write_pairs(folder, args.pairs)
        size = sum(path.stat().st_size for path in paths)
        print(f"{args.pairs:,} pairs, {size / 1e6:,.0f} MB", flush=True)
        for which in ("first", "second"):
            before, whole, most = start(paths, folder / which)
            print(
                f"{which} start: {before:.1f} s before the first step, {whole:.0f} s in total, "
                f"{most / 1e9:.2f} GB peak memory",
                flush=True,
            )


if __name__ == "__main__":
    main()

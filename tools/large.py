"""Train on a corpus that should not be held in memory: 5 million pairs, 200 steps, twice.

    python -m tools.large                    pairs
    python -m tools.large --text 1024        running text, in MiB

It prints the seconds before the first step and the peak memory of the program and of the largest
process that it starts, for a first start and for a second one. The limits are 2 GB, and 10 s at the
second start.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from argparse import RawDescriptionHelpFormatter
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil

from seqmodels.utils.terminal import Parser, positive

ROOT = Path(__file__).parents[1]
STEPS = 200
PROGRAM = """
import sys, time
from seqmodels.training import loop
from tasks.next_token import __main__ as next_token
from tasks.translation import __main__ as translation

training_step = loop.training_step

def first(self, *args):
    print("first step at", time.time(), flush=True)
    loop.training_step = training_step
    return training_step(self, *args)

loop.training_step = first
{"translation": translation, "next_token": next_token}[sys.argv[1]].main(sys.argv[2:])
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


def write_text(folder: Path, n_bytes: int) -> list[Path]:
    """Write about n bytes of lines of made words."""
    path, _ = write_pairs(folder, 100_000)
    lines = path.read_text().splitlines(keepends=True)
    rng = np.random.default_rng(2)
    with open(path, "a") as file:
        while file.tell() < n_bytes:
            file.write("".join(lines[i] for i in rng.permutation(len(lines))))
    return [path]


def largest_child(pid: int) -> int:
    """Return the memory of the largest process that a process has started, in bytes."""
    sizes = [0]
    with suppress(psutil.Error):
        for child in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):
                sizes.append(child.memory_info().rss)
    return max(sizes)


def start(task: str, paths: list[Path], out: Path) -> tuple[float, float, int, int]:
    """Train; return the seconds before the first step, the total, and two peaks in bytes."""
    since, child = time.time(), 0
    flags = ["--models", "gpt", "--size", "smoke", "--tokens", str(STEPS * 900), "--out", str(out)]
    command = [sys.executable, "-c", PROGRAM, task, "--data", *map(str, paths), *flags]
    with open(out.with_suffix(".log"), "w+") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log)
        pid = 0
        while not pid:
            time.sleep(0.1)
            child = max(child, largest_child(process.pid))
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        output = log.read()
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}:\n{output}")
    first = next(line for line in output.split("\n") if line.startswith("first step at"))
    before = float(first.split()[-1]) - since
    return before, time.time() - since, usage.ru_maxrss * 1024, child


def main() -> None:
    """Write the corpus, train twice, print the measurements."""
    p = Parser(prog="python -m tools.large", description=__doc__,
               formatter_class=RawDescriptionHelpFormatter)  # fmt: skip
    p.add_argument("--pairs", type=positive, default=5_000_000, metavar="N")
    p.add_argument("--text", type=positive, metavar="MIB", help="running text instead, in MiB")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["SEQMODELS_CACHE"] = str(folder / "cache")
        if args.text:
            task, paths = "next_token", write_text(folder, args.text * 2**20)
        else:
            task, paths = "translation", write_pairs(folder, args.pairs)
        size = sum(path.stat().st_size for path in paths)
        print(f"{task}: {size / 1e6:,.0f} MB", flush=True)
        for which in ("first", "second"):
            before, whole, most, child = start(task, paths, folder / which)
            print(
                f"{which} start: {before:.1f} s before the first step, {whole:.0f} s in total, "
                f"{most / 1e9:.2f} GB peak memory, {child / 1e9:.2f} GB in another process",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""Measure cleaning and tokenizing pairs in one process and in two, in turns.

    python -m benchmarks.tokenizing        1.2 million made pairs, 5 times each, about 4 minutes

What is measured is all that a corpus needs after its tokenizer is trained: drawing valid and test,
cleaning, encoding, writing, and the checksum, with the start of the processes. The CPU time of all
processes, halved, is the least that two cores could take; other load affects it less.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import RawDescriptionHelpFormatter
from itertools import islice
from pathlib import Path

from seqmodels.data import encode, tokenizers
from seqmodels.data.clean import PrepareConfig, checksum, held_out_sources
from seqmodels.data.corpus import ParallelCorpus, read_two_files
from seqmodels.utils.terminal import Parser, guard, positive
from seqmodels.utils.workers import Workers, start
from tools.large import write_pairs

ROOT = Path(__file__).parents[1]
SHARED = [encode.TOKENIZER, "tokenizer.tiktoken"]


def corpus_in(folder: Path) -> ParallelCorpus:
    """Return the made corpus."""
    return read_two_files([folder / "made.xx", folder / "made.yy"], (None, None))


def measure(folder: Path, n: int) -> dict[str, object]:
    """Prepare the corpus in a folder with n processes; return the times in seconds, and a sum."""
    import resource  # Windows has none

    corpus, config = corpus_in(folder), PrepareConfig()
    with tempfile.TemporaryDirectory(dir=folder) as name:
        out = Path(name)
        for shared in SHARED:
            (out / shared).symlink_to(folder / shared)
        since = time.perf_counter()
        pool = start(n) if n > 1 else None
        with Workers(pool) as workers:
            held_out = held_out_sources(corpus, config, workers)
            (out / encode.HELD_OUT).write_text(json.dumps(sorted(held_out)))
            encode.write_pairs(out, corpus, config, workers)
        sha256 = checksum(corpus)
        if pool:
            pool.shutdown()
        seconds = time.perf_counter() - since
        digest = hashlib.sha256(sha256.encode())
        for path in sorted(out.glob("t*")):
            digest.update(path.read_bytes())
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own, others = (usage.ru_utime + usage.ru_stime for usage in used)
    return {"s": seconds, "own_s": own, "others_s": others, "sum": digest.hexdigest()}


def in_process(folder: Path, n: int) -> dict[str, float]:
    """Return what a fresh process measures; on one core if it is alone."""
    program = [sys.executable, "-m", "benchmarks.tokenizing", "--worker", str(folder), str(n)]
    if n == 1:
        program = ["taskset", "1", *program]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    """Print a line for each run, and the medians."""
    p = Parser(prog="python -m benchmarks.tokenizing", description=__doc__,
               formatter_class=RawDescriptionHelpFormatter)  # fmt: skip
    p.add_argument("--pairs", type=positive, default=1_200_000, metavar="N")
    p.add_argument("--repeats", type=positive, default=5, metavar="N")
    p.add_argument("--worker", nargs=2, metavar=("FOLDER", "N"), help="measure in this process")
    args = p.parse_args()
    os.environ |= {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    if args.worker:
        print(json.dumps(measure(Path(args.worker[0]), int(args.worker[1]))))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_pairs(folder, args.pairs)
        sides = (side for pair in corpus_in(folder).splits["train"]() for side in pair[:2])
        tokenizers.BPE.train(islice(sides, 100_000), 4_000).save(folder / encode.TOKENIZER)
        ratios, seen = [], set()
        print("| processes | seconds | CPU seconds: parent | others, together |")
        print("| ---: | ---: | ---: | ---: |")
        for _ in range(args.repeats):
            one, two = found = [in_process(folder, n) for n in (1, 2)]
            for n, run in enumerate(found, 1):
                print(f"| {n} | {run['s']:.1f} | {run['own_s']:.1f} | {run['others_s']:.1f} |")
                seen.add(run["sum"])
            two_s = (two["own_s"] + two["others_s"]) / 2
            ratios.append((one["s"] / two["s"], one["own_s"] / two_s))
    wall, ideal = (statistics.median(values) for values in zip(*ratios, strict=True))
    same = "the same bytes" if len(seen) == 1 else "DIFFERENT BYTES"
    print(f"median ratio: {wall:.2f} by the clock, {ideal:.2f} by CPU time on two cores; {same}")


if __name__ == "__main__":
    guard("benchmarks.tokenizing", main)

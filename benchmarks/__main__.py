"""Measure this library's speed: against an earlier commit, or against the length of the text.

    python -m benchmarks --against COMMIT      compare this working tree with a commit
    python -m benchmarks                       cost against length, about 10 minutes
    python -m benchmarks --draw FILE.json      redraw its figure without measuring

Results go to OUT, with the commit in the name; the figure stands beside them.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks import against, draw, growth
from benchmarks.workloads import SIZES, WORKLOADS
from seqmodels.records import provenance
from seqmodels.utils.files import write
from seqmodels.utils.terminal import Parser, positive, run_cli


def build_parser() -> Parser:
    """Return the command line."""
    p = Parser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--against", metavar="COMMIT",
                   help="compare training, search and sampling with this commit, on one thread; "
                   "exit with 1 if any is more than 3 %% slower")  # fmt: skip
    p.add_argument("--only", nargs="+", metavar="NAME", default=[""],
                   help=f"with --against: prefixes of {', '.join(WORKLOADS)}")  # fmt: skip
    p.add_argument("--rounds", type=positive, metavar="N", default=20,
                   help="with --against: turns of each side (default: 20)")  # fmt: skip
    p.add_argument("--size", choices=list(SIZES), default="full", help="default: full")
    p.add_argument("--out", type=Path, default=Path(__file__).parent / "results", metavar="DIR",
                   help="default: benchmarks/results")  # fmt: skip
    p.add_argument("--draw", type=Path, metavar="FILE.json", help="redraw this figure")
    return p


def select_workloads(names: list[str]) -> list[str]:
    """Return the workloads whose names start with any of these.

    Raises ValueError for a prefix that none has.
    """
    for name in names:
        if not any(workload.startswith(name) for workload in WORKLOADS):
            raise ValueError(f"--only {name}: choose from {', '.join(WORKLOADS)}")
    return [workload for workload in WORKLOADS if workload.startswith(tuple(names))]


def save(args: argparse.Namespace, kind: str, results: dict[str, Any]) -> Path:
    """Write results with their provenance; return the path."""
    where = provenance.collect("cpu")
    results = {"schema": draw.SCHEMA, "provenance": where, "size": args.size, **results}
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{where['date']}-{(where['commit'] or 'unknown')[:7]}-{kind}.json"
    write(path, json.dumps(results, ensure_ascii=False, indent=1) + "\n")
    return path


def compare(args: argparse.Namespace, names: list[str]) -> int:
    """Print and write the speed relative to a commit; return how many workloads are slower."""
    seconds, rows, n_slower = SIZES[args.size].seconds / 2, {}, 0
    print(f"{'':28} {'old':>10} {'new':>10}  new / old, median of {args.rounds} [95 %]")
    for name, rates in against.against(args.against, names, args.size, args.rounds, seconds):
        ratio = against.ratio_of(rates["new"], rates["old"])
        n_slower += not (is_kept := against.is_as_fast(ratio))
        medians = " ".join(f"{statistics.median(rates[side]):10,.1f}" for side in ("old", "new"))
        found = f"{ratio.median:.3f} [{ratio.low:.3f}–{ratio.high:.3f}]"
        print(f"{name:28} {medians}  {found}{'' if is_kept else '  slower'}", flush=True)
        rows[name] = {"rates": rates, "ratio": ratio._asdict()}
    print(save(args, f"against-{args.against[:7]}", {"against": args.against, "rows": rows}))
    return n_slower


def run(args: argparse.Namespace) -> None:
    """Measure and draw, or only redraw; exit with 1 if anything is slower than a commit."""
    names = select_workloads(args.only)
    if args.draw:
        print(draw.draw(args.draw))
    elif args.against:
        if compare(args, names):
            raise SystemExit(1)
    else:
        size = SIZES[args.size]
        parts = {f"growth-{axis}": growth.measure_growth(axis, size) for axis in growth.AXES}
        path = save(args, "growth", {"parts": parts})
        print(path, draw.draw(path), sep="\n")


def main() -> None:
    """Run the command line."""
    args = build_parser().parse_args()
    run_cli("python -m benchmarks", lambda: run(args))


if __name__ == "__main__":
    main()

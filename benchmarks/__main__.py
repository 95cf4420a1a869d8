"""Measure this library's speed: against an earlier commit, or against the length of the text.

python -m benchmarks --against COMMIT      compare this working tree with a commit
python -m benchmarks                       cost against length, about 10 minutes
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks import against, growth
from benchmarks.workloads import SIZES, WORKLOADS
from seqmodels.records import provenance
from seqmodels.report import style
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
                   help="compare training and search with this commit, on one thread")  # fmt: skip
    p.add_argument("--only", nargs="+", choices=[*WORKLOADS], default=[*WORKLOADS], metavar="NAME",
                   help=f"with --against: some of {', '.join(WORKLOADS)}")  # fmt: skip
    p.add_argument("--rounds", type=positive, metavar="N", default=20,
                   help="with --against: turns of each side (default: 20)")  # fmt: skip
    p.add_argument("--size", choices=list(SIZES), default="full", help="default: full")
    p.add_argument("--out", type=Path, default=Path(__file__).parent / "results", metavar="DIR",
                   help="folder for cost against length; default: benchmarks/results")  # fmt: skip
    return p


def run(args: argparse.Namespace) -> None:
    """Compare with a commit, or measure and draw cost against length."""
    if args.against:
        print(f"{'workload':20} new / old, mean of {args.rounds} rounds [95 %]")
        for name, ratio in against.compare(args.against, args.only, args.size, args.rounds):
            print(f"{name:20} {{:.3f}} [{{:.3f}}, {{:.3f}}]".format(*ratio), flush=True)
        return
    size, where = SIZES[args.size], provenance.collect("cpu")
    parts = {f"growth-{axis}": growth.measure_growth(axis, size) for axis in growth.AXES}
    results = {"schema": "seqmodels.benchmarks/1", "provenance": where, "size": args.size}
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{where['date']}-growth.json"
    print(write(path, json.dumps(results | {"parts": parts}, indent=1) + "\n"))
    with style.context():
        figure = growth.draw_growth(results | {"parts": parts})
        print(style.save(figure, path.with_name(f"{path.stem}-length.svg")))


def main() -> None:
    """Run the command line."""
    args = build_parser().parse_args()
    run_cli("python -m benchmarks", lambda: run(args))


if __name__ == "__main__":
    main()

"""Measure the cost of each model's training and decoding against the length of the text.

python -m benchmarks                       about 10 minutes
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from benchmarks import growth
from benchmarks.growth import MODELS, SIZES
from seqmodels.records.io import collect_provenance
from seqmodels.report import style
from seqmodels.utils.files import write
from seqmodels.utils.terminal import Parser, run_cli


def build_parser() -> Parser:
    """Return the command line."""
    p = Parser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--size", choices=list(SIZES), default="full", help="default: full")
    p.add_argument("--models", nargs="+", choices=MODELS, default=MODELS, help="default: all")
    p.add_argument("--out", type=Path, default=Path(__file__).parent / "results", metavar="DIR",
                   help="folder for record and figure; default: benchmarks/results")  # fmt: skip
    return p


def run(args: argparse.Namespace) -> None:
    """Measure and draw cost against length."""
    torch.set_num_threads(1)
    size, where = SIZES[args.size], collect_provenance("cpu")
    parts = {
        f"growth-{axis}": growth.measure_growth(axis, args.models, size) for axis in growth.AXES
    }
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

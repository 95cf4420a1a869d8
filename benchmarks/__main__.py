"""Measure this library's speed: against its peers, against the machine, and against length.

    python -m benchmarks                       everything, about 22 minutes on two cores
    python -m benchmarks --only beam growth    what begins with these names
    python -m benchmarks --size smoke          everything once at toy size: does it run?
    python -m benchmarks --draw FILE.json      tables and figures again, without measuring

Results are written after every part to OUT/DATE-cpu.json, tables and figures beside it.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks import draw, growth, harness
from benchmarks.contests import CONTESTS
from benchmarks.measure import SIZES, Effort, Size
from seqmodels.command import Parser, fail, positive
from seqmodels.files import write
from seqmodels.record import provenance

PEERS = ("joeynmt", "transformers", "x-transformers")

PARTS: dict[str, Callable[[Size, Effort], dict[str, Any]]] = {
    **CONTESTS,
    **{f"growth-{axis}": partial(growth.growth, axis) for axis in draw.GROWTH},
    "text": harness.text,
    "startup": harness.startup,
    "memory": harness.memory,
    "profile": harness.profiles,
}


def build_parser() -> Parser:
    """Return the command line."""
    p = Parser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--only", nargs="+", metavar="NAME",
                   help=f"parts, by name or its beginning: {', '.join(PARTS)}")  # fmt: skip
    p.add_argument("--rounds", type=positive, default=5, metavar="N",
                   help="turns of every contestant (default: 5)")  # fmt: skip
    p.add_argument("--size", choices=list(SIZES), default="full", help="default: full")
    p.add_argument("--out", type=Path, default=Path(__file__).parent / "results", metavar="DIR",
                   help="default: benchmarks/results")  # fmt: skip
    p.add_argument("--draw", type=Path, metavar="FILE.json", help="draw these results again")
    return p


def chosen(names: Sequence[str] | None) -> list[str]:
    """Return the parts whose names begin with any of these; all without names.

    Raises ValueError for a name with which no part begins.
    """
    for name in names or ():
        if not any(part.startswith(name) for part in PARTS):
            raise ValueError(f"--only {name}: no such part; there are {', '.join(PARTS)}")
    return [part for part in PARTS if part.startswith(tuple(names or [""]))]


def begin(size: str, rounds: int, out: Path) -> tuple[Path, dict[str, Any]]:
    """Return the file to write and what is in it.

    A file of today is gone on with if commit, versions and settings are the same, and no file
    differs from the commit; else a number is added to the name: two states never mix.
    """
    where = provenance("cpu")
    for name in PEERS:
        with suppress(PackageNotFoundError):
            where["versions"][name] = version(name)
    results = {"schema": draw.SCHEMA, "provenance": where, "size": size, "rounds": rounds}
    out.mkdir(parents=True, exist_ok=True)
    for n in range(1, 1000):
        path = out / f"{where['date']}-cpu{f'-{n}' if n > 1 else ''}.json"
        if not path.exists():
            return path, results | {"parts": {}}
        there = draw.load(path)
        is_same = results == {key: value for key, value in there.items() if key != "parts"}
        if is_same and not (where["commit"] or "+").endswith("+"):
            return path, there
    raise ValueError(f"{out} holds a thousand results of today")


def run(args: argparse.Namespace) -> None:
    """Measure and draw, or only draw."""
    if args.draw:
        print(*draw.draw(args.draw), sep="\n")
        return
    names = chosen(args.only)
    logging.disable(logging.WARNING)  # peers tell much
    path, results = begin(args.size, args.rounds, args.out)
    size, parts = SIZES[args.size], results["parts"]
    try:
        for i, name in enumerate(names, 1):
            since = time.perf_counter()
            print(f"[{i}/{len(names)}] {name} …", end="", flush=True, file=sys.stderr)
            part = PARTS[name](size, Effort(args.rounds, size.seconds))
            parts[name] = part | {"took_s": round(time.perf_counter() - since, 1)}
            results["parts"] = {known: parts[known] for known in PARTS if known in parts}
            write(path, json.dumps(results, ensure_ascii=False, indent=1) + "\n")
            print(f" {parts[name]['took_s']} s", file=sys.stderr)
    finally:
        if results["parts"]:
            paths = draw.draw(path)
            print(draw.tables(results))
            print(path, *paths, sep="\n", file=sys.stderr)


def main() -> None:
    """Run the command line; what a person can mend is one line and exit code 2."""
    args = build_parser().parse_args()
    prog = "python -m benchmarks"
    try:
        run(args)
    except (ValueError, OSError) as error:
        sys.exit(fail(prog, " ".join(str(error).split()), 2))
    except KeyboardInterrupt:
        sys.exit(fail(prog, "stopped; what was measured is kept", 130))


if __name__ == "__main__":
    main()

"""Measure this library's speed: against its peers, the machine's peak, and length.

    python -m benchmarks                       everything, about 22 minutes on two cores
    python -m benchmarks --only beam growth    the parts whose names start with these
    python -m benchmarks --size smoke          everything once at toy size, to check that it runs
    python -m benchmarks --draw FILE.json      redraw tables and figures without measuring
    python -m benchmarks --against COMMIT      compare this working tree with a commit

Results are written to OUT/DATE-cpu.json after every part, with tables and figures beside it.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks import against, draw, growth, harness
from benchmarks.contests import CONTESTS
from benchmarks.measure import SIZES, Effort, Size
from seqmodels.records import provenance
from seqmodels.utils.files import write
from seqmodels.utils.terminal import Parser, positive, print_error

PEERS = ("joeynmt", "transformers", "x-transformers", "ctranslate2")

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
                   help=f"parts, by full name or prefix: {', '.join(PARTS)}")  # fmt: skip
    p.add_argument("--rounds", type=positive, metavar="N",
                   help="rounds, in each of which every side gets one turn (default: 5; 20 "
                        "with --against)")  # fmt: skip
    p.add_argument("--size", choices=list(SIZES), default="full", help="default: full")
    p.add_argument("--out", type=Path, default=Path(__file__).parent / "results", metavar="DIR",
                   help="default: benchmarks/results")  # fmt: skip
    p.add_argument("--draw", type=Path, metavar="FILE.json", help="redraw these results")
    p.add_argument("--against", metavar="COMMIT",
                   help="compare training, search and sampling with this commit, on one thread; "
                   "exit with 1 if any is more than 3 %% slower")  # fmt: skip
    return p


def select_parts(names: Sequence[str] | None) -> list[str]:
    """Return the parts whose names start with any of these; without names, all parts.

    Raises ValueError for a prefix that no part has.
    """
    for name in names or ():
        if not any(part.startswith(name) for part in PARTS):
            raise ValueError(f"--only {name}: no such part; choose from {', '.join(PARTS)}")
    return [part for part in PARTS if part.startswith(tuple(names or [""]))]


def open_results(size: str, rounds: int, out: Path) -> tuple[Path, dict[str, Any]]:
    """Return the file to write to and its contents so far.

    A file from today is continued if commit, versions and settings are the same and the working
    tree is clean. Otherwise, a number is added to the name, so that two states never mix.
    """
    where = provenance.collect("cpu")
    for name in PEERS:
        with suppress(PackageNotFoundError):
            where["versions"][name] = version(name)
    results = {"schema": draw.SCHEMA, "provenance": where, "size": size, "rounds": rounds}
    out.mkdir(parents=True, exist_ok=True)
    for n in range(1, 1000):
        path = out / f"{where['date']}-cpu{f'-{n}' if n > 1 else ''}.json"
        if not path.exists():
            return path, results | {"parts": {}}
        earlier = draw.load(path)
        is_same = results == {key: value for key, value in earlier.items() if key != "parts"}
        if is_same and not (where["commit"] or "+").endswith("+"):
            return path, earlier
    raise ValueError(f"{out} holds a thousand results from today")


def compare(args: argparse.Namespace) -> int:
    """Print and write the speed relative to a commit; return 1 if anything is slower."""
    parts = [part for part in select_parts(args.only) if part in against.PARTS]
    effort = Effort(args.rounds or 20, SIZES[args.size].seconds / 2)
    rows, n_slower = {}, 0
    print(f"{'':28} {'old':>10} {'new':>10}  new / old, median of {effort.rounds} [95 %]")
    for name, rates in against.against(args.against, parts, args.size, effort):
        ratio = against.ratio_of(rates["new"], rates["old"])
        n_slower += not (is_kept := against.is_as_fast(ratio))
        medians = " ".join(f"{statistics.median(rates[side]):10,.1f}" for side in ("old", "new"))
        found = f"{ratio.median:.3f} [{ratio.low:.3f}–{ratio.high:.3f}]"
        print(f"{name:28} {medians}  {found}{'' if is_kept else '  slower'}", flush=True)
        rows[name] = {"rates": rates, "ratio": ratio._asdict()}
    where = provenance.collect("cpu")
    made = {"provenance": where, "against": args.against, "size": args.size, "rows": rows}
    path = args.out / f"{where['date']}-against-{args.against[:7]}.json"
    args.out.mkdir(parents=True, exist_ok=True)
    write(path, json.dumps(made, ensure_ascii=False, indent=1) + "\n")
    print(path, file=sys.stderr)
    return int(n_slower > 0)


def run(args: argparse.Namespace) -> int:
    """Measure and draw, or only redraw; return the exit code."""
    if args.draw:
        print(*draw.draw(args.draw), sep="\n")
        return 0
    if args.against:
        return compare(args)
    names = select_parts(args.only)
    logging.disable(logging.WARNING)  # peers log a lot
    args.rounds = args.rounds or 5
    path, results = open_results(args.size, args.rounds, args.out)
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
    return 0


def main() -> None:
    """Run the command line; a mistake that the user can correct is one line and exit code 2."""
    args = build_parser().parse_args()
    prog = "python -m benchmarks"
    try:
        code = run(args)
    except (ValueError, OSError) as error:
        sys.exit(print_error(prog, " ".join(str(error).split()), 2))
    except KeyboardInterrupt:
        sys.exit(print_error(prog, "stopped; the results so far are kept", 130))
    if code:
        sys.exit(code)


if __name__ == "__main__":
    main()

"""Reproduce `results`: run every comparison with its defaults, then draw all figures and tables.

    python -m tasks                 on built-in data: two hours on two cores
    python -m tasks --full          also with larger budgets and several seeds: hours
    python -m tasks --corpora       also on real text, from the folder that SEQMODELS_DATA names or
                                    from the hub: hours

A run that has a record is not trained again: an interrupted command resumes, and the committed
records stay unless --out names another folder. Flags that all tasks share, such as --device or
--seeds, are passed on.
"""

from __future__ import annotations

import argparse
import time
import tomllib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from seqmodels.utils import files
from seqmodels.utils.terminal import run_cli

from .flags import TaskParser, run

Comparison = tuple[str, str, str]
"""Its folder, its task, its own flags."""
FILE = Path(__file__).with_name("comparisons.toml")


def read_comparisons(text: str) -> list[Comparison]:
    """Return the comparisons of a part of the file, one a line."""
    lines = (f"{line} ".split(" ", 2) for line in text.splitlines())
    return [(folder, task, flags.strip()) for folder, task, flags in lines]


PARTS = tomllib.loads(FILE.read_text(encoding="utf-8"))
BUILTIN, FULL, CORPORA = (read_comparisons(PARTS[name]) for name in ("builtin", "full", "corpora"))


def run_all(out: Path, comparisons: Sequence[Comparison], forwarded: Sequence[str]) -> None:
    """Run each comparison into its own folder, up to the first failure; then draw all records.

    A forwarded flag replaces a comparison's own; --set adds to it. Raises ValueError for a folder
    that is not ours.
    """
    todo = []
    for folder, task, own_flags in comparisons:
        own = [f"--{flag}".split() for flag in own_flags.replace("OUT", str(out)).split("--")[1:]]
        own_left = [
            word for flag in own if flag[0] not in {*forwarded} - {"--set"} for word in flag
        ]
        todo.append((folder, task, [*own_left, *forwarded, "--out", str(out / folder)]))
    for _, task, passed in todo:  # find mistakes before anything is trained
        import_module(f"tasks.{task}.__main__").PARSER.parse_args(passed)
    files.claim_folder(out, "reproduction")
    from seqmodels.report.figures import plot_results  # takes a second to import

    for n, (folder, task, passed) in enumerate(todo, start=1):
        since = time.perf_counter()
        print(f"[{n}/{len(todo)}] {folder}")
        try:
            program = import_module(f"tasks.{task}.__main__")
            run(program.PARSER, program.make_task, passed)
        except SystemExit as ended:
            if ended.code:
                raise
        print(f"[{n}/{len(todo)}] {folder}: {(time.perf_counter() - since) / 60:.1f} minutes\n")
    print("\n".join(str(path) for path in plot_results(out)))


def main() -> None:
    """Run all comparisons."""
    p = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="python -m tasks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--full", action="store_true",
                   help="also compare with larger budgets and several seeds")  # fmt: skip
    p.add_argument("--corpora", action="store_true", help="also compare on real text")
    p.add_argument("--out", type=Path, default=Path("results"), metavar="DIR",
                   help="folder for the folders of records (default: results)")  # fmt: skip
    args, forwarded = p.parse_known_args()
    TaskParser("tasks", None).parse_args(forwarded)  # answer typos before slow imports
    chosen = [*BUILTIN, *(FULL if args.full else []), *(CORPORA if args.corpora else [])]
    run_cli("tasks", lambda: run_all(args.out, chosen, forwarded))


if __name__ == "__main__":
    main()

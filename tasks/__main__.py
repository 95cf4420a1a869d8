"""Make `results` again: every comparison with its defaults, then all figures and tables.

    python -m tasks                     26 minutes on two cores
    python -m tasks --bible FOLDER      and 46 for train|valid|test.{de,en} of the Bible

A run that has its record is not trained again: what was stopped goes on, and the committed records
stay unless --out names another folder. Flags of all tasks, such as --device or --seeds, are passed
on to each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from seqmodels.command import Parser, guard
from seqmodels.plot import plot_results
from seqmodels.runs import say
from tasks import next_token, recall, translation


def make(out: Path, bible: Path | None, flags: Sequence[str]) -> None:
    """Run the comparisons, each into its folder; stop where one does; draw what there is."""
    todo: list[tuple[str, ModuleType, list[str]]] = [
        ("translation-grammar", translation, []),
        ("recall", recall, []),
        ("next_token", next_token, []),
    ]
    if bible:
        own = ["--data", str(bible), "--source", "de", "--tokens", "4_000_000"]
        todo.append(("translation-bible", translation, own))
    for n, (folder, task, own) in enumerate(todo, start=1):
        since = time.perf_counter()
        say(f"[{n}/{len(todo)}] {folder}")
        try:
            task.main([*own, *flags, "--out", str(out / folder)])
        except SystemExit as ended:
            if ended.code:
                raise
        say(f"[{n}/{len(todo)}] {folder}: {(time.perf_counter() - since) / 60:.1f} minutes\n")
    say("\n".join(str(path) for path in plot_results(out)))


def main() -> None:
    """Run all comparisons."""
    p = Parser(
        prog="python -m tasks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    p.add_argument("--bible", type=Path, metavar="FOLDER", help="compare on this folder, too")
    p.add_argument("--out", type=Path, default=Path("results"), metavar="DIR",
                   help="folder of the folders of records (default: results)")  # fmt: skip
    args, flags = p.parse_known_args()
    guard("tasks", lambda: make(args.out, args.bible, flags))


if __name__ == "__main__":
    main()

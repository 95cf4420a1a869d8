"""Make `results` again: every comparison with its defaults, then all figures and tables.

    python -m tasks                 what is made here: 26 minutes on two cores
    python -m tasks --corpora       and real text, from the folder that SEQMODELS_DATA names or the
                                    hub: hours

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

MADE_HERE: list[tuple[str, ModuleType, str]] = [
    ("translation-grammar", translation, ""),
    ("recall", recall, ""),
    ("next_token", next_token, ""),
]
CORPORA: list[tuple[str, ModuleType, str]] = [
    ("translation-multi30k", translation, "--data multi30k --source de --lowercase"),
    (
        "translation-multi30k-en-de", translation,
        "--data multi30k --source en --lowercase --models transformer",
    ),
    ("translation-bible", translation, "--data bible --source de --seeds 1 2"),
    ("next_token-shakespeare", next_token, "--data shakespeare"),
    ("next_token-war-and-peace", next_token, "--data war-and-peace"),
]  # fmt: skip


def make(out: Path, has_corpora: bool, flags: Sequence[str]) -> None:
    """Run the comparisons, each into its folder; stop where one does; draw what there is."""
    todo = [*MADE_HERE, *(CORPORA if has_corpora else [])]
    for n, (folder, task, own) in enumerate(todo, start=1):
        since = time.perf_counter()
        say(f"[{n}/{len(todo)}] {folder}")
        try:
            task.main([*own.split(), *flags, "--out", str(out / folder)])
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
    p.add_argument("--corpora", action="store_true", help="compare on real text, too")
    p.add_argument("--out", type=Path, default=Path("results"), metavar="DIR",
                   help="folder of the folders of records (default: results)")  # fmt: skip
    args, flags = p.parse_known_args()
    guard("tasks", lambda: make(args.out, args.corpora, flags))


if __name__ == "__main__":
    main()

"""The command line of a task: its flags, and what runs it. No torch at import.

`--help` and typos are thus answered at once.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqmodels.data import TOKENIZERS
from seqmodels.models import PAPERS, list_models, paper_of, register_file
from seqmodels.utils import files
from seqmodels.utils.terminal import (
    Parser,
    non_negative,
    positive,
    positive_float,
    run_cli,
    with_reason,
)

if TYPE_CHECKING:
    from seqmodels.experiments.task import Task

SIZES = {
    "smoke": "run everything once, in a minute",
    "laptop": "the comparison, in minutes",
    "full": "with larger budgets, in hours",
}
RUN_AS: str | None = None
"""What a task is called in its messages, unless it is run by `python -m`."""
MAX_SNAPSHOTS = 20
"""With more, a file of snapshots could exceed 100 kB."""


class TaskParser(Parser):
    """A parser of the flags that all tasks share, to which a task adds its own.

    `models` are trained by default; `check` raises ValueError if flags contradict each other.
    """

    def __init__(
        self,
        module: str,
        doc: str | None,
        models: Sequence[str] = tuple(PAPERS),
        sizes: Sequence[str] = tuple(SIZES),
        check: Callable[[argparse.Namespace], None] | None = None,
    ):
        super().__init__(
            prog=f"python -m {module}" if RUN_AS is None else RUN_AS,
            description=doc,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.check = check
        add_shared_flags(self, list(models), sizes)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the command line; exit with 2 if flags contradict each other."""
        parsed = super().parse_args(args, namespace)
        try:
            check_shared_flags(parsed)
            if self.check:
                self.check(parsed)
        except ValueError as error:
            self.error(str(error))
        return parsed


def run(
    parser: TaskParser,
    make_task: Callable[[argparse.Namespace], Task],
    argv: Sequence[str] | None = None,
) -> None:
    """Parse a task's command line and run its comparison."""
    args = parser.parse_args(argv)
    from seqmodels.cli.compare import compare_and_report  # imports torch

    def compare() -> None:
        compare_and_report(adapt(make_task(args), parser, args), args)

    run_cli(re.split("[. ]", parser.prog)[-1], compare)


def adapt(task: Task, parser: TaskParser, args: argparse.Namespace) -> Task:
    """Return the task, without its own changes of models if other models are asked for."""
    return task if args.models == parser.get_default("models") else replace(task, vary={})


def check_shared_flags(args: argparse.Namespace) -> None:
    """Raise ValueError if flags that all tasks share contradict each other."""
    for flag in ("models", "seeds"):
        given = getattr(args, flag)
        if twice := [str(value) for value in given if given.count(value) > 1]:
            raise ValueError(f"--{flag}: {twice[0]} is given twice; give each once")
    if args.vary:
        from seqmodels.experiments.specs import expand_specs  # imports torch

        try:
            expand_specs(args.models, args.vary, args.grid)
        except ValueError as error:
            raise ValueError(f"--vary: {error}") from None
    elif args.grid or args.same_width:
        raise ValueError(f"--{'grid' if args.grid else 'same-width'} needs --vary")
    if args.snapshots and args.trained:
        raise ValueError("--snapshots are taken in training, which --trained leaves out")
    if args.snapshots and not 2 <= args.snapshots <= MAX_SNAPSHOTS:
        raise ValueError(f"--snapshots: choose from 2, start and end, to {MAX_SNAPSHOTS}")
    if args.out and not args.dry_run:
        files.check_folder(args.out, "comparison")
    if args.address and args.launcher != "ray":
        raise ValueError("--address needs --launcher ray")


def add_shared_flags(p: Parser, models: list[str], sizes: Sequence[str]) -> None:
    """Add the flags that all tasks share."""
    others = ", ".join(name for name in list_models() if name not in models)
    p.add_argument("--models", nargs="+", type=with_reason(model), default=models, metavar="NAME",
                   help=f"models to train: {', '.join(models)} (default: these), a class of your "
                        f"own as FILE.py:CLASS, or any of {others}")  # fmt: skip
    p.add_argument("--vary", action="append", type=vary, default=[], metavar="FIELD=A,B,C",
                   help="besides each model, train it with each of these values of a field of its "
                        "Config (d_k), its learning rate (lr), another field of training "
                        "(label_smoothing) or a multiple of its width (width); can be "
                        "repeated")  # fmt: skip
    p.add_argument("--grid", action="store_true",
                   help="train each combination of the values of --vary")  # fmt: skip
    p.add_argument("--same-width", action="store_true",
                   help="give a model of --vary one width, instead of the same number of "
                        "parameters")  # fmt: skip
    p.add_argument("--seeds", nargs="+", type=non_negative, default=[1], metavar="N",
                   help="train each model once per seed (default: 1)")  # fmt: skip
    p.add_argument("--size", choices=sizes, default="laptop",
                   help="; ".join(f"{size}: {SIZES[size]}" for size in sizes)
                        + " (default: laptop)")  # fmt: skip
    training_flags(p)
    p.add_argument("--out", type=Path, metavar="DIR",
                   help="folder for records and figures (default: runs/TASK-SIZE or, with "
                        "--data, runs/TASK-DATA-SIZE)")  # fmt: skip
    p.add_argument("--fresh", action="store_true",
                   help="start these runs again, deleting what the folder has of them")  # fmt: skip
    p.add_argument("--trained", type=Path, metavar="DIR",
                   help="evaluate the runs that another folder has, trained with the same "
                        "settings, instead of training them again")  # fmt: skip
    p.add_argument("--dry-run", action="store_true",
                   help="train nothing; print the estimated time of the missing runs")  # fmt: skip
    p.add_argument("--checkpoint-every", type=positive_float, default=30.0, metavar="S",
                   help="seconds between checkpoints, which take at most 1 %% of the time "
                        "(default: 30)")  # fmt: skip
    p.add_argument("--launcher", choices=["ray", "slurm"],
                   help="train each run on a cluster, whose machines share the disk, instead of "
                        "on this machine; see docs/scale.md")  # fmt: skip
    p.add_argument("--address", metavar="HOST:PORT",
                   help="with --launcher ray: the cluster's head (default: RAY_ADDRESS, or this "
                        "machine alone)")  # fmt: skip
    p.add_argument("--snapshots", type=non_negative, default=0, metavar="N",
                   help="keep what a model writes, and what it attends to, at N moments of its "
                        "training, from its start to its end")  # fmt: skip
    p.add_argument("--tensorboard", action="store_true",
                   help="also write curves for TensorBoard, to the folder tensorboard in "
                        "--out")  # fmt: skip


def model(text: str) -> str:
    """Return the name of a model; one of FILE.py:CLASS is registered under its own."""
    if ".py:" in text:
        return register_file(text)
    paper_of(text)  # raises ValueError for an unknown name
    return text


def vary(text: str) -> tuple[str, list[str]]:
    """Parse FIELD=A,B,C."""
    field, _, values = text.partition("=")
    if not field or not all(values.split(",")):
        raise argparse.ArgumentTypeError(f"expected FIELD=A,B,C, not {text!r}")
    return field, values.split(",")


def tokenizer(text: str) -> str:
    """Accept a kind of tokenizer, or the path of a file."""
    if text in TOKENIZERS or Path(text).is_file():
        return text
    kinds = ", ".join(TOKENIZERS)
    raise argparse.ArgumentTypeError(f"{text!r} is not a file; give one, or one of {kinds}")


def training_flags(p: Parser) -> None:
    """Add the flags that say how a model is trained."""
    p.add_argument("--tokens", type=positive, metavar="N",
                   help="budget: target tokens to train each model on")  # fmt: skip
    p.add_argument("--lr", type=positive_float, metavar="R",
                   help="peak learning rate of AdamW for all models (default: each recipe's); "
                        "where Muon trains the hidden matrices, --vary muon_lr=R "
                        "changes theirs")  # fmt: skip
    p.add_argument("--device", choices=["auto", "cpu", "cuda", "mps"], default="auto",
                   help="auto: cuda if available, else cpu (default); mps: Apple's GPU, on which "
                        "no test has run")  # fmt: skip
    p.add_argument("--precision", choices=["auto", "float32", "bfloat16"], default="auto",
                   help="in training; auto (default): that of the runs in --out, the task's, or "
                        "bfloat16 where the processor has instructions for it")  # fmt: skip

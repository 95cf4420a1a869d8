"""The options of a comparison, which the command line and `seqmodels.compare` both fill. No torch.

A field of `Options` with a help text is a flag that every task has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from seqmodels.models import PAPERS, Value, paper_of, register_file
from seqmodels.training.config import Precision
from seqmodels.utils.terminal import non_negative, positive, positive_float
from seqmodels.utils.values import check_fields

SIZES = {
    "smoke": "run everything once, in a minute",
    "laptop": "the comparison, in minutes",
    "full": "with larger budgets, in hours",
}


def parse_model(text: str) -> str:
    """Return the name of a model, or `all`; one of a file is registered under its own."""
    if ".py:" in text or text.endswith(".py"):
        return register_file(text)
    if text != "all":
        paper_of(text)  # raises ValueError for an unknown name
    return text


def parse_vary(text: str) -> tuple[str, list[str]]:
    """Parse FIELD=A,B,C."""
    name, _, values = text.partition("=")
    if not name or not all(values.split(",")):
        raise ValueError(f"expected FIELD=A,B,C, not {text!r}")
    return name, values.split(",")


def flag(default: object, text: str, **settings: object) -> Any:
    """Return a field that is a flag as well, with its help and the settings of argparse."""
    return field(default=default, metadata={"help": text, **settings})


def switch(text: str) -> Any:
    """Return a field that is False unless its flag is given."""
    return flag(False, text, action="store_true")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is compared, how it is trained, and where its records go.

    Raises ValueError if two options contradict each other.
    """

    # fmt: off
    models: Sequence[str] = flag(tuple(PAPERS), "models to train",
        nargs="+", type=parse_model, metavar="NAME")
    vary: Sequence[tuple[str, Sequence[Value]]] = flag((),
        "besides each model, train it with each of these values of a field of its Config (d_k), "
        "its learning rate (lr), another field of training (label_smoothing) or a multiple of its "
        "width (width); can be repeated",
        action="append", type=parse_vary, metavar="FIELD=A,B,C")
    grid: bool = switch("train each combination of the values of --vary")
    same_width: bool = switch(
        "give a model of --vary one width, instead of the same number of parameters")
    seeds: Sequence[int] = flag((1,), "train each model once per seed (default: 1)",
        nargs="+", type=non_negative, metavar="N")
    size: str = flag("laptop", "how much to train")
    tokens: int | None = flag(None, "budget: target tokens to train each model on",
        type=positive, metavar="N")
    lr: float | None = flag(None,
        "peak learning rate of AdamW for all models (default: each recipe's); where Muon trains "
        "the hidden matrices, --vary muon_lr=R changes theirs",
        type=positive_float, metavar="R")
    device: str = flag("auto",
        "auto: cuda if available, else cpu (default); mps: Apple's GPU, on which no test has run",
        choices=["auto", "cpu", "cuda", "mps"])
    precision: Precision = flag("float32",  # noqa: RUF009
        "of matrix products in training (default: float32); bfloat16 can be faster on GPUs and on "
        "processors with AVX512_BF16 or AMX",
        choices=get_args(Precision))
    out: Path | None = flag(None,  # noqa: RUF009
        "folder for records and figures (default: runs/TASK-SIZE or, with --data, "
        "runs/TASK-DATA-SIZE)",
        type=Path, metavar="DIR")
    fresh: bool = switch("start these runs again, deleting what the folder has of them")
    trained: Path | None = flag(None,  # noqa: RUF009
        "evaluate the runs that another folder has, trained with the same settings, instead of "
        "training them again",
        type=Path, metavar="DIR")
    dry_run: bool = switch("train nothing; print the estimated time of the missing runs")
    checkpoint_every: float = flag(30.0,
        "seconds between checkpoints, which take at most 1 %% of the time (default: 30)",
        type=positive_float, metavar="S")
    launcher: str | None = flag(None,
        "train each run on a cluster, whose machines share the disk, instead of on this machine; "
        "see docs/scale.md",
        choices=["ray", "slurm"])
    tensorboard: bool = switch(
        "also write curves for TensorBoard, to the folder tensorboard in --out")
    # fmt: on
    data: Sequence[str] = ()
    """The user's own data, where a task reads some."""

    def __post_init__(self) -> None:
        """Raise ValueError for a wrong type, or if two options contradict each other."""
        check_fields(self)
        for name in ("models", "seeds"):
            given = list(getattr(self, name))
            if twice := [str(value) for value in given if given.count(value) > 1]:
                raise ValueError(f"--{name}: {twice[0]} is given twice; give each once")
        if self.vary:
            from seqmodels.experiments.specs import expand_specs  # imports torch

            try:
                expand_specs(self.models, self.vary, self.grid)
            except ValueError as error:
                raise ValueError(f"--vary: {error}") from None
        elif self.grid or self.same_width:
            raise ValueError(f"--{'grid' if self.grid else 'same-width'} needs --vary")

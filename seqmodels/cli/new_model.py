"""Write a copy of a chapter, to be changed."""

from __future__ import annotations

import argparse
from pathlib import Path

from seqmodels.cli.arguments import Add
from seqmodels.models import PAPERS
from seqmodels.utils import files
from seqmodels.utils.imports import PACKAGE


def add_arguments(arg: Add) -> None:
    """Add the arguments of the command."""
    arg("file", type=Path, metavar="FILE.py", help="a new file")
    arg("--from", dest="base", choices=[*PAPERS], required=True, metavar="NAME",
        help=f"one of {', '.join(PAPERS)}")  # fmt: skip


def run(args: argparse.Namespace) -> None:
    """Write a copy of a chapter, whose class has another name."""
    if args.file.suffix != ".py" or args.file.exists():
        raise ValueError(f"{args.file}: name a new file, whose name ends in .py")
    module, _, name = PAPERS[args.base].class_path.partition(":")
    text = (PACKAGE / "models" / f"{module.rpartition('.')[2]}.py").read_text("utf-8")
    files.write(args.file, text.replace(f"class {name}(", f"class My{name}("))
    print(f"{args.file} has the class My{name}. Change it, then:")
    print(f"  seqmodels check {args.file}:My{name}")
    print(f"  seqmodels run translation --models {args.file}:My{name} {args.base}")

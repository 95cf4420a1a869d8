"""Write a copy of a chapter, to be changed."""

from __future__ import annotations

import argparse
import keyword
import shlex
import sys
from importlib.util import find_spec
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


def check_name(path: Path) -> None:
    """Raise ValueError unless a path is that of a new file that can be imported by its name."""
    name, folder = path.stem, path.parent
    is_name = name.isidentifier() and not keyword.iskeyword(name) and name[:2] != "__"
    if path.suffix != ".py" or not is_name or path.exists() or not folder.is_dir():
        raise ValueError(
            f"{path}: name a new file that Python can import, in a folder that exists: letters, "
            "digits and _, such as my_model.py"
        )
    if name in sys.stdlib_module_names or ((spec := find_spec(name)) and spec.origin):
        raise ValueError(f"{path} would hide the module {name}; choose another name")


def run(args: argparse.Namespace) -> None:
    """Write a copy of a chapter, whose class has another name."""
    check_name(args.file)
    module, _, name = PAPERS[args.base].class_path.partition(":")
    text = (PACKAGE / "models" / f"{module.rpartition('.')[2]}.py").read_text("utf-8")
    files.write(args.file, text.replace(f"class {name}(", f"class My{name}("))
    print(f"{args.file} has the class My{name}. Change it, then:")
    own = shlex.quote(f"{args.file}:My{name}")
    print(f"  seqmodels check {own}")
    print(f"  seqmodels run translation --models {own} {args.base}")

"""Arguments that several commands share, and what they print."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from shlex import quote

from seqmodels.models import PAPERS, register_file
from seqmodels.utils.imports import SHIPPED
from seqmodels.utils.terminal import argument

Add = Callable[..., argparse.Action]
"""`add_argument` of a command's parser."""
RUN = "such as runs/NAME/bahdanau-seed1, or bahdanau, a small one of the package"


def add_run(arg: Add, help: str = RUN) -> None:
    """Add the trained run that a command uses, and the class of its model."""
    arg("run", metavar="RUN", help=help)
    add_model(arg)


def add_model(arg: Add) -> None:
    """Add the class of a model of the user's own."""
    arg("--model", type=argument(register_file), metavar="FILE.py:CLASS",
        help="the class of a run of your own model; FILE.py is enough if it has one")  # fmt: skip


def add_text(arg: Add, help: str) -> None:
    """Add the text that a command reads; see `read_text`."""
    arg("text", nargs="?", default="-", type=not_a_file,
        help=f"{help}; default: -, standard input; after --, it may begin with a dash")  # fmt: skip


def not_a_file(text: str) -> str:
    """Parse a text that is not the path of a file."""
    if text != "-" and os.path.isfile(text):  # unlike Path.is_file, for a text of any length
        raise argparse.ArgumentTypeError(f"{text} is a file; to read it, give: < {quote(text)}")
    return text


def read_text(text: str) -> Iterator[str]:
    """Yield the lines of a text, or those of standard input, in UTF-8."""
    from seqmodels.data.text import decode_lines

    if text != "-":
        yield from text.split("\n")
        return
    for line in decode_lines(sys.stdin.buffer, "standard input"):
        yield line.removesuffix("\n").removesuffix("\r")


def folder(text: str) -> Path:
    """Parse the path of a folder that can be read."""
    try:
        os.listdir(text)
    except FileNotFoundError:
        home = SHIPPED if text in PAPERS else Path(text).parent
        is_run = text in PAPERS or os.path.isfile(f"{text}.json")
        hint = f", such as {home}, which has the run {text}" if is_run else ""
        raise argparse.ArgumentTypeError(f"{text} does not exist; name a folder{hint}") from None
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text} cannot be read: {error.strerror}") from None
    return Path(text)


def page(text: str) -> Path:
    """Parse the path of a page that can be written."""
    path = Path(text)
    if path.suffix.lower() != ".html" or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: name a FILE.html in a folder that exists")
    return path


def warn_unknown(sources: Iterable[Sequence[int]]) -> None:
    """Warn how many words of sources are unknown to a run."""
    from seqmodels.interface import EOS, UNK

    n = n_words = 0
    for src in sources:
        n += src.count(UNK)
        n_words += len(src) - src.count(EOS)
    if n:
        print(f"{n} of {n_words} words are unknown to this run and read as ⁇", file=sys.stderr)

"""What every command line here shares: numbers that are checked, and errors of one line.

No torch: help and mistakes are answered at once.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and exit with 2."""
        self.exit(2, f"{self.prog}: {message} (--help shows all flags)\n")


def positive(text: str) -> int:
    """Parse a whole number above zero."""
    n = int(text.replace("_", ""))
    if n <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above zero")
    return n


def not_negative(text: str) -> int:
    """Parse a whole number from zero on."""
    if (n := int(text)) < 0:
        raise argparse.ArgumentTypeError(f"{text} is below zero")
    return n


def positive_float(text: str) -> float:
    """Parse a finite number above zero."""
    x = float(text)
    if not 0 < x < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not above zero")
    return x


CLEAR = "\r\x1b[K"
"""Back to the line's start, and rub it out."""


def guard(prog: str, run: Callable[[], None]) -> NoReturn:
    """Run a command; turn what a person can mend into one line and exit code 2 (Ctrl-C: 130)."""
    try:
        run()
    except (ValueError, OSError) as error:
        sys.exit(fail(prog, " ".join(str(error).split()), 2))
    except KeyboardInterrupt:
        sys.exit(fail(prog, "stopped; finished runs are kept, the same command goes on", 130))
    sys.exit(0)


def fail(prog: str, message: str, code: int) -> int:
    """Print one line to stderr, over a progress bar that may stand there; return the code."""
    print(f"{CLEAR if sys.stderr.isatty() else ''}{prog}: {message}", file=sys.stderr)
    return code

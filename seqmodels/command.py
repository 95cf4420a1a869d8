"""What every command line here shares: numbers that are checked, and errors of one line.

No torch: help and mistakes are answered at once.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from seqmodels.files import WriteError


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and exit with 2."""
        self.exit(2, f"{self.prog}: {one_line(message)} (--help shows all flags)\n")


MOST = 2**62
"""Largest whole number that torch takes, and a record."""


def positive(text: str) -> int:
    """Parse a whole number above zero."""
    if (n := not_negative(text)) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not above zero")
    return n


def not_negative(text: str) -> int:
    """Parse a whole number from zero on."""
    if (n := int(text)) < 0:
        raise argparse.ArgumentTypeError(f"{text} is below zero")
    if n > MOST:
        raise argparse.ArgumentTypeError(f"{text} is above {MOST:,}")
    return n


def positive_float(text: str) -> float:
    """Parse a finite number above zero."""
    x = float(text)
    if not 0 < x < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not above zero")
    return x


def rising(text: str) -> list[int]:
    """Parse whole numbers between commas, each above the one before."""
    numbers = [positive(number) for number in text.split(",")]
    if any(second <= first for first, second in pairwise(numbers)):
        raise argparse.ArgumentTypeError(f"{text} does not rise from each number to the next")
    return numbers


def printable(text: str) -> str:
    """Return the text with escapes for what has no glyph: control characters, stray surrogates."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def one_line(text: str) -> str:
    """Return the text on one line that no terminal takes for a command."""
    return printable(" ".join(text.split()))


def out_folder(out: Path) -> Path:
    """Return the folder that --out names, which is there then.

    Raises ValueError if a file is in its place, or if it cannot be made.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file; name a folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--out {out} cannot be made: {error.strerror}") from None
    return out


CLEAR = "\r\x1b[K"
"""Back to the line's start, and rub it out."""


class Stopped(KeyboardInterrupt):
    """A signal asks to stop; `code` is what a shell expects then: 130, or 143 for SIGTERM."""

    def __init__(self, number: int):
        super().__init__(number)
        self.code = 128 + number


SIGNALS = (signal.SIGINT, signal.SIGTERM)


def stop(number: int, _: object) -> NoReturn:
    """Raise Stopped: a signal handler."""
    raise Stopped(number)


@contextmanager
def handled(handler: Callable[[int, Any], Any]) -> Iterator[None]:
    """Have the handler hear the signals that ask to stop, but those that are ignored already."""
    before: dict[signal.Signals, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():  # no other one hears any
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    before[number] = signal.signal(number, handler)
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def leave_quietly() -> None:
    """Have a program that is still being imported end at once, without a traceback."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda heard, _: os._exit(128 + heard))


@contextmanager
def whole() -> Iterator[None]:
    """Let the block end before a signal is heard: a step is taken whole or not at all."""
    heard: list[int] = []
    try:
        with handled(lambda number, _: heard.append(number)):
            yield
    finally:
        if heard:
            signal.raise_signal(heard[0])


def guard(prog: str, run: Callable[[], None]) -> NoReturn:
    """Run a command; turn what a person can mend into one line and an exit code.

    2 for a mistake, 1 for a disk that cannot be written to, 130 for Ctrl-C, 143 for SIGTERM.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal may know fewer letters than a text
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with handled(stop):
            run()
    except WriteError as error:
        sys.exit(fail(prog, error, 1))
    except (ValueError, OSError) as error:
        sys.exit(fail(prog, error, 2))
    except KeyboardInterrupt as stopped:
        code = getattr(stopped, "code", 130)
        sys.exit(fail(prog, "stopped; the same command goes on from where it was", code))
    sys.exit(0)


def say(line: str) -> None:
    """Print one line, over a progress bar that may stand there."""
    print(f"{CLEAR if sys.stdout.isatty() else ''}{line}", flush=True)


def fail(prog: str, why: object, code: int) -> int:
    """Print one line to stderr, over a progress bar that may stand there; return the code."""
    line = one_line(f"{prog}: {why}")
    print(f"{CLEAR if sys.stderr.isatty() else ''}{line}", file=sys.stderr)
    return code

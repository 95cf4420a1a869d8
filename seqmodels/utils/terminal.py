"""Shared by all command lines: checked numbers, one-line errors, exit codes, signals.

No torch, so that help and errors appear at once.
"""

from __future__ import annotations

import argparse
import errno
import io
import json
import logging
import math
import os
import shutil
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from seqmodels.utils.files import WriteError, check_path
from seqmodels.utils.imports import explain_missing

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no warning about a read-only home folder

# -------------------------------------------------------------------------------------- Arguments


class StoreOnce(argparse.Action):
    """The action of a flag with a value: argparse's own keeps only the last one if given twice."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        flag: str | None = None,
    ) -> None:
        """Store the value; a flag that was given before is an error."""
        assert isinstance(parser, Parser)
        if flag and self.dest in parser.given:
            values_too = ", with all its values" * (self.nargs in ("+", "*"))
            raise argparse.ArgumentError(self, f"given twice; give it once{values_too}")
        parser.given.add(self.dest)
        setattr(namespace, self.dest, values)


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """Return " (did you mean …?)" with the most similar of the names; "" if none is similar."""
    by_lower = {each.lower(): each for each in names}
    similar = get_close_matches(str(name)[:100].lower(), by_lower, n=1)
    return f" (did you mean {by_lower[similar[0]]!r}?)" if similar else ""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser without abbreviated or repeated flags, whose errors take one line.

    With `passes_on`, `parse_known_args` returns the flags that it does not know.
    """

    def __init__(self, passes_on: bool = False, **settings: Any):
        super().__init__(**settings | {"allow_abbrev": False})
        self.passes_on = passes_on
        self.given: set[str] = set()
        for name in (None, "store"):
            self.register("action", name, StoreOnce)
        self.register("type", Path, check_path)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the flags, none of which has been given yet."""
        self.given.clear()
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown and not self.passes_on:
            similar = did_you_mean(unknown[0].partition("=")[0], self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{similar}")
        return parsed, unknown

    def _match_arguments_partial(
        self, actions: Sequence[argparse.Action], arg_strings_pattern: str
    ) -> list[int]:
        """Leave an optional text that stands behind flags until they are read (Python < 3.13)."""
        counts = super()._match_arguments_partial(actions, arg_strings_pattern)
        if counts and not counts[-1] and "A" in arg_strings_pattern[sum(counts) :]:
            counts.pop()
        return counts

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Return a text as its action's type; an error of a type of ours says why it is none."""
        if action.type in (int, float):
            return super()._get_value(action, arg_string)
        try:
            return self._registry_get("type", action.type, action.type)(arg_string)
        except (argparse.ArgumentTypeError, ValueError) as error:
            raise argparse.ArgumentError(action, str(error)) from None

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Raise ArgumentError for a value that is not one of the choices."""
        if action.choices is not None and value not in action.choices:
            names = [*map(str, action.choices)]
            similar = did_you_mean(str(value), names)
            raise argparse.ArgumentError(
                action, f"unknown {value!r}{similar}; choose from {', '.join(names)}"
            )

    def error(self, message: str) -> NoReturn:
        """Print the error and exit with 2."""
        sys.exit(print_error(self.prog, f"{message} (--help shows all flags)", 2))


MAX_INT = 2**62
"""Largest whole number that torch and records accept."""


def non_negative(text: str | float, least: int = 0) -> int:
    """Parse a whole number that is not below the least one: 1000000, 1_000_000 or 1e6."""
    with suppress(InvalidOperation):  # raised by a text, and where NaN is compared
        number = Decimal(text)
        if least <= number <= MAX_INT and number == int(number):
            return int(number)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {MAX_INT:,}")


def positive(text: str | float) -> int:
    """Parse a whole number above zero."""
    return non_negative(text, 1)


def positive_float(text: str | float) -> float:
    """Parse a finite number above zero."""
    with suppress(ValueError):
        if 0 < (number := float(text)) < math.inf:
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is not a finite number above zero")


def increasing(text: str) -> list[int]:
    """Parse increasing whole numbers, separated by commas."""
    numbers = [positive(number) for number in text.split(",")]
    if any(second <= first for first, second in pairwise(numbers)):
        raise argparse.ArgumentTypeError(f"{text} does not increase from each number to the next")
    return numbers


# ----------------------------------------------------------------------------------------- Output


def printable(text: str) -> str:
    """Return the text with unprintable characters escaped: control characters, lone surrogates."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def one_line(text: str) -> str:
    """Return the text on one line, with unprintable characters escaped."""
    return printable(" ".join(text.split()))


def print_json(value: object) -> None:
    """Print a value as one line of JSON."""
    print(json.dumps(value, ensure_ascii=False), flush=True)


def print_error(prog: str, message: object, code: int) -> int:
    """Print one line to stderr, over a progress bar if there is one; return the code."""
    if sys.stderr is not None:  # closed
        clear = "\r\x1b[K" if sys.stderr.isatty() else ""
        with suppress(OSError):  # the code says it as well
            print(f"{clear}{one_line(f'{prog}: {message}')}", file=sys.stderr)
    return code


def pad_columns(rows: Sequence[Sequence[str]], is_right: bool = True) -> list[list[str]]:
    """Return the columns of a table, padded; those but the first to the right if `is_right`."""
    columns = []
    for i, column in enumerate(zip(*rows, strict=True)):
        width = max(map(len, column))
        columns.append(
            [text.rjust(width) if is_right and i else text.ljust(width) for text in column]
        )
    return columns


def format_table(rows: Sequence[Sequence[str]], is_right: bool = True) -> list[str]:
    """Return the lines of a table; columns beyond the terminal's width continue in a block below.

    See `pad_columns`.
    """
    names, *columns = pad_columns(rows, is_right)
    blocks, width = [[names]], terminal_width()
    for column in columns:
        if sum(2 + len(each[0]) for each in (*blocks[-1], column)) - 2 > width:
            blocks.append([names])
        blocks[-1].append(column)
    return ["  ".join(line).rstrip() for block in blocks for line in zip(*block, strict=True)]


def terminal_width(most: int = 100) -> int:
    """Return how many characters a line can have: `most`, unless the terminal has fewer."""
    return min(most, shutil.get_terminal_size((most, 24)).columns)


def wrap(text: str) -> str:
    """Return a text broken between words where the terminal ends; one line without a terminal."""
    width = terminal_width(2**16)
    return textwrap.fill(
        text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


# ---------------------------------------------------------------------------------------- Signals


class Stopped(KeyboardInterrupt):
    """A signal asks to stop; `code` is the exit code for it, such as 130 for SIGINT."""

    def __init__(self, number: int):
        super().__init__(number)
        self.code = 128 + number


SIGNALS = tuple(
    number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP")
)
"""The signals that ask to stop; Windows has no SIGHUP."""


def raise_stopped(number: int, _: object) -> NoReturn:
    """Raise Stopped: a signal handler."""
    raise Stopped(number)


@contextmanager
def signals_handled_by(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Install a handler for the signals that ask to stop, except those that are ignored."""
    with ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():  # others receive none
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    stack.callback(signal.signal, number, signal.signal(number, handler))
        yield


@contextmanager
def defer_signals() -> Iterator[None]:
    """Delay signals until the block ends: a step is taken completely or not at all."""
    pending: list[int] = []
    try:
        with signals_handled_by(lambda number, _: pending.append(number)):
            yield
    finally:
        if pending:
            signal.raise_signal(pending[0])


def exit_quietly() -> None:
    """Let a signal end a program that is still being imported without a traceback."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda heard, _: os._exit(128 + heard))


# --------------------------------------------------------------------------------------- Commands

OUT_OF_MEMORY = (
    "out of memory; this process's limit is too low (see ulimit -v), or the machine is full"
)
MEMORY_ERRORS = ("allocate memory", "map segment from shared object", "start new thread",
                 "could not create a primitive", "could not create a memory object")  # fmt: skip
"""Messages of libraries such as oneDNN, in place of a MemoryError, when memory has run out."""


def run_cli(prog: str, run: Callable[[], None]) -> None:
    """Run a command; turn errors that a user can fix into one line, and exit with a code.

    2 for a mistake, 1 if the disk or the output cannot be written to, 130 for Ctrl-C, 143 for
    SIGTERM, 129 for SIGHUP. Success returns: a notebook shows any exit as an error.
    """
    if sys.stderr is None:  # closed
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        sys.exit(print_error(prog, f"standard output is closed; redirect it to {os.devnull}", 2))
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal can lack letters of a text
        sys.stdout.reconfigure(errors="backslashreplace", line_buffering=True)
    try:
        with signals_handled_by(raise_stopped):
            run()
            print(end="", flush=True)
    except KeyboardInterrupt as stopped:
        notes = getattr(stopped, "__notes__", [])
        code = getattr(stopped, "code", 130)
        sys.exit(print_error(prog, "; ".join(["stopped", *notes]), code))
    except BrokenPipeError:  # who read the output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        sys.exit(report_error(prog, error))


def is_memory_error(error: BaseException) -> bool:
    """Return whether this machine's memory ran out."""
    return isinstance(error, MemoryError) or any(text in str(error) for text in MEMORY_ERRORS)


def report_error(prog: str, error: Exception) -> int:
    """Print one line about an error; return the exit code. Errors of our own are raised again."""
    if is_memory_error(error):
        return print_error(prog, OUT_OF_MEMORY, 2)
    if isinstance(error, ModuleNotFoundError) and (missing := explain_missing(error)):
        return print_error(prog, missing, 2)
    if isinstance(error, ValueError | OSError):
        is_output = isinstance(error, OSError) and error.errno == errno.ENOSPC  # of standard output
        return print_error(prog, error, 1 if is_output or isinstance(error, WriteError) else 2)
    raise error

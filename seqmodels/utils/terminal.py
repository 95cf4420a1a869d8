"""What every command line here shares: numbers that are checked, and errors of one line.

No torch: help and mistakes are answered at once.
"""

from __future__ import annotations

import argparse
import errno
import io
import logging
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from seqmodels.utils.files import WriteError

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # a home that is read-only is no news


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that takes no abbreviations, and whose errors are one line."""

    def __init__(self, **settings: Any):
        super().__init__(**settings | {"allow_abbrev": False})

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Print the message to stderr and exit."""
        self._print_message(message or "", sys.stderr)
        sys.exit(settle(self.prog, status))

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help or an error; argparse passes over help that cannot be printed."""
        try:
            if file:
                file.write(message)
        except OSError as error:
            if file is sys.stdout:
                sys.exit(settle(self.prog, unprinted(self.prog, error)))

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
    """Parse a whole number from zero on, however it is written: 1000000, 1_000_000 or 1e6."""
    try:
        n = Decimal(text)
        is_below = n < 0  # not a number is nowhere
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if is_below:
        raise argparse.ArgumentTypeError(f"{text} is below zero")
    if n > MOST:  # also infinity
        raise argparse.ArgumentTypeError(f"{text} is above {MOST:,}")
    if n != int(n):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number")
    return int(n)


def positive_float(text: str) -> float:
    """Parse a finite number above zero."""
    try:
        x = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < x < math.inf:
        why = "is not above zero" if x <= 0 else "is not a finite number"
        raise argparse.ArgumentTypeError(f"{text} {why}")
    return x


def rising(text: str) -> list[int]:
    """Parse whole numbers between commas, each above the one before."""
    numbers = [positive(number) for number in text.split(",")]
    if any(second <= first for first, second in pairwise(numbers)):
        raise argparse.ArgumentTypeError(f"{text} does not rise from each number to the next")
    return numbers


CONTROL = {i: f"\\x{i:02x}" for i in (*range(32), *range(127, 160)) if chr(i) not in "\t\n"}
"""Escapes for what a terminal may take for a command."""


def printable(text: str) -> str:
    """Return the text with escapes for what has no glyph: control characters, stray surrogates."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def one_line(text: str) -> str:
    """Return the text on one line that no terminal takes for a command."""
    return printable(" ".join(text.split()))


def on_screen(text: str) -> str:
    """Return a text that is to be printed as it is, but without commands for a terminal."""
    return text.translate(CONTROL) if sys.stdout.isatty() else text


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
    """A signal asks to stop; `code` is what a shell expects then: 130 for SIGINT."""

    def __init__(self, number: int):
        super().__init__(number)
        self.code = 128 + number


SIGNALS = tuple(
    number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP")
)
"""What asks to stop; Windows has no SIGHUP."""


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
    """Have a program that is still being imported end at once, without a traceback.

    Be it for a signal, or for lack of memory.
    """
    check_limit("seqmodels")
    sys.excepthook = end_in_short
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda heard, _: os._exit(128 + heard))


def end_in_short(kind: Any, error: BaseException, trace: Any) -> None:
    """Say lack of memory in one line, and exit: a hook for what nobody has caught."""
    if not is_memory_short(error):
        sys.__excepthook__(kind, error, trace)
        return
    os._exit(fail("seqmodels", SHORT, 2))


SHORT = "out of memory; this process may take too little (see ulimit -v), or the machine is full"


LEAST_BYTES = 768 * 2**20
"""With less, libraries in C end the process as they are imported, each in its own way."""


def check_limit(prog: str) -> None:
    """Exit with 2 where a limit gives this process too little memory to import what it needs."""
    with suppress(ImportError):  # Windows has no such limits
        import resource

        if 0 <= resource.getrlimit(resource.RLIMIT_AS)[0] < LEAST_BYTES:
            sys.exit(fail(prog, SHORT, 2))


def is_memory_short(error: BaseException) -> bool:
    """Return whether there was no memory left: a MemoryError, or what the system says instead."""
    said = ("allocate memory", "map segment from shared object", "start new thread",
            "could not create a primitive")  # fmt: skip
    return isinstance(error, MemoryError) or any(text in str(error) for text in said)


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

    2 for a mistake, 1 for a disk or an output that cannot be written to, 130 for Ctrl-C, 143 for
    SIGTERM, 129 for SIGHUP.
    """
    if sys.stderr is None:  # closed
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        sys.exit(fail(prog, f"standard output is closed; {os.devnull} takes what is not wanted", 2))
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal may know fewer letters than a text
        sys.stdout.reconfigure(errors="backslashreplace")
    code: Any = 0
    try:
        with handled(stop):
            run()
            sys.stdout.flush()
    except SystemExit as ended:
        code = ended.code
    except KeyboardInterrupt as stopped:
        notes = getattr(stopped, "__notes__", [])
        code = fail(prog, "; ".join(["stopped", *notes]), getattr(stopped, "code", 130))
    except WriteError as error:
        code = fail(prog, error, 1)
    except Exception as error:
        if is_memory_short(error):
            code = fail(prog, SHORT, 2)
        elif isinstance(error, OSError) and error.errno in UNPRINTED and error.filename is None:
            code = unprinted(prog, error)
        elif isinstance(error, ValueError | OSError):
            code = fail(prog, error, 2)
        else:
            raise
    sys.exit(settle(prog, code))


UNPRINTED = (errno.EPIPE, errno.ENOSPC)
"""Without a file's name these are said of standard output: files are written by `files.write`."""


def unprinted(prog: str, error: OSError) -> int:
    """Say why standard output takes no more, unless its reader wants no more; return 1."""
    if error.errno == errno.EPIPE:
        return 1
    return fail(prog, f"standard output could not be written: {error.strerror}", 1)


def settle(prog: str, code: Any) -> Any:
    """Flush what was printed; return the exit code, another one where that cannot be done.

    What a stream does not take goes nowhere, or Python would try again at its end, and complain.
    """
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if stream is sys.stdout and not code:
                code = unprinted(prog, error)
    return code


def say(line: str) -> None:
    """Print one line, over a progress bar that may stand there."""
    print(f"{CLEAR if sys.stdout.isatty() else ''}{on_screen(line)}", flush=True)


def fail(prog: str, why: object, code: int) -> int:
    """Print one line to stderr, over a progress bar that may stand there; return the code."""
    line = one_line(f"{prog}: {why}")
    with suppress(OSError):  # the code says it, too
        print(f"{CLEAR if sys.stderr.isatty() else ''}{line}", file=sys.stderr)
    return code

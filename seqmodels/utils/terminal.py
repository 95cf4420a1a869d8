"""What all command lines share: flags, errors of one sentence, progress, signals. No torch."""

from __future__ import annotations

import argparse
import io
import linecache
import logging
import os
import re
import shutil
import signal
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from functools import partial, wraps
from types import FrameType
from typing import Any, NoReturn, TypeVar

from tqdm import tqdm

from seqmodels.utils.imports import explain_missing
from seqmodels.utils.values import Seed, Size, parse_field

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no warning about a read-only home folder
T = TypeVar("T")

# -------------------------------------------------------------------------------------- Arguments


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """Return " (did you mean …?)" with the most similar of the names; "" if none is similar."""
    by_lower = {each.lower(): each for each in names}
    similar = get_close_matches(str(name)[:100].lower(), by_lower, n=1)
    return f" (did you mean {by_lower[similar[0]]!r}?)" if similar else ""


OTHER_FLAGS = {
    "--lr": "--set lr=R", "--learning-rate": "--set lr=R", "--width": "--set d_model=D",
    "--optimizer": "--set optimizer=NAME", "--parameters": "--set n_parameters=N",
    "--batch-size": "--set batch_tokens=N", "--epochs": "--tokens N", "--seed": "--seeds N",
    "--fp16": "--precision bfloat16", "--bf16": "--precision bfloat16", "--gpu": "--device cuda",
    "--output-dir": "--out DIR", "--resume": "--out DIR: the same command resumes",
}  # fmt: skip
"""Flags of earlier versions and of other tools, and what to give here."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser without abbreviations, whose errors are one sentence."""

    def __init__(self, **settings: Any):
        super().__init__(**settings, allow_abbrev=False)

    def parse(self, words: Sequence[str] | None = None) -> argparse.Namespace:
        """Return the flags of a command line, that of the program by default.

        Raises ValueError for a mistake.
        """
        return super().parse_args(words)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the flags of the command line; exit with 2 for a mistake."""
        try:
            return self.parse(args)
        except ValueError as error:
            sys.exit(print_error(self.prog, f"{error} (--help shows all flags)"))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the flags; one that is unknown is an error of the command that it is given to."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown and getattr(parsed, "text", "") == "-":  # before Python 3.13: it follows a flag
            words = [word for word in args if word not in unknown]
            place = words.index(parsed.run) + 1
            parsed, unknown = super().parse_known_args(words[:place] + unknown + words[place:])
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Raise ValueError with the message, and a name that is similar to an unknown one."""
        if wrong := re.search(r"(?:unrecognized arguments: |invalid choice: ')([^\s'=]+)", message):
            choices = re.findall(r"[\w-]+", message.partition("(choose from ")[2])
            flags = re.findall(r"--[\w-]+", self.format_help())
            new = OTHER_FLAGS.get(wrong[1], "-")
            is_known = new.split()[0] in flags
            if "[text]" in self.format_help() and re.match("-[^-]", wrong[1]):
                new, is_known = "-- before a text that begins with -", True
            message += f" (give {new})" if is_known else did_you_mean(wrong[1], choices or flags)
        raise ValueError(message)


def argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a function that parses an argument, of which argparse prints the ValueError."""

    @wraps(parse)
    def parse_argument(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse_argument


non_negative, positive = (argument(partial(parse_field, "value", hint)) for hint in (Seed, Size))


# ----------------------------------------------------------------------------------------- Output


def printable(text: str) -> str:
    """Return the text with unprintable characters escaped: control characters, lone surrogates."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def one_line(text: str) -> str:
    """Return the text on one line, with unprintable characters escaped."""
    return printable(" ".join(text.split()))


def print_error(prog: str, message: object, code: int = 2) -> int:
    """Print one line to stderr, over a progress bar if there is one; return the code."""
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(f"{clear}{one_line(f'{prog}: {message}')}", file=sys.stderr)
    return code


def pad_columns(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the columns of a table, padded; the first is aligned left, the others right."""
    columns = []
    for i, column in enumerate(zip(*rows, strict=True)):
        width = max(map(len, column))
        columns.append([text.rjust(width) if i else text.ljust(width) for text in column])
    return columns


def format_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table's lines; columns beyond the terminal's width continue in a block below."""
    names, *columns = pad_columns(rows)
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


# --------------------------------------------------------------------------------------- Progress

FORMAT = "{desc} {percentage:3.0f}% |{bar:10}| {remaining} left{postfix}"
LINE = 0
"""The line of this process's bars: each process of a pool has one of its own."""


class ProgressBar:
    """The line of a run: its phase, how far that is, the time left in it, and a note.

    Without a title, or without a terminal, nothing is drawn; messages are printed in any case.
    """

    def __init__(self, title: str = ""):
        self.title, self.phase, self.detail = title, "", ""
        """`detail` is the note of updates without one, such as the name of a test set."""
        self.bar = tqdm(
            desc=title, bar_format=FORMAT, position=LINE, leave=False, dynamic_ncols=True,
            miniters=1, disable=None if title else True,
        )  # fmt: skip

    def update(self, phase: str, done: int, total: int, note: str = "") -> None:
        """Draw how far the run is in a phase, at intervals."""
        if self.bar.disable:
            return
        if phase != self.phase:
            self.phase = phase
            self.bar.reset(total)
            self.bar.n = self.bar.last_print_n = done  # a resumed run does not begin at zero
            self.bar.set_description_str(f"{self.title}: {phase}", refresh=False)
        self.bar.set_postfix_str(note or self.detail, refresh=False)
        self.bar.update(done - self.bar.n)

    def track(self, phase: str, batches: Sequence[list[int]]) -> Iterator[list[int]]:
        """Yield the batches, and draw how many of their examples are done."""
        done, total = 0, sum(map(len, batches))
        for batch in batches:
            self.update(phase, done, total)
            yield batch
            done += len(batch)

    def log(self, text: str) -> None:
        """Print a message of the run above its line."""
        tqdm.write(wrap(f"{self.title}: {text}" if self.title else text))

    def close(self) -> None:
        """Clear the line."""
        self.bar.close()


SILENT = ProgressBar()
"""A bar that is not drawn."""


# ---------------------------------------------------------------------------------------- Signals

SIGNALS = signal.SIGINT, signal.SIGTERM
"""The signals that ask to stop: Ctrl-C, and that of a scheduler."""


def raise_stopped(number: int, _: object) -> NoReturn:
    """Raise KeyboardInterrupt: a signal handler."""
    raise KeyboardInterrupt


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


# --------------------------------------------------------------------------------------- Commands


def is_mistake(error: Exception) -> bool:
    """Return whether an error is a person's: of the system or of their text, or raised by our code.

    A ValueError of Python or of a library, such as that of an empty sequence, is a fault of ours.
    """
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    place = frame.f_globals.get("__package__") or frame.f_globals["__name__"]
    is_ours = re.match(r"(seqmodels|tasks|lesson|tools)\b|.*@", place)  # or theirs: `import_file`
    statement = linecache.getline(frame.f_code.co_filename, line).lstrip()
    is_raised = is_ours is not None and statement.startswith("raise ")
    return is_raised or isinstance(error, OSError | UnicodeError)


def run_cli(prog: str, run: Callable[[], None]) -> None:
    """Run a command; exit with 2 after one line for a person's mistake, with 130 if it is stopped.

    A fault of ours is raised; its traceback is what a report of it needs.
    Success returns: a notebook shows any exit as an error.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal can lack letters of a text
        sys.stdout.reconfigure(errors="backslashreplace", line_buffering=True)
    try:
        with signals_handled_by(raise_stopped):
            run()
            print(end="", flush=True)
    except KeyboardInterrupt as stopped:
        notes = getattr(stopped, "__notes__", [])
        sys.exit(print_error(prog, "; ".join(["stopped", *notes]), 130))
    except BrokenPipeError:  # what read the output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except MemoryError:
        sys.exit(print_error(prog, "out of memory"))
    except (ValueError, OSError) as error:
        if not is_mistake(error):
            raise
        sys.exit(print_error(prog, error))
    except ModuleNotFoundError as error:
        if (sentence := explain_missing(error)) is None:
            raise
        sys.exit(print_error(prog, sentence))

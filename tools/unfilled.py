"""List the numbers of pages with their place: those that records fill in, and those typed by hand.

    python -m tools.unfilled README.md docs/*.md tasks/*/README.md

Filled in are those that a block of cog prints. Of the others, only those are listed that could have
been measured: beside a unit, such as 24 BLEU, 3 % or 10 minutes, and outside code, links and
tables of settings.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

UNITS = r"%|BLEU|points|nats|bits|seconds?|minutes?|hours?|tokens/s|MB|GB|ms|×|times"
MEASURED = re.compile(rf"(?<![\w.–])\d[\d.,–]*(?: to \d[\d.,]*)?\s(?:M\s)?(?:{UNITS})(?!\w)")
CODE = re.compile(r"`[^`]*`|\]\([^)]*\)")
BLOCK, OUTPUT, END = "<!-- [[[cog", "]]] -->", "<!-- [[[end]]] -->"


class Number(NamedTuple):
    """A number in a page."""

    line: int
    text: str
    is_filled: bool


def find_numbers(text: str) -> Iterator[Number]:
    """Yield the numbers with a unit, in their order."""
    place, is_fenced = "prose", False
    for i, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            is_fenced = not is_fenced
        elif line.startswith(BLOCK):
            place = "output" if line.endswith(OUTPUT) else "program"
        elif line.startswith(OUTPUT):
            place = "output"
        elif line.startswith(END):
            place = "prose"
        elif place != "program" and not is_fenced:
            for found in MEASURED.findall(CODE.sub("", line)):
                yield Number(i, found, place == "output")


def main() -> None:
    """List the numbers typed by hand, and count the others."""
    for name in sys.argv[1:]:
        numbers = [*find_numbers(Path(name).read_text(encoding="utf-8"))]
        by_hand = [number for number in numbers if not number.is_filled]
        print(f"{name}: {len(numbers) - len(by_hand)} filled in, {len(by_hand)} by hand")
        for number in by_hand:
            print(f"  {name}:{number.line}: {number.text}")


if __name__ == "__main__":
    main()

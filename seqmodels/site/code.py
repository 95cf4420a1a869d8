"""Colour Python code, and mark what changed in a line."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby

from markupsafe import Markup, escape
from pygments import token
from pygments.lexers import PythonLexer

CLASSES = {
    token.Keyword: "k", token.String: "s", token.Number: "n", token.Comment: "c",
    token.Name.Builtin: "b", token.Name.Function: "d", token.Name.Class: "d",
}  # fmt: skip
"""Class in the page by kind of token."""


@cache
def tokens(text: str) -> list[tuple[str, str]]:
    """Return the tokens of a line with their classes; those without are plain."""
    found = PythonLexer(stripnl=False, ensurenl=False).get_tokens(text)
    return [(next((c for k, c in CLASSES.items() if kind in k), ""), part) for kind, part in found]


def coloured(text: str, marks: Sequence[bool] = (), mark: str = "") -> Markup:
    """Return a line of code; its characters with a True in `marks` stand in elements `mark`."""
    made, at = [], 0
    for name, part in tokens(text):
        flags = [bool(marks) and marks[at + i] for i in range(len(part))]
        for is_marked, group in groupby(zip(flags, part, strict=True), key=lambda pair: pair[0]):
            shown = escape("".join(char for _, char in group))
            shown = Markup(f'<span class="{name}">{shown}</span>') if name else shown
            made.append(Markup(f"<{mark}>{shown}</{mark}>") if is_marked else shown)
        at += len(part)
    return Markup("").join(made)

"""What all pages share: templates, coloured code, prose, tables to download, colours by night."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape
from pygments import token
from pygments.lexers import PythonLexer

from seqmodels.site import figure

CODE_CLASSES = {
    token.Keyword: "k", token.String: "s", token.Number: "n", token.Comment: "c",
    token.Name.Builtin: "b", token.Name.Function: "d", token.Name.Class: "d",
}  # fmt: skip
"""Class in the page by kind of token."""


def render(template: str, **context: Any) -> str:
    """Return a page; code has a line to itself, and figures get their colours by night."""
    text = re.sub(r"\n\s*", "\n", environment().get_template(template).render(context))
    return text.replace("/*night*/", figure.night(text))


@cache
def environment() -> jinja2.Environment:
    """Return the templates, which escape everything that they are given."""
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("seqmodels.site"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    env.globals |= {"chapters": (), "sheet": None, "has_live": False}
    env.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    env.filters |= {"prose": prose, "coloured": highlight, "download": csv_address}
    return env


def csv_address(table: Sequence[Sequence[Any]]) -> str:
    """Return the address of a table as a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table)
    return "data:text/csv;charset=utf-8," + quote(text.getvalue(), safe=" ,:;/?@!$()*+-._~=[]|")


def prose(text: str) -> Markup:
    """Return a text with its code, emphasis and addresses of papers as elements."""
    shown = str(escape(" ".join(text.split())))
    shown = re.sub(r"`([^`]+)`", r"<code>\1</code>", shown)
    shown = re.sub(r"\*(\w[^*]*\w)\*", r"<em>\1</em>", shown)
    link = r'<a href="https://arxiv.org/abs/\1">arXiv:\1\2</a>'
    return Markup(re.sub(r"arXiv:(\d{4}\.\d{4,5})(v\d)?", link, shown))


@cache
def code_tokens(line: str) -> list[tuple[str, str]]:
    """Return the tokens of a line of Python with their classes in the page, "" for plain ones."""
    tokens = PythonLexer(stripnl=False, ensurenl=False).get_tokens(line)
    return [(next((c for k, c in CODE_CLASSES.items() if kind in k), ""), t) for kind, t in tokens]


def highlight(line: str, marks: Sequence[bool] = (), mark: str = "") -> Markup:
    """Return a line of Python; characters with a True in `marks` are in elements `mark`."""
    flags, html = iter(marks or [False] * len(line)), Markup()
    for name, part in code_tokens(line):
        for is_marked, group in groupby(zip(part, flags, strict=False), key=lambda pair: pair[1]):
            shown: Markup = escape("".join(char for char, _ in group))
            shown = Markup(f'<span class="{name}">{shown}</span>') if name else shown
            html += Markup(f"<{mark}>{shown}</{mark}>") if is_marked else shown
    return html

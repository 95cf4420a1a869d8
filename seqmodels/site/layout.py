"""What all pages share: templates, coloured code, prose, tables to download."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape
from pygments import token
from pygments.lexers import PythonLexer

CODE_CLASSES = {
    token.Keyword: "k", token.String: "s", token.Number: "n", token.Comment: "c",
    token.Name.Builtin: "b", token.Name.Function: "d", token.Name.Class: "d",
}  # fmt: skip
"""Class in the page by kind of token."""
LEXER = PythonLexer(stripnl=False, ensurenl=False)


def render(template: str, **context: Any) -> str:
    """Return a page, whose lines are not indented; code has a line to itself."""
    return re.sub(r"\n\s*", "\n", TEMPLATES.get_template(template).render(context))


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


def highlight(line: str, marks: Sequence[bool] = (), mark: str = "") -> Markup:
    """Return a line of Python; characters with a True in `marks` are in elements `mark`."""
    flags, html = iter(marks or [False] * len(line)), Markup()
    for kind, part in LEXER.get_tokens(line):
        name = next((name for known, name in CODE_CLASSES.items() if kind in known), "")
        for is_marked, group in groupby(zip(part, flags, strict=False), key=lambda pair: pair[1]):
            shown: Markup = escape("".join(char for char, _ in group))
            shown = Markup(f'<span class="{name}">{shown}</span>') if name else shown
            html += Markup(f"<{mark}>{shown}</{mark}>") if is_marked else shown
    return html


TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("seqmodels.site"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
)
TEMPLATES.globals |= {"chapters": (), "has_live": False}
TEMPLATES.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
TEMPLATES.filters |= {"prose": prose, "coloured": highlight, "download": csv_address}

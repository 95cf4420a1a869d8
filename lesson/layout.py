"""Render the templates of all pages; filters for code and prose."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence, Set
from functools import cache
from html import unescape
from importlib.metadata import PackageNotFoundError, metadata
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape
from pygments import token
from pygments.lexers import PythonLexer

from lesson.source import typeset

FOLDER = Path(__file__).parent / "templates"
CODE_CLASSES = {
    token.Keyword: "k", token.String: "s", token.Number: "n", token.Comment: "c",
    token.Name.Builtin: "b", token.Name.Function: "d", token.Name.Class: "d",
}  # fmt: skip
"""CSS class by kind of token."""
SYMBOL = re.compile(
    r"<code>.*?</code>|(?<![\w.])(?:alpha|[A-Za-zαβγΔ])(?:&#39;)?"
    r"(?:_(?:\{[^}]+\}|[a-z0-9]{1,2})|&lt;[\w-]+&gt;)(?![a-z0-9_])"
)
"""A symbol with an index in escaped prose, such as h_j, alpha_ij and h<t>; or code, which stays."""
GREEK = {"alpha": r"{\alpha}"}
GREEK |= {letter: rf"{{\{name}}}" for letter, name in zip(
    "αβγφωΔ", ("alpha", "beta", "gamma", "phi", "omega", "Delta"), strict=True
)}  # fmt: skip
MAX_UNBROKEN = 40
"""Characters of a line of code from which it may also be broken before a dot."""
LEFT_OUT = re.compile(r"^import .*\n|^export |^ *//.*\n|/\*\*(?:.|\n)*?\*/ ?", re.M)
"""What pages leave out of a module of JavaScript: comments, and what makes it a module."""
LEXER = PythonLexer(stripnl=False, ensurenl=False)


def render(template: str, /, **context: Any) -> str:
    """Return a page without indentation, with the CSS that it uses."""
    page = re.sub(r"\n\s*", "\n", TEMPLATES.get_template(template).render(context))
    used = {*re.findall(r"[\w-]+", page)}
    return page.replace("<style></style>", f"<style>{select_rules(used)}</style>", 1)


def select_rules(used: Set[str]) -> str:
    """Return the rules of style.css of which a selector has only classes and ids that are used."""

    def keep(rule: re.Match[str]) -> str:
        selectors = re.sub(r":(is|not)\([^()]*\)", "", rule[1]).split(",")
        needed = ({*re.findall(r"[.#]([a-z][\w-]*)", selector)} for selector in selectors)
        return rule[0].strip() if any(names <= used for names in needed) else ""

    css = re.sub(r"/\*.*?\*/", "", (FOLDER / "style.css").read_text(encoding="utf-8"))
    css = re.sub(r"([^{};]*)\{[^{}]*\}", keep, css)
    css = re.sub(r"@[^{}]*\{\s*\}|\s*\n\s*", "", css)
    return re.sub(r" *([{};,]) *|(?<=:) ", r"\1", css)


def checksum(name: str) -> str:
    """Return the checksum of a script in the form that a page's policy takes."""
    digest = hashlib.sha256(script(name).encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def read_about() -> dict[str, str]:
    """Return the licence and the address of the repository, empty where they are not known."""
    try:
        fields = metadata("seqmodels")
    except PackageNotFoundError:  # run from a folder, without being installed
        return {"licence": "", "repository": ""}
    urls = (entry.partition(", ") for entry in fields.get_all("Project-URL") or ())
    repository = next((url for name, _, url in urls if name.lower() == "repository"), "")
    licence = (fields.get_all("License-Expression") or [""])[0]
    return {"licence": licence, "repository": repository}


def format_symbol(text: str) -> Markup:
    """Typeset symbols that are written as in docstrings, such as h<t>, alpha_ij."""
    tex = re.sub(r"<([\w-]+)>", r"_{{\\langle}\1{\\rangle}}", text)
    tex = re.sub(r"_(\w+)", r"_{\1}", tex)
    tex = re.sub("|".join(GREEK), lambda match: GREEK[match[0]], tex)
    return typeset(tex.replace(" ", r"\ "))


def format_prose(text: str) -> Markup:
    """Convert `code`, *emphasis*, symbols, links and arXiv numbers in a text to elements."""
    html = str(escape(" ".join(text.split())))
    html = re.sub(r"`([^`]+)`", r"<code>\1</code>", html)
    html = re.sub(r"\*(\w[^*]*[^\s*])\*", r"<em>\1</em>", html)
    html = SYMBOL.sub(
        lambda m: m[0] if m[0].startswith("<code>") else format_symbol(unescape(m[0])), html
    )
    address = r"(?:https?://|[\w-]+\.html#)[^)\s]+"
    html = re.sub(rf"\[([^\]]+)\]\(({address})\)", r'<a href="\2">\1</a>', html)
    link = r'<a href="https://arxiv.org/abs/\1">arXiv:\1\2</a>'
    return Markup(re.sub(r"arXiv:(\d{4}\.\d{4,5})(v\d)?", link, html))


def script(name: str) -> Markup:
    """Return a script and the modules that it imports as one script, without indentation.

    Browsers load no module from a disk. An import takes one line, and no two modules declare a
    name twice at the top level.
    """
    modules: dict[str, str] = {}

    def add(name: str) -> None:
        text = (FOLDER / name).read_text(encoding="utf-8")
        for imported in re.findall(r'^import .* from "\./(.*)";$', text, re.M):
            if imported not in modules:
                add(imported)
        modules[name] = LEFT_OUT.sub("", text)

    add(name)
    return Markup(re.sub(r"\n\s*", "\n", '"use strict";\n' + "".join(modules.values())))


def slug(term: str) -> str:
    """Return the id of a term."""
    return re.sub(r"\W+", "-", term.lower())


@cache
def classes_of(line: str) -> list[str]:
    """Return the CSS class of each character of a line of Python."""
    return [
        next((name for group, name in CODE_CLASSES.items() if kind in group), "")
        for kind, text in LEXER.get_tokens(line)
        for _ in text
    ]


def highlight(line: str, marks: Sequence[bool] = (), mark: str = "") -> Markup:
    """Highlight a line of Python; wrap characters whose mark is True in elements named `mark`."""
    chars, html = zip(line, classes_of(line), marks or [False] * len(line), strict=False), ""
    for (name, is_marked), own in groupby(chars, key=itemgetter(1, 2)):
        part = str(escape("".join(char for char, *_ in own))).replace("&#34;", '"')
        if len(line) > MAX_UNBROKEN and not name:
            part = re.sub(r"(?<!\.)\.", "<wbr>.", part)
        part = f"<i class={name}>{part}</i>" if name else part
        html += f"<{mark}>{part}</{mark}>" if is_marked else part
    return Markup(html)


TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader([FOLDER, FOLDER.parent / "text"]),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
)
TEMPLATES.globals |= {"chapters": (), "has_live": False, "muted": None}
TEMPLATES.globals |= {"script": script, "about": read_about()}
TEMPLATES.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
TEMPLATES.filters |= {"prose": format_prose, "symbol": format_symbol, "coloured": highlight}
TEMPLATES.filters |= {"checksum": checksum, "slug": slug}
TEMPLATES.filters["base64"] = lambda content: base64.b64encode(content).decode()

"""Link the terms of the field in a page to what they mean: at its first use, each opens a note."""

from __future__ import annotations

import re
import tomllib

from markupsafe import Markup

from lesson.layout import format_prose, slug
from lesson.source import TEXT

GLOSSARY: dict[str, dict[str, str]] = tomllib.loads(
    (TEXT / "glossary.toml").read_text(encoding="utf-8")
)
"""Terms and what they mean, those of the `field` and those of the `project`."""
FORMS = {term: GLOSSARY["forms"].get(term, rf"{re.escape(term)}s?") for term in GLOSSARY["field"]}
"""A regular expression for each term of the field, in the order of the glossary."""
USE = re.compile(rf"(?i)\b(?:{'|'.join(f'({form})' for form in FORMS.values())})\b")
PROSE, SKIPPED = (
    {"p", "li"},
    {"a", "button", "code", "figure", "form", "math", "mark", "svg", "table"},
)
"""Elements in which terms are linked, and elements inside them in which they are not."""


def link_terms(page: str) -> str:
    """Make the first use of each term in the prose of a page a button that opens its meaning."""
    before, start, rest = page.partition("<main")
    main, end, after = rest.partition("</main>")
    terms, used, open_ = [*FORMS], list[str](), list[str]()

    def link(match: re.Match[str]) -> str:
        term = terms[(match.lastindex or 1) - 1]
        if term in used:
            return match[0]
        used.append(term)
        return f'<button class="term" popovertarget="term-{slug(term)}">{match[0]}</button>'

    parts = []
    for part in re.split(r"(<[^>]*>)", main):
        if tag := re.match(r"<(/?)(\w+)", part):
            if tag[1] and tag[2] in open_:
                open_.remove(tag[2])
            elif not tag[1] and tag[2] in PROSE | SKIPPED:
                open_.append(tag[2])
        elif PROSE & {*open_} and not SKIPPED & {*open_}:
            part = USE.sub(link, part)
        parts.append(part)
    notes = (describe(term) for term in used)
    return "".join([before, start, *parts, *notes, end, after])


def describe(term: str) -> Markup:
    """Return the note on a term."""
    return Markup(
        '<div popover class="definition" id="term-{0}"><dfn>{1}</dfn>: {2}. '
        '<a href="glossary.html#{0}">Glossary</a></div>\n'
    ).format(slug(term), term, format_prose(GLOSSARY["field"][term]))

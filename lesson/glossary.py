"""Link the terms of the field in a page to what they mean: at its first use, each opens a note."""

from __future__ import annotations

import re

from markupsafe import Markup

from lesson.layout import format_prose, slug
from lesson.source import read_toml

GLOSSARY: dict[str, dict[str, str]] = read_toml("glossary")
"""Terms and what they mean, those of the `field` and those of the `project`."""
FORMS = {term: GLOSSARY["forms"].get(term, rf"{re.escape(term)}s?") for term in GLOSSARY["field"]}
"""A regular expression for each term of the field, in the order of the glossary."""
COMMON = GLOSSARY["common"]["terms"].split()
"""Terms that mean something else in everyday language: only where a text marks them by `<dfn>`."""
USE = re.compile(rf"(?i)\b(?:{'|'.join(f'({form})' for form in FORMS.values())})\b")
PROSE = {"p", "li"}
"""Elements in which terms are linked."""
SKIPPED = re.compile(
    r"<(?:a|blockquote|button|code|figure|form|math|mark|svg|table)\b"
    r'|<[^>]*(?: lang=| class="written"| aria-labelledby="paper")'
)
"""Tags of elements in which they are not: examples, titles of papers, and what is no prose."""
NOTE = Markup(
    '<div popover class="definition" id="term-{0}"><dfn>{1}</dfn>: {2}. '
    '<a href="glossary.html#{0}">Glossary</a></div>\n'
)


def link_terms(page: str) -> str:
    """Make the first use of each term in the prose of a page a button that opens its meaning."""
    before, start, rest = page.partition("<main")
    main, end, after = rest.partition("</main>")
    terms, used = [*FORMS], list[str]()
    prose, skipped, is_marked = list[str](), list[str](), False

    def link(match: re.Match[str]) -> str:
        term = terms[(match.lastindex or 1) - 1]
        if term in used or (term in COMMON and not is_marked):
            return match[0]
        used.append(term)
        return f'<button class="term" popovertarget="term-{slug(term)}">{match[0]}</button>'

    parts = []
    for part in re.split(r"(<[^>]*>)", main):
        if not (tag := re.match(r"<(/?)(\w+)", part)):
            parts.append(USE.sub(link, part) if prose and not skipped else part)
            continue
        is_end, name = tag[1] == "/", tag[2]
        if name == "dfn":
            is_marked = not is_end
            continue
        parts.append(part)
        open_ = skipped if name in skipped or SKIPPED.match(part) else prose
        if is_end and name in open_:
            open_.remove(name)
        elif not is_end and (open_ is skipped or name in PROSE):
            open_.append(name)
    notes = (NOTE.format(slug(term), term, format_prose(GLOSSARY["field"][term])) for term in used)
    return "".join([before, start, *parts, *notes, end, after])

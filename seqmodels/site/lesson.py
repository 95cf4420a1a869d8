"""Build the lesson: a page per chapter, a page per pair of chapters, and what was measured.

The pages are made from the model files and from records. Each opens by itself, without a network
and without JavaScript.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from seqmodels.models import PAPERS
from seqmodels.site import charts, figure, pair, report, source
from seqmodels.site.charts import Runs
from seqmodels.site.code import coloured
from seqmodels.site.equations import Sheet, equations_of
from seqmodels.site.source import Chapter, Line, Unit
from seqmodels.utils import files

QUESTIONS = {
    "Why did translation fail on long sentences before attention?": "rnn_encdec-bahdanau",
    "What does attention compute, number by number?": "attention",
    "Why did recurrence go?": "lstm_seq2seq-transformer",
    "How does a decoder alone translate?": "transformer-gpt",
    "What does a memory of fixed size cost?": "gpt-linear_attention",
}
"""What a reader may come with, and the page that answers it."""


@dataclass(frozen=True)
class Segment:
    """Lines of code, with what stands beside them."""

    name: str
    note: str
    equations: tuple[str, ...]
    lines: tuple[Line, ...]


def build(out: Path, runs: Path, live: Path | None = None) -> list[Path]:
    """Write the site to a folder; return its pages, the first one first.

    With `live`, a folder of runs, its models run in a further page, which takes a program from npm.
    Raises ValueError if there are no records in `runs`, or no weights in `live`.
    """
    known = Runs(runs)
    environment().globals["has_live"] = live is not None
    chapters = source.chapters()
    pages = {"index": partial(home, chapters, known)}
    for chapter in chapters:
        pages[chapter.name] = partial(chapter_page, chapter, chapters, known)
    for old, new in combinations(chapters, 2):
        pages[f"{old.name}-{new.name}"] = partial(pair_page, old, new, chapters, known)
    pages["attention"] = partial(attention_page, chapters)
    pages["results"] = partial(results_page, chapters, known)
    pages["sources"] = partial(sources_page, chapters, known)
    if live:
        from seqmodels.site import live as page  # imports torch and onnx

        pages["live"] = partial(page.page, live, home="index.html")
    return [files.write(out / f"{name}.html", make()) for name, make in pages.items()]


@cache
def environment() -> jinja2.Environment:
    """Return the templates of the lesson, which share those of reports."""
    env = report.environment()
    env.filters |= {"prose": prose, "coloured": coloured}
    return env


def rendered(template: str, chapters: Sequence[Chapter], **about: Any) -> str:
    """Return a page; what its figures and equations share is added."""
    sheet = Sheet()
    text = (
        environment()
        .get_template(template)
        .render(chapters=chapters, typeset=sheet.typeset, glyphs=sheet.defs, **about)
    )
    text = re.sub(r"\n\s*", "\n", text)  # code has a line to itself
    return text.replace("/*night*/", figure.night(text))


# --------------------------------------------------------------------------------------- Pages


def home(chapters: Sequence[Chapter], runs: Runs) -> str:
    """Return the first page: the main finding, the papers in their order, questions."""
    first = runs.with_models(*(m for m, paper in PAPERS.items() if paper.group == "five")) or next(
        iter(runs.files)
    )
    named = [r for r in runs.records(first) if r["model"] in (c.name for c in chapters)]
    chart = charts.chart(named or runs.records(first), first, charts.score)
    return rendered("home.html", chapters, chart=chart, questions=QUESTIONS, here="index")


def chapter_page(chapter: Chapter, chapters: Sequence[Chapter], runs: Runs) -> str:
    """Return the page of a chapter: its text, and its code beside prose and equations."""
    order = [c.name for c in chapters]
    at = order.index(chapter.name)
    about = {
        "chapter": chapter,
        "chart": runs.of_chapter(chapter.name),
        "symbols": symbols(chapter.parts["Symbols"]),
        "differs": numbered(chapter.parts["Differs"]),
        "sections": sections(chapter),
        "before": chapters[at - 1] if at else None,
        "after": chapters[at + 1] if at + 1 < len(order) else None,
    }
    return rendered("chapter.html", chapters, **about, here=chapter.name)


def pair_page(old: Chapter, new: Chapter, chapters: Sequence[Chapter], runs: Runs) -> str:
    """Return the page of two chapters: what was measured, and all code side by side."""
    both = (old.name, new.name)
    is_next = both in pairwise(c.name for c in chapters)
    folder = runs.with_models(*both) if is_next else None
    records = [r for r in runs.records(folder) if r["model"] in both] if folder else []
    chart = charts.chart(records, folder or "", charts.score) if folder else None
    about = {
        "old": old, "new": new, "chart": chart, "is_next": is_next,
        "blocks": pair.blocks(old, new),
        "equations": {
            (c.name, unit.name): equations_of(c, unit) for c in (old, new) for unit in c.units
        },
    }  # fmt: skip
    return rendered("pair.html", chapters, **about, here="-".join(both))


def attention_page(chapters: Sequence[Chapter]) -> str:
    """Return the page on attention, step by step; its numbers are computed now."""
    from seqmodels.site import attention  # imports torch

    steps = [
        (rung, inspect.getdoc(rung.function), code_of(rung.function)) for rung in attention.rungs()
    ]
    about = {"steps": steps, "words": attention.WORDS.tolist(), "n_heads": attention.N_HEADS}
    about |= {"parameters": attention.parameters()}
    return rendered("attention.html", chapters, **about, here="attention")


def results_page(chapters: Sequence[Chapter], runs: Runs) -> str:
    """Return the page with a figure of every comparison."""
    return rendered("results.html", chapters, charts=runs.comparisons(), here="results")


def sources_page(chapters: Sequence[Chapter], runs: Runs) -> str:
    """Return the page that names every file behind the site, with its checksum."""
    package = Path(__file__).parents[1]
    texts = [package / "site" / "attention.py", *sorted((package / "site" / "text").iterdir())]
    groups = {"seqmodels": [(c.path, c.path.relative_to(package)) for c in chapters]}
    groups["seqmodels"] += [(path, path.relative_to(package)) for path in texts]
    for folder, found in runs.files.items():
        groups[folder] = [(runs.paths[folder] / name, Path(name)) for name in found]
    sums = {
        group: [(name, hashlib.sha256(path.read_bytes()).hexdigest()) for path, name in its]
        for group, its in groups.items()
    }
    return rendered("sources.html", chapters, groups=sums, here="sources")


# --------------------------------------------------------------------------------- Their parts


def sections(chapter: Chapter) -> list[tuple[str, list[list[Segment]]]]:
    """Return a chapter's sections: of each unit, its segments."""
    found: dict[str, list[list[Segment]]] = {}
    for unit in chapter.units:
        found.setdefault(unit.section, []).append(list(segments(chapter, unit)))
    return list(found.items())


def segments(chapter: Chapter, unit: Unit) -> Iterator[Segment]:
    """Yield the lines of a unit; one that computes an equation ends its segment."""
    equations = equations_of(chapter, unit)
    name, note, lines = unit.name, unit.note, list[Line]()
    for line in unit.lines:
        if line.note and lines:
            yield Segment(name, note, (), tuple(lines))
            name, note, lines = "", "", []
        lines.append(line)
        if line.tag or line.note:
            yield Segment(
                name, line.note or note, tuple(equations.get(line.number, ())), tuple(lines)
            )
            name, note, lines = "", "", []
    if lines:
        yield Segment(name, note, (), tuple(lines))


def symbols(text: str) -> list[list[tuple[str, int]]]:
    """Return the rows of a table of symbols: cells, and how many columns each one spans."""
    lines = textwrap.dedent(text).splitlines()
    starts = [match.start() for match in re.finditer(r"\S+", lines[0])]
    rows = []
    for line in lines:
        found = [(m.start(), m[0]) for m in re.finditer(r"\S+(?: \S+)*", line)]
        columns = [max(i for i, at in enumerate(starts) if at <= start) for start, _ in found]
        ends = [*columns[1:], len(starts)]
        rows.append([(cell, b - a) for (_, cell), a, b in zip(found, columns, ends, strict=True)])
    return rows


def numbered(text: str) -> list[str]:
    """Return the items of a numbered list."""
    return [
        " ".join(item.split())
        for item in re.split(r"^\d+\. ", textwrap.dedent(text), flags=re.M)[1:]
    ]


def code_of(function: Any) -> list[str]:
    """Return the lines of a function without its docstring."""
    return [line.text for line in source.lines_of(inspect.getsource(function)).values()]


def prose(text: str) -> Markup:
    """Return a text with its code, emphasis and addresses of papers as elements."""
    shown = str(escape(" ".join(text.split())))
    shown = re.sub(r"`([^`]+)`", r"<code>\1</code>", shown)
    shown = re.sub(r"\*(\w[^*]*\w)\*", r"<em>\1</em>", shown)
    link = r'<a href="https://arxiv.org/abs/\1">arXiv:\1\2</a>'
    return Markup(re.sub(r"arXiv:(\d{4}\.\d{4,5})(v\d)?", link, shown))

"""Build the site: chapters, pairs of chapters, essays, results, and models that run.

Chapters and pairs are made from the model files, figures are those of `results`. Each page opens by
itself, without a network and, but for the models that run, without JavaScript.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from lesson import essays, layout, pair, report, source
from lesson.source import Chapter, Line, Unit, convert_equations, read_toml
from seqmodels.utils import files
from seqmodels.utils.imports import HOME

RESULTS = HOME / "results"
LIVE = RESULTS / "translation-live"
"""The folder with the weights of which chapters show values, and the opening picture numbers."""
TIMELINE: dict[str, str] = read_toml("timeline")
"""Contributions of the papers, by chapter."""
TERMS: dict[str, str] = read_toml("terms")
"""Notes on the terms of the home page and of the measurements."""
FIGURES: dict[str, Any] = read_toml("figures")
"""The figure of each chapter, and the groups of figures on the page of results."""
ESSAYS = {
    "long-sentences": "Why are long sentences lost?",
    "attention": "What does attention compute, number by number?",
    "one-head": "What does one head of attention do?",
    "after-2017": "What came after 2017?",
    "symptoms": "What do you see? Mistakes by their symptoms",
}
"""The title of each essay, by its page."""
SCRIPTS = {
    "long-sentences": "opening.js", "attention": "numbers.js", "after-2017": "cups.js",
    "symptoms": "symptoms.js",
}  # fmt: skip
LONG = re.compile(rb"(\.\d\d)\d+")
MIN_WORDS = 7
"""Least words of the sentence for which a chapter shows what its lines compute."""


class Site:
    """The site that is being written: what all pages know, and the pages so far."""

    def __init__(self, out: Path, **shared: Any):
        self.out, self.chapters, self.pages = out, source.read_chapters(), list[Path]()
        pairs = {f"{a.name}-{b.name}": (a, b) for a, b in pairwise(self.chapters)}
        self.shared = {"chapters": self.chapters, "essays": ESSAYS, "pairs": pairs} | shared
        self.shared["meanings"] = TERMS
        self.shared["figure"] = self.copy_figure

    def write(self, page: str, template: str = "", /, **content: Any) -> None:
        """Write a page from its template, by default the one of its name."""
        shared = {"here": page, "page_script": SCRIPTS.get(page, "")} | self.shared
        text = layout.render(f"{template or page}.html", **(shared | content))
        self.pages.append(files.write(self.out / f"{page}.html", text))

    def copy_figure(self, name: str, kind: str = "svg") -> str:
        """Copy a figure of `results` beside the pages; return its address, empty without it.

        Paths are rounded to hundredths of a pixel.
        """
        path = RESULTS / f"{name}.{kind}"
        if not path.exists():
            return ""
        copy = self.out / "figures" / f"{name.replace('/', '-')}.{kind}"
        if not copy.exists():
            content = path.read_bytes()
            if kind == "svg":
                content = re.sub(rb' d="[^"]*"', lambda d: LONG.sub(rb"\1", d[0]), content)
            files.write(copy, content)
        return f"figures/{copy.name}"


def build(
    out: Path, live: Path | None = None, is_single: bool = False, has_training: bool = False
) -> list[Path]:
    """Write the site to a folder; return the paths of its pages, the home page first.

    `live` is a folder of runs whose models run in a further page, built with packages from npm:
    from files beside it, or in it if `is_single`. With `has_training`, a further page trains three
    models. Raises ValueError if there are no weights in `live`.
    """
    files.claim_folder(out, "lesson")
    shutil.rmtree(out / "figures", ignore_errors=True)  # those of an earlier build
    (out / "figures").mkdir()
    site = Site(out, has_live=live is not None, has_training=has_training)
    content: dict[str, Any] = {}
    if live:
        from lesson.live import describe  # imports torch and onnx

        content = describe(live, None if is_single else out)
        site.shared["muted"] = content["muted"]
    site.write("index", timeline=TIMELINE)
    for before, c, after in zip(
        [None, *site.chapters], site.chapters, [*site.chapters[1:], None], strict=False
    ):
        write_chapter(site, c, before, after)
    for name, (old, new) in site.shared["pairs"].items():
        write_pair(site, name, old, new)
    for page in ESSAYS:
        site.write(page, title=ESSAYS[page], **essays.describe(page, RESULTS))
    site.write("results", groups=FIGURES["group"])
    if live:
        site.write("live", **content)
    if has_training:
        from lesson import training_page

        addresses = content["data"]["files"] if live else {}
        site.write("training", **training_page.describe(addresses))
    return site.pages


def write_chapter(site: Site, c: Chapter, before: Chapter | None, after: Chapter | None) -> None:
    """Write the page of a chapter."""
    example = compute_example(c)
    site.write(
        c.name,
        "chapter",
        chapter=c,
        symbols=parse_symbol_table(c.parts["Symbols"]),
        letters=source.read_letters(c),
        differs=re.split(r"^\d+\. ", textwrap.dedent(c.parts["Differs"]), flags=re.M)[1:],
        sections=[
            (section, [split_into_segments(c, unit, example) for unit in units])
            for section, units in groupby(c.units, key=lambda unit: unit.section)
        ],
        example=example,
        shown=FIGURES["chapter"].get(c.name),
        before=before,
        after=after,
    )


def write_pair(site: Site, name: str, old: Chapter, new: Chapter) -> None:
    """Write the page of two chapters that follow each other."""
    equations = {
        (c.name, unit.name): convert_equations(c, unit) for c in (old, new) for unit in c.units
    }
    blocks = pair.compare_chapters(old, new)
    site.write(name, "pair", old=old, new=new, blocks=blocks, equations=equations)


# -------------------------------------------------------------------------------------- Chapters


class Traced(NamedTuple):
    """A sentence, and what the lines of a chapter compute for it."""

    run: str
    src: str
    tgt: str
    values: Mapping[int, Sequence[Any]]
    """The values of tagged lines, from `trace`, by number of the line."""


def compute_example(chapter: Chapter, folder: Path = LIVE) -> Traced | None:
    """Run a chapter's model of a folder on a test sentence; None without weights or sentences."""
    path = folder / f"{chapter.name}-seed1"
    if not path.with_suffix(".safetensors").exists():
        return None
    written = [row for row in report.read_rows(path.with_suffix(".jsonl")) if row.hyp is not None]
    if not (row := next((row for row in written if row.x >= MIN_WORDS), None)):
        return None
    from lesson.trace import trace_lines
    from seqmodels.data.batches import Example, collate
    from seqmodels.inference import load  # imports torch

    run = load(path)
    batch = collate([Example(run.encode_source(row.src), run.encode(row.ref))])
    values = trace_lines(chapter, run.model, batch.src, batch.tgt_in)
    return Traced(f"{folder.name}/{path.name}", row.src, row.ref, values)


class Segment(NamedTuple):
    """Lines of code, with the note and the equations beside them."""

    name: str
    note: str
    equations: Sequence[Markup]
    lines: list[Line]
    values: Sequence[Any]
    """Values of the last line for the example."""


def split_into_segments(chapter: Chapter, unit: Unit, example: Traced | None) -> list[Segment]:
    """Split the lines of a unit after each equation, and before and after each noted field."""
    equations, parts = convert_equations(chapter, unit), list[list[Line]]()
    for above, line in zip([None, *unit.lines], unit.lines, strict=False):
        if above is None or above.tag or above.note or line.note:
            parts.append([])
        parts[-1].append(line)
    heads = [(unit.name, unit.note), *[("", "")] * len(parts)]
    segments = []
    for (name, note), lines in zip(heads, parts, strict=False):
        number = lines[-1].number
        values = example.values.get(number, ()) if example else ()
        note = lines[-1].note or note
        segments.append(Segment(name, note, equations.get(number, ()), lines, values))
    return segments


def parse_symbol_table(text: str) -> list[list[tuple[str, int]]]:
    """Return the rows of a table in a docstring: each cell with the number of columns it spans."""
    lines = textwrap.dedent(text).splitlines()
    starts = [match.start() for match in re.finditer(r"\S+", lines[0])]
    rows = []
    for line in lines:
        cells = [(m.start(), m[0]) for m in re.finditer(r"\S+(?: \S+)*", line)]
        columns = [max(i for i, s in enumerate(starts) if s <= start) for start, _ in cells]
        ends = [*columns[1:], len(starts)]
        rows.append([(cell, b - a) for (_, cell), a, b in zip(cells, columns, ends, strict=True)])
    return rows

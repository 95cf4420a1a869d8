"""Build the site: the lesson's chapters and pairs, what was measured, and models that run.

The pages are made from the model files and from records. Each opens by itself, without a network
and, but for the live page, without JavaScript.
"""

from __future__ import annotations

import hashlib
import re
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from itertools import combinations, groupby
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup
from matplotlib.figure import Figure

from seqmodels.models import PAPERS
from seqmodels.report import alignment, drawing, figures, reading, style
from seqmodels.report.reading import Folder, Record, subtitle
from seqmodels.site import figure, layout, pair, report, source
from seqmodels.site.source import PACKAGE, TEXT, Chapter, Line, Unit, equations_of
from seqmodels.utils import files

QUESTIONS = {
    "Why did translation fail on long sentences before attention?": "rnn_encdec-bahdanau",
    "What does attention compute, number by number?": "attention",
    "Why did recurrence go?": "lstm_seq2seq-transformer",
    "How does a decoder alone translate?": "transformer-gpt",
    "What does a memory of fixed size cost?": "gpt-linear_attention",
}
"""What a reader may come with, and the page that answers it."""
FIGURE_OF_CHAPTER: dict[str, dict[str, str]] = tomllib.loads(
    (TEXT / "figures.toml").read_text(encoding="utf-8")
)
"""The folder of records and the figure that show a chapter's idea."""


def build(out: Path, runs: Path, live: Path | None = None) -> list[Path]:
    """Write the site to a folder; return its pages, the first one first.

    With `live`, a folder of runs, its models run in a further page, which takes a program from npm.
    Raises ValueError if there are no records in `runs`, or no weights in `live`.
    """
    folders, chapters = read_folders(runs), source.chapters()
    shared = {"chapters": chapters, "questions": QUESTIONS, "has_live": live is not None}
    pages: list[Path] = []

    def write(page: str, template: str = "", /, **content: Any) -> None:
        text = layout.render(f"{template or page}.html", here=page, **shared, **content)
        pages.append(files.write(out / f"{page}.html", text))

    with style.context():
        five = [name for name, paper in PAPERS.items() if paper.group == "five"]
        main, models = (
            folder_with(folders, *five) or next(iter(folders)),
            [c.name for c in chapters],
        )
        write("index", chart=chart(main, of(folders, main, models) or of(folders, main)))
        for before, c, after in zip(
            [None, *chapters], chapters, [*chapters[1:], None], strict=False
        ):
            write(
                c.name,
                "chapter",
                chapter=c,
                symbols=symbols(c.parts["Symbols"]),
                differs=re.split(r"^\d+\. ", textwrap.dedent(c.parts["Differs"]), flags=re.M)[1:],
                sections=[
                    (section, [segments(c, unit) for unit in units])
                    for section, units in groupby(c.units, key=lambda unit: unit.section)
                ],
                chart=chapter_chart(folders, c.name),
                before=before,
                after=after,
            )
        for i, j in combinations(range(len(chapters)), 2):
            old, new = chapters[i], chapters[j]
            folder = folder_with(folders, old.name, new.name) if j == i + 1 else None
            write(
                f"{old.name}-{new.name}",
                "pair",
                old=old,
                new=new,
                is_next=j == i + 1,
                blocks=pair.blocks(old, new),
                equations={
                    (c.name, u.name): equations_of(c, u) for c in (old, new) for u in c.units
                },
                chart=chart(folder, of(folders, folder, [old.name, new.name])) if folder else None,
            )
        from seqmodels.site import attention  # imports torch

        write(
            "attention",
            steps=attention.rungs(),
            words=attention.WORDS.tolist(),
            parameters=attention.count_by_part(),
        )
        write("results", charts=comparisons(folders))
        write("sources", groups=checksums(chapters, folders))
        if live:
            from seqmodels.site.live import describe  # imports torch and onnx

            write("live", **describe(live))
    return pages


def checksums(
    chapters: Sequence[Chapter], folders: Mapping[str, Folder]
) -> dict[str, list[tuple[Path, str]]]:
    """Return the SHA-256 of every file behind the site, by the folder that it is named in."""
    ours = [*(c.path for c in chapters), PACKAGE / "site" / "attention.py", *sorted(TEXT.iterdir())]
    paths = {"seqmodels": [(path.relative_to(PACKAGE), path) for path in ours]}
    for name, folder in folders.items():
        paths[name] = [(Path(file), folder.path / file) for file in folder.records]
    return {
        group: [(name, hashlib.sha256(path.read_bytes()).hexdigest()) for name, path in its]
        for group, its in paths.items()
    }


# -------------------------------------------------------------------------------------- Chapters


class Segment(NamedTuple):
    """Lines of code, with what stands beside them."""

    name: str
    note: str
    equations: Sequence[Markup]
    lines: list[Line]


def segments(chapter: Chapter, unit: Unit) -> list[Segment]:
    """Return the lines of a unit; one that computes an equation ends its segment."""
    equations, parts = equations_of(chapter, unit), list[list[Line]]()
    for above, line in zip([None, *unit.lines], unit.lines, strict=False):
        if above is None or above.tag or above.note or line.note:
            parts.append([])
        parts[-1].append(line)
    heads = [(unit.name, unit.note), *[("", "")] * len(parts)]
    return [
        Segment(name, lines[-1].note or note, equations.get(lines[-1].number, ()), lines)
        for (name, note), lines in zip(heads, parts, strict=False)
    ]


def symbols(text: str) -> list[list[tuple[str, int]]]:
    """Return the rows of a table of symbols: cells, and how many columns each one spans."""
    lines = textwrap.dedent(text).splitlines()
    starts = [match.start() for match in re.finditer(r"\S+", lines[0])]
    rows = []
    for line in lines:
        cells = [(m.start(), m[0]) for m in re.finditer(r"\S+(?: \S+)*", line)]
        columns = [max(i for i, at in enumerate(starts) if at <= start) for start, _ in cells]
        ends = [*columns[1:], len(starts)]
        rows.append([(cell, b - a) for (_, cell), a, b in zip(cells, columns, ends, strict=True)])
    return rows


# --------------------------------------------------------------------------------------- Figures


class Chart(NamedTuple):
    """A figure in a page, with its numbers."""

    name: str
    """Its name in the page."""
    title: str
    drawn: Markup
    folder: str
    """The folder, or folders, of its records."""
    table: list[list[Any]]
    """Its numbers, with a row of names."""


def chart(
    folder: str,
    records: Sequence[Record],
    drawn: Figure | None = None,
    name: str = "figure",
    number: int = 0,
) -> Chart:
    """Put a figure into a page, where it has a name and a number; by default the records' scores.

    They are those of the first test set or, of stories, those by distance.
    """
    if drawn is None:
        tests = reading.tests(records)
        test = tests.get("distance") or next(iter(tests.values()))
        drawn, table = drawing.draw_scores(records, test), report.score_table(records, test)
    else:
        looks = style.looks(reading.by_model(records)).values()
        table = figure.table(drawn, {look.colour.upper(): look.label for look in looks})
    return Chart(name, style.texts(drawn)[0], figure.inline(drawn, f"f{number}"), folder, table)


def read_folders(root: Path) -> dict[str, Folder]:
    """Read the folders of records behind the site; one folder alone may be given as well."""
    paths = sorted({path.parent for path in [*root.glob("*.json"), *root.glob("*/*.json")]})
    folders = {path.resolve().name: reading.read_folder(path) for path in paths}
    if not any(folder.records for folder in folders.values()):
        raise ValueError(f"{root} holds no records; name a folder of records, or of such folders")
    return {name: folder for name, folder in folders.items() if folder.records}


def of(folders: Mapping[str, Folder], name: str, models: Sequence[str] = ()) -> list[Record]:
    """Return the records of a folder, of some models if any are named."""
    records = folders[name].records.values()
    return [record for record in records if record["model"] in models or not models]


def folder_with(folders: Mapping[str, Folder], *models: str) -> str | None:
    """Return the folder that compares these models: one of translations, or with more runs."""
    whole = [name for name in folders if {*models} <= {r["model"] for r in of(folders, name)}]
    translated = [name for name in whole if of(folders, name)[0]["task"] == "translation"]
    return max(translated or whole, key=lambda name: len(of(folders, name)), default=None)


def chapter_chart(folders: Mapping[str, Folder], model: str) -> Chart | None:
    """Draw the figure that shows a chapter's idea, or its scores in other records."""
    shown = FIGURE_OF_CHAPTER.get(model, {"folder": "", "figure": "score"})
    folder, kind = shown["folder"], shown["figure"]
    if folder not in folders:
        folder, kind = folder_with(folders, model) or "", "score"
    if not folder:
        return None
    records = of(folders, folder)
    if kind == "score":
        return chart(folder, records)
    if kind == "alignment":
        records = [next(r for r in of(folders, folder, [model]) if r["alignment"])]
        drawn = alignment.figure_of({model: records[0]["alignment"]}, subtitle(records))
        return chart(folder, records, drawn)
    return chart(folder, records, figures.draw_own(records)[kind])


def comparisons(folders: Mapping[str, Folder]) -> list[Chart]:
    """Draw every comparison: its task's own figure, or its scores.

    Folders that their task draws at once share a figure, after which the largest one follows.
    """
    by_task: dict[str, list[str]] = {}
    for name in folders:
        by_task.setdefault(of(folders, name)[0]["task"], []).append(name)
    charts: list[Chart] = []
    for names in by_task.values():
        together = [record for name in names for record in of(folders, name)]
        across = figures.draw_across([together])
        for figure_name, drawn in across.items():
            charts.append(chart(", ".join(names), together, drawn, figure_name, len(charts)))
        largest = max(names, key=lambda name: len(of(folders, name)))
        for name in [largest] if across else names:
            own = [*figures.draw_own(of(folders, name)).values(), None]
            charts.append(chart(name, of(folders, name), own[0], name, len(charts)))
    return charts

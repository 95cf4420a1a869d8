"""Build the site: the lesson's chapters and pairs, what was measured, and models that run.

The pages are made from the model files and from records. Each opens by itself, without a network
and, but for the live page, without JavaScript.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files as resources
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from seqmodels.models import PAPERS
from seqmodels.report import alignment, drawing, figures, reading, style
from seqmodels.report.reading import Record, subtitle
from seqmodels.site import figure, layout, lesson, report, source
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
    (resources("seqmodels.site") / "text" / "figures.toml").read_text(encoding="utf-8")
)
"""The folder of records and the figure that show a chapter's idea."""


def build(out: Path, runs: Path, live: Path | None = None) -> list[Path]:
    """Write the site to a folder; return its pages, the first one first.

    With `live`, a folder of runs, its models run in a further page, which takes a program from npm.
    Raises ValueError if there are no records in `runs`, or no weights in `live`.
    """
    folders, chapters = Folders(runs), source.chapters()
    order = [chapter.name for chapter in chapters]
    makers: dict[str, Callable[[], tuple[str, dict[str, Any]]]] = {}
    makers["index"] = lambda: ("home.html", {"chart": folders.main_chart(order)})
    for c in chapters:
        makers[c.name] = partial(chapter_page, c, chapters, folders)
    for old, new in combinations(chapters, 2):
        makers[f"{old.name}-{new.name}"] = partial(pair_page, old, new, order, folders)
    makers["attention"] = lambda: ("attention.html", lesson.attention_steps())
    makers["results"] = lambda: ("results.html", {"charts": folders.comparisons()})
    makers["sources"] = lambda: ("sources.html", {"groups": checksums(chapters, folders)})
    if live:
        from seqmodels.site.live import describe  # imports torch and onnx

        makers["live"] = lambda: ("live.html", describe(live))
    shared = {"chapters": chapters, "questions": QUESTIONS, "has_live": live is not None}
    pages = []
    for name, make in makers.items():
        with style.context():
            template, context = make()
        text = layout.render(template, here=name, **shared, **context)
        pages.append(files.write(out / f"{name}.html", text))
    return pages


def chapter_page(
    chapter: source.Chapter, chapters: Sequence[source.Chapter], folders: Folders
) -> tuple[str, dict[str, Any]]:
    """Return the template and the content of the page of a chapter."""
    at = chapters.index(chapter)
    return "chapter.html", {
        **lesson.chapter(chapter),
        "chart": folders.chapter_chart(chapter.name),
        "before": chapters[at - 1] if at else None,
        "after": chapters[at + 1] if at + 1 < len(chapters) else None,
    }


def pair_page(
    old: source.Chapter, new: source.Chapter, order: Sequence[str], folders: Folders
) -> tuple[str, dict[str, Any]]:
    """Return the template and the content of the page of two chapters."""
    names = old.name, new.name
    is_next = names in pairwise(order)
    chart = folders.pair_chart(*names) if is_next else None
    return "pair.html", lesson.pair_of(old, new) | {"chart": chart, "is_next": is_next}


def checksums(chapters: Sequence[source.Chapter], folders: Folders) -> dict[str, Any]:
    """Return the SHA-256 of every file behind the site, by the folder that it is named in."""
    package = Path(__file__).parents[1]
    texts = [package / "site" / "attention.py", *sorted((package / "site" / "text").iterdir())]
    groups = {
        "seqmodels": {p.relative_to(package): p for p in [*(c.path for c in chapters), *texts]}
    }
    for name, path in folders.paths.items():
        groups[name] = {Path(file): path / file for file in folders.records[name]}
    return {
        group: [(name, hashlib.sha256(path.read_bytes()).hexdigest()) for name, path in its.items()]
        for group, its in groups.items()
    }


# --------------------------------------------------------------------------------------- Figures


@dataclass(frozen=True)
class Chart:
    """A figure in a page, with its numbers."""

    name: str
    """Its name in the page."""
    title: str
    drawn: Markup
    folder: str
    """The folder, or folders, of its records."""
    table: list[list[Any]]
    """Its numbers, with a row of names."""


def main_test(records: Sequence[Record]) -> dict[str, Any]:
    """Return the test set that counts: of stories the one by distance, otherwise the first."""
    tests = reading.tests(records)
    return tests.get("distance") or next(iter(tests.values()))


def score_chart(records: Sequence[Record], folder: str, *place: Any) -> Chart:
    """Draw the scores of the test set that counts."""
    test = main_test(records)
    return chart(
        drawing.draw_scores(records, test), report.score_table(records, test), folder, *place
    )


def own_chart(drawn: Figure, records: Sequence[Record], folder: str, *place: Any) -> Chart:
    """Put a figure other than scores into a page, with the numbers that it shows."""
    looks = style.looks(reading.by_model(records)).values()
    series = {look.colour.upper(): look.label for look in looks}
    return chart(drawn, figure.table(drawn, series), folder, *place)


def chart(
    drawn: Figure, table: list[list[Any]], folder: str, name: str = "figure", number: int = 0
) -> Chart:
    """Put a figure into a page; its name and number are those that it has there."""
    return Chart(name, style.texts(drawn)[0], figure.inline(drawn, f"f{number}"), folder, table)


class Folders:
    """The folders of records behind the site; one folder alone may be given as well."""

    def __init__(self, root: Path) -> None:
        paths = sorted({path.parent for path in [*root.glob("*.json"), *root.glob("*/*.json")]})
        read = {path.resolve().name: reading.read_folder(path) for path in paths}
        self.paths = {name: folder.path for name, folder in read.items() if folder.records}
        self.records = {name: folder.records for name, folder in read.items() if folder.records}
        """By folder and file."""
        if not self.paths:
            raise ValueError(
                f"{root} holds no records; name a folder of records, or of such folders"
            )

    def of(self, folder: str, models: Sequence[str] = ()) -> list[Record]:
        """Return the records of a folder, of some models if any are named."""
        records = list(self.records[folder].values())
        return [r for r in records if r["model"] in models or not models]

    def with_models(self, *models: str) -> str | None:
        """Return the first folder that compares these models, those with more seeds first."""
        whole = [f for f in self.records if {*models} <= {r["model"] for r in self.of(f)}]
        translated = [f for f in whole if self.of(f)[0]["task"] == "translation"]
        return max(translated or whole, key=lambda f: len(self.of(f)), default=None)

    def main_chart(self, chapters: Sequence[str]) -> Chart:
        """Draw the scores of the chapters' models."""
        five = [name for name, paper in PAPERS.items() if paper.group == "five"]
        folder = self.with_models(*five) or next(iter(self.records))
        return score_chart(self.of(folder, chapters) or self.of(folder), folder)

    def pair_chart(self, *models: str) -> Chart | None:
        """Draw the scores of two models; None if no folder compares them."""
        folder = self.with_models(*models)
        return score_chart(self.of(folder, models), folder) if folder else None

    def chapter_chart(self, name: str) -> Chart | None:
        """Draw the figure that shows a chapter's idea, or its scores in other records."""
        shown = FIGURE_OF_CHAPTER.get(name, {"folder": "", "figure": "score"})
        folder, kind = shown["folder"], shown["figure"]
        if folder not in self.records:
            folder, kind = self.with_models(name) or "", "score"
        records = self.of(folder) if folder else []
        if kind == "score":
            return score_chart(records, folder) if records else None
        if kind == "alignment":
            records = [next(r for r in self.of(folder, [name]) if r["alignment"])]
            drawn = alignment.figure_of({name: records[0]["alignment"]}, subtitle(records))
        else:
            drawn = figures.draw_own(records)[kind]
        return own_chart(drawn, records, folder)

    def comparisons(self) -> list[Chart]:
        """Draw every comparison: its task's own figure, or its scores.

        Folders that their task draws at once share a figure.
        """
        by_task: dict[str, list[str]] = {}
        for folder in self.records:
            by_task.setdefault(self.of(folder)[0]["task"], []).append(folder)
        charts: list[Chart] = []
        for folders in by_task.values():
            together = [r for folder in folders for r in self.of(folder)]
            across = figures.draw_across([together])
            for name, drawn in across.items():
                charts.append(own_chart(drawn, together, ", ".join(folders), name, len(charts)))
            most = max(folders, key=lambda folder: len(self.records[folder]))
            for folder in [most] if across else folders:
                records = self.of(folder)
                place = folder, folder, len(charts)
                own = list(figures.draw_own(records).values())
                charts.append(
                    own_chart(own[0], records, *place) if own else score_chart(records, *place)
                )
        return charts

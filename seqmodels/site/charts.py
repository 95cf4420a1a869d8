"""The figures of the lesson: which records show what a chapter says, drawn anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from seqmodels.report import (
    alignment,
    figures,
    reading,
    scores,
    style,
)
from seqmodels.report.format import subtitle
from seqmodels.report.reading import Record
from seqmodels.site import figure, report

Draw = Callable[[Sequence[Record]], Figure]


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


def score(records: Sequence[Record]) -> Figure:
    """Draw the scores of the test set that counts."""
    return scores.draw_scores(records, main_test(records))


def main_test(records: Sequence[Record]) -> dict[str, Any]:
    """Return the test set that counts: of stories the one by distance, otherwise the first."""
    tests = reading.tests(records)
    return tests.get("distance") or next(iter(tests.values()))


def aligned(records: Sequence[Record]) -> Figure:
    """Draw the alignment of Bahdanau's model."""
    (record, *_) = (r for r in records if r["model"] == "bahdanau" and r["alignment"])
    return alignment.figure_of({"bahdanau": record["alignment"]}, subtitle([record]))


def own(name: str) -> Draw:
    """Return what draws a figure of the records' task by the name of its file."""
    return lambda records: figures.draw_own(records)[name]


def across(name: str) -> Draw:
    """Return what draws a figure of all folders of a task by the name of its file."""
    return lambda records: figures.draw_across([records])[name]


def main_figure(records: Sequence[Record]) -> Draw:
    """Return what draws the first figure of the task's own, or the scores if it has none."""
    drawn = figures.draw_own(records)
    return own(next(iter(drawn))) if drawn else score


SHOWN: Mapping[str, tuple[str, Draw]] = {
    "rnn_encdec": ("bottleneck", own("bits")),
    "bahdanau": ("translation-grammar", aligned),
    "lstm_seq2seq": ("ladder", own("rungs")),
    "transformer": ("positions", score),
    "gpt": ("next_token", score),
    "linear_attention": ("lookup", score),
}
"""The folder of records and the figure that show a chapter's idea."""


def chart(
    records: Sequence[Record], folder: str, draw: Draw, name: str = "figure", number: int = 0
) -> Chart:
    """Draw records; the name and the number are those of the figure in its page."""
    with style.context():
        drawn = draw(records)
        shown = figure.inline(drawn, f"f{number}")
    if draw is score:
        table = report.score_table(records, main_test(records))
    else:
        looks = style.looks(reading.by_model(records)).values()
        table = figure.table(drawn, {look.colour.upper(): look.label for look in looks})
    return Chart(name, style.texts(drawn)[0], shown, folder, table)


class Runs:
    """The records behind the site, by folder; one folder alone may be given as well."""

    def __init__(self, root: Path) -> None:
        found = sorted({path.parent for path in [*root.glob("*.json"), *root.glob("*/*.json")]})
        loaded = {f.path: f.records for f in map(reading.read_folder, found) if f.records}
        if not loaded:
            raise ValueError(
                f"{root} holds no records; name a folder of records, or of such folders"
            )
        self.files = {f"{folder.resolve().name}": files for folder, files in loaded.items()}
        self.paths = {f"{folder.resolve().name}": folder for folder in loaded}

    def records(self, folder: str) -> list[Record]:
        """Return the records of a folder."""
        return list(self.files[folder].values())

    def with_models(self, *models: str) -> str | None:
        """Return the first folder that compares these models, those with more seeds first."""
        whole = [f for f in self.files if {*models} <= {r["model"] for r in self.records(f)}]
        translated = [f for f in whole if self.records(f)[0]["task"] == "translation"]
        return max(translated or whole, key=lambda f: len(self.records(f)), default=None)

    def comparisons(self) -> list[Chart]:
        """Draw every comparison; folders that their task draws at once share a figure."""
        folders = {folder: self.records(folder) for folder in self.files}
        shown = {f: (records, f, main_figure(records)) for f, records in folders.items()}
        by_task: dict[str, list[str]] = {}
        for folder, records in folders.items():
            by_task.setdefault(records[0]["task"], []).append(folder)
        for its in by_task.values():
            together = [r for folder in its for r in folders[folder]]
            for name in figures.draw_across([together]):
                most = max(its, key=lambda folder: len(self.files[folder]))
                for folder in {*its} - {most}:
                    del shown[folder]
                shown[name] = (together, ", ".join(its), across(name))
        return [
            chart(records, folder, draw, name, number)
            for number, (name, (records, folder, draw)) in enumerate(shown.items())
        ]

    def of_chapter(self, name: str) -> Chart | None:
        """Return the figure that shows a chapter's idea; other records show its scores."""
        folder, draw = SHOWN.get(name, ("", score))
        if folder not in self.files:
            folder, draw = self.with_models(name) or "", score
        return chart(self.records(folder), folder, draw) if folder else None

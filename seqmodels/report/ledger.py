"""A ledger of published figures, validated when it is read, and its tables beside our scores.

An entry holds what one source reports for one setting. Values are written exactly as printed, digit
for digit; fields that the source does not report are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from seqmodels.evaluation.metrics import METRICS, metric_of
from seqmodels.models import paper_of
from seqmodels.records.io import load_as
from seqmodels.records.schema import Count, Name, Record, Strict
from seqmodels.report import load_records
from seqmodels.report.load_records import format_parameters, format_short
from seqmodels.report.tables import format_cell, format_markdown

FILE = "ledger.json"
"""Name of the ledger in a folder of results."""


Metric = Annotated[str, Field(pattern=rf"^({'|'.join(METRICS)})$")]
Model = Annotated[str, AfterValidator(lambda name: paper_of(name) and name)]
"""One that is known: `paper_of` refuses others."""
Phrase = Annotated[str, Field(pattern=r"^[^|\s\x00-\x1f\x7f-\x9f][^|\x00-\x1f\x7f-\x9f]{0,299}$")]
"""Text that fits into one table cell."""
Link = Annotated[str, Field(pattern=r"^https://[^\s()|]{1,200}$")]
Printed = Annotated[str, Field(pattern=r"^[0-9]{1,4}([.][0-9]{1,4})?$")]


class Ours(Strict):
    """Our score to compare with a figure: a folder of records, a model, a test set, a metric."""

    folder: Name
    model: Model
    test: Name
    score: Metric


class Figure(Strict):
    """One published number."""

    system: Phrase
    model: Model | None = None
    """Our implementation of the same paper."""
    metric: Metric
    on: Phrase | None = None
    """If a system has several numbers: for which sentences or which search."""
    value: Printed
    parameters: Count | None = None
    ours: Ours | None = None


class Entry(Strict):
    """The figures of one source in one setting."""

    source: Phrase
    year: Annotated[int, Field(ge=1900, le=2100)] | None = None
    url: Link | None = None
    place: Phrase | None = None
    """Table, figure or page."""
    corpus: Phrase
    direction: Phrase | None = None
    test: Phrase
    text: Phrase | None = None
    """Casing and tokenization."""
    search: Phrase | None = None
    setting: Phrase | None = None
    """Model sizes and training."""
    comparable: bool
    why: Phrase
    figures: Annotated[list[Figure], Field(min_length=1, max_length=100)]
    finding: Phrase | None = None
    """What the source concludes."""


class Ledger(Strict):
    """All entries."""

    version: Annotated[Literal["seqmodels.ledger/1"], Field(alias="schema")]
    entries: Annotated[list[Entry], Field(min_length=1, max_length=200)]


def load_ledger(folder: Path) -> list[Entry]:
    """Read the ledger of a folder; a folder without one has no entries.

    Raises ValueError with one line that names the file and the field.
    """
    path = folder / FILE
    return list(load_as(Ledger, path, "a ledger").entries) if path.exists() else []


# ---------------------------------------------------------------------------------------- Tables


def format_ours(figure: Figure, folders: Mapping[str, Sequence[Record]]) -> str:
    """Format our score and our parameters; a dash if no record has it."""
    if (ours := figure.ours) is None:
        return "–"
    group = [r for r in folders.get(ours.folder, ()) if r.model == ours.model]
    scores = load_records.score_array(group, ours.test, ours.score)
    score = format_cell(scores[:, 0], ours.score) if scores.size else "–"
    return score if score == "–" else f"{score} ({format_parameters(group)})"


def format_published(figure: Figure) -> str:
    """Format a value as it was printed, and the number of parameters if it is known."""
    return figure.value + (f" ({format_short(figure.parameters)})" if figure.parameters else "")


def table_of_entry(entry: Entry, folders: Mapping[str, Sequence[Record]]) -> str:
    """Return one Markdown table: systems × metrics, with our score to the right of each."""
    columns = dict.fromkeys((f.metric, f.on) for f in entry.figures)
    systems: dict[str, dict[tuple[str, str | None], Figure]] = {}
    for f in entry.figures:
        systems.setdefault(f.system, {})[f.metric, f.on] = f
    rows = [["system", "model here"]]
    for metric, on in columns:
        name = metric_of(metric).name + (f", {on}" if on else "")
        rows[0] += [name, "ours"] if entry.comparable else [name]
    for system, figures in systems.items():
        models = {paper_of(f.model).label for f in figures.values() if f.model}
        rows.append([system, ", ".join(sorted(models)) or "–"])
        for column in columns:
            cells = ["–", "–"]
            if figure := figures.get(column):
                cells = [format_published(figure), format_ours(figure, folders)]
            rows[-1] += cells if entry.comparable else cells[:1]
    return format_markdown(rows)


def format_published_figures(
    entries: Sequence[Entry], folders: Mapping[str, Sequence[Record]]
) -> str:
    """Return all figures of a ledger next to ours, comparable entries first."""
    parts = [
        "## Published figures",
        f"From [{FILE}]({FILE}): values as printed in their sources, with the number "
        "of parameters in parentheses if it is reported. Our scores, the mean of the seeds ± half "
        "their range, or of one seed with its 95 % interval, are shown where data, test set and "
        "metric are the same apart from the differences noted; – means that there is no such "
        "figure or no record.",
    ]
    for entry in sorted(entries, key=lambda entry: not entry.comparable):
        title = f"{entry.source} {entry.year}" if entry.year else entry.source
        title = f"[{title}]({entry.url})" if entry.url else title
        facts = (entry.corpus, entry.direction, entry.test, entry.text, entry.search, entry.setting)
        verdict = "Comparable" if entry.comparable else "Not comparable"
        parts += [
            f"### {title}{f', {entry.place}' if entry.place else ''}",
            f"{' · '.join(filter(None, facts))}. **{verdict}**: {entry.why}.",
            table_of_entry(entry, folders),
        ]
        parts += [f"{entry.finding}."] if entry.finding else []
    return "\n\n".join(parts)

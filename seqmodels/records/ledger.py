"""A ledger of published figures to compare with our records, validated when read. No torch.

An entry holds what one source reports for one setting. Values are written exactly as printed, digit
for digit; fields that the source does not report are left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from seqmodels.evaluation.metrics import METRICS
from seqmodels.models import paper_of
from seqmodels.records.record import Count, Name, Strict, check
from seqmodels.utils.files import read_json

FILE = "ledger.json"
"""Name of the ledger in a folder of results."""


def check_model(name: str) -> str:
    """Return the name of a model; raise ValueError if it is unknown."""
    paper_of(name)
    return name


def check_metric(key: str) -> str:
    """Return the key of a metric; raise ValueError if it is not in the table of metrics."""
    if key not in METRICS:
        raise ValueError(f"unknown metric {key!r}; choose from {', '.join(METRICS)}")
    return key


Metric = Annotated[str, AfterValidator(check_metric)]
Model = Annotated[str, AfterValidator(check_model)]
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


def load(folder: Path) -> list[Entry]:
    """Read the ledger of a folder; a folder without one has no entries.

    Raises ValueError with one line that names the file and the field.
    """
    path = folder / FILE
    if not path.exists():
        return []
    value = read_json(path)
    try:
        return list(check(Ledger, value).entries)
    except ValueError as error:
        raise ValueError(f"{path} is not a ledger: {error}") from None

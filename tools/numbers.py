"""Read scores from the committed records and format them, for the pages of README, docs and tasks.

A page holds blocks of cog that begin with `[[[cog` and call functions of `tools/page_*.py`; what
follows, to `[[[end]]]`, is their output: `python -m cogapp -P -r PAGE` writes it again, and with
`--check` in place of `-r` it fails where a page is out of date. No torch.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from seqmodels.models import paper_of
from seqmodels.records import significance
from seqmodels.records.io import load as load_record
from seqmodels.records.schema import Interval, Record
from seqmodels.records.significance import Difference
from seqmodels.report.load_records import (
    Row,
    format_bucket,
    format_ends,
    format_range,
    rows_of,
)
from seqmodels.report.tables import format_markdown

RESULTS = Path(__file__).parents[1] / "results"
COLUMNS = 120
"""Columns of a line of a page."""
RNN, BAHDANAU, LSTM = "rnn_encdec", "bahdanau", "lstm_seq2seq"
TRANSFORMER, GPT, LINEAR = "transformer", "gpt", "linear_attention"
FIVE = [RNN, BAHDANAU, LSTM, TRANSFORMER, GPT]
SIX = [*FIVE, LINEAR]
LOOKING_BACK = BAHDANAU, TRANSFORMER, GPT


@cache
def load_runs(folder: str, model: str = "*") -> list[Record]:
    """Return the records of a model, one for each seed; both names may be patterns."""
    paths = sorted(RESULTS.glob(f"{folder}/{model}-seed*[0-9].json"))
    if not paths:
        raise ValueError(f"results/{folder} has no record of {model}")
    return [load_record(path) for path in paths]


def scores_of(records: Iterable[Record], bucket: str, metric: str, test: str) -> list[float]:
    """Return a score of each record, in a bucket ("31–40") or over the whole test set ("all")."""
    values = []
    for record in records:
        (scores,) = [t for t in record.tests if t.name == test]
        parts = {format_bucket(b): b[metric] for b in scores.buckets}
        parts["all"] = scores.overall[metric]
        if bucket not in parts:
            raise ValueError(f"{test}: no bucket {bucket!r}; there are {', '.join(parts)}")
        values.append(parts[bucket].value)
    return values


def lowest_loss(record: Record) -> float:
    """Return the lowest loss on valid of a run, in nats per token."""
    return min(point.valid_nats for point in record.curve)


class Results(NamedTuple):
    """A folder of committed records, and the scores that a page shows of it."""

    folder: str
    test: str = "length"
    metric: str = "bleu"
    form: str = "{:.1f}"
    """Format of the mean over the seeds and, in a second place, of their span."""

    def records(self, model: str) -> list[Record]:
        """Return the records of a model, one for each seed."""
        return load_runs(self.folder, model)

    def seeds(self, model: str, bucket: str = "all", metric: str = "") -> list[float]:
        """Return a score of each seed, in a bucket ("31–40") or over the whole test set ("all")."""
        return scores_of(self.records(model), bucket, metric or self.metric, self.test)

    def mean(self, model: str, bucket: str = "all", metric: str = "") -> float:
        """Return the mean of a score over the seeds."""
        return mean(self.seeds(model, bucket, metric))

    def first(self, model: str, bucket: str = "all", metric: str = "") -> float:
        """Return the score of the first seed."""
        return self.seeds(model, bucket, metric)[0]

    def texts(self, model: str, buckets: Iterable[str]) -> list[str]:
        """Format the score of each bucket."""
        return [self.form.format(self.mean(model, b), span(self.seeds(model, b))) for b in buckets]

    def table(self, models: Sequence[str], buckets: Mapping[str, str], baseline: str = "") -> str:
        """Return a table of scores, with these names of the columns (see `score_table`)."""
        columns = {name: (self, bucket) for name, bucket in buckets.items()}
        return score_table(models, columns, baseline)

    def spread(self, models: Iterable[str], *buckets: str) -> float:
        """Return the largest difference between two seeds of a model in a bucket."""
        scores = [self.seeds(model, bucket) for model in models for bucket in buckets]
        return max(max(own) - min(own) for own in scores)

    def analyses(self, model: str, name: str, **columns: Any) -> list[list[Row]]:
        """Return the rows of an analysis that have these values, by seed."""
        return [rows_of(record, name, **columns) for record in self.records(model)]

    def rows(self, model: str, name: str, **columns: Any) -> list[Row]:
        """Return the rows of an analysis that have these values, of all seeds."""
        return [row for own in self.analyses(model, name, **columns) for row in own]

    def values(self, model: str, name: str, column: str, **columns: Any) -> list[Any]:
        """Return the values of a column in the rows of an analysis, of all seeds."""
        return [row[column] for row in self.rows(model, name, **columns)]

    def difference(
        self, row: str, column: str, bucket: str = "all", metric: str = ""
    ) -> Difference:
        """Return how much higher one model scores than another, with its interval."""
        path = RESULTS / self.folder / significance.FILE
        comparison = significance.load(path).on(self.test, metric or None)
        if comparison is None:
            raise ValueError(f"results/{self.folder} compares nothing on {self.test}")
        names = [format_ends(low, high) for low, high in comparison.buckets]
        for pair in comparison.pairs:
            parts = dict(zip(["all", *names], [pair.overall, *pair.buckets], strict=True))
            if (pair.row, pair.column) == (row, column):
                return parts[bucket]
            if (pair.row, pair.column) == (column, row):
                return -parts[bucket]
        raise ValueError(f"{self.folder}: {row} and {column} are not compared on {self.test}")

    def confirm(self, models: Iterable[str], *, tokens: int, parameters: float, seeds: int) -> None:
        """Raise ValueError unless the records have the budget, size (± 6 %) and seeds of a page."""
        for model in models:
            runs = self.records(model)
            if seeds != len(runs):
                raise ValueError(f"{self.folder}: {model} has {len(runs)} seeds, not {seeds}")
            for run in runs:
                has = run.train_config.tokens, run.n_parameters
                if has[0] != tokens or abs(has[1] / parameters - 1) > 0.06:
                    raise ValueError(f"{self.folder}: {model} has {has} tokens and parameters")


def label_of(model: str) -> str:
    """Return the label of a listed model or variant."""
    return paper_of(model).label


def span(values: Iterable[float], digits: int = 0) -> str:
    """Format the lowest and the highest value."""
    rounded = (round(value, digits) + 0.0 for value in values)  # 0.0 in place of −0.0
    return format_range(rounded, f"{{:.{digits}f}}".format).replace("–", " to ")


def effect(found: Difference) -> int:
    """Return 1 or -1 if a difference is significantly above or below zero, or else 0."""
    return int(math.copysign(found.is_significant, found.value))


def interval(found: Difference | Interval, digits: int = 1) -> str:
    """Format a difference or a score with its interval."""
    value, low, high = (f"{x:.{digits}f}" for x in (found.value, found.low, found.high))
    return f"{value} [{low}, {high}]".replace("-", "−")


def bold_interval(found: Difference, digits: int = 1) -> str:
    """Format a difference with its interval, in bold if it is significant."""
    text = interval(found, digits)
    return f"**{text}**" if found.is_significant else text


def table(head: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """Return a table of rows by their names."""
    return format_markdown([head, *([name, *cells] for name, cells in rows.items())])


def score_table(
    models: Sequence[str], columns: Mapping[str, tuple[Results, str]], baseline: str = ""
) -> str:
    """Return a table of the scores of models, with columns of results and a bucket each.

    A last row of a baseline, by its name, has the score "baseline" in place of each metric.
    """
    rows = {label_of(m): [r.texts(m, [b])[0] for r, b in columns.values()] for m in models}
    if baseline:
        own = [(r._replace(metric="baseline"), bucket) for r, bucket in columns.values()]
        rows[baseline] = [r.texts(models[0], [b])[0] for r, b in own]
    return table(["", *columns], rows)


def say(text: str) -> None:
    """Print a paragraph, wrapped like the page."""
    kept_together = " ".join(text.split()).replace(" %", "\N{NO-BREAK SPACE}%")
    wrapped = textwrap.fill(kept_together, COLUMNS, break_on_hyphens=False)
    print(wrapped.replace("\N{NO-BREAK SPACE}%", " %"))

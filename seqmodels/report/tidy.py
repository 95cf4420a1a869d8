"""The tidy table that a figure is drawn from: a row for each point, with named columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from seqmodels.records.schema import Record


class Table:
    """Rows that panels add while they draw.

    Columns appear in the order in which they are first named; a row has no value in a column that
    was not named for it.
    """

    def __init__(self) -> None:
        self._rows: list[dict[str, object]] = []

    def add(self, **columns: object) -> None:
        """Add a row, or one for each item of those columns that are arrays, lists or the like.

        Other values are the same in all of these rows.
        """
        columns = {
            name: [*value] if isinstance(value, Iterable) and not isinstance(value, str) else value
            for name, value in columns.items()
        }
        lengths = {len(value) for value in columns.values() if isinstance(value, list)}
        assert len(lengths) <= 1, columns
        for i in range(lengths.pop() if lengths else 1):
            self._rows.append({k: v[i] if isinstance(v, list) else v for k, v in columns.items()})

    def add_seeds(self, records: Sequence[Record], about: Mapping[str, Any], **values: Any) -> None:
        """Add the values of each record's seed, and with several seeds their mean.

        The first axis of each array of values are the records.
        """
        for i, record in enumerate(records):
            self.add(**about, seed=record.seed, **{name: v[i] for name, v in values.items()})
        if len(records) > 1:
            means = {name: np.mean(v, axis=0) for name, v in values.items()}
            self.add(**about, seed="mean", **means)

    def rows(self) -> list[list[Any]]:
        """Return the names of the columns, and below them the rows."""
        names = [*dict.fromkeys(name for row in self._rows for name in row)]
        return [names, *([_cell(row.get(name)) for name in names] for row in self._rows)]


class FigureWithData(NamedTuple):
    """A figure and its tidy table."""

    figure: Figure
    table: list[list[Any]]
    """The rows of its `Table`."""


def _cell(value: object) -> object:
    """Return a cell: floats with six digits, and an empty text for what is not known."""
    if value is None or value != value:
        return ""
    return f"{value:.6g}" if isinstance(value, float | np.floating) else value

"""What the figures of several tasks share. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from seqmodels.records.schema import Record
from seqmodels.report.load import rows_of
from seqmodels.report.style import LineStyle

CHANGES = {
    "ending": "#009B77", "choice": "#C98200", "order": "#1B75BC", "omission": "#8A8A8A",
    "addition": "#D5D5D5",
}  # fmt: skip
"""The colour of each kind of changed word."""
CONTROL = LineStyle("control", "#AAAAAA", "-", "")
"""The look of what chance alone gives."""


def average(group: Sequence[Record], analysis: str, *names: str, **columns: Any) -> np.ndarray:
    """Return columns of an analysis, (names, rows), as means over the seeds of a model.

    The rows are those that have these values in `columns`; a value that a row lacks is nan.
    """
    by_seed = [
        [[row.get(name, np.nan) for row in rows_of(r, analysis, **columns)] for name in names]
        for r in group
    ]
    return np.array(
        [[fmean(seeds) for seeds in zip(*rows, strict=True)] for rows in zip(*by_seed, strict=True)]
    )

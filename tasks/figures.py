"""What the figures of several tasks share. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from seqmodels.records.schema import Record, Test
from seqmodels.report.load_records import label_of, rows_of
from seqmodels.report.style import GREY


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


def name_model(r: Record) -> str:
    """Return a model's label as it stands in a sentence."""
    label = label_of(r)
    return label if label.startswith("GPT") else f"the {label}"


def mark_trained(ax: Axes, test: Test) -> None:
    """Mark the longest texts of training on an axis that has a place for each bucket."""
    if longest := test.max_train_length:
        n_trained = sum(bucket.high <= longest for bucket in test.buckets)
        ax.axvline(n_trained - 0.5, color=GREY, lw=0.8, ls=":")

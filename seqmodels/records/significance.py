"""Significance of differences between the models of a folder: its file significance.json. No torch.

Another seed would give another score, and so would other test examples. The Multi-Bootstrap
(Sellam et al. 2021, arXiv:2106.16163) therefore draws both with replacement: seeds within each
model, and the same examples for all models. Its percentiles do not suit three seeds: they ignore
that three values hardly show their spread, and no p-value is below one over the number of draws,
where Holm's correction needs 0.0005. So the draws give the variance of a difference between two
means over seeds, and Student's t the rest:

    V = Var(mean of the row's seeds − mean of the column's)  over draws of the examples
      + s²_row / n_row + s²_column / n_column                over draws of the seeds

The second line needs no draws; s² has n − 1 in its denominator. The degrees of freedom are Welch's
and Satterthwaite's. What the examples add to a single seed is in both lines, so that the test is
conservative where seeds hardly differ; without this, far too many tests of a family were passed by
pairs whose seeds agreed by chance. For a model with one seed only the first line is known, which
says nothing about its architecture.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations, compress
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import numpy as np
from pydantic import Field

from seqmodels.evaluation.intervals import (
    MIN_ROWS,
    Score,
    resample_sums,
    student_p_value,
    student_quantile,
    sum_by_group,
)
from seqmodels.evaluation.metrics import metric_of
from seqmodels.records.record import (
    Checksum,
    Count,
    Name,
    Strict,
    Sums,
    TwoNumbers,
    load_sums,
    sums_path,
    validate,
)
from seqmodels.utils import files

SCHEMA: Final = "seqmodels.significance/1"
FILE = "significance.json"
"""Name of the file in a folder of records."""
ALPHA = 0.05
"""Largest p-value, after Holm's correction, of a significant difference."""

Records = Mapping[str, dict[str, Any]]
"""Records by the names of their files, in the order of the models."""
Number = Annotated[float, Field(allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1)]

# ------------------------------------------------------------------------------------- The file


class Difference(Strict):
    """A difference with its 95 % interval and its p-value; None below MIN_ROWS groups."""

    value: Number
    low: Number | None = None
    high: Number | None = None
    p: Probability | None = None
    p_holm: Probability | None = None
    """Corrected for all differences of the test set; None: one seed, or too few rows."""

    @property
    def is_significant(self) -> bool:
        """Return whether the models differ."""
        return self.p_holm is not None and self.p_holm <= ALPHA


class Pair(Strict):
    """The score of one model, the row, minus that of another, the column."""

    row: str
    column: str
    n_seeds: list[int]
    """Seeds of (row, column). With one seed, only test examples are resampled."""
    overall: Difference
    buckets: list[Difference]


class Comparison(Strict):
    """All pairs of models on one test set, by its primary metric."""

    test: Name
    metric: Name
    n_corrected: Count
    """Number of differences for which p_holm is corrected."""
    buckets: list[TwoNumbers]
    pairs: Annotated[list[Pair], Field(min_length=1)]


class Significance(Strict):
    """All comparisons of a folder, and a checksum of each record that they were made from."""

    version: Annotated[Literal["seqmodels.significance/1"], Field(alias="schema")]
    records: dict[Name, Checksum]
    """The records by the names of their files."""
    comparisons: Annotated[list[Comparison], Field(min_length=1)]

    def on(self, test: str) -> Comparison | None:
        """Return the comparison on a test set."""
        return next((c for c in self.comparisons if c.test == test), None)

    def text(self) -> str:
        """Return the content of the file."""
        return json.dumps(self.model_dump(by_alias=True), ensure_ascii=False, indent=1) + "\n"


def load(path: Path) -> Significance:
    """Read a file; raise ValueError if it is invalid."""
    value = files.read_json(path)
    try:
        stored: Significance = validate(Significance, value)
    except ValueError as error:
        raise ValueError(f"{path} is not a comparison of models ({SCHEMA}): {error}") from None
    return stored


def load_or_compute(folder: Path, records: Records) -> Significance | None:
    """Return the folder's significance file, recomputed from the sums if it is out of date.

    Where sums are missing, models added after the file was written are left out. None if there is
    nothing to compare, or neither a file nor all the sums. Raises ValueError for an invalid file,
    one that cannot be recomputed, and sums that are not those of their records.
    """
    path = folder / FILE
    stored = load(path) if path.exists() else None
    checksums = {name: hashlib.sha256(files.read(folder / name)).hexdigest() for name in records}
    if stored and stored.records == checksums:
        return stored
    missing = [p.name for r in records.values() if not (p := sums_path(folder, r)).exists()]
    if not missing:
        comparisons = compare_folder(folder, records)
        value = {"schema": SCHEMA, "records": checksums, "comparisons": comparisons}
        return Significance.model_validate(value) if comparisons else None
    if stored is None:
        return None
    models = {name: record["model"] for name, record in records.items()}
    later = {model for name, model in models.items() if name not in stored.records}
    is_whole = stored.records.items() <= checksums.items()
    if is_whole and later.isdisjoint(models[name] for name in stored.records):
        return stored
    raise ValueError(
        f"{path} was made from other records; it cannot be made anew without {missing[0]}, "
        "so restore the records, or delete it"
    )


# --------------------------------------------------------------------------------- The comparison


def compare_folder(folder: Path, records: Records) -> list[Comparison]:
    """Compare all pairs of models on each test set whose primary metric is one of sums."""
    tests: dict[str, Mapping[str, Any]] = {}
    runs: dict[str, dict[str, list[Sums]]] = {}
    for record in records.values():
        path = sums_path(folder, record)
        sums = load_sums(path, record)
        for test in record["tests"]:
            if (run := sums.get(test["name"])) is None:
                continue
            tests.setdefault(test["name"], test)
            models = runs.setdefault(test["name"], {})
            models.setdefault(record["model"], []).append(run)
            if run.examples != next(iter(models.values()))[0].examples:
                raise ValueError(f"{path}: its test examples are not those of the other runs")
    return [compare_models(tests[name], models) for name, models in runs.items() if len(models) > 1]


def compare_models(test: Mapping[str, Any], models: Mapping[str, Sequence[Sums]]) -> Comparison:
    """Compare all pairs of models on one test set, overall and by bucket, corrected together.

    Models with one seed are left out of the correction (see holm).
    """
    metric, first = metric_of(test["primary_metric"]), next(iter(models.values()))[0]
    buckets = [[b["low"], b["high"]] for b in test["buckets"]]
    terms = {model: [run.terms for run in runs] for model, runs in models.items()}
    x, parts = np.array(first.x), []
    for low, high in [(-np.inf, np.inf), *buckets]:
        inside = (low <= x) & (x <= high)
        columns = {model: [run[inside] for run in runs] for model, runs in terms.items()}
        groups = first.groups and list(compress(first.groups, inside))
        parts.append(compute_differences(columns, metric.of_sums, groups, metric.is_percent))
    pairs, corrected = [], []
    for row, column in parts[0]:
        overall, *in_buckets = (part[row, column] for part in parts)
        n_seeds = [len(models[row]), len(models[column])]
        pairs.append(
            Pair(row=row, column=column, n_seeds=n_seeds, overall=overall, buckets=in_buckets)
        )
        if min(n_seeds) > 1:
            corrected += [part for part in (overall, *in_buckets) if part.p is not None]
    p_values = holm([part.p or 0.0 for part in corrected])
    for part, p_holm in zip(corrected, p_values, strict=True):
        part.p_holm = p_holm
    return Comparison(
        test=test["name"],
        metric=test["primary_metric"],
        n_corrected=len(corrected),
        buckets=buckets,
        pairs=pairs,
    )


class Mean(NamedTuple):
    """The mean score of a model's seeds."""

    value: float
    resampled: np.ndarray
    """The mean in each draw of the examples."""
    variance: float
    """Its variance over draws of the seeds; nan for one seed."""
    n_seeds: int


def compute_differences(
    models: Mapping[str, Sequence[np.ndarray]],
    score: Score,
    groups: Sequence[Hashable] | None = None,
    is_percent: bool = False,
) -> dict[tuple[str, str], Difference]:
    """Return (row, column) -> score of row minus score of column, for each pair of models.

    `models` has the columns of each seed, (rows, columns), for the same test examples in the same
    order. The later model of a pair is its row. `groups` and `is_percent`: see compute_interval.
    """
    seeds = [sum_by_group(columns, groups) for runs in models.values() for columns in runs]
    n_groups, width = seeds[0].shape
    values = score(np.stack([sums.sum(axis=0) for sums in seeds]))
    resampled = score(resample_sums(np.concatenate(seeds, axis=1)).reshape(-1, len(seeds), width))
    means, start = {}, 0
    for model, runs in models.items():
        own = slice(start, start := start + len(runs))
        n = len(runs)
        variance = float(values[own].var(ddof=1)) / n if n > 1 else math.nan
        means[model] = Mean(float(values[own].mean()), resampled[:, own].mean(axis=1), variance, n)
    return {
        (row, column): compute_difference(means[row], means[column], n_groups, is_percent)
        for column, row in combinations(models, 2)
    }


def compute_difference(
    row: Mean, column: Mean, n_groups: int, is_percent: bool = False
) -> Difference:
    """Return the difference of two means over the same draws of n_groups groups of examples."""
    value = row.value - column.value
    if n_groups < MIN_ROWS:
        return Difference(value=value)
    resampled = row.resampled - column.resampled
    by_examples = float(resampled.var()) * n_groups / (n_groups - 1)
    if np.ptp(resampled) == 0:  # all right against all wrong: as if one more group contradicted it
        by_examples = ((100 if is_percent else value) / (n_groups + 1)) ** 2
    parts = [(by_examples, n_groups - 1)]
    if min(row.n_seeds, column.n_seeds) > 1:
        parts += [(mean.variance, mean.n_seeds - 1) for mean in (row, column)]
    variance = sum(part for part, _ in parts)
    if variance == 0:
        return Difference(value=0.0, low=0.0, high=0.0, p=1.0)
    df = variance**2 / sum(part**2 / n for part, n in parts)
    half = student_quantile(df) * math.sqrt(variance)
    p = student_p_value(value / math.sqrt(variance), df)
    return Difference(value=value, low=value - half, high=value + half, p=p)


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number (Holm 1979), in the same order.

    The chance that any difference that does not exist is called significant is then at most ALPHA.
    """
    corrected, least = [1.0] * len(p), 0.0
    for n_before, i in enumerate(np.argsort(p, kind="stable")):
        least = max(least, min(1.0, (len(p) - n_before) * p[i]))
        corrected[i] = least
    return corrected

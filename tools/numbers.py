"""Fill numbers from the committed records into the pages of README, docs and tasks.

A page holds blocks of cog that begin with `[[[cog` and call these functions; what follows, to
`[[[end]]]`, is their output: `python -m cogapp -P -r PAGE` writes it anew, and with `--check` in
place of `-r` it fails where a page is out of date. No torch.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from seqmodels.records import significance
from seqmodels.records.io import load as load_record
from seqmodels.records.significance import Difference
from seqmodels.report import ledger
from seqmodels.report.load_records import format_bucket, label_of, mean_scores, negate, rows_of
from seqmodels.report.tables import format_markdown

RESULTS = Path(__file__).parents[1] / "results"
COLUMNS = 120
"""Columns of a line of a page."""


@cache
def records(folder: str, model: str) -> list[dict[str, Any]]:
    """Return the records of a model, one for each seed."""
    paths = sorted((RESULTS / folder).glob(f"{model}-seed*[0-9].json"))
    if not paths:
        raise ValueError(f"results/{folder} has no record of {model}")
    return [load_record(path) for path in paths]


def seeds(folder: str, model: str, bucket: str, metric: str, test: str = "length") -> list[float]:
    """Return a score of every seed, in a bucket ("31–40") or over the whole test set ("all")."""
    values = []
    for record in records(folder, model):
        (scores,) = [t for t in record["tests"] if t["name"] == test]
        parts = {format_bucket(b): b for b in scores["buckets"]} | {"all": scores["overall"]}
        if bucket not in parts:
            raise ValueError(f"{folder}: no bucket {bucket!r}; there are {', '.join(parts)}")
        values.append(parts[bucket][metric]["value"])
    return values


def with_best_states(folder: str, model: str) -> list[dict[str, Any]]:
    """Return the records of a model whose best States were written."""
    return [r for r in records(folder, model) if r["analyses"].get("best_state")]


def best_states(folder: str, model: str, bucket: str, digits: int = 1) -> str:
    """Format BLEU from the best States of a bucket, with its interval over seeds and sentences."""
    found = with_best_states(folder, model)
    scores = mean_scores(found, "best_state", "bleu")[1:]
    (test,) = [t for t in found[0]["tests"] if t["name"] == "best_state"]
    i = [format_bucket(b) for b in test["buckets"]].index(bucket)
    value, low, high = (f"{x:.{digits}f}" for x in scores[i])
    return f"{value} [{low}, {high}]"


def mean_best(folder: str, model: str, bucket: str) -> float:
    """Return the mean BLEU from the best States of a bucket."""
    return float(best_states(folder, model, bucket).split()[0])


def control(folder: str, model: str, name: str) -> float:
    """Return the mean BLEU that a control of the best States ends with."""
    found = [
        rows_of(r, "controls", control=name)[-1]["bleu"] for r in with_best_states(folder, model)
    ]
    return mean(found)


def best_row(folder: str, model: str, column: str = "bleu", **columns: Any) -> float:
    """Return the mean over seeds of a column of the rows of best States that have these values."""
    found = [rows_of(r, "best_state", **columns) for r in with_best_states(folder, model)]
    return mean(row[column] for rows in found for row in rows)


def kept_by_place(folder: str, model: str, steps: int, low: int) -> list[float]:
    """Return the shares (%) of words kept in each fifth of the source, as means over seeds."""
    found = [
        [row["share"] for row in rows_of(r, "places", steps=steps, low=low)]
        for r in with_best_states(folder, model)
    ]
    return [mean(shares) for shares in zip(*found, strict=True)]


def score(folder: str, model: str, bucket: str, metric: str, test: str = "length") -> float:
    """Return the mean of a score over the seeds, in a bucket or over the whole test set."""
    return mean(seeds(folder, model, bucket, metric, test))


def span(values: Iterable[float], digits: int = 0) -> str:
    """Format the lowest and the highest value."""
    ordered = sorted(values)
    low, high = (f"{round(end, digits) + 0.0:.{digits}f}" for end in (ordered[0], ordered[-1]))
    return low if low == high else f"{low} to {high}"


def difference(
    folder: str, row: str, column: str, bucket: str, test: str = "length", metric: str | None = None
) -> Difference:
    """Return how much higher one model scores than another, with its interval."""
    comparison = significance.load(RESULTS / folder / significance.FILE).on(test, metric)
    if comparison is None:
        raise ValueError(f"results/{folder} compares nothing on {test}")
    for pair in comparison.pairs:
        names = [format_bucket({"low": low, "high": high}) for low, high in comparison.buckets]
        parts = dict(zip(["all", *names], [pair.overall, *pair.buckets], strict=True))
        if (pair.row, pair.column) == (row, column):
            return parts[bucket]
        if (pair.row, pair.column) == (column, row):
            return negate(parts[bucket])
    raise ValueError(f"results/{folder} does not compare {row} and {column} on {test}")


def interval(found: Difference, digits: int = 1) -> str:
    """Format a difference with its interval."""
    value, low, high = (f"{x:.{digits}f}" for x in (found.value, found.low, found.high))
    return f"{value} [{low}, {high}]".replace("-", "−")


def confirm(
    folder: str, models: Iterable[str], *, tokens: int, parameters: float, seeds: int | None = None
) -> None:
    """Raise ValueError unless the records have the budget, size (± 6 %) and seeds of a page."""
    for model in models:
        runs = records(folder, model)
        if seeds not in (None, len(runs)):
            raise ValueError(f"results/{folder}: {model} has {len(runs)} seeds, not {seeds}")
        for run in runs:
            has = run["train_config"]["tokens"], run["n_parameters"]
            if has[0] != tokens or abs(has[1] / parameters - 1) > 0.06:
                raise ValueError(f"results/{folder}: {model} has {has} tokens and parameters")


def published(source: str) -> dict[str, str]:
    """Return model -> the BLEU that a source in the ledger of published figures printed."""
    (entry,) = [entry for entry in ledger.load_ledger(RESULTS) if entry.source.startswith(source)]
    return {f.model: f.value for f in entry.figures if f.model and f.metric == "bleu"}


def table(
    folder: str,
    models: Iterable[str],
    columns: Mapping[str, tuple[str, str, str]],
    form: str,
    baseline: str = "",
) -> None:
    """Print a table of models × columns, each of a (test set, bucket, metric).

    A last row of a baseline, by its name, has the score "baseline" in place of each metric.
    """
    models = list(models)
    rows = [["", *columns]]
    for model in models:
        values = [score(folder, model, bucket, m, test) for test, bucket, m in columns.values()]
        rows.append([label_of(model), *(form.format(value) for value in values)])
    if baseline:
        values = [
            score(folder, models[0], bucket, "baseline", test)
            for test, bucket, _ in columns.values()
        ]
        rows.append([baseline, *(form.format(value) for value in values)])
    print(format_markdown(rows))


def say(text: str) -> None:
    """Print a paragraph, wrapped like the page."""
    kept_together = " ".join(text.split()).replace(" %", "\N{NO-BREAK SPACE}%")
    wrapped = textwrap.fill(kept_together, COLUMNS, break_on_hyphens=False)
    print(wrapped.replace("\N{NO-BREAK SPACE}%", " %"))

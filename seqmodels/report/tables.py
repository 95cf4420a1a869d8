"""Tables of records: in Markdown, and at the end of a run for a terminal. No torch.

A table is a list of rows of texts, of which the first is the header.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence

import numpy as np

from seqmodels.evaluation.intervals import MIN_ROWS
from seqmodels.evaluation.metrics import metric_of
from seqmodels.records.schema import Record, Test
from seqmodels.records.significance import Significance
from seqmodels.report import effects, load
from seqmodels.utils.terminal import format_table, pad_columns, terminal_width

Rows = list[list[str]]
CELLS = (
    "Mean over the seeds ± half their range (lowest to highest, where that would leave the scale), "
    "or the score of one seed [95 % interval over the examples]; – not recorded; [–] fewer than "
    f"{MIN_ROWS} examples."
)
"""What the cells of a table of scores are."""


def format_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as a Markdown table, padded to be readable as text."""
    columns = pad_columns(rows)
    rule = ["-" * len(text[0]) if i == 0 else "-" * (len(text[0]) - 1) + ":"
            for i, text in enumerate(columns)]  # fmt: skip
    head, *body = zip(*columns, strict=True)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *body))


def format_cell(seeds: np.ndarray, metric: str, n: int = MIN_ROWS) -> str:
    """Format (seeds, 3) of n examples: of one seed with its interval, else mean ± half the range.

    An interval is of one training. Those of several have no mean that is an interval of anything.
    """
    digits = metric_of(metric).digits
    value, low, high = (f"{v:.{digits}f}" for v in seeds.mean(axis=0))
    if value == "nan":
        return "–"
    if len(seeds) > 1:
        half = f"{np.ptp(seeds[:, 0]) / 2:.{digits}f}"
        room = min(float(value), 100 - float(value)) if metric_of(metric).is_percent else math.inf
        if float(half) > room + 1e-9:
            return f"{value} ({seeds[:, 0].min():.{digits}f} to {seeds[:, 0].max():.{digits}f})"
        return f"{value} ± {half}"
    return f"{value} [–]" if low == "nan" or n < MIN_ROWS else f"{value} [{low}, {high}]"


def format_mean(seeds: np.ndarray, metric: str, n: int = 0) -> str:
    """Format (seeds, 3) as the mean alone."""
    value = seeds[:, 0].mean()
    return "–" if math.isnan(value) else f"{value:.{metric_of(metric).digits}f}"


# -------------------------------------------------------------------------------- Scores and costs


def format_summary(records: Sequence[Record], compared: Significance | None = None) -> str:
    """Format what a comparison prints at its end: scores by bucket, effects of changes, costs."""
    width = terminal_width()
    parts = textwrap.wrap(load.format_subtitle(records), width)
    for test in load.tests_by_name(records).values():
        title, rows, notes = score_rows(records, test, format_mean)
        parts += ["", *textwrap.wrap(title, width), *format_table(rows)]
        parts += textwrap.wrap(notes, width)
        rows = effects.effect_rows(records, test, compared)
        if rows := rows or difference_rows(records, test, compared):
            parts += ["", *format_table(rows)]
    return "\n".join([*parts, "", *format_table(cost_rows(records))])


def format_tables(records: Sequence[Record], compared: Significance | None = None) -> str:
    """Format all tables in Markdown: scores and effects by test set, costs, differences."""
    parts, differences = [], []
    for test in load.tests_by_name(records).values():
        title, rows, notes = score_rows(records, test, format_cell)
        parts += [f"### {title}", format_markdown(rows), f"{notes} {CELLS}".strip()]
        signatures = {r.signatures.get(test.primary_metric, "") for r in records} - {""}
        parts += [f"`{signature}`" for signature in sorted(signatures)]
        if changes := effects.effect_rows(records, test, compared):
            parts += [f"### {test.name}: effects of changes", format_markdown(changes)]
        differences += format_differences(records, test, compared) if compared else []
    parts += ["### Costs", format_markdown(cost_rows(records)), *differences]
    return "\n\n".join(parts) + "\n"


def score_rows(
    records: Sequence[Record], test: Test, write: Callable[[np.ndarray, str, int], str]
) -> tuple[str, Rows, str]:
    """Return title, rows and notes of a table: the primary metric, models × buckets.

    `write(seeds, metric, n)` formats the scores of n examples.
    """
    name, metric, buckets = test.name, test.primary_metric, test.buckets
    counts = [sum(b.n for b in buckets), *(b.n for b in buckets)]
    heads = [
        load.format_bucket(b) + "*" * (b.n < load.MIN_EXAMPLES) + "†" * load.is_beyond(test, b)
        for b in buckets
    ]
    rows = [["model", "all", *heads]]
    notes = {"*": f"* fewer than {load.MIN_EXAMPLES}", "†": "† longer than trained"}
    notes = {mark: note for mark, note in notes.items() if mark in "".join(heads)}
    for group in load.group_by_model(records).values():
        seeds = load.score_array(group, name, metric)
        if not seeds.size:
            continue
        row = [
            load.label_of(group[0]),
            *(write(seeds[:, i], metric, n) for i, n in enumerate(counts)),
        ]
        if metric == "bleu":
            ratio = load.score_array(group, name, "length_ratio")[:, 0]
            row.append(format_mean(ratio, "length_ratio"))
        rows.append(row)
    if test.baseline:
        values = [f"{b['baseline'].value:.1f}" for b in buckets]
        rows.append([f"({load.name_baseline(test)})", "", *values])
    rows.append(["n", *(f"{n:,}" for n in counts)])
    if metric == "bleu":
        rows[0].append("length")
        notes["length"] = "length: of the hypotheses divided by that of the references"
    rows = [row + [""] * (len(rows[0]) - len(row)) for row in rows]
    title = f"{name}: {metric_of(metric).name} by {test.axis}{load.format_search(test)}"
    return title, rows, "; ".join(notes.values()) + "." * bool(notes)


def cost_rows(records: Sequence[Record]) -> Rows:
    """Return the rows of a table: parameters, seeds, validation loss and time of each model."""
    rows = [["model", "parameters", "seeds", "valid nats", "tokens/s", "train s", "evaluate s"]]
    for group in load.group_by_model(records).values():
        lowest = [min(p.valid_nats for p in r.curve) for r in group]
        rows.append([
            load.label_of(group[0]),
            load.format_parameters(group),
            " ".join(str(r.seed) for r in group) if len(group) < 4 else f"{len(group)} seeds",
            f"{np.mean(lowest):.3f}",
            f"{np.mean([r.speed.train_tokens_per_s for r in group]):,.0f}",
            f"{np.mean([r.train_s for r in group]):,.0f}",
            f"{np.mean([r.evaluate_s for r in group]):,.0f}",
        ])  # fmt: skip
    return rows


# ------------------------------------------------------------------------------------- Differences


def difference_rows(records: Sequence[Record], test: Test, compared: Significance | None) -> Rows:
    """Return the rows of a table: each model minus the first that it is tested against.

    The last column is the difference in the longest bucket, which is not tested.
    """
    comparison = compared and compared.on(test.name)
    if not comparison or not comparison.n_tested:
        return []
    metric, longest = comparison.metric, test.buckets[-1]
    labels, name = {r.model: load.label_of(r) for r in records}, load.format_bucket(longest)
    head = [f"difference in {metric_of(metric).name}", "all", "p (Holm)", "verdict"]
    rows = [[*head, name + "†" * load.is_beyond(test, longest)]]
    tested = {pair.row: pair for pair in reversed(comparison.pairs) if pair.p is not None}
    for pair in reversed(tested.values()):
        overall, last = (
            load.format_difference(d, metric) for d in (pair.overall, pair.buckets[-1])
        )
        verdict = load.format_verdict(pair, metric)
        names = f"{labels[pair.row]} − {labels[pair.column]}"
        rows.append([names, overall, load.format_p_value(pair.p), verdict, last])
    return rows


def format_differences(records: Sequence[Record], test: Test, compared: Significance) -> list[str]:
    """Format the differences on a test set in Markdown: tables of pairs of models × buckets."""
    labels, parts = {r.model: load.label_of(r) for r in records}, list[str]()
    for comparison in (c for c in compared.comparisons if c.test == test.name):
        metric = comparison.metric
        buckets = [load.format_bucket(bucket) for bucket in test.buckets]
        rows = [["row − column", "seeds", "all", "p (Holm)", "verdict", *buckets]]
        for pair in comparison.pairs:
            n_row, n_column = pair.n_seeds
            overall, *parts_of = (
                load.format_difference(own, metric) for own in (pair.overall, *pair.buckets)
            )
            rows.append([
                f"{labels[pair.row]} − {labels[pair.column]}",
                str(n_row) if n_row == n_column else f"{n_row} − {n_column}",
                overall, load.format_p_value(pair.p), load.format_verdict(pair, metric), *parts_of,
            ])  # fmt: skip
        title = f"### {test.name}: differences in {metric_of(metric).name}"
        parts += [title, format_markdown(rows), load.format_significance(comparison, test)]
    return parts

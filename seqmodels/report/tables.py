"""Tables of records: in Markdown, and at the end of a run for a terminal. No torch.

A table is a list of rows of texts, of which the first is the header.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence

import numpy as np

from seqmodels.evaluation.intervals import MIN_ROWS
from seqmodels.evaluation.metrics import LOSSES, metric_of
from seqmodels.records.schema import Record, Test
from seqmodels.records.significance import Difference, Significance
from seqmodels.report import effects, load
from seqmodels.report.load import (
    MIN_EXAMPLES,
    format_bucket,
    format_interval,
    format_interval_methods,
    format_p_value,
    format_parameters,
    format_search,
    format_short,
    format_signed,
    format_significance,
    format_subtitle,
    label_of,
)
from seqmodels.utils.terminal import format_table, pad_columns, terminal_width

MIN_SCORE = 1.0
"""Smallest score (of 100) in the first bucket from which a share is computed."""
Rows = list[list[str]]


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
        return f"{value} ± {np.ptp(seeds[:, 0]) / 2:.{digits}f}"
    return f"{value} [–]" if low == "nan" or n < MIN_ROWS else f"{value} [{low}, {high}]"


def _mean(seeds: np.ndarray, metric: str, n: int = 0) -> str:
    """Format (seeds, 3) as the mean alone."""
    value = seeds[:, 0].mean()
    return "–" if math.isnan(value) else f"{value:.{metric_of(metric).digits}f}"


# Scores and costs


def format_summary(records: Sequence[Record], compared: Significance | None = None) -> str:
    """Format what a comparison prints at its end: scores by bucket, effects of changes, costs."""
    parts = textwrap.wrap(format_subtitle(records), terminal_width())
    for test in load.tests_by_name(records).values():
        parts += ["", *format_scores(records, test)]
        if rows := effects.effect_rows(records, test, compared):
            parts += ["", *format_table(rows)]
    return "\n".join([*parts, "", *format_table(cost_rows(records))])


def format_scores(records: Sequence[Record], test: Test) -> list[str]:
    """Format the scores on a test set by bucket for a terminal, and what is kept of them."""
    title, rows, notes = score_rows(records, test, _mean)
    notes = textwrap.wrap("; ".join(notes), terminal_width())
    shares = textwrap.wrap(format_shares(records, test), terminal_width())
    return [*textwrap.wrap(title, terminal_width()), *format_table(rows), *notes, *shares]


def format_tables(records: Sequence[Record], compared: Significance | None = None) -> str:
    """Format all tables of records in Markdown, with notes."""
    tests = load.tests_by_name(records)
    parts = []
    for test in tests.values():
        title, rows, notes = score_rows(records, test, format_cell)
        parts += [f"### {title}", format_markdown(rows), "; ".join(notes)]
        metric = test.primary_metric
        signatures = sorted({r.signatures.get(metric, "") for r in records} - {""})
        parts += [f"{metric_of(metric).label}: `{signature}`" for signature in signatures]
        if changes := effects.effect_rows(records, test, compared):
            parts += [f"### {test.name}: effects of changes", format_markdown(changes)]
        if others := loss_rows(records, test):
            parts += [f"### {test.name}: teacher-forced losses", format_markdown(others)]
    metrics = dict.fromkeys(m for t in tests.values() for m in (t.primary_metric, *LOSSES))
    units = ", ".join(dict.fromkeys(t.grouped_by or t.noun for t in tests.values()))
    methods = format_interval_methods(records, metrics)
    n_seeds = {len(group) for group in load.group_by_model(records).values()}
    cells = ["mean over the seeds ± half their range"] * (max(n_seeds) > 1)
    notes = ["– not recorded"]
    if min(n_seeds) == 1:
        cells += [f"score of one seed [95 % interval ({methods}) over {units}]"]
        notes += [f"[–] fewer than {MIN_ROWS} {units}"]
    text = "; ".join([", or ".join(cells), *notes])
    parts += [
        f"{load.capitalise(text)}.",
        "### Costs",
        format_markdown(cost_rows(records)),
        format_equal_budgets(records),
    ]
    for test in tests.values():
        parts += [format_differences(records, test, compared)] if compared else []
    return "\n\n".join(filter(None, parts)) + "\n"


def score_rows(
    records: Sequence[Record], test: Test, write: Callable[[np.ndarray, str, int], str]
) -> tuple[str, Rows, list[str]]:
    """Return title, rows and notes of a table: the primary metric, models × buckets.

    `write(seeds, metric, n)` formats the scores of n examples.
    """
    name, metric, buckets = test.name, test.primary_metric, test.buckets
    counts = [sum(b.n for b in buckets), *(b.n for b in buckets)]
    heads = [
        format_bucket(b) + "*" * (b.n < MIN_EXAMPLES) + "†" * load.is_beyond(test, b)
        for b in buckets
    ]
    rows = [["model", "all", *heads]]
    notes = {"*": f"* fewer than {MIN_EXAMPLES}: too few to compare", "†": "† longer than trained"}
    notes = {mark: note for mark, note in notes.items() if mark in "".join(heads)}
    for group in load.group_by_model(records).values():
        seeds = load.score_array(group, name, metric)
        if not seeds.size:
            continue
        row = [label_of(group[0]), *(write(seeds[:, i], metric, n) for i, n in enumerate(counts))]
        if metric == "bleu":
            ratio = load.score_array(group, name, "length_ratio")
            row.append(_mean(ratio[:, 0], "length_ratio"))
        rows.append(row)
    if test.baseline:
        values = [f"{b['baseline'].value:.1f}" for b in buckets]
        rows.append([f"({load.name_baseline(test)})", "", *values])
    rows.append(["n", *(f"{n:,}" for n in counts)])
    if metric == "bleu":
        rows[0].append("length")
        notes["length"] = "length: of the hypotheses divided by that of the references"
    rows = [row + [""] * (len(rows[0]) - len(row)) for row in rows]
    title = f"{name}: {metric_of(metric).name} by {test.axis}{format_search(test)}"
    return title, rows, [*notes.values()]


def loss_rows(records: Sequence[Record], test: Test) -> Rows:
    """Return the rows of a table: models × other losses over all examples; or none."""
    metrics = [m for m in LOSSES if m != test.primary_metric]
    rows = [["model", *(metric_of(m).name for m in metrics)]]
    for group in load.group_by_model(records).values():
        seeds = [load.score_array(group, test.name, m) for m in metrics]
        if seeds and seeds[0].size:
            cells = [format_cell(x[:, 0], m) for x, m in zip(seeds, metrics, strict=True)]
            rows.append([label_of(group[0]), *cells])
    return rows if metrics else []


def cost_rows(records: Sequence[Record]) -> Rows:
    """Return the rows of a table: parameters, seeds, validation loss and time of each model."""
    rows = [["model", "parameters", "seeds", "valid nats", "tokens/s", "train s", "evaluate s"]]
    for group in load.group_by_model(records).values():
        lowest = [min(p.valid_nats for p in r.curve) for r in group]
        speeds = [r.speed.train_tokens_per_s for r in group]
        rows.append([
            label_of(group[0]),
            format_parameters(group),
            " ".join(str(r.seed) for r in group) if len(group) < 4 else f"{len(group)} seeds",
            f"{np.mean(lowest):.3f}",
            f"{np.mean(speeds):,.0f}",
            f"{np.mean([r.train_s for r in group]):,.0f}",
            f"{np.mean([r.evaluate_s for r in group]):,.0f}",
        ])  # fmt: skip
    return rows


def format_shares(records: Sequence[Record], test: Test) -> str:
    """Format each model's score in the longest trained bucket as a share of that in the first.

    Empty if there are no two such buckets of MIN_EXAMPLES, or no score of at least MIN_SCORE.
    """
    if (last := load.longest_trained_bucket(test)) is None or test.kind == "place":
        return ""
    metric = metric_of(test.primary_metric)
    shares = []
    for group in load.group_by_model(records).values():
        seeds = load.score_array(group, test.name, test.primary_metric)
        before, after = seeds[:, [1, 1 + last], 0].mean(axis=0) if seeds.size else (0, math.nan)
        if math.isfinite(after) and before >= (0 if metric.is_loss else MIN_SCORE):
            share = f"{100 * after / before:.0f}\N{NO-BREAK SPACE}%"
            shares.append(f"{label_of(group[0])} {share} of {before:.{metric.digits}f}")
    if not shares:
        return ""
    first, longest = (format_bucket(test.buckets[i]) for i in (0, last))
    trained = " in training" * (test.max_train_length is not None)
    return (
        f"{load.capitalise(metric.label)} at {longest} {test.unit}, the longest"
        f"{trained}, as a share of that at {first}: {', '.join(shares)}."
    )


# Differences and equal budgets


def format_differences(records: Sequence[Record], test: Test, compared: Significance) -> str:
    """Format the differences on a test set as Markdown tables: pairs of models × buckets."""
    labels, parts = {r.model: label_of(r) for r in records}, []
    for comparison in compared.comparisons:
        if comparison.test != test.name:
            continue
        metric = comparison.metric
        rows = [["row − column", "seeds", "all", "p", *(format_bucket(b) for b in test.buckets)]]
        for pair in comparison.pairs:
            overall, (n_row, n_column) = pair.overall, pair.n_seeds
            rows.append([
                f"{labels[pair.row]} − {labels[pair.column]}",
                str(n_row) if n_row == n_column else f"{n_row} − {n_column}",
                f"{_bold(overall, metric)} {format_interval(overall, metric)}",
                format_p_value(overall.p),
                *(_bold(bucket, metric) for bucket in pair.buckets),
            ])  # fmt: skip
        explained = format_significance(comparison, test)
        title = f"### {test.name}: differences in {metric_of(metric).name}"
        note = f"Bold: significant. {explained}"
        parts.append(f"{title}\n\n{format_markdown(rows)}\n\n{note}")
    return "\n\n".join(parts)


def _bold(difference: Difference, metric: str) -> str:
    """Format a difference, in bold if it is significant."""
    text = format_signed(difference.value, metric)
    return f"**{text}**" if difference.is_significant else text


def format_equal_budgets(records: Sequence[Record]) -> str:
    """Format validation losses at equal target tokens, compute and time as a Markdown table.

    Each budget is the largest that all runs have spent. Empty for a single model.
    """
    groups = load.group_by_model(records)
    if len(groups) < 2:
        return ""
    points = {  # of each run's curve: tokens, seconds, loss
        id(r): np.array([(p.tokens, p.seconds, p.valid_nats) for p in r.curve]).T for r in records
    }
    machines = [r.provenance for r in records]
    is_one_machine = len({str((m.system, m.device, m.threads, m.versions)) for m in machines}) == 1
    columns = []
    for kind, unit in {"target tokens": "", "compute": "FLOP", "time": "s"}.items():
        spent = {
            id(r): points[id(r)][int(kind == "time")]
            * ((r.flops_per_token or np.nan) if kind == "compute" else 1)
            for r in records
        }
        budget = np.min([each[-1] for each in spent.values()])  # nan if one is unknown
        if not math.isfinite(budget) or (kind == "time" and not is_one_machine):
            continue
        column = [f"equal {kind}: {format_short(budget, unit=unit)}"]
        for group in groups.values():
            lowest = [np.minimum.accumulate(points[id(r)][2]) for r in group]
            seeds = [np.interp(budget, spent[id(r)], y) for r, y in zip(group, lowest, strict=True)]
            spread = f" ± {np.ptp(seeds) / 2:.3f}" if len(seeds) > 1 else ""
            column.append(f"{np.mean(seeds):.3f}{spread}")
        columns.append(column)
    names = ["model", *(label_of(group[0]) for group in groups.values())]
    title = "### Validation loss (nats per token) at equal budgets"
    note = (
        "Read off the learning curves, at the largest budget that all runs have spent; before the "
        "end of a run, its learning rate has not fallen to zero yet. Compute: matrix products, "
        "forward and backward."
    )
    return f"{title}\n\n{format_markdown(list(zip(names, *columns, strict=True)))}\n\n{note}"

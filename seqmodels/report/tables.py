"""Tables of records: in Markdown, and at the end of a run for a terminal. No torch."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from seqmodels.evaluation.intervals import MIN_ROWS
from seqmodels.evaluation.metrics import LOSSES, metric_of
from seqmodels.models import paper_of
from seqmodels.records import ledger
from seqmodels.records.significance import Difference, Significance
from seqmodels.report import reading
from seqmodels.report.reading import (
    MIN_EXAMPLES,
    Record,
    bucket_name,
    format_interval,
    format_significance,
    interval_methods,
    label_of,
    noun,
    p_value,
    parameters,
    search_method,
    short,
    signed,
    subtitle,
)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, padded to be readable in a terminal; the first row is the header."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]
    lines = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:]))


def cell(seeds: np.ndarray, metric: str, n: int = MIN_EXAMPLES) -> str:
    """Format (seeds, 3) as mean, half the range of the seeds, and interval."""
    digits = metric_of(metric).digits
    value, low, high = (f"{v:.{digits}f}" for v in seeds.mean(axis=0))
    spread = f" ± {np.ptp(seeds[:, 0]) / 2:.{digits}f}" if len(seeds) > 1 else ""
    interval = "[–]" if low == "nan" or n < MIN_ROWS else f"[{low}, {high}]"
    return "–" if value == "nan" else f"{value}{spread} {interval}{'*' if n < MIN_EXAMPLES else ''}"


def mean_and_spread(seeds: Sequence[float], digits: int = 3) -> str:
    """Format a value of several seeds as their mean and half their range."""
    spread = f" ± {np.ptp(seeds) / 2:.{digits}f}" if len(seeds) > 1 else ""
    return f"{np.mean(seeds):.{digits}f}{spread}"


def _overall(records: Sequence[Record], test: dict[str, Any]) -> list[list[str]]:
    """Return the rows of one test set: overall score, losses and costs of each model."""
    name, primary = test["name"], test["primary_metric"]
    metrics = [primary, *(m for m in LOSSES if m != primary)]
    metrics += ["source_gain"] * ("source_gain" in test["overall"])
    heads = [metric_of(m).name for m in metrics]
    rows = [["model", "seeds", "parameters", *heads, "train tokens/s", "train s"]]
    for model, group in reading.by_model(records).items():
        if n_seeds := len(reading.scores(group, name, primary)):
            cells = [cell(reading.scores(group, name, m)[:, 0], m) for m in metrics]
            costs = [np.mean([r["speed"]["train_tokens_per_s"] for r in group]),
                     np.mean([r["train_s"] for r in group])]  # fmt: skip
            costs = [f"{cost:,.0f}" for cost in costs]
            rows.append([label_of(model), str(n_seeds), parameters(group), *cells, *costs])
    return rows


def table(records: Sequence[Record]) -> str:
    """Return one Markdown table per test set, with signatures and an explanation of the cells."""
    parts, tests = [], reading.tests(records)
    for name, test in tests.items():
        parts += [f"### {name}: by {test['axis']}{search_method(test)}"]
        parts += [markdown(_overall(records, test))]
        primary = test["primary_metric"]
        signatures = sorted({r["signatures"].get(primary, "") for r in records} - {""})
        parts += [f"{metric_of(primary).label}: `{signature}`" for signature in signatures]
    examples = noun(records)
    metrics = dict.fromkeys(m for t in tests.values() for m in (t["primary_metric"], *LOSSES))
    units = ", ".join(dict.fromkeys(t.get("grouped_by") or examples for t in tests.values()))
    parts.append(
        "Mean over the seeds ± half their range [95 % interval "
        f"({interval_methods(records, metrics)}) over {units}, mean over the seeds]; – not "
        f"recorded; * fewer than {MIN_EXAMPLES} {examples}, [–] fewer than {MIN_ROWS} {units}. "
        "Losses: teacher-forced."
    )
    return "\n\n".join(parts) + "\n"


def by_length_table(records: Sequence[Record]) -> str:
    """Return one Markdown table per test set: the primary metric, models × buckets, with counts."""
    parts = []
    for name, test in reading.tests(records).items():
        primary, buckets = test["primary_metric"], test["buckets"]
        rows = [
            [test["axis"], *(bucket_name(b) + "†" * reading.is_beyond(test, b) for b in buckets)]
        ]
        for model, group in reading.by_model(records).items():
            if (scores := reading.scores(group, name, primary)).size:
                cells = [cell(scores[:, i + 1], primary, b["n"]) for i, b in enumerate(buckets)]
                rows.append([label_of(model), *cells])
        if test.get("baseline"):
            values = (f"{b['baseline']['value']:.1f}" for b in buckets)
            rows.append([f"({test['baseline']})", *values])
        rows.append(["n", *(f"{b['n']:,}" for b in buckets)])
        parts += [f"### {name}: {metric_of(primary).name}", markdown(rows)]
        parts += ["† longer than trained"] * any(reading.is_beyond(test, b) for b in buckets)
    return "\n\n".join(parts) + "\n"


def differences(records: Sequence[Record], compared: Significance) -> str:
    """Return one Markdown table per test set: all pairs of models × buckets."""
    parts = []
    for name, test in reading.tests(records).items():
        if (comparison := compared.on(name)) is None:
            continue
        metric = comparison.metric
        rows = [["row − column", "seeds", "all", "p", *(bucket_name(b) for b in test["buckets"])]]
        for pair in comparison.pairs:
            found, (n_row, n_column) = pair.overall, pair.n_seeds
            pair_name = " − ".join(label_of(model) for model in (pair.row, pair.column))
            n_seeds = str(n_row) if n_row == n_column else f"{n_row} − {n_column}"
            everything = f"{_bold(found, metric)} {format_interval(found, metric)}"
            buckets = [_bold(bucket, metric) for bucket in pair.buckets]
            rows.append([pair_name, n_seeds, everything, p_value(found.p_holm), *buckets])
        units = test.get("grouped_by") or noun(records)
        note = "Bold: significant at 5 %. p: corrected. " + format_significance(comparison, units)
        parts += [f"### {name}: differences in {metric_of(metric).name}", markdown(rows), note]
    return "\n\n".join(parts) + "\n"


def _bold(found: Difference, metric: str) -> str:
    """Format a difference, in bold if it is significant."""
    text = signed(found.value, metric)
    return f"**{text}**" if found.is_significant else text


# Equal budgets


def curve(r: Record, key: str) -> np.ndarray:
    """Return a field of all points of the learning curve."""
    return np.array([point[key] for point in r["curve"]], float)


def seconds(r: Record) -> np.ndarray:
    """Return the seconds of training at each point of the curve."""
    return curve(r, "seconds")


def tokens(r: Record) -> np.ndarray:
    """Return the target tokens at each point of the curve."""
    return curve(r, "tokens")


def operations(r: Record) -> np.ndarray:
    """Return the floating-point operations at each point of the curve; nan if not counted."""
    return tokens(r) * (r.get("flops_per_token") or np.nan)


def loss_at(r: Record, spent: np.ndarray, budget: float) -> float:
    """Return the lowest validation loss up to a budget, interpolated between the curve's points."""
    return float(np.interp(budget, spent, np.minimum.accumulate(curve(r, "valid_nats"))))


def is_one_machine(records: Sequence[Record]) -> bool:
    """Return whether all runs were timed on the same kind of machine with the same software."""
    keys = ("system", "device", "threads", "versions")
    return all(
        r["provenance"][key] == records[0]["provenance"][key] for r in records for key in keys
    )


SPENT: dict[str, tuple[Callable[[Record], np.ndarray], str]] = {
    "target tokens": (tokens, ""),
    "compute": (operations, "FLOP"),
    "time": (seconds, "s"),
}
"""Kind of budget -> what was spent at each point of the curve, and its unit."""


def equal_budgets(records: Sequence[Record]) -> str:
    """Return a Markdown table: validation loss at equal target tokens, equal compute, equal time.

    Each budget is the largest that all runs have spent. Empty for a single model.
    """
    groups = reading.by_model(records)
    columns = []
    for kind, (spent, unit) in SPENT.items():
        budget = np.min([spent(r)[-1] for r in records])  # nan if one is unknown
        if math.isfinite(budget) and (kind != "time" or is_one_machine(records)):
            losses = ([loss_at(r, spent(r), budget) for r in g] for g in groups.values())
            head = f"equal {kind}: {short(budget, unit=unit)}"
            columns.append([head, *(mean_and_spread(seeds) for seeds in losses)])
    if len(groups) < 2:
        return ""
    labels = [label_of(model) for model in groups]
    sizes = [parameters(group) for group in groups.values()]
    rows = list(zip(["model", *labels], ["parameters", *sizes], *columns, strict=True))
    note = (
        "Read off the learning curves, at the largest budget that all runs have spent; the mean "
        "over the seeds ± half their range. Before the end of a run, its learning rate has not "
        "fallen to zero yet. Compute: matrix products, forward and backward."
    )
    title = "### Validation loss (nats per token) at equal budgets"
    return f"{title}\n\n{markdown(rows)}\n\n{note}\n"


# Published figures


def _ours(figure: ledger.Figure | None, folders: Mapping[str, Sequence[Record]]) -> str:
    """Format our score with its interval and our parameters; a dash if no record has it."""
    if figure is None or (ours := figure.ours) is None:
        return "–"
    group = [r for r in folders.get(ours.folder, ()) if r["model"] == ours.model]
    scores = reading.scores(group, ours.test, ours.score)
    score = cell(scores[:, 0], ours.score) if scores.size else "–"
    return score if score == "–" else f"{score} ({parameters(group)})"


def _theirs(figure: ledger.Figure | None) -> str:
    """Format a value as it was printed, and the number of parameters if it is known."""
    if figure is None:
        return "–"
    return figure.value + (f" ({short(figure.parameters)})" if figure.parameters else "")


def _beside(entry: ledger.Entry, folders: Mapping[str, Sequence[Record]]) -> str:
    """Return one Markdown table: systems × metrics, with our score to the right of each."""
    columns = dict.fromkeys((f.metric, f.on) for f in entry.figures)
    systems: dict[str, dict[Any, ledger.Figure]] = {}
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
            figure = figures.get(column)
            rows[-1] += [_theirs(figure)]
            rows[-1] += [_ours(figure, folders)] if entry.comparable else []
    return markdown(rows)


def published(entries: Sequence[ledger.Entry], folders: Mapping[str, Sequence[Record]]) -> str:
    """Return all figures of a ledger next to ours, comparable entries first."""
    parts = [
        "## Published figures",
        f"From [{ledger.FILE}]({ledger.FILE}): values as printed in their sources, with the number "
        "of parameters in parentheses if it is reported. Our scores, with 95 % intervals, are "
        "shown where data, test set and metric are the same apart from the differences noted; – "
        "means that there is no such figure or no record.",
    ]
    for entry in sorted(entries, key=lambda entry: not entry.comparable):
        title = f"{entry.source} {entry.year}" if entry.year else entry.source
        title = f"[{title}]({entry.url})" if entry.url else title
        facts = (entry.corpus, entry.direction, entry.test, entry.text, entry.search, entry.setting)
        verdict = "Comparable" if entry.comparable else "Not comparable"
        parts += [
            f"### {title}{f', {entry.place}' if entry.place else ''}",
            f"{' · '.join(filter(None, facts))}. **{verdict}**: {entry.why}.",
            _beside(entry, folders),
        ]
        parts += [f"{entry.finding}."] if entry.finding else []
    return "\n\n".join(parts)


# The end of a run

WIDTH = 100
NAME = 30
"""Most columns for the name of a model."""
MIN_SCORE = 1.0
"""Least score (of 100) for which the percentage that is kept is printed."""


def summary(records: Sequence[Record]) -> str:
    """Return the scores of each test set, then the costs."""
    parts = textwrap.wrap(subtitle(records), WIDTH)
    for test in reading.tests(records).values():
        parts += ["", *score_lines(records, test), *textwrap.wrap(kept(records, test), WIDTH)]
    return "\n".join([*parts, "", *costs(records)])


def short_label(model: str) -> str:
    """Return the label of a model, shortened to NAME columns."""
    label = label_of(model)
    return label if len(label) <= NAME else f"{label[: NAME - 1]}…"


def align_columns(rows: Sequence[Sequence[str]], n_fixed: int = 1) -> list[str]:
    """Align the rows in columns; columns that do not fit into a line continue in a block below.

    The first `n_fixed` columns, the names of the rows, are repeated at the left of each block.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    blocks: list[list[int]] = [[]]
    left = sum(widths[:n_fixed]) + 2 * (n_fixed - 1)
    used = left
    for i in range(n_fixed, len(widths)):
        if blocks[-1] and used + 2 + widths[i] > WIDTH:
            blocks.append([])
            used = left
        blocks[-1].append(i)
        used += 2 + widths[i]
    lines = []
    for block in blocks:
        for row in rows:
            cells = [row[0].ljust(widths[0])]
            cells += [row[i].rjust(widths[i]) for i in [*range(1, n_fixed), *block]]
            lines.append("  ".join(cells).rstrip())
    return lines


def score_lines(records: Sequence[Record], test: dict[str, Any]) -> list[str]:
    """Return the lines of a test set: each model's primary metric by bucket, mean of the seeds."""
    name, metric, buckets = test["name"], test["primary_metric"], test["buckets"]
    digits = metric_of(metric).digits
    is_beyond = [reading.is_beyond(test, b) for b in buckets]
    heads = [
        f"{bucket_name(b)}{'*' * (b['n'] < MIN_EXAMPLES)}{'†' * beyond}"
        for b, beyond in zip(buckets, is_beyond, strict=True)
    ]
    groups = reading.by_model(records)
    ratios = {model: ratio(group, name) for model, group in groups.items()}
    has_ratio = metric == "bleu" and any(map(math.isfinite, ratios.values()))
    at_chance = {model for model, group in groups.items() if is_at_chance(group, test)}
    rows = [["", "all", *heads, *(["length"] if has_ratio else [])]]
    for model, group in groups.items():
        if (seeds := reading.scores(group, name, metric)).size:
            cells = [number(value, digits) for value in seeds[..., 0].mean(axis=0)]
            cells += [number(ratios[model], metric_of("length_ratio").digits)] * has_ratio
            rows.append([short_label(model) + "‡" * (model in at_chance), *cells])
    counts = [f"{b['n']:,}" for b in buckets]
    rows.append(["n", f"{sum(b['n'] for b in buckets):,}", *counts, *([""] * has_ratio)])
    title = f"{name}: {metric_of(metric).name} by {test['axis']}{search_method(test)}"
    notes = [f"* fewer than {MIN_EXAMPLES}: too few to compare"] * any("*" in h for h in heads)
    notes += ["† longer than trained"] * any(is_beyond)
    notes += ["length: of the hypotheses divided by that of the references"] * has_ratio
    notes += ["‡ not better than references in another order: train on more with --tokens"] * bool(
        at_chance
    )
    return [
        *textwrap.wrap(title, WIDTH),
        *align_columns(rows),
        *textwrap.wrap("; ".join(notes), WIDTH),
    ]


def kept(records: Sequence[Record], test: dict[str, Any]) -> str:
    """Return how much of its score in the first bucket a model has in the longest trained one.

    Empty if there are no such buckets of at least MIN_EXAMPLES, or no score of at least MIN_SCORE.
    """
    last = reading.longest_trained_bucket(test) if test["kind"] != "place" else None
    metric = metric_of(test["primary_metric"])
    shares = []
    for model, group in reading.by_model(records).items() if last else ():
        seeds = reading.scores(group, test["name"], test["primary_metric"])
        before, after = seeds[:, [1, 1 + (last or 0)], 0].mean(axis=0) if seeds.size else (0, 0)
        if math.isfinite(after) and before >= (0 if metric.is_loss else MIN_SCORE):
            shares.append(f"{short_label(model)} {100 * after / before:.0f}\N{NO-BREAK SPACE}%")
    if not shares:
        return ""
    first, longest = (bucket_name(test["buckets"][i]) for i in (0, last or 0))
    label = metric.label[0].upper() + metric.label[1:]
    of_what = f"{label} at {longest} {test['unit']}, the longest"
    of_what += " trained" * (test["max_train_length"] is not None)
    return f"{of_what}, as a share of that at {first}: {', '.join(shares)}."


def is_at_chance(group: Sequence[Record], test: dict[str, Any]) -> bool:
    """Return whether BLEU is not above that of the references in another order."""
    bleu, chance = (reading.scores(group, test["name"], m) for m in ("bleu", "chance_bleu"))
    is_known = test["primary_metric"] == "bleu" and bool(chance.size)
    return is_known and bool((bleu[:, 0, 0] <= chance[:, 0, 0]).all())


def ratio(group: Sequence[Record], name: str) -> float:
    """Return the length of the hypotheses over that of the references; nan: not recorded."""
    found = reading.scores(group, name, "length_ratio")
    return float(found[:, 0, 0].mean()) if found.size else math.nan


def number(value: float, digits: int) -> str:
    """Format a number; nan as a dash."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def costs(records: Sequence[Record]) -> list[str]:
    """Return the lines of the costs: parameters, seeds, validation loss and time of each model."""
    rows = [["", "parameters", "seeds", "valid nats", "tokens/s", "train s", "evaluate s"]]
    for model, group in reading.by_model(records).items():
        lowest = [min(p["valid_nats"] for p in r["curve"]) for r in group]
        rows.append([
            short_label(model),
            parameters(group),
            " ".join(str(r["seed"]) for r in group) if len(group) < 4 else f"{len(group)} seeds",
            f"{np.mean(lowest):.3f}",
            f"{np.mean([r['speed']['train_tokens_per_s'] for r in group]):,.0f}",
            f"{np.mean([r['train_s'] for r in group]):,.0f}",
            f"{np.mean([r['evaluate_s'] for r in group]):,.0f}",
        ])  # fmt: skip
    return align_columns(rows)

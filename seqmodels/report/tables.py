"""Markdown tables of records, and of published figures next to ours. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seqmodels.evaluation.intervals import MIN_ROWS
from seqmodels.evaluation.metrics import LOSSES, metric_of
from seqmodels.evaluation.significance import Difference
from seqmodels.models import paper_of
from seqmodels.records import ledger
from seqmodels.records.significance import Significance
from seqmodels.report import reading, style, wording
from seqmodels.report.findings import THIN, bucket_name, label_of
from seqmodels.report.reading import Record


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, padded to be readable in a terminal; the first row is the header."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]
    lines = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:]))


def cell(seeds: np.ndarray, metric: str, n: int = THIN) -> str:
    """Format (seeds, 3) as mean, half the range of the seeds, and interval."""
    digits = metric_of(metric).digits
    value, low, high = (f"{v:.{digits}f}" for v in seeds.mean(axis=0))
    spread = f" ± {np.ptp(seeds[:, 0]) / 2:.{digits}f}" if len(seeds) > 1 else ""
    interval = "[–]" if low == "nan" or n < MIN_ROWS else f"[{low}, {high}]"
    return "–" if value == "nan" else f"{value}{spread} {interval}{'*' if n < THIN else ''}"


def mean_and_spread(seeds: Sequence[float], digits: int = 3) -> str:
    """Format a value of several seeds as their mean and half their range."""
    spread = f" ± {np.ptp(seeds) / 2:.{digits}f}" if len(seeds) > 1 else ""
    return f"{np.mean(seeds):.{digits}f}{spread}"


def _overall(records: Sequence[Record], test: dict[str, Any]) -> list[list[str]]:
    """Return the rows of one test set: score overall and at up to three lengths, losses, cost."""
    name, primary, buckets = test["name"], test["primary_metric"], test["buckets"]
    longest = test["max_train_length"] or -math.inf
    trained = [i for i, b in enumerate(buckets) if b["high"] <= longest]
    ends = ("first", "last") if test["kind"] == "place" else ("shortest", "longest")
    at = {0: ends[0]} | dict.fromkeys(trained[-1:], "longest trained")
    beyond = ", longer than trained" * reading.is_beyond(test, buckets[-1])
    at |= {len(buckets) - 1: ends[1] + beyond}
    losses = [m for m in LOSSES if m != primary]
    heads = [metric_of(primary).name, *(f"{bucket_name(buckets[i])}, {at[i]}" for i in at)]
    losses += ["source_gain"] * ("source_gain" in test["overall"])
    heads += [*(metric_of(m).name for m in losses), "train tokens/s", "train s"]
    rows = [["model", "seeds", "parameters", *heads]]
    for model, group in reading.by_model(records).items():
        if (scores := reading.scores(group, name, primary)).size:
            row = [style.looks([model])[model].label, str(len(scores)), wording.parameters(group)]
            row += [cell(scores[:, 0], primary)]
            row += [cell(scores[:, i + 1], primary, buckets[i]["n"]) for i in at]
            row += [cell(reading.scores(group, name, m)[:, 0], m) for m in losses]
            speed = np.mean([r["speed"]["train_tokens_per_s"] for r in group])
            rows.append([*row, f"{speed:,.0f}", f"{np.mean([r['train_s'] for r in group]):,.0f}"])
    return rows


def table(records: Sequence[Record]) -> str:
    """Return one Markdown table per test set, with signatures and an explanation of the cells."""
    parts = [wording.subtitle(records)]
    for name, test in reading.tests(records).items():
        title = f"### {name}: by {test['axis']}{wording.search(test)}"
        parts += [title, markdown(_overall(records, test))]
        signed = {
            (k, s)
            for r in records
            for k, s in r["signatures"].items()
            if k == test["primary_metric"]
        }
        parts += ["\n".join(f"{metric_of(k).label}: `{s}`" for k, s in sorted(signed))] * bool(
            signed
        )
    noun = wording.noun(records)
    tests = reading.tests(records).values()
    shown = {m: None for test in tests for m in (test["primary_metric"], *LOSSES)}
    units = ", ".join(dict.fromkeys(test.get("grouped_by") or noun for test in tests))
    note = "Mean over the seeds ± half their range [95 % interval "
    note += f"({wording.methods(records, shown)}) over {units}, mean over the seeds]"
    note += f"; – not recorded; * fewer than {THIN} {noun}, [–] fewer than {MIN_ROWS} {units}"
    parts += [f"{note}. Losses: teacher-forced."]
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
                rows.append([style.looks([model])[model].label, *cells])
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
            everything = f"{_bold(found, metric)} {wording.between(found, metric)}"
            buckets = [_bold(bucket, metric) for bucket in pair.buckets]
            rows.append([pair_name, n_seeds, everything, wording.p_value(found.p_holm), *buckets])
        units = test.get("grouped_by") or wording.noun(records)
        note = "Bold: significant at 5 %. p: corrected. " + wording.tested(comparison, units)
        parts += [f"### {name}: differences in {metric_of(metric).name}", markdown(rows), note]
    return "\n\n".join(parts) + "\n"


def _bold(found: Difference, metric: str) -> str:
    """Format a difference, in bold if it is significant."""
    text = wording.signed(found.value, metric)
    return f"**{text}**" if found.is_significant else text


# Published figures


def _ours(figure: ledger.Figure | None, folders: Mapping[str, Sequence[Record]]) -> str:
    """Format our score with its interval and our parameters; a dash if no record has it."""
    if figure is None or (ours := figure.ours) is None:
        return "–"
    group = [r for r in folders.get(ours.folder, ()) if r["model"] == ours.model]
    scores = reading.scores(group, ours.test, ours.score)
    score = cell(scores[:, 0], ours.score) if scores.size else "–"
    return score if score == "–" else f"{score} ({wording.parameters(group)})"


def _theirs(figure: ledger.Figure | None) -> str:
    """Format a value as it was printed, and the number of parameters if it is known."""
    if figure is None:
        return "–"
    return figure.value + (f" ({wording.short(figure.parameters)})" if figure.parameters else "")


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

"""The table that a comparison prints at its end: scores by bucket, and costs. No torch.

Lines have at most WIDTH columns. `tables.table` has the same scores with intervals, in tables of
any width.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from seqmodels.evaluation.metrics import metric_of
from seqmodels.report import reading
from seqmodels.report.format import bucket_name, label_of, parameters, search_method, subtitle
from seqmodels.report.reading import MIN_EXAMPLES, Record

WIDTH = 100
NAME = 30
"""Most columns for the name of a model."""
MIN_SCORE = 1.0
"""Least score (of 100) for which the percentage that is kept is printed."""


def summary(records: Sequence[Record]) -> str:
    """Return the scores of each test set, then the costs."""
    parts = textwrap.wrap(subtitle(records), WIDTH)
    for test in reading.tests(records).values():
        parts += ["", *scores(records, test), *textwrap.wrap(kept(records, test), WIDTH)]
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


def scores(records: Sequence[Record], test: dict[str, Any]) -> list[str]:
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

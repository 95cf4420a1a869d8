"""The summary that a comparison prints: scores by bucket, conclusions as sentences, and costs.

It is computed from records only; no torch. Lines have at most WIDTH columns. `tables.table` has the
same scores with intervals, in tables of any width.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from seqmodels.evaluation.metrics import metric_of
from seqmodels.report import findings, reading, wording
from seqmodels.report.findings import THIN, bucket_name

WIDTH = 100
NAME = 30
"""Most columns for the name of a model."""
LEARNED = 1.0
"""Least score (of 100) for which the percentage kept is reported."""
APART = 10.0
"""Percentage points between models that are reported separately."""

Records = Sequence[dict[str, Any]]


def summary(records: Records) -> str:
    """Return the summary: scores and conclusions of each test set, then the costs."""
    parts = textwrap.wrap(wording.subtitle(records), WIDTH)
    for test in reading.tests(records).values():
        parts += ["", *scores(records, test)]
        parts += [
            line for text in describe_test(records, test) for line in textwrap.wrap(text, WIDTH)
        ]
    return "\n".join([*parts, "", *costs(records)])


# ------------------------------------------------------------------------------------- Tables


def label_of(model: str) -> str:
    """Return the shortened label of a model; an unknown model keeps its name."""
    label = findings.label_of(model)
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


def scores(records: Records, test: dict[str, Any]) -> list[str]:
    """Return the lines of a test set: each model's primary metric by bucket, mean of the seeds."""
    name, metric, buckets = test["name"], test["primary_metric"], test["buckets"]
    digits = metric_of(metric).digits
    is_beyond = [reading.is_beyond(test, b) for b in buckets]
    heads = [
        f"{bucket_name(b)}{'*' * (b['n'] < THIN)}{'†' * beyond}"
        for b, beyond in zip(buckets, is_beyond, strict=True)
    ]
    ratios = {m: ratio(group, name) for m, group in reading.by_model(records).items()}
    has_ratio = metric == "bleu" and any(map(math.isfinite, ratios.values()))
    rows = [["", "all", *heads, *(["length"] if has_ratio else [])]]
    for model, group in reading.by_model(records).items():
        if (found := reading.scores(group, name, metric)).size:
            cells = [number(value, digits) for value in found[..., 0].mean(axis=0)]
            cells += [number(ratios[model], metric_of("length_ratio").digits)] * has_ratio
            rows.append([label_of(model), *cells])
    counts = [f"{b['n']:,}" for b in buckets]
    rows.append(["n", f"{sum(b['n'] for b in buckets):,}", *counts, *([""] * has_ratio)])
    title = f"{name}: {metric_of(metric).name} by {test['axis']}{wording.search(test)}"
    notes = [f"* fewer than {THIN}: too few to compare"] * any("*" in head for head in heads)
    notes += ["† longer than trained"] * any(is_beyond)
    notes += ["length: of the hypotheses divided by that of the references"] * has_ratio
    return [
        *textwrap.wrap(title, WIDTH),
        *align_columns(rows),
        *textwrap.wrap("; ".join(notes), WIDTH),
    ]


def ratio(group: Records, name: str) -> float:
    """Return the length of the hypotheses over that of the references; nan: not recorded."""
    found = reading.scores(group, name, "length_ratio")
    return float(found[:, 0, 0].mean()) if found.size else math.nan


def number(value: float, digits: int) -> str:
    """Format a number; nan as a dash."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def costs(records: Records) -> list[str]:
    """Return the lines of the costs: parameters, seeds, validation loss and time of each model."""
    rows = [["", "parameters", "seeds", "valid nats", "tokens/s", "train s", "evaluate s"]]
    for model, group in reading.by_model(records).items():
        lowest = [min(p["valid_nats"] for p in r["curve"]) for r in group]
        rows.append([
            label_of(model),
            wording.parameters(group),
            " ".join(str(r["seed"]) for r in group) if len(group) < 4 else f"{len(group)} seeds",
            f"{np.mean(lowest):.3f}",
            f"{np.mean([r['speed']['train_tokens_per_s'] for r in group]):,.0f}",
            f"{np.mean([r['train_s'] for r in group]):,.0f}",
            f"{np.mean([r['evaluate_s'] for r in group]):,.0f}",
        ])  # fmt: skip
    return align_columns(rows)


# ------------------------------------------------------------------------------------- In words


def describe_test(records: Records, test: dict[str, Any]) -> list[str]:
    """Return sentences on what the buckets show, without buckets of fewer than THIN examples."""
    name, metric, trained = test["name"], test["primary_metric"], test["max_train_length"]
    groups = {
        model: found[..., 0].mean(axis=0)
        for model, group in reading.by_model(records).items()
        if (found := reading.scores(group, name, metric)).size
    }
    unlearned = models_at_chance(records, test)
    lines = [not_learned(unlearned, records)] if unlearned else []
    able = [i for i, b in enumerate(test["buckets"]) if b["n"] >= THIN]
    if len(able) < 2 or test["kind"] == "place":
        return lines
    inside = [i for i in able[1:] if trained is None or test["buckets"][i]["high"] <= trained]
    beyond = [i for i in able[1:] if i > max(inside, default=0)]
    for i in [*inside[-1:], *beyond[-1:]]:
        known = {
            model: (float(values[1 + able[0]]), float(values[1 + i]))
            for model, values in groups.items()
            if model not in unlearned and np.isfinite(values[[1 + able[0], 1 + i]]).all()
        }
        if line := compare_buckets(known, test, able[0], i):
            lines.append(line)
    return lines


def compare_buckets(
    known: Mapping[str, tuple[float, float]], test: dict[str, Any], first: int, last: int
) -> str:
    """Return a sentence that compares the scores in one bucket to those in the first."""
    unit = test["unit"]
    last_bucket, first_bucket = (f"{bucket_name(test['buckets'][i])} {unit}" for i in (last, first))
    trained = test["max_train_length"]
    if trained is not None and test["buckets"][last]["low"] > trained:
        last_bucket += ", longer than trained"
    elif last == max(
        i for i, b in enumerate(test["buckets"]) if b["high"] <= (trained or math.inf)
    ):
        last_bucket += ", the longest" if trained is None else ", the longest trained"
    metric = metric_of(test["primary_metric"])
    if metric.is_loss:
        change = {model: 100 * (b / a - 1) for model, (a, b) in known.items() if a > 0}
        lower = {model: -x for model, x in change.items() if x < 0}
        higher = {model: x for model, x in change.items() if x >= 0}
        clauses = [
            f"{word} by {percents(some)} for {join_labels(some)}"
            for word, some in (("lower", lower), ("higher", higher))
            if some
        ]
        return (
            f"At {last_bucket}, the {metric.label} is {'; '.join(clauses)} than at {first_bucket}."
            if clauses
            else ""
        )
    kept = {model: 100 * b / a for model, (a, b) in known.items() if a >= LEARNED}
    return (
        f"At {last_bucket}, {'; '.join(describe_kept(kept, f'the score at {first_bucket}'))}."
        if kept
        else ""
    )


def describe_kept(kept: Mapping[str, float], what: str) -> list[str]:
    """Return clauses on how much each model keeps; models far below the others come separately."""
    order = sorted(kept, key=lambda model: -kept[model])
    gaps = [kept[a] - kept[b] for a, b in pairwise(order)]
    cut = 1 + int(np.argmax(gaps)) if gaps and max(gaps) >= APART else len(order)
    clauses: list[str] = []
    for some in (order[:cut], order[cut:]):
        if some:
            shares = {model: kept[model] for model in some}
            verb = "keeps" if len(some) == 1 else "keep"
            of_what = "" if clauses else f" of {what}"
            clauses.append(f"{join_labels(some)} {verb} {percents(shares)}{of_what}")
    return clauses


def percents(shares: Mapping[str, float]) -> str:
    """Format percentages as a list."""
    return f"{join_with_and([f'{share:.0f}' for share in shares.values()])} %"


def join_labels(models: Iterable[str]) -> str:
    """Format the labels of models as a list."""
    return join_with_and([label_of(model) for model in models])


def join_with_and(parts: Sequence[str]) -> str:
    """Join parts as "a, b and c"."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def models_at_chance(records: Records, test: dict[str, Any]) -> list[str]:
    """Return the models whose BLEU is not above that of the references in another order."""
    found = []
    for model, group in reading.by_model(records).items():
        bleu, chance = (reading.scores(group, test["name"], m) for m in ("bleu", "chance_bleu"))
        if (
            test["primary_metric"] == "bleu"
            and chance.size
            and (bleu[:, 0, 0] <= chance[:, 0, 0]).all()
        ):
            found.append(model)
    return found


def not_learned(models: Sequence[str], records: Records) -> str:
    """Return a sentence that nothing was learned, with the number of training tokens."""
    tokens = max(r["train_config"]["tokens"] for r in records)
    verb = "has" if len(models) == 1 else "have"
    return (
        f"{join_labels(models)} {verb} not learned to translate: BLEU is no higher than that of "
        f"the references in another order. That is normal after {tokens:,} target tokens; train "
        "on more with --tokens."
    )

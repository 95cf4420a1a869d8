"""Compute one sentence on what the scores of a test set show. No torch.

The sentence compares the models with one vector to those with attention; if the two groups overlap,
it compares the best of their models to the worst. It is used only if the 95 % intervals do not
overlap. Models of one group are not compared: the sentence says what all lose beyond the trained
lengths. If nothing is clear, the title of a figure is its topic. Models with a fixed memory came
after the five papers: they are drawn, and no title speaks of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from seqmodels.evaluation.metrics import Metric
from seqmodels.models import PAPERS, model_of, papers
from seqmodels.report import reading, wording

THIN = 30
"""Buckets with fewer examples are hollow in figures, starred in tables and not in sentences."""
LEARNED = 5.0
"""Least score (of 100) for which a loss is reported; below, hardly anything was learned."""

Scores = Mapping[str, np.ndarray]
"""Model -> (1 + buckets, 3): value, low and high, overall first, averaged over the seeds."""


class Finding(NamedTuple):
    """A sentence without its capital letter, and the number of each model behind it."""

    title: str
    numbers: str


class Measured(NamedTuple):
    """A number with half the width of its 95 % interval."""

    value: float
    half: float

    def is_above(self, other: Measured) -> bool:
        """Return whether the whole interval is above another one."""
        return self.value - self.half > other.value + other.half


class Side(NamedTuple):
    """One side of a comparison: a group of models, or one model."""

    name: str
    models: Sequence[str]


def kinds() -> dict[str, list[str]]:
    """Return the five papers by what they pass from source to target."""
    return {
        side: [m for m, paper in PAPERS.items() if (paper.group, paper.memory) == ("five", memory)]
        for side, memory in (("one vector", "vector"), ("attention", "grows"))
    }


def side_of(model: str) -> str:
    """Return the kind for which a model is compared; empty for later ones.

    A variant counts only if it is of another kind than the model that it varies.
    """
    known = papers()
    if model not in known or known[model].group == "later":
        return ""
    memory = known[model].memory
    if model not in PAPERS and known[model_of(model)].memory == memory:
        return ""
    return {"vector": "one vector", "grows": "attention"}[memory]


def is_of(model: str, memory: str) -> bool:
    """Return whether a model is one of the five papers, or a variant, with this memory."""
    paper = papers().get(model)
    return paper is not None and (paper.group, paper.memory) == ("five", memory)


def is_later(model: str) -> bool:
    """Return whether a model came after the five papers."""
    known = papers()
    return model in known and known[model].group == "later"


def compared_bucket(test: Mapping[str, Any]) -> int | None:
    """Return the bucket that is compared to the first: the longest that was trained on.

    If that is not known, it is the last bucket. Only buckets with at least THIN examples count.
    """
    trained, buckets = test["max_train_length"], test["buckets"]
    able = [b["n"] >= THIN and (trained is None or b["high"] <= trained) for b in buckets]
    last = max((i for i, is_able in enumerate(able) if is_able), default=0)
    return last if last and able[0] else None


def find(test: Mapping[str, Any], metric: Metric, scores: Scores) -> Finding | None:
    """Return what a metric shows on a test set; None if it shows no clear difference."""
    scores = {model: parts for model, parts in scores.items() if np.isfinite(parts[0]).any()}
    last = compared_bucket(test)
    if test["kind"] == "place":
        return _levels(metric, {model: _measured(parts[0]) for model, parts in scores.items()})
    if last is None:
        return None
    unit = test["unit"]
    ends = {model: (parts[1], parts[1 + last]) for model, parts in scores.items()}
    first_name, last_name = (bucket_name(test["buckets"][i]) for i in (0, last))
    if metric.unit == "%":
        return _falls(ends, metric.label, f"from {first_name} to {last_name} {unit}")
    if metric.top == 100:
        where = f"between {first_name} and {last_name} {unit}"
        return _losses(ends, metric.label, where) or _beyond(test, metric.label, scores)
    if metric.is_loss and test["kind"] == "context":
        return _savings(ends, metric.unit, f"{last_name} {unit} of context")
    return None


def _losses(ends: Mapping[str, Any], name: str, where: str) -> Finding | None:
    """Return the finding on which percentage of a score is lost."""
    lost = {model: _share_lost(*end) for model, end in ends.items()}
    sides = _contrast(lost)
    if not sides or any(_mean(ends, side, 0) < LEARNED for side in sides):
        return None
    means = [float(np.mean([lost[m].value for m in side.models])) for side in sides]
    verbs = [f"{'gains' if x < 0 else 'loses'} {abs(x):.0f} %" for x in means]
    clauses = [f"{verbs[0]} of its {name} {where}", verbs[1]]
    text = "; ".join(f"{side.name} {clause}" for side, clause in zip(sides, clauses, strict=True))
    return Finding(text, _list("Change", {m: _signed(-x.value) for m, x in lost.items()}))


def _beyond(test: Mapping[str, Any], name: str, scores: Scores) -> Finding | None:
    """Return the finding on what all models lose in the longest bucket beyond training."""
    scores = {model: parts for model, parts in scores.items() if not is_later(model)}
    buckets, first = test["buckets"], compared_bucket(test)
    able = [i for i, b in enumerate(buckets) if b["n"] >= THIN and reading.is_beyond(test, b)]
    if first is None or not able or len(scores) < 2:
        return None
    last = able[-1]
    ends = [(_measured(parts[1 + first]), _measured(parts[1 + last])) for parts in scores.values()]
    if not all(a.value >= LEARNED and a.is_above(b) for a, b in ends):
        return None
    lost = [100 * (1 - b.value / a.value) for a, b in ends]
    unit = test["unit"]
    where = f"{bucket_name(buckets[first])} and {bucket_name(buckets[last])} {unit}"
    share = wording.span(lost, "{:.0f}".format)
    text = f"all lose {share} % of their {name} between {where}, longer than trained"
    changes = {m: _signed(-x) for m, x in zip(scores, lost, strict=True)}
    return Finding(text, _list("Change", changes))


def _falls(ends: Mapping[str, Any], name: str, where: str) -> Finding | None:
    """Return the finding on how a percentage changes."""
    sides = _contrast({model: _measured(last) for model, (_, last) in ends.items()})
    if not sides or max(_mean(ends, side, 1) for side in sides) < LEARNED:
        return None
    changes = [f"{_mean(ends, side, 0):.0f} → {_mean(ends, side, 1):.0f} %" for side in sides]
    text = f"{name} {where}: {sides[0].name} {changes[0]}, {sides[1].name} {changes[1]}"
    numbers = {m: f"{a[0]:.0f} → {b[0]:.0f} %" for m, (a, b) in ends.items()}
    return Finding(text, _list("Each", numbers))


def _savings(ends: Mapping[str, Any], unit: str, context: str) -> Finding | None:
    """Return the finding on how much of a loss a context saves."""
    saved = {}
    for model, end in ends.items():
        before, after = map(_measured, end)
        half = math.hypot(before.half, after.half)
        saved[model] = Measured(before.value - after.value, half)
    if not (sides := _contrast(saved)):
        return None
    means = [np.mean([saved[m].value for m in side.models]) for side in sides]
    text = f"{context} save {sides[0].name} {means[0]:.2f} {unit}, {sides[1].name} {means[1]:.2f}"
    return Finding(text, _list("Saved", {m: f"{x.value:.2f}" for m, x in saved.items()}))


def _levels(metric: Metric, levels: Mapping[str, Measured]) -> Finding | None:
    """Return the finding on which models have the lowest and the highest score."""
    compared = [model for model in levels if not is_later(model)]
    if len(compared) < 2:
        return None
    low, *_, high = sorted(compared, key=lambda model: levels[model].value)
    if not levels[high].is_above(levels[low]):
        return None
    text = f"{label_of(low)} has the lowest {metric.label}, {levels[low].value:.2f} {metric.unit}; "
    text += f"{label_of(high)} the highest, {levels[high].value:.2f}"
    return Finding(text, _list("Overall", {m: f"{x.value:.2f}" for m, x in levels.items()}))


def _contrast(measured: Mapping[str, Measured]) -> list[Side]:
    """Return two separated sides, the higher one first: the two groups, or two models.

    Groups are separated if all models of one are above all models of the other and the intervals of
    their means do not overlap. A group's interval treats the errors of its models as independent;
    they share the sentences, so that the difference between groups is known more precisely. The
    list is empty if there is only one group, or if nothing is separated.
    """
    known = {
        m: x
        for m, x in measured.items()
        if math.isfinite(x.value) and math.isfinite(x.half) and not is_later(m)
    }
    sides = [Side(name, [m for m in known if side_of(m) == name]) for name in kinds()]
    if not all(side.models for side in sides):
        return []
    means = {
        side.name: Measured(
            float(np.mean([known[m].value for m in side.models])),
            math.hypot(*(known[m].half for m in side.models)) / len(side.models),
        )
        for side in sides
    }
    more, less = sorted(sides, key=lambda side: -means[side.name].value)
    lowest = min(known[m].value for m in more.models)
    if means[more.name].is_above(means[less.name]) and all(
        known[m].value < lowest for m in less.models
    ):
        return [more, less]
    most, *_, least = sorted(known, key=lambda m: -known[m].value)
    if known[most].is_above(known[least]):
        return [Side(label_of(most), [most]), Side(label_of(least), [least])]
    return []


def _measured(cell: np.ndarray) -> Measured:
    """Return a score with the larger half of its interval."""
    value, low, high = map(float, cell)
    return Measured(value, max(high - value, value - low))


def _share_lost(before: np.ndarray, after: np.ndarray) -> Measured:
    """Return the percentage of a score that is lost, with both intervals propagated."""
    a, b = _measured(before), _measured(after)
    if not (a.value > 0 and b.value > 0):
        return Measured(math.nan, math.nan)
    kept = 100 * b.value / a.value
    return Measured(100 - kept, kept * math.hypot(a.half / a.value, b.half / b.value))


def _mean(ends: Mapping[str, Any], side: Side, which: int) -> float:
    """Return the mean score of a side in the first (0) or in the compared bucket (1)."""
    return float(np.mean([ends[model][which][0] for model in side.models]))


def _signed(percent: float) -> str:
    """Format a change with a sign as wide as a digit."""
    return f"{percent:+.0f} %".replace("-", "−").replace("−0 ", "±0 ").replace("+0 ", "±0 ")


def _list(head: str, numbers: Mapping[str, str]) -> str:
    """Format the number of each model as a list."""
    return f"{head}: {', '.join(f'{label_of(model)} {text}' for model, text in numbers.items())}."


def label_of(model: str) -> str:
    """Return the label of a model; a model that is unknown keeps its name."""
    known = papers()
    return known[model].label if model in known else model


def bucket_name(part: Mapping[str, Any]) -> str:
    """Format the range of a bucket."""
    low, high = f"{part['low']:,}", f"{part['high']:,}"
    return high if low == high else f"{low}–{high}"

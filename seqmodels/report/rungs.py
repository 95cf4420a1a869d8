"""Draw the score of each step from one vector to attention, with and without feeding. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seqmodels.evaluation.metrics import metric_of
from seqmodels.report import layout, reading, style, wording
from seqmodels.report.findings import THIN, bucket_name, compared_bucket
from seqmodels.report.reading import Record

NAMES = {
    "forward": "not\nreversed", "none": "last state\nalone", "last": "last\nvector", "dot": "dot",
    "general": "general", "additive": "additive",
}  # fmt: skip
"""Rungs in order, as they are named in the figure."""
Rungs = dict[tuple[str, bool], list[Record]]
"""Rung and whether it has input feeding -> its records."""


def rung(r: Record) -> tuple[str, bool]:
    """Return what a record's decoder has of the source, and whether it has input feeding."""
    sizes = r["model_config"]
    kind = sizes.get("attention", "none" if sizes.get("is_reversed", True) else "forward")
    return kind, bool(sizes.get("is_input_feeding", False))


def is_drawn(records: Sequence[Record]) -> bool:
    """Return whether a model has a context vector as a switch."""
    return any("attention" in r["model_config"] for r in records)


def rungs_of(records: Sequence[Record]) -> Rungs:
    """Return the LSTM and its variants by rung."""
    found: Rungs = {}
    for r in records:
        if "attention" in r["model_config"] or r["model"] in (
            "lstm_seq2seq",
            "lstm_seq2seq_forward",
        ):
            found.setdefault(rung(r), []).append(r)
    return found


def shown(test: dict[str, Any]) -> list[int]:
    """Return the longest trained bucket and the longest one of all."""
    last = max((i for i, b in enumerate(test["buckets"]) if b["n"] >= THIN), default=0)
    return [compared_bucket(test) or 0, last]


def draw_rungs(records: Sequence[Record]) -> Figure:
    """Draw one bar per rung and feeding, in the longest trained bucket and in the longest one."""
    test, rungs = records[0]["tests"][0], rungs_of(records)
    metric = metric_of(test["primary_metric"])
    unit = test["unit"]
    is_many = max(map(len, rungs.values())) > 1
    caption = (
        "Light: without input feeding; dark: with it. Last state alone: the decoder starts from "
        "the encoder's last state; last vector: every step is given the encoder's last output; "
        "dot, general and additive attend to all outputs with these scores. Bar: "
        f"{'mean of the seeds; dots: each seed' if is_many else 'one seed'}; whisker: 95 % "
        f"interval ({wording.methods(records, [test['primary_metric']])})"
        f"{', its ends averaged over the seeds' if is_many else ''}."
    )
    topic = f"{metric.name} of each step from one vector to attention"
    title, subtitle = finding(rungs, test), wording.subtitle(records)
    texts = title or topic, f"{topic}\n{subtitle}" if title else subtitle, caption
    figure, axes = layout.panels(texts, layout.key_of(records), (6,), 0.55)
    for ax, place in zip(axes[0], shown(test), strict=True):
        _draw_bars(ax, rungs, test, place)
        beyond = ", longer than trained" * reading.is_beyond(test, test["buckets"][place])
        at = f"{metric.name} at {bucket_name(test['buckets'][place])} {unit}{beyond}"
        ax.set_title(at, loc="left", size=10.5)
        if metric.top:
            ax.set_ylim(0, metric.top)
    return figure


def finding(rungs: Rungs, test: dict[str, Any]) -> str:
    """Return a title: the scores of the rungs in the longest trained bucket."""
    place, metric = shown(test)[0], test["primary_metric"]
    mean = {
        at: float(reading.scores(group, test["name"], metric)[:, 1 + place, 0].mean())
        for at, group in rungs.items()
    }
    clauses = []
    for kinds, text in (
        (("none",), "from the last state alone"),
        (("last",), "with the last vector at every step"),
        (("dot", "general", "additive"), "with attention"),
    ):
        if scores := [score for (kind, _), score in mean.items() if kind in kinds]:
            clauses.append(f"{wording.span(scores, '{:.0f}'.format)} {text}")
    if len(clauses) < 2:
        return ""
    unit = test["unit"]
    at = f"{bucket_name(test['buckets'][place])} {unit}"
    return f"{metric_of(metric).label} at {at}: {', '.join(clauses)}"


def _draw_bars(ax: Axes, rungs: Rungs, test: dict[str, Any], place: int) -> None:
    """Draw the bars of one bucket, each with its interval, its seeds and its value."""
    kinds = [kind for kind in NAMES if {(kind, False), (kind, True)} & rungs.keys()]
    for (kind, is_fed), group in rungs.items():
        look = style.looks([group[0]["model"]])[group[0]["model"]]
        is_pair = {(kind, False), (kind, True)} <= rungs.keys()
        x = kinds.index(kind) + (0.2 if is_fed else -0.2) * is_pair
        cells = reading.scores(group, test["name"], test["primary_metric"])[:, 1 + place]
        value, low, high = cells.mean(axis=0)
        ax.bar([x], [value], 0.36, color=look.colour)
        if np.isfinite([low, high]).all():
            ax.vlines([x], [low], [high], color=style.INK, lw=1.0)
        if len(group) > 1:
            spread = x + 0.07 * (np.arange(len(group)) - (len(group) - 1) / 2)
            ax.plot(spread, cells[:, 0], "o", color="white", mec=style.INK, ms=3.5, mew=0.8)
        top = max(value, high if np.isfinite(high) else value, *cells[:, 0])
        ax.annotate(f"{value:.0f}", (x, top), (0, 3), textcoords="offset points", ha="center",
                    size=8.5, color=style.INK)  # fmt: skip
    ax.set_xticks(range(len(kinds)), [NAMES[kind] for kind in kinds])
    ax.tick_params(axis="x", length=0)

"""Draw scores against the bytes that pass to the decoder, for models of several widths. No torch.

After Arora et al. 2023 (Zoology, arXiv:2312.04927): accuracy against the size of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from seqmodels.evaluation.metrics import Metric, metric_of
from seqmodels.report import layout, reading, style, wording
from seqmodels.report.findings import bucket_name, compared_bucket, is_of
from seqmodels.report.reading import Record
from seqmodels.report.style import Look

Scores = dict[str, dict[float, np.ndarray]]
"""Model -> x -> the score of every seed."""


def together(folders: Iterable[Sequence[Record]]) -> list[list[Record]]:
    """Return the records of folders that share task and data, if a model has several widths.

    Only data that says how long its sources are (`n_tokens_source`) is used.
    """
    groups: dict[tuple[str, str], list[Record]] = {}
    for r in (r for records in folders for r in records if "n_tokens_source" in r["data"]):
        groups.setdefault((r["task"], r["data"]["sha256"]), []).append(r)
    return [
        records
        for records in groups.values()
        if any(len({*map(width, group)}) > 1 for group in reading.by_model(records).values())
    ]


def width(r: Record) -> float:
    """Return a record's d_model."""
    return float(r["model_config"]["d_model"])


def passed(r: Record) -> float:
    """Return the bytes that pass to the decoder for a source of the length that the data names."""
    lengths, sizes = np.array(r["source_bytes"], float).T
    return float(np.interp(r["data"]["n_tokens_source"], lengths, sizes))


def scores_by(records: Sequence[Record], place: int, x: Callable[[Record], float]) -> Scores:
    """Return each model's scores in one bucket of the first test set, by x, in ascending order."""
    test, found = records[0]["tests"][0], {}
    for model, group in reading.by_model(records).items():
        by_x: dict[float, list[Record]] = {}
        for r in sorted(group, key=x):
            by_x.setdefault(x(r), []).append(r)
        found[model] = {
            at: reading.scores(same, test["name"], test["primary_metric"])[:, place + 1, 0]
            for at, same in by_x.items()
        }
    return found


def draw_widths(records: Sequence[Record]) -> Figure:
    """Draw the score at the longest trained length against bytes, and against the width."""
    test = records[0]["tests"][0]
    place = compared_bucket(test) or 0
    metric, at = metric_of(test["primary_metric"]), bucket_name(test["buckets"][place])
    n_tokens = records[0]["data"]["n_tokens_source"]
    caption = (
        "Line: mean of the seeds; whisker: lowest to highest seed. Left: the float32 vectors that "
        f"the paper's decoder reads of a source of {n_tokens} tokens."
    )
    if test.get("baseline"):
        caption += f" Dotted: {test['baseline']}."
    topic = f"{metric.name} at {at} {test['axis']}, against memory and width"
    topic, subtitle = topic[0].upper() + topic[1:], wording.subtitle(records)
    groups = reading.by_model(records)
    looks = style.looks(groups)
    title = finding(scores_by(records, place, width), metric, at)
    texts = title or topic, f"{topic}\n{subtitle}" if title else subtitle, caption
    figure, axes = layout.panels(texts, list(looks.values()), (6.5,), 0.5)
    names = layout.brief([look.label for look in looks.values()])
    axes_of: dict[str, Callable[[Record], float]] = {
        "bytes that pass to the decoder": passed, "width (d_model)": width,
    }  # fmt: skip
    for ax, (label, x) in zip(axes[0], axes_of.items(), strict=True):
        scores = scores_by(records, place, x)
        ends = [_draw_model(ax, look, scores[m]) for m, look in looks.items()]
        ax.set_title(f"{metric.name} at {at}", loc="left", size=10.5)
        ax.set_xlabel(label)
        unit, base = ("B", 10) if x is passed else ("", 2)
        ax.set_xscale("log", base=base)
        ax.minorticks_off()
        ax.xaxis.set_major_formatter(FuncFormatter(partial(wording.short, unit=unit)))
        if test.get("baseline"):
            floor = test["buckets"][place]["baseline"]["value"]
            ax.axhline(floor, ls=":", lw=1.8, color=style.INK, zorder=5)
        if metric.top:
            ax.set_ylim(0, metric.top)
        colours = (look.colour for look in looks.values())
        layout.label_ends(ax, [(*e, n, c) for e, n, c in zip(ends, names, colours, strict=True)])
    return figure


def finding(by_width: Scores, metric: Metric, at: str) -> str:
    """Return a title: the best with one vector, and from which width all that attend are better.

    Models trained at a single width are left out. Empty for a loss, or if attention is better at no
    width.
    """
    means = {
        side: [
            (d, float(seeds.mean()))
            for model, scores in by_width.items()
            if is_of(model, memory) and len(scores) > 1
            for d, seeds in scores.items()
        ]
        for side, memory in (("one vector", "vector"), ("attention", "grows"))
    }
    one, attending = means["one vector"], means["attention"]
    if metric.is_loss or not one or not attending:
        return ""
    best = max(score for _, score in one)
    too_narrow = max((d for d, score in attending if score <= best), default=0.0)
    better = [(d, score) for d, score in attending if d > too_narrow]
    if not better:
        return ""
    scores = best, min(score for _, score in better)
    most, least = (f"{score:.{metric.digits}f} {metric.unit}".rstrip() for score in scores)
    return (
        f"{metric.label} at {at}: at most {most} with one vector, up to width {max(one)[0]:g}; "
        f"at least {least} with attention, from width {min(better)[0]:g}"
    )


def _draw_model(ax: Axes, look: Look, scores: dict[float, np.ndarray]) -> tuple[float, float]:
    """Draw the seeds' mean and range at each x; return the line's end."""
    x, seeds = list(scores), list(scores.values())
    mean = [float(values.mean()) for values in seeds]
    draw: dict[str, Any] = {"color": look.colour, "clip_on": False, "zorder": 4}
    ax.plot(x, mean, look.marker, ls=look.dashes, lw=1.9, ms=5, **draw)
    ax.vlines(x, [v.min() for v in seeds], [v.max() for v in seeds], lw=1.1, **draw)
    return x[-1], mean[-1]

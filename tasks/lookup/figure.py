"""Draw when models learn to look up, and scores by memory, width and rule. No torch.

Scores by memory are after Arora et al. 2023 (Zoology, arXiv:2312.04927).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seqmodels.evaluation.metrics import metric_of
from seqmodels.records.schema import Record, Test
from seqmodels.report import load, style
from seqmodels.report.load import (
    format_bucket,
    format_short,
    format_subtitle,
    longest_trained_bucket,
)

from ..figures import draw_comparisons, draw_named

ADD = style.LineStyle("adds up", "#C2459A", "-", "P")
FORGET = style.LineStyle("forgets", "#7F8F00", (0, (4, 1.6)), "s")
CORRECT = style.LineStyle("corrects", "#11538F", "-", "D")
BOTH = style.LineStyle("forgets and corrects", "#7A5230", (0, (4, 1.6)), "^")
RULES = {
    "gated_deltanet_sum": ADD, "gated_deltanet_fade": FORGET, "gated_deltanet_delta": CORRECT,
    "gated_deltanet": BOTH,
}  # fmt: skip
"""How each model's memory changes when it writes, and the look of that rule."""
LEARNED = 95.0
"""Validation accuracy (%) from which a task counts as learned."""


def compute_bytes(r: Record, sizes: Sequence[Sequence[float]]) -> float:
    """Return the bytes of a source of the length that the data names, by pairs of both."""
    return float(np.interp(r.data.count("n_tokens_source"), *np.array(sizes, float).T))


def group_by_base(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Group records by model, each with the arms that `--vary` gave it."""
    groups: dict[str, list[Record]] = {}
    for own in load.group_by_model(records).values():
        groups.setdefault(own[0].base, []).extend(own)
    return groups


def group_by_bytes(records: Iterable[Record]) -> dict[float, list[Record]]:
    """Group records by the bytes that they keep of a source, fewest first."""
    groups: dict[float, list[Record]] = {}
    for r in records:
        groups.setdefault(compute_bytes(r, r.cache_bytes), []).append(r)
    return dict(sorted(groups.items()))


def draw_widths(comparisons: Sequence[Sequence[Record]]) -> Figure:
    """Draw the score at the longest trained length against the bytes kept, by data."""
    records = [r for own in comparisons for r in own]
    test, n_tokens = records[0].tests[0], records[0].data["n_tokens_source"]
    metric = metric_of(test.primary_metric)
    caption = (
        "Line: mean of the seeds; whisker: lowest to highest. Markers differ in size, so that none "
        f"hides another. Bytes: all that a model keeps of a source of {n_tokens} tokens, by its "
        f"width or number of heads. Dotted: {load.name_baseline(test)}."
    )
    name = load.capitalise(metric.name)
    title = f"{name} at {format_trained(test)} {test.axis}, by memory"
    line_styles = style.line_styles_for(group_by_base(records))
    texts = title, format_subtitle(records), caption
    looks = list(line_styles.values())
    figure, axes = style.make_panels(texts, looks, n_columns=len(comparisons))
    for ax, own in zip(axes[0], comparisons, strict=True):
        test, place = own[0].tests[0], longest_trained_bucket(own[0].tests[0]) or 0
        groups = group_by_base(own)
        about: dict[str, Any] = {"data": own[0].data.name, "metric": metric.name}
        for i, (model, line_style) in enumerate(line_styles.items()):
            scores = {}
            for size, seeds in group_by_bytes(groups.get(model, [])).items():
                cells = load.score_array(seeds, test.name, test.primary_metric)
                scores[size] = cells[:, place + 1, 0]
                about |= {"bucket": format_trained(test), "model": line_style.label}
                passed = compute_bytes(seeds[0], seeds[0].source_bytes)
                about |= {"run": seeds[0].model, "width": seeds[0].size("d_model")}
                about |= {"cache_bytes": size, "source_bytes": passed}
            style.draw_seeds(ax, line_style, scores, lw=0.9, ms=5 + 0.8 * (len(looks) - 1 - i))
        style.set_log(ax, "x", partial(format_short, unit="B"))
        floor = test.buckets[place]["baseline"].value
        ax.axhline(floor, ls=":", lw=1.8, color=style.INK, zorder=5)
        ax.set_title(load.capitalise(own[0].data.name))
        ax.set(xlabel="bytes kept of a source", ylim=(0, 100 if metric.is_percent else None))
    return figure


def format_trained(test: Test) -> str:
    """Format the longest bucket in training."""
    return format_bucket(test.buckets[longest_trained_bucket(test) or 0])


def draw_across(folders: Sequence[Sequence[Record]]) -> dict[str, Figure]:
    """Return the figure of all data on which a model has memories of several sizes.

    Of the records of each data, those of the comparison with the most are drawn: the same sources
    and the same budget.
    """
    by_comparison: dict[tuple[str, str, int], list[Record]] = {}
    for r in (r for records in folders for r in records):
        key = r.data.name, r.data.sha256, r.train_config.tokens
        by_comparison.setdefault(key, []).append(r)
    by_data: dict[str, list[Record]] = {}
    for (name, _, _), records in by_comparison.items():
        if any(len(group_by_bytes(own)) > 1 for own in group_by_base(records).values()):
            by_data[name] = max(by_data.get(name, []), records, key=len)
    return {"widths-lookup": draw_widths([*by_data.values()])} if by_data else {}


# ------------------------------------------------------------------------------------------ rules


def draw_rules_across(folders: Sequence[Sequence[Record]]) -> dict[str, Figure]:
    """Return the figure of forgetting × correcting, for each data from the records of most rules.

    The models differ in these two switches alone.
    """
    by_data: dict[str, dict[tuple[str, int], list[Record]]] = {}
    for r in (r for records in folders for r in records if r.model in RULES):
        own = by_data.setdefault(r.data.name, {})
        own.setdefault((r.data.sha256, r.train_config.tokens), []).append(r)
    comparisons = [
        max(own.values(), key=lambda records: len({r.model for r in records}))
        for own in by_data.values()
    ]
    drawn = {r.model for records in comparisons for r in records}
    if len(drawn) < 2:
        return {}
    title, caption = "Queries answered (%), by the rule that writes", "A switch each: the memory"
    caption += " forgets what is older, and it corrects what the key reads instead of adding to it."
    key = [rule for model, rule in RULES.items() if model in drawn]
    return {"rules-lookup": draw_comparisons(title, caption, comparisons, RULES, key)}


# --------------------------------------------------------------------------------------- learning


def find_step(r: Record) -> int | None:
    """Return the first validated step at which the task is learned; None if there is none."""
    return next((p.step for p in r.curve if p.valid_accuracy >= LEARNED), None)


def draw_transition(records: Sequence[Record]) -> Figure:
    """Draw validation accuracy against steps, and the step at which each seed has learned."""
    groups = load.group_by_model(records)
    caption = (
        "Each line and each marker is one seed; teacher-forced, on the validation split. Dotted: "
        f"{LEARNED:g} %. Right: the first validation with so many right"
    )
    caption += "; hollow: never." if None in map(find_step, records) else "."
    texts = f"Steps until {LEARNED:g} % are right", format_subtitle(records), caption
    figure = style.make_figure(3.2, texts)
    curves, steps = axes = figure.subplots(1, 2)
    for model, line_style in style.line_styles_for(groups).items():
        for r in groups[model]:
            x, y = [p.step for p in r.curve], [p.valid_accuracy for p in r.curve]
            curves.plot(x, y, color=line_style.colour, ls=line_style.dashes, lw=1.4, clip_on=False)
    curves.set(title="Validation accuracy (%)", xlim=(0, None), ylim=(0, 100))
    curves.axhline(LEARNED, color=style.GREY, lw=0.8, ls=":")
    _draw_steps(steps, groups)
    for ax in axes:
        ax.set_xlabel("training steps")
        ax.xaxis.set_major_locator(MaxNLocator(5))
        ax.xaxis.set_major_formatter(format_short)
    return figure


def _draw_steps(ax: Axes, groups: Mapping[str, Sequence[Record]]) -> None:
    """Draw one row per model, with a marker per seed."""
    last = max(r.curve[-1].step for group in groups.values() for r in group)
    for row, (model, line_style) in enumerate(style.line_styles_for(groups).items()):
        for i, r in enumerate(groups[model]):
            step = find_step(r)
            fill = "white" if step is None else line_style.colour
            x, y = last if step is None else step, 0.18 * ((len(groups[model]) - 1) / 2 - i) - row
            ax.plot(
                [x], [y], line_style.marker, color=line_style.colour, mfc=fill, ms=6, clip_on=False
            )
    ax.set(title=f"Steps until {LEARNED:g} %", xlim=(0, last), ylim=(-len(groups) + 0.5, 0.5))
    looks = style.line_styles_for(groups).values()
    names = [textwrap.fill(look.label, 20) for look in looks]
    ax.yaxis.tick_right()
    ax.set_yticks(-np.arange(len(groups)), names, weight="bold")
    ax.tick_params(axis="y", length=0, pad=8)
    for label, look in zip(ax.get_yticklabels(), looks, strict=True):
        label.set_color(look.colour)
    ax.spines["left"].set_visible(False)
    ax.grid(True, axis="x")


FIGURES = [partial(draw_named, {"transition": draw_transition})]
ACROSS = [draw_across, draw_rules_across]

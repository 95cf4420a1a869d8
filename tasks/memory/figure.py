"""Draw when look-up is learned, and how far balls are followed. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from seqmodels.records.schema import Record
from seqmodels.report import load, style
from seqmodels.report.load import format_bucket, format_short

Folders = Sequence[Sequence[Record]]


def draw_transition(records: Sequence[Record]) -> dict[str, Figure]:
    """Draw the validation accuracy of look-ups against training steps, a line for each seed."""
    if records[0].tests[0].name != "query":
        return {}
    groups = load.group_by_model(records)
    looks = style.line_styles_for(groups)
    title = "Values right in validation (%), a line for each seed"
    figure, ((ax,),) = style.make_figure(title, records, [*looks.values()])
    for model, look in looks.items():
        for r in groups[model]:
            x, y = [p.step for p in r.curve], [p.valid_accuracy for p in r.curve]
            ax.plot(x, y, color=look.colour, ls=look.dashes, clip_on=False)
    ax.set(xlabel="training steps", xlim=(0, None), ylim=(0, 100))
    ax.xaxis.set_major_formatter(format_short)
    return {"transition": figure}


def draw_tracking(folders: Folders) -> dict[str, Figure]:
    """Draw how far balls are followed, from the folder of most records for each number of cups."""
    by_cups: dict[Any, Sequence[Record]] = {}
    for folder in folders:
        if n_cups := folder[0].data.get("n_cups"):
            by_cups[n_cups] = max(by_cups.get(n_cups, []), folder, key=len)
    if not by_cups:
        return {}
    folders = [by_cups[n_cups] for n_cups in sorted(by_cups)]
    records = [r for own in folders for r in own]
    looks = style.label_line_styles(records)
    chance = style.LineStyle(load.name_baseline(records[0].tests[0]), style.INK, ":", "")
    figure, axes = style.make_figure(
        "Sources whose balls are all found (%), by moves",
        records,
        [*looks.values(), chance],
        n_columns=len(folders),
        note=style.MARKS,
    )
    for ax, own in zip(axes[0], folders, strict=True):
        test = own[0].tests[0]
        for model, seeds in load.group_by_model(own).items():
            scores = load.score_array(seeds, test.name, test.primary_metric)[:, 1:]
            style.draw_line(ax, looks[model], dict(enumerate(scores.swapaxes(0, 1))))
        baseline = [bucket["baseline"].value for bucket in test.buckets if test.baseline]
        ax.plot(baseline, ls=":", lw=1.8, color=style.INK, zorder=5)
        style.mark_trained(ax, test)
        ax.set_xticks(range(len(test.buckets)), [format_bucket(bucket) for bucket in test.buckets])
        title = own[0].data.name
        ax.set(title=title[:1].upper() + title[1:], xlabel=test.axis, ylim=(0, 100))
    return {"tracking": figure}


def draw_both(folders: Folders) -> dict[str, Figure]:
    """Draw values found against balls followed, each at twice the most in training.

    Of the models in two folders of which one looks up and one follows, if a hybrid is among them; a
    label has the bytes that are kept of 64 tokens, in look-up and in following.
    """
    own = {
        f[0].tests[0].name: f for f in folders if any(r.model == "gated_deltanet_last" for r in f)
    }
    if own.keys() != {"query", "moves"}:
        return {}
    groups = {name: load.group_by_model(folder) for name, folder in own.items()}
    looks = style.line_styles_for(groups["query"])
    kept = {model: " and ".join(
        f"{n_bytes / 1000:.0f}" for name in ("query", "moves")
        for n, n_bytes in groups[name][model][0].cache_bytes if n == 64
    ) for model in looks}  # fmt: skip
    key = [
        look._replace(label=f"{look.label}, {kept[model]}\N{NO-BREAK SPACE}kB", dashes="")
        for model, look in looks.items()
    ]
    records = [r for folder in own.values() for r in folder]
    title = "Which model looks up and follows, beyond the lengths in training?"
    note = "Means of seeds, with their range · kB: kept of 64 tokens, with values and with balls"
    figure, ((ax,),) = style.make_figure(title, records, key, (4.0,), note=note)
    for model, look in looks.items():
        x, y = (find_twice(groups[name][model], name) for name in ("moves", "query"))
        x_bars, y_bars = ([[v.mean() - v.min()], [v.max() - v.mean()]] for v in (x, y))
        ax.errorbar([x.mean()], [y.mean()], y_bars, x_bars, look.marker, color=look.colour, ms=9,
                    clip_on=False)  # fmt: skip
    moves, pairs = (own[name][0].tests[0].max_train_length or 0 for name in ("moves", "query"))
    ax.set(xlim=(0, 100), ylim=(0, 100))
    ax.set_xlabel(f"all balls found after {2 * moves} moves (%), trained on {moves}")
    ax.set_ylabel(f"values found among {2 * pairs} pairs (%), trained on {pairs}")
    return {"both": figure}


def find_twice(seeds: Sequence[Record], name: str) -> np.ndarray:
    """Return the scores of seeds on examples that are twice as long as the longest in training."""
    test = seeds[0].tests[0]
    twice = 2 * (test.max_train_length or 0)
    place = next(i for i, bucket in enumerate(test.buckets) if bucket.low == twice)
    return load.score_array(seeds, name, test.primary_metric)[:, 1 + place, 0]


FIGURES = [draw_transition]
ACROSS = [draw_tracking, draw_both]

"""Draw how often the next word is right in each part of the target. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seqmodels.evaluation import student
from seqmodels.evaluation.intervals import wilson
from seqmodels.report import layout, reading, style, wording
from seqmodels.report.reading import Record

REVERSED, FORWARD = "lstm_seq2seq", "lstm_seq2seq_forward"
MANY = 1e4
"""Degrees of freedom that are as good as all."""


def is_drawn(records: Sequence[Record]) -> bool:
    """Return whether a record has the accuracy by place."""
    return any("places" in r.get("analyses", {}) for r in records)


def accuracies(group: Sequence[Record]) -> np.ndarray:
    """Return (seeds, places, 2): the per cent of the next words that are right, of how many."""
    return np.array(
        [[[row["accuracy"], row["n"]] for row in r["analyses"]["places"]] for r in group]
    )


def gains(groups: dict[str, list[Record]]) -> np.ndarray | None:
    """Return (3, places): the points that reading backwards gains, low and high; None if unknown.

    The interval takes words as independent. If both models have several seeds, these vary as well,
    as in `metrics.significance`.
    """
    if not {REVERSED, FORWARD} <= groups.keys():
        return None
    sides = [accuracies(groups[model]) for model in (REVERSED, FORWARD)]
    after, before = (side[..., 0].mean(0) for side in sides)
    half = np.hypot(*(_halves(side.mean(0)) for side in sides))
    if min(map(len, sides)) > 1:
        by_seeds = np.array([side[..., 0].var(0, ddof=1) / len(side) for side in sides])
        freedom = np.array([len(side) - 1 for side in sides])
        variance = (half / student.quantile(MANY)) ** 2 + by_seeds.sum(0)
        df = variance**2 / (by_seeds**2 / freedom[:, None]).sum(0).clip(variance**2 / MANY)
        half = np.sqrt(variance) * [student.quantile(one) for one in df]
    return np.stack([after - before, after - before - half, after - before + half])


def _halves(accuracy: np.ndarray) -> np.ndarray:
    """Return half the width of the Wilson interval at each place."""
    ends = [wilson(percent / 100, n) for percent, n in accuracy]
    return np.array([50 * (high - low) for low, high in ends])


def draw_places(records: Sequence[Record]) -> Figure:
    """Draw the accuracy by place for every model, and what reading backwards gains there."""
    records = [r for r in records if "places" in r.get("analyses", {})]
    groups = reading.by_model(records)
    gained = gains(groups)
    n = accuracies(records)[0, :, 1].sum()
    caption = (
        f"Over the {n:,.0f} words and ends of sentence of the test sentences that are as long as "
        "those in training. A quarter: the words from 0, 25, 50 or 75 % of the target on. Line or "
        "bar: mean of the seeds."
    )
    if gained is not None:
        n_seeds = min(len(groups[model]) for model in (REVERSED, FORWARD))
        over = "over words, as if independent of each other" + ", and over seeds" * (n_seeds > 1)
        caption += f" Whisker: 95 % interval {over}."
    topic, subtitle = "Next-word accuracy by place in the target", wording.subtitle(records)
    title = finding(gained)
    texts = title or topic, f"{topic}\n{subtitle}" if title else subtitle, caption
    figure, axes = layout.panels(texts, layout.key_of(records), (6,), 0.5)
    _draw_lines(axes[0, 0], groups)
    axes[0, 1].set_visible(gained is not None)
    if gained is not None:
        _draw_gains(axes[0, 1], gained)
    return figure


def finding(gained: np.ndarray | None) -> str:
    """Return a title: what reading backwards gains at the start and at the end of the target."""
    if gained is None:
        return ""
    first, last = (f"{x:+.1f}".replace("-", "−") for x in gained[0, [0, -1]])
    return (
        f"Reading the source backwards: {first} points in the first quarter of the target, "
        f"{last} in the last"
    )


def _name_places(ax: Axes, n: int) -> None:
    """Name the parts of the target below a panel."""
    names = ["first", "second", "third", "last"] if n == 4 else [str(i + 1) for i in range(n)]
    ax.set_xticks(range(n), names)
    ax.set_xlabel("quarter of the target")


def _draw_lines(ax: Axes, groups: dict[str, list[Record]]) -> None:
    """Draw a line per model."""
    found = style.looks(groups)
    names = layout.brief([look.label for look in found.values()])
    ends = []
    for name, (model, look) in zip(names, found.items(), strict=True):
        y = accuracies(groups[model])[..., 0].mean(0)
        draw: dict[str, Any] = {"color": look.colour, "clip_on": False, "zorder": 4}
        ax.plot(y, look.marker, ls=look.dashes, lw=1.9, ms=4.5, **draw)
        ends.append((len(y) - 1.0, float(y[-1]), name, look.colour))
    ax.set_title("Next-word accuracy (%), teacher-forced", loc="left", size=10.5)
    _name_places(ax, len(y))
    layout.label_ends(ax, ends)


def _draw_gains(ax: Axes, gained: np.ndarray) -> None:
    """Draw a bar per place."""
    x, (value, low, high) = np.arange(gained.shape[1]), gained
    ax.bar(x, value, 0.6, color=style.looks([REVERSED])[REVERSED].colour)
    ax.vlines(x, low, high, color=style.INK, lw=1.0)
    ax.axhline(0, color=style.GREY, lw=0.8)
    ax.set_title("Gain from reading the source backwards (points)", loc="left", size=10.5)
    _name_places(ax, len(x))

"""Draw learning curves: validation loss against target tokens and against time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from seqmodels.report import layout, matching, reading, style, wording
from seqmodels.report.findings import is_later, label_of
from seqmodels.report.reading import Record

LEAD = 0.01
"""Nats per token by which a model has to end lower than one that it passes."""
FIELDS = {"tokens": "target tokens", "seconds": "seconds of training"}


def draw_curves(records: Sequence[Record]) -> Figure:
    """Draw validation loss against target tokens and against time, one line per seed."""
    caption = "Each line is one seed; teacher-forced loss on the validation split, log scale."
    leader, winner = first_and_last(records)
    if any(crossing(records, field) for field in FIELDS):
        caption += f" Ring: the mean of {label_of(winner)} passes that of {label_of(leader)}."
    texts = *_titles(records), caption
    figure, axes = layout.panels(texts, layout.key_of(records), (6,), 0.45)
    looks, records = style.looks(reading.by_model(records)), [r for r in records if r["curve"]]
    for ax, (field, label) in zip(axes[0], FIELDS.items(), strict=True):
        ax.set_yscale("log")
        ends: dict[str, tuple[float, float, str, str]] = {}
        for r in records:
            look = looks[r["model"]]
            x, y = ([p[k] for p in r["curve"]] for k in (field, "valid_nats"))
            ax.plot(x, y, color=look.colour, ls=look.dashes, lw=1.4)
            ax.plot(x[-1:], y[-1:], look.marker, color=look.colour, ms=4.5, clip_on=False, zorder=4)
            ends[r["model"]] = x[-1], y[-1], layout.in_rows(look.label), look.colour
        if at := crossing(records, field):
            ax.plot(*at, "o", mfc="none", mec=style.INK, ms=11, mew=1.2, zorder=5)
        ax.set_title("nats per token, teacher-forced", loc="left", size=10.5)
        ax.set_xlim(0)
        ax.set_xlabel(label)
        ax.xaxis.set_major_locator(MaxNLocator(5))
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.minorticks_off()
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(FuncFormatter(wording.short))
        layout.label_ends(ax, ends.values() if field == "tokens" else ())
    return figure


def compared(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records that have a curve, by model, without models that came after the five."""
    return reading.by_model(r for r in records if r["curve"] and not is_later(r["model"]))


def first_and_last(records: Sequence[Record]) -> tuple[str, str]:
    """Return the models of lowest mean loss after a quarter of the tokens and at the end."""
    groups = compared(records)
    early, late = {}, {}
    for model, group in groups.items():
        curves = [(r, matching.tokens(r)) for r in group]
        early[model] = np.mean([matching.loss_at(r, x, x[-1] / 4) for r, x in curves])
        late[model] = np.mean([r["curve"][-1]["valid_nats"] for r in group])
    first, last = (min(loss, key=lambda m: loss[m], default="") for loss in (early, late))
    return first, last


def crossing(records: Sequence[Record], field: str) -> tuple[float, float] | None:
    """Return where the model that ends lowest passes, for good, the one that leads at first.

    That is the one that leads after a quarter of the tokens: before, the order changes from step to
    step. The curves compared are the means over the seeds, read as in `matching.loss_at`. None if
    one model is both or does not end lower by LEAD, or if times were measured on different
    machines.
    """
    groups, (leader, winner) = compared(records), first_and_last(records)
    pair = [*groups.get(leader, []), *groups.get(winner, [])]
    if leader == winner or (field == "seconds" and not matching.is_one_machine(pair)):
        return None
    spent = {"tokens": matching.tokens, "seconds": matching.seconds}[field]
    low, high = (pick(spent(r)[at] for r in pair) for pick, at in ((max, 0), (min, -1)))
    x = np.linspace(low, high, 1_000)
    mean = {
        m: np.mean([[matching.loss_at(r, spent(r), at) for at in x] for r in groups[m]], axis=0)
        for m in (leader, winner)
    }
    behind = np.flatnonzero(mean[winner] >= mean[leader])
    if not len(behind) or mean[leader][-1] - mean[winner][-1] < LEAD:
        return None
    return float(x[behind[-1] + 1]), float(mean[winner][behind[-1] + 1])


def _titles(records: Sequence[Record]) -> tuple[str, str]:
    """Return a title with the models of lowest and highest final loss, and the subtitle.

    If the first passes another, the title says when. It names no models if their seeds overlap.
    """
    topic, subtitle = "Learning curves", wording.subtitle(records)
    last = {m: [r["curve"][-1]["valid_nats"] for r in g] for m, g in compared(records).items()}
    low, high = (pick(last, key=lambda m: np.mean(last[m]), default="") for pick in (min, max))
    if low == high or max(last[low]) >= min(last[high]):
        return topic, subtitle
    leader, ends = first_and_last(records)[0], f"{np.mean(last[low]):.3f} nats per token"
    found = crossing(records, "tokens")
    if found and max(last[low]) < min(last[leader]):
        title = (
            f"{label_of(low)} passes {label_of(leader)} after {wording.short(found[0])} target "
            f"tokens and ends lowest, at {ends}"
        )
    else:
        title = (
            f"{label_of(low)} ends at {ends}, the lowest validation loss; {label_of(high)} ends at "
            f"{np.mean(last[high]):.3f}, the highest"
        )
    return title, f"{topic}\n{subtitle}"

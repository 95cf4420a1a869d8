"""Draw learning curves: validation loss against target tokens and against time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from seqmodels.report import layout, reading, style, wording
from seqmodels.report.findings import is_later, label_of
from seqmodels.report.reading import Record


def draw_curves(records: Sequence[Record]) -> Figure:
    """Draw validation loss against target tokens and against time, one line per seed."""
    caption = "Each line is one seed; teacher-forced loss on the validation split, log scale."
    texts = *_ended(records), caption
    figure, axes = layout.panels(texts, layout.key_of(records), (6,), 0.45)
    looks, records = style.looks(reading.by_model(records)), [r for r in records if r["curve"]]
    fields = {"tokens": "target tokens", "seconds": "seconds of training"}
    for ax, (field, label) in zip(axes[0], fields.items(), strict=True):
        ax.set_yscale("log")
        ends: dict[str, tuple[float, float, str, str]] = {}
        for r in records:
            look = looks[r["model"]]
            x, y = ([p[k] for p in r["curve"]] for k in (field, "valid_nats"))
            ax.plot(x, y, color=look.colour, ls=look.dashes, lw=1.4)
            ax.plot(x[-1:], y[-1:], look.marker, color=look.colour, ms=4.5, clip_on=False, zorder=4)
            ends[r["model"]] = x[-1], y[-1], layout.in_rows(look.label), look.colour
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


def _ended(records: Sequence[Record]) -> tuple[str, str]:
    """Return a title naming the models of lowest and highest final loss, and the subtitle.

    The title names no models if the seeds of the two overlap.
    """
    topic, subtitle = "Learning curves", wording.subtitle(records)
    groups = reading.by_model(r for r in records if r["curve"] and not is_later(r["model"]))
    last = {m: [r["curve"][-1]["valid_nats"] for r in group] for m, group in groups.items()}
    low, high = (pick(last, key=lambda m: np.mean(last[m]), default="") for pick in (min, max))
    if low == high or max(last[low]) >= min(last[high]):
        return topic, subtitle
    at = [f"{label_of(m)} ends at {np.mean(last[m]):.3f} nats per token" for m in (low, high)]
    title = (
        f"{at[0]}, the lowest validation loss; {at[1].replace(' nats per token', '')}, the highest"
    )
    return title, f"{topic}\n{subtitle}"

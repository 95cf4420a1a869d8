"""Draw learning curves, and the bytes that pass to the decoder by source length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from seqmodels.report import layout, reading, style
from seqmodels.report.format import short, subtitle
from seqmodels.report.reading import Record

FIELDS = {"tokens": "target tokens", "seconds": "seconds of training"}
SIZES = {
    "source_bytes": "Passed to the decoder in the paper",
    "cache_bytes": "Kept by this implementation",
}
"""Fields of a record with sizes in bytes, and the titles of their panels."""
Sizes = Mapping[str, np.ndarray]
"""Model -> (2, lengths): source lengths in tokens, and bytes."""


def draw_curves(records: Sequence[Record]) -> Figure:
    """Draw validation loss against target tokens and against time, one line per seed."""
    title = "Learning curves: validation loss by target tokens and by time"
    caption = "Each line is one seed; teacher-forced loss on the validation split, log scale."
    texts = title, subtitle(records), caption
    figure, axes = layout.panels(texts, layout.key_of(records), (6,), 0.45)
    looks = style.looks(reading.by_model(records))
    for ax, (field, label) in zip(axes[0], FIELDS.items(), strict=True):
        ax.set_yscale("log")
        for r in (r for r in records if r["curve"]):
            look = looks[r["model"]]
            x, y = ([p[k] for p in r["curve"]] for k in (field, "valid_nats"))
            ax.plot(x, y, color=look.colour, ls=look.dashes, lw=1.4)
            ax.plot(x[-1:], y[-1:], look.marker, color=look.colour, ms=4.5, clip_on=False, zorder=4)
        ax.set_title("nats per token, teacher-forced", loc="left", size=10.5)
        ax.set_xlim(0)
        ax.set_xlabel(label)
        ax.xaxis.set_major_locator(MaxNLocator(5))
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.minorticks_off()
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(FuncFormatter(short))
    return figure


def draw_state(records: Sequence[Record]) -> Figure:
    """Draw bytes against source length; coincident lines alternate their dashes."""
    caption = (
        "For one source, in float32. Left: the vectors that the decoder's equations read. Right: "
        "all tensors that encode returns, such as the keys and values of every layer. Lines that "
        "coincide alternate in colour."
    )
    texts = "Bytes for the decoder by source length", subtitle(records), caption
    groups = reading.by_model(records)
    figure, axes = layout.panels(texts, layout.key_of(records), (6.5,), 0.5)
    for ax, (key, name) in zip(axes[0], SIZES.items(), strict=True):
        _draw_sizes(ax, {m: np.array(g[0][key], float).T for m, g in groups.items() if g[0][key]})
        ax.set_title(name, loc="left", size=10.5)
    low, high = (pick(ax.get_ylim()[i] for ax in axes[0]) for i, pick in enumerate((min, max)))
    for ax in axes[0]:
        ax.set_ylim(low, high)
    return figure


def _draw_sizes(ax: Axes, sizes: Sizes) -> None:
    """Draw one line per model."""
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    for model, look in style.looks(sizes).items():
        S, size = sizes[model]
        same = [m for m, other in sizes.items()
                if other.shape == sizes[model].shape
                and np.allclose(other, sizes[model], rtol=0.06)]  # fmt: skip
        k, n = same.index(model), len(same)
        dashes = (5 * k, (5, 5 * (n - 1))) if n > 1 else look.dashes
        ax.plot(S, size, color=look.colour, ls=dashes, lw=2.2, dash_capstyle="butt")
        ax.plot(S, size, look.marker, color=look.colour, ms=5.5, markevery=(k, n), zorder=4)
    ax.set_xlabel("source length S (tokens)")
    ax.grid(True, axis="both")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: short(v, unit="B")))
    ax.minorticks_off()
    ax.tick_params(axis="y", pad=1)

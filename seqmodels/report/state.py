"""Draw the bytes that the decoder reads, and those that this implementation keeps, by length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from seqmodels.report import findings, layout, reading, style, wording
from seqmodels.report.reading import Record

PANELS = {
    "source_bytes": "Passed to the decoder in the paper",
    "cache_bytes": "Kept by this implementation",
}
Sizes = Mapping[str, np.ndarray]
"""Model -> (2, lengths): source lengths in tokens, and bytes."""


def draw_state(records: Sequence[Record]) -> Figure:
    """Draw bytes against source length; coincident lines alternate their dashes."""
    caption = (
        "For one source, in float32. Flat: one vector, independent of the length; rising: one "
        "vector per word. Left: the vectors that the decoder's equations read. Right: all tensors "
        "that encode returns, such as the keys and values of every layer."
    )
    topic = "Bytes for the decoder against source length"
    groups = reading.by_model(records)
    both = {key: sizes_of(groups, key) for key in PANELS}
    if any(len(twins(sizes, model)) > 1 for sizes in both.values() for model in sizes):
        caption += " Lines that coincide alternate in colour."
    title = growth(both["source_bytes"])
    subtitle = f"{topic}\n{wording.subtitle(records)}" if title else wording.subtitle(records)
    texts = title or topic, subtitle, caption
    figure, axes = layout.panels(texts, layout.key_of(records), (6.5,), 0.5)
    for ax, (key, name) in zip(axes[0], PANELS.items(), strict=True):
        _draw_sizes(ax, both[key])
        ax.set_title(name, loc="left", size=10.5)
    low, high = (pick(ax.get_ylim()[i] for ax in axes[0]) for i, pick in enumerate((min, max)))
    for ax, sizes in zip(axes[0], both.values(), strict=True):
        ax.set_ylim(low, high)
        looks = style.looks(sizes)
        names = layout.brief([look.label for look in looks.values()])
        ends = [(*sizes[m][:, -1], n, looks[m].colour) for m, n in zip(looks, names, strict=True)]
        layout.label_ends(ax, ends)
    return figure


def sizes_of(groups: Mapping[str, Sequence[Record]], key: str) -> dict[str, np.ndarray]:
    """Return the sizes of the models whose records contain them."""
    return {model: np.array(g[0][key], float).T for model, g in groups.items() if g[0][key]}


def twins(sizes: Sizes, model: str) -> list[str]:
    """Return the models whose lines coincide with that of `model`, including `model` itself."""
    same = {m: other for m, other in sizes.items() if other.shape == sizes[model].shape}
    return [m for m, other in same.items() if np.allclose(other, sizes[model], rtol=0.06)]


def _draw_sizes(ax: Axes, sizes: Sizes) -> None:
    """Draw one line per model."""
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    for model, look in style.looks(sizes).items():
        S, size = sizes[model]
        same = twins(sizes, model)
        k, n = same.index(model), len(same)
        dashes = (5 * k, (5, 5 * (n - 1))) if n > 1 else look.dashes
        ax.plot(S, size, color=look.colour, ls=dashes, lw=2.2, dash_capstyle="butt")
        ax.plot(S, size, look.marker, color=look.colour, ms=5.5, markevery=(k, n), zorder=4)
    ax.set_xlabel("source length S (tokens)")
    ax.grid(True, axis="both")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: wording.short(v, unit="B")))
    ax.minorticks_off()
    ax.tick_params(axis="y", pad=1)


def growth(sizes: Sizes) -> str:
    """Return a title: which sizes are constant and which grow; empty if all behave the same."""
    if not sizes:
        return ""
    longest = min(int(S[-1]) for S, _ in sizes.values())
    ends_of = {m: size[[0, S.tolist().index(longest)]] for m, (S, size) in sizes.items()}
    clauses = []
    for name, models in findings.kinds().items():
        ends = [ends_of[m] for m in models if m in ends_of]
        if ends and len({after > before for before, after in ends}) == 1:
            verb = "grows to" if ends[0][1] > ends[0][0] else "stays at"
            size = wording.span((after for _, after in ends), lambda n: wording.short(n, unit="B"))
            clauses.append(f"{name} {verb} {size}")
    if len(clauses) < 2:
        return ""
    return f"Passed to the decoder: {clauses[0]}, {clauses[1]} at {longest:,} source tokens"

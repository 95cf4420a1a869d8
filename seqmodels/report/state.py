"""Draw the size of what the encoder hands to the decoder against the length of the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from seqmodels.report import findings, layout, reading, style, wording
from seqmodels.report.reading import Record
from seqmodels.report.style import WIDTH


def draw_state(records: Sequence[Record]) -> Figure:
    """Draw the bytes of State against the source length; lines that coincide share the dashes."""
    caption = (
        "Size of what encode hands over for one source. Flat: one vector, whatever the length; "
        "rising: one vector per word. Lines that coincide alternate in colour."
    )
    what = "What the decoder is given: bytes of State against source length"
    groups = {m: g for m, g in reading.by_model(records).items() if g[0]["state_bytes"]}
    sizes = {m: np.array(g[0]["state_bytes"], float).T for m, g in groups.items()}
    title = _growth(sizes)
    subtitle = f"{what}\n{wording.subtitle(records)}" if title else wording.subtitle(records)
    figure, bottom, top = layout.canvas(3.7, title or what, subtitle, caption)
    height = figure.get_figheight()
    box = (0.75 / WIDTH, bottom + 0.5 / height, 1 - 4 / WIDTH, top - bottom - 0.6 / height)
    ax, ends = figure.add_axes(box), []
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    for model, look in style.looks(groups).items():
        S, size = sizes[model]
        alike = {m: other for m, other in sizes.items() if other.shape == sizes[model].shape}
        twins = [m for m, other in alike.items() if np.allclose(other, sizes[model], rtol=0.06)]
        k, n = twins.index(model), len(twins)
        dashes = (5 * k, (5, 5 * (n - 1))) if n > 1 else look.dashes
        ax.plot(S, size, color=look.colour, ls=dashes, lw=2.2, dash_capstyle="butt")
        ax.plot(S, size, look.marker, color=look.colour, ms=5.5, markevery=(k, n), zorder=4)
        ends.append(
            (S[-1], size[-1], f"{look.label} · {wording.parameters(groups[model])}", look.colour)
        )
    ax.set_xlabel("source length S (tokens)")
    ax.grid(True, axis="both")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: wording.short(v, unit="B")))
    ax.minorticks_off()
    layout.label_ends(ax, ends)
    return figure


def _growth(sizes: Mapping[str, np.ndarray]) -> str:
    """Say which sizes stay and which grow with the source; nothing if all do the same."""
    said = []
    for name, models in findings.kinds().items():
        ends = [sizes[m][1, [0, -1]] for m in models if m in sizes]
        if ends and len({after > before for before, after in ends}) == 1:
            verb = "grows to" if ends[0][1] > ends[0][0] else "stays at"
            size = wording.span((after for _, after in ends), lambda n: wording.short(n, unit="B"))
            said.append(f"{name} {verb} {size}")
    longest = {int(S[-1]) for S, _ in sizes.values()}
    if len(said) < 2 or len(longest) > 1:
        return ""
    return f"State: {said[0]}, {said[1]} at {longest.pop():,} tokens of source"

"""Draw the bits that pass from source to target, by length and by width. No torch.

Of n random symbols of b bits, n b − H bits have passed, where H is the cross-entropy of the target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from seqmodels.records.schema import Record
from seqmodels.report import load, style
from seqmodels.report.load import Groups

ONE_VECTOR = "rnn_encdec"
"""Start of the names of the models that are compared by the width of their vector."""


def compute_bits(group: Sequence[Record], at: int = 0) -> np.ndarray:
    """Return (seeds, lengths, 3): the bits that a model has transmitted, low and high.

    On the first test set (`at`), or on that from optimised States.
    """
    test, n_symbols = group[0].tests[at], group[0].data.count("n_symbols")
    nats = load.score_array(group, test.name, "nats")[:, 1:, [0, 2, 1]]
    n = np.array([bucket.low for bucket in test.buckets])
    return (math.log2(n_symbols) - nats / math.log(2)) * n[:, None]


def find_plateaus(groups: Groups, at: int = 0) -> dict[int, np.ndarray]:
    """Return, per width of the model with one vector, the most bits that each seed transmits."""
    return {
        group[0].size("d_model"): compute_bits(group, at)[..., 0].max(1)
        for model, group in groups.items()
        if model.startswith(ONE_VECTOR) and len(group[0].tests) > at
    }


def draw_bits(records: Sequence[Record]) -> Figure:
    """Draw bits against length for every second width of one vector, and for attention."""
    groups, names = load.group_by_model(records), []
    vectors = [model for model in groups if model.startswith(ONE_VECTOR)]
    n = [bucket.low for bucket in records[0].tests[0].buckets]
    all_bits = math.log2(records[0].data.count("n_symbols")) * n[-1]
    title = "Bits that arrive of random symbols, by length"
    figure, ((ax,),) = style.make_figure(title, records, note=style.MARKS)
    for model, look in style.line_styles_for(groups).items():
        if model in (*vectors[::2], "bahdanau"):
            bits = compute_bits(groups[model]).swapaxes(0, 1)
            style.draw_line(ax, look, dict(zip(n, bits, strict=True)))
            names.append((bits[-1, :, 0].mean(), look.label, look.colour))
    ax.plot([0, n[-1]], [0, all_bits], ls=":", color=style.INK)
    names.append((all_bits, "all bits", style.INK))
    ax.set(title="Bits transmitted", xlabel="source length (symbols)", xlim=(0, None))
    ax.set_ylim(0)
    style.name_lines(ax, names)
    return figure


def draw_most_bits(records: Sequence[Record]) -> Figure:
    """Draw the most bits that one vector transmits against its width, and bits per number."""
    groups = load.group_by_model(records)
    most, optimised = find_plateaus(groups), find_plateaus(groups, at=1)
    title = "Most bits through one vector, by its width"
    figure, ((ax,),) = style.make_figure(title, records)
    widths, colour = sorted(most), style.line_style_of(ONE_VECTOR).colour
    ax.plot(widths, [most[d].mean() for d in widths], color=colour, label="encoder’s vector")
    if optimised:
        means = [own.mean() for own in optimised.values()]
        ax.plot([*optimised], means, "D:", color=colour, label="optimised on the target")
    for d in widths:
        ax.plot([d] * len(most[d]), most[d], "o", color="white", mec=style.INK, ms=3.5, mew=0.8)
        ax.annotate(f"{most[d].mean() / d:.2f}", (d, most[d].max()), (0, 8), size=9,
                    textcoords="offset points", ha="center")  # fmt: skip
    style.set_log(ax, "x", "{x:g}", base=2)
    ax.margins(0.12)
    ax.legend()
    ax.set(
        title="Most bits at any length, and bits per number; circles: seeds",
        xlabel="numbers in the vector",
    )
    ax.set_ylim(0)
    return figure


def draw(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the figures of bits by the names of their files, if the records have measured some."""
    if not all(r.data.get("n_symbols") for r in records):
        return {}
    return {"bits": draw_bits(records), "most-bits": draw_most_bits(records)}


FIGURES = (draw,)

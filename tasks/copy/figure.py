"""Draw the bits that pass from source to target, by length and by width. No torch.

Of n random symbols of b bits, n b − H bits have passed, where H is the cross-entropy of the target.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from seqmodels.records.schema import Record
from seqmodels.report import load, style
from seqmodels.report.load import Groups, format_subtitle

from ..figures import draw_with_band

ONE_VECTOR = "rnn_encdec"
"""Start of the names of the models that are compared by the width of their vector."""
LOOKS_BACK = "bahdanau"
LEVELS = {90: "-", 50: (0, (4, 1.6))}
"""Next-symbol accuracies (%) whose lengths are drawn, and their line styles."""
MARK: dict[str, Any] = {"color": style.INK, "ms": 5.5, "clip_on": False}
"""How a length is marked."""
Bits = Mapping[str, np.ndarray]
"""Model -> (seeds, lengths, 3): bits, low and high."""


def bucket_lengths(records: Sequence[Record]) -> np.ndarray:
    """Return the length of each bucket, in symbols."""
    return np.array([b.low for b in records[0].tests[0].buckets], float)


def compute_bits(groups: Groups) -> Bits:
    """Return the bits that each model has transmitted at each length, with their intervals."""
    by_model = {}
    for model, group in groups.items():
        nats = load.score_array(group, group[0].tests[0].name, "nats")[:, 1:]
        each = math.log2(group[0].data.count("n_symbols")) - nats[..., [0, 2, 1]] / math.log(2)
        by_model[model] = each * bucket_lengths(group)[:, None]
    return by_model


def find_plateaus(groups: Groups) -> dict[int, np.ndarray]:
    """Return, per width of the model with one vector, the most bits that each seed transmits."""
    transmitted = compute_bits(groups)
    return {
        group[0].size("d_model"): transmitted[model][..., 0].max(1)
        for model, group in groups.items()
        if model.startswith(ONE_VECTOR)
    }


def interpolate_reach(accuracy: np.ndarray, n: np.ndarray, level: float) -> float:
    """Return the length at which an accuracy falls to a level, interpolated.

    inf: it does not fall so far; nan: it is lower at the shortest length.
    """
    below = np.flatnonzero(accuracy < level)
    if not below.size or below[0] == 0:
        return math.nan if below.size else math.inf
    i = below[0]
    return float(np.interp(level, [accuracy[i], accuracy[i - 1]], [n[i], n[i - 1]]))


def draw_bits(records: Sequence[Record]) -> Figure:
    """Draw bits against length for a few widths of one vector, and for looking back."""
    groups = load.group_by_model(records)
    vectors = [model for model in groups if model.startswith(ONE_VECTOR)]
    chosen = {*vectors[::2], LOOKS_BACK} & groups.keys()
    transmitted, n = compute_bits(groups), bucket_lengths(records)
    caption = (
        "Bits transmitted, after this training: those of the symbols less the cross-entropy of the "
        "target, teacher-forced. Dotted: all of them. Line: mean of the seeds; band: 95 % interval."
    )
    texts = "Bits that arrive of random symbols, by length", format_subtitle(records), caption
    figure, ax = style.make_panel(texts)
    names = []
    for model, line_style in style.line_styles_for(groups).items():
        bits = transmitted[model][..., 0]
        if model in chosen:
            draw_with_band(ax, line_style, n, transmitted[model].mean(0))
            names.append((bits.mean(0)[-1], line_style.label, line_style.colour))
    each = math.log2(records[0].data.count("n_symbols"))
    ax.plot([0, n[-1]], [0, each * n[-1]], ls=":", lw=1.8, color=style.INK)
    ax.set(title="Bits transmitted", xlabel="source length (symbols)")
    ax.set(xlim=(0, None), ylim=(0, None))
    style.name_lines(ax, names)
    return figure


def draw_most_bits(records: Sequence[Record]) -> Figure:
    """Draw the most bits that one vector transmits against its width, and bits per number."""
    groups = load.group_by_model(records)
    most = find_plateaus(groups)
    caption = (
        "The most bits of random symbols that arrive at any length, after this training, and above "
        "them the bits per number of the vector. Line: mean of the seeds; dots: seeds. Wider "
        "models also have more parameters."
    )
    texts = "Most bits through one vector, by its width", format_subtitle(records), caption
    figure, ax = style.make_panel(texts)
    for model, group in groups.items():
        if model.startswith(ONE_VECTOR):
            d = group[0].size("d_model")
    colour, widths = style.line_style_of(ONE_VECTOR).colour, sorted(most)
    ax.plot(widths, [most[d].mean() for d in widths], "o-", color=colour, lw=1.9, ms=5)
    for d in widths:
        ax.plot([d] * len(most[d]), most[d], "o", color="white", mec=style.INK, ms=3.5, mew=0.8)
        ax.annotate(f"{most[d].mean() / d:.2f}", (d, most[d].max()), (0, 8), size=9,
                    textcoords="offset points", ha="center")  # fmt: skip
    style.set_log(ax, "x", "{x:g}", base=2)
    ax.margins(x=0.12)
    ax.set_ylim(0, 1.15 * max((s.max() for s in most.values()), default=1.0))
    ax.set(title="Most bits at any length, and bits per number", xlabel="numbers in the vector")
    return figure


def compute_reaches(groups: Groups, size: str) -> dict[int, np.ndarray]:
    """Return the lengths at which the accuracy falls to each level, by width or number of vectors.

    inf: beyond the lengths tested; nan: shorter than the shortest.
    """
    by_size = {}
    for model, group in groups.items():
        sizes = group[0].settings
        if "n_queries" in sizes if size == "n_queries" else model.startswith(ONE_VECTOR):
            scores = load.score_array(group, group[0].tests[0].name, "token_accuracy")
            mean = scores[:, 1:, 0].mean(0)
            by_size[group[0].size(size)] = np.array(
                [interpolate_reach(mean, bucket_lengths(group), level) for level in LEVELS]
            )
    return {number: by_size[number] for number in sorted(by_size)}


def draw_reach(records: Sequence[Record]) -> Figure:
    """Draw the length at which the accuracy falls to 90 and to 50 %, by width and by vectors."""
    groups, longest = load.group_by_model(records), bucket_lengths(records)[-1]
    by_width, by_vectors = (compute_reaches(groups, size) for size in ("d_model", "n_queries"))
    caption = (
        "Next symbols right, teacher-forced: mean over the seeds, interpolated between the lengths "
        "tested. Triangles: beyond the longest of them."
    )
    title = "Length that is copied with an accuracy of 90 and 50 %"
    texts = title, format_subtitle(records), caption
    figure, axes = style.make_panels(texts, ())
    panels = (
        (by_width, "Length (symbols) with one vector", "numbers in the vector"),
        (by_vectors, "Length (symbols) with k vectors", "vectors pooled from Bahdanau's (k)"),
    )
    for ax, (lengths_of, name, label) in zip(axes[0], panels, strict=True):
        for column, (level, dashes) in enumerate(LEVELS.items()):
            sizes = [*lengths_of]
            y = np.array([lengths_of[x][column] for x in sizes])
            drawn_lengths = np.minimum(y, longest)
            ax.plot(sizes, drawn_lengths, ls=dashes, color=style.INK, lw=1.8, label=f"{level} %")
            for x, length in zip(sizes, y, strict=True):
                ax.plot(x, min(length, longest), "^" if np.isinf(length) else "o", **MARK)
        style.set_log(ax, "x", "{x:g}", base=2)
        ax.set(title=name, xlabel=label, ylim=(0, 1.04 * longest))
        ax.legend(frameon=False, loc="upper left")
    return figure


def draw(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the figures of bits by the names of their files, if the records have measured some."""
    if not all(r.data.get("n_symbols") for r in records):
        return {}
    return {"bits": draw_bits(records), "most-bits": draw_most_bits(records),
            "reach": draw_reach(records)}  # fmt: skip


FIGURES = (draw,)

"""Draw attention as kernel smoothing: lengths, bandwidth, the kernel alone, random features."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seqmodels.records.schema import Record
from seqmodels.report import load, style
from seqmodels.report.load import AnalysisRow, format_subtitle, label_of, rows_of
from seqmodels.report.style import GREY, INK, LineStyle

from ..exhibits import Exhibit
from ..figures import average, make_grid

KINDS = {
    "encoder": LineStyle("encoder to its own text", "#1B75BC", "", "s"),
    "decoder": LineStyle("decoder to its own text", "#C98200", "", "s"),
    "source": LineStyle("decoder to the source", "#009B77", "", "s"),
    "text": LineStyle("source and target as one text", "#1B75BC", "", "s"),
}
"""The look of each kind of attention."""
SIDES = [LineStyle("queries", GREY, "", "o"), LineStyle("keys", GREY, "", "^")]
"""The looks of queries and keys, whose columns begin with q and k."""


def rows_of_heads(r: Record) -> list[AnalysisRow]:
    """Return the rows of the kernel alone that are those of a head."""
    return [row for row in rows_of(r, "kernel") if "head" in row]


def draw_smoothing(group: Sequence[Record]) -> Figure:
    """Draw the lengths, and the losses with other weights in place of the learned ones."""
    nats = {
        name: average(group, "kernel", "nats", weights=name)[0, 0]
        for name in ("softmax", "kernel", "equal lengths")
    }
    caption = (
        "a, d: markers are heads of each seed, before training hollow. In b to f, weights are "
        "replaced in all heads at test time; nothing is trained again; dotted: the loss without "
        "it. d: Nadaraya and Watson's weights without the factor exp(|k|²/2h²) of each key; their "
        f"loss is {nats['kernel']:.2g} nats per token, with the learned weights it is "
        f"{nats['softmax']:.2g}, with keys of equal length {nats['equal lengths']:.2g}. Distance: "
        "total variation from the learned weights. b, e: a bandwidth of f h divides the scores by "
        "f²√d. c, f: random features (FAVOR+); mean, lowest and highest of all draws."
    )
    article = "" if label_of(group[0]).startswith("GPT") else "the "
    title = f"Attention of {article}{label_of(group[0])} as kernel smoothing"
    kinds = dict.fromkeys(row["attention"] for row in rows_of(group[0], "lengths"))
    key = [*(KINDS[kind] for kind in kinds), *SIDES]
    texts = title, format_subtitle(group), caption
    figure, (lengths, loss, features, kernel, entropy, distance) = make_grid(texts, 6, 3, 2.65, key)
    _draw_lengths(lengths, group)
    _draw_kernel(kernel, group)
    _draw_bandwidth(loss, group, "nats")
    _draw_bandwidth(entropy, group, "entropy")
    _draw_favor(features, group, "nats")
    _draw_favor(distance, group, "distance")
    exact = average(group, "favor", "nats", features=0)[0, 0]
    for ax, value in ((loss, nats["softmax"]), (features, exact)):
        ax.axhline(value, color=GREY, lw=0.8, ls=":")
    return figure


def _draw_lengths(ax: Axes, group: Sequence[Record]) -> None:
    """Draw the mean and the spread of the lengths of each head's queries and keys."""
    for r in group:
        for row in rows_of(r, "lengths"):
            colour = KINDS[row["attention"]].colour
            fill = colour if row["when"] == "after" else "white"
            for side, look in zip("qk", SIDES, strict=True):
                x, y = row[f"{side}_mean"], 100 * row[f"{side}_std"] / row[f"{side}_mean"]
                ax.plot(x, y, look.marker, color=colour, mfc=fill, ms=4.5, mew=0.8, alpha=0.75)
    ax.set(title="a  Lengths: spread (% of mean)", xlabel="mean length")
    ax.set(xlim=(0, None), ylim=(0, None))


def _draw_kernel(ax: Axes, group: Sequence[Record]) -> None:
    """Draw the distance of the kernel alone from the learned weights, by layer."""
    heads = rows_of_heads(group[0])
    places = [*dict.fromkeys((row["attention"], row["layer"]) for row in heads)]
    for i, r in enumerate(group):
        shift = 0.5 * (i + 0.5) / len(group) - 0.25
        for row in rows_of_heads(r):
            x = places.index((row["attention"], row["layer"])) + shift
            colour = KINDS[row["attention"]].colour
            ax.plot(x, row["kernel"], "o", color=colour, ms=4.5, mew=0, alpha=0.75)
    ax.set_xticks(range(len(places)), [layer for _, layer in places])
    ax.set(title="d  Kernel alone: distance", xlabel="layer")
    ax.set(xlim=(-0.5, len(places) - 0.5), ylim=(0, None))


def _draw_bandwidth(ax: Axes, group: Sequence[Record], column: str) -> None:
    """Draw the loss or the entropy by multiple of the bandwidth, a line per seed."""
    for r in group:
        rows = rows_of(r, "bandwidth")
        factors, values = ([row[name] for row in rows] for name in ("factor", column))
        ax.plot(factors, values, color=INK, lw=1.4, marker="o", ms=3.5)
    d_k = key_width(group[0])
    ax.axvline(d_k**-0.25, color=GREY, lw=0.8, ls="--")
    ax.text(d_k**-0.25, 0.97, " without 1/√d", color=GREY, size=8, va="top",
            transform=ax.get_xaxis_transform())  # fmt: skip
    of = "b  Bandwidth: nats per token" if column == "nats" else "e  Bandwidth: entropy (nats)"
    ax.set(title=of, xlabel="multiple of the bandwidth h")
    _scale(ax, column)


def key_width(r: Record) -> float:
    """Return the width of the keys of a head."""
    is_given = r.settings.get("d_k") is not None
    return r.size("d_k") if is_given else r.size("d_model") / r.size("n_heads")


def _draw_favor(ax: Axes, group: Sequence[Record], column: str) -> None:
    """Draw the loss or the distance from the exact weights by number of random features."""
    values: dict[int, list[float]] = {}
    for row in (row for r in group for row in rows_of(r, "favor") if row["features"]):
        values.setdefault(row["features"], []).append(row[column])
    x, colour = [*values], "#C2459A"
    means, low, high = ([f(drawn) for drawn in values.values()] for f in (mean, min, max))
    ax.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
    ax.plot(x, means, color=colour, lw=1.6, marker="o", ms=3.5)
    of = "c  Features: nats per token" if column == "nats" else "f  Features: distance"
    ax.set(title=of, xlabel="number of random features")
    _scale(ax, column)


def _scale(ax: Axes, column: str) -> None:
    """Give x a logarithmic axis, and y as well for nats; others begin at 0, distances end at 1."""
    style.set_log(ax, "x", "{x:g}", base=2)
    if column == "nats":
        style.set_log(ax, "y", "{x:g}")
    else:
        ax.set_ylim(0, 1 if column == "distance" else None)


# ------------------------------------------------------------------------------- before training

STARTS = ("transformer", "transformer_unscaled", "gpt", "gpt_unscaled")
"""Models whose scores are divided by √d_k, or not."""
PANELS = {
    "spread": "a  Scores: standard deviation", "largest": "b  Largest weight of a query",
    "median": "c  Gradient at the scores, median", "relative": "d  Gradient of W_q, W_k / norm",
}  # fmt: skip


def draw_scale(exhibit: Exhibit) -> Figure:
    """Draw what `measure_start` returns against the width of a head's queries and keys."""
    settings, seeds = exhibit["settings"], dict[float, list[float]]()
    caption = (
        f"Four heads at every width. Line: mean of {len(settings['seeds'])} seeds; whisker: lowest "
        "to highest. Only queries with several keys count. Dotted: √d_k. b: mean of the queries. "
        "c: norm of the loss's gradient with respect to a query's scores, which enter the softmax. "
        "d: norm of the gradient with respect to all W_q and W_k, over their own. The first "
        "weights of GPT are as large at every width, the Transformer's smaller in wider ones."
    )
    subtitle = f"The same first weights, on {settings['n_sentences']} sentences of the grammar"
    texts = "Scores divided by √d_k or not, before any training", subtitle, caption
    looks = {model: style.line_style_of(model) for model in STARTS}
    figure, axes = style.make_panels(texts, [*looks.values()], (1, 1), gap=0.55)
    for ax, (column, title) in zip(axes.flat, PANELS.items(), strict=True):
        for model, look in looks.items():
            seeds = {}
            for row in (row for row in exhibit["rows"] if row["model"] == model):
                seeds.setdefault(row["d_k"], []).append(row[column])
            style.draw_seeds(ax, look, {x: np.array(y) for x, y in seeds.items()})
        style.set_log(ax, "x", "{x:g}", base=2)
        ax.set(title=title, xticks=[*seeds])
        if column == "largest":
            ax.set_ylim(0, 1)
        else:
            style.set_log(ax, "y", lambda y, _: f"{y:g}" if y > 1e-3 else f"{y:.0e}")
    axes[0, 0].plot([*seeds], [d_k**0.5 for d_k in seeds], ":", color=INK, lw=1.2)
    for ax in axes[1]:
        ax.set_xlabel("width of a head's queries and keys, d_k")
    return figure


def draw(records: Sequence[Record]) -> dict[str, Figure]:
    """Return a figure per model with the Transformer's scores, by the names of their files."""
    return {
        f"smoothing-{model}": draw_smoothing(group)
        for model, group in load.group_by_model(records).items()
        if group[0].analyses["kernel"]
    }


FIGURES = [draw]

"""Draw how far back models reach: gradients by distance, and what a probe reads. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import geometric_mean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seqmodels.records.schema import Record
from seqmodels.report import load, style
from seqmodels.report.load import (
    AnalysisRow,
    format_short,
    format_subtitle,
    info_of,
    rows_of,
)
from seqmodels.report.style import GREY, HEAT, LineStyle

from ..figures import average

PANELS = {"before": "Gradient before training", "after": "Gradient after training"}
DEPTH_PANELS = {
    ("before", 0.0): "Gradient before training", ("before", 2.0): "Before, forget bias 2",
    ("after", 0.0): "Gradient after training", ("after", 2.0): "After, forget bias 2",
}  # fmt: skip
"""When, and the LSTM's forget bias; other models are in all."""
MOST = 1e6
"""Largest factor from 1 that is drawn."""


def draw_distance(records: Sequence[Record]) -> Figure:
    """Draw gradients before and after training, and what a probe reads from the last place."""
    groups = load.group_by_model(records)
    n = len(rows_of(records[0], "probe"))  # source tokens in the texts that were analysed
    caption = (
        "Gradients: norm of ∂ loss / ∂ embedding of a source token over that of ∂ loss / ∂ logits, "
        "over the median of all distances; line and band: median and quartiles over tokens, mean "
        f"of the seeds. Dotted: the token to be copied, {n} tokens away. Probe: one linear layer, "
        "of equal size for all, reads each source token from random combinations of what passes to "
        "the decoder at the last one, or from all of it if its size is fixed. Control: fitted to "
        "the labels of other texts."
    )
    texts = "How far back a model reaches", format_subtitle(records), caption
    figure, panels = style.make_panels(texts, style.label_line_styles(records), n_columns=3)
    axes = panels[0]
    for ax, (when, title) in zip(axes, PANELS.items(), strict=False):
        for model, line_style in style.line_styles_for(groups).items():
            names = ("distance", "low", "median", "high")
            x, low, middle, high = average(groups[model], "gradients", *names, when=when)
            ax.fill_between(x, low, high, color=line_style.colour, alpha=0.12, lw=0)
            ax.plot(x, middle, color=line_style.colour, ls=line_style.dashes, lw=1.8)
        ax.axvline(n, color=GREY, lw=0.8, ls=":")
        style.set_log(ax, "y", "{x:g}")
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.set(title=title, xlabel="distance (tokens)", xlim=(1, max(x)))
    low, high = np.transpose([ax.get_ylim() for ax in axes[:2]])
    for ax in axes[:2]:
        ax.set_ylim(max(low.min(), 1 / MOST), min(high.max(), MOST))
    _draw_probe(axes[2], groups)
    return figure


def _draw_probe(ax: Axes, groups: Mapping[str, Sequence[Record]]) -> None:
    """Draw the accuracy of the probe, and its control in grey."""
    for model, line_style in style.line_styles_for(groups).items():
        back, accuracy, control = average(groups[model], "probe", "back", "accuracy", "control")
        ax.plot(back, control, color="#AAAAAA", lw=0.9, zorder=1)
        ax.plot(back, accuracy, color=line_style.colour, ls=line_style.dashes, lw=1.8)
    ax.text(max(back), 0.5, "control", color=GREY, ha="right", size=8.5)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.set(title="Read by a linear probe (%)", xlabel="tokens back, from the last (1)")
    ax.set(xlim=(1, max(back)), ylim=(0, 100))


# ----------------------------------------------------------------------------------------- depth


def draw_depth(records: Sequence[Record]) -> Figure:
    """Draw the gradient at the near and far ends of sources by length: a line per depth."""
    groups: dict[tuple[str, int, float | None], list[AnalysisRow]] = {}
    for r in records:
        for row in rows_of(r, "depth"):
            key = row["when"], row.get("n_layers", 0), row.get("forget_bias")
            groups.setdefault(key, []).append(row)
    n_layers = sorted({depth for _, depth, _ in groups if depth})
    trained = sorted({depth for when, depth, _ in groups if depth and when == "after"})
    shown = [key for key in DEPTH_PANELS if any((key[0], n, key[1]) in groups for n in n_layers)]
    shown = shown or [key for key in DEPTH_PANELS if (key[0], 0, None) in groups]
    line_styles = {0: style.line_style_of("rnn_encdec")} | {
        n: LineStyle(f"LSTM, {n} layer{'s' * (n > 1)}", to_hex(HEAT(i / len(n_layers))), "-", "o")
        for i, n in enumerate(n_layers, 1)
    }
    caption = (
        "Norm of ∂ loss / ∂ embedding over that of ∂ loss / ∂ logits, for the first target token: "
        "at the last source token (distance 1) and at the first one of sources of each length. "
        "Median over texts, geometric mean of starts and seeds."
    )
    if trained:
        caption += (
            " Only models of the comparison are trained: LSTMs of "
            f"{' and '.join(map(str, trained))} layer{'s' * (trained != [1])}."
        )
    texts = "Gradient by depth and length", format_subtitle(records), caption
    figure, panels = style.make_panels(texts, [*line_styles.values()], n_columns=len(shown))
    axes = dict(zip(shown, panels[0], strict=True))
    for (panel, panel_bias), ax in axes.items():
        title = DEPTH_PANELS[panel, panel_bias]
        for (when, depth, bias), rows in groups.items():
            if panel == when and bias in (None, panel_bias):
                x, means = average_ends(rows)
                look = line_styles[depth]
                ax.plot(x, means, look.marker, ls=look.dashes, color=look.colour, ms=4, lw=1.6)
        style.set_log(ax, "y", format_short)
        ax.set(title=title, xlabel="distance (tokens)")
    low, high = np.transpose([ax.get_ylim() for ax in panels[0]])
    for i, ax in enumerate(panels[0]):
        ax.set_ylim(low.min(), high.max())
        ax.tick_params(axis="y", labelleft=i == 0)
    return figure


def average_ends(rows: Sequence[AnalysisRow]) -> tuple[list[int], list[float]]:
    """Return distances and mean gradients: of the near end at 1, and the far end at each length."""
    values: dict[int, list[float]] = {}
    for row in rows:
        values.setdefault(1, []).append(row["near"])
        values.setdefault(row["length"], []).append(row["far"])
    return [*values], [geometric_mean(v) for v in values.values()]


def draw(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the figures of a folder by the names of their files.

    Depth is drawn for the models with one vector, and for records in which it is measured.
    """
    deep = [
        r for r in records
        if "depth" in r.analyses and (info := info_of(r)) and info.memory == "vector"
    ]  # fmt: skip
    figures = {"distance": draw_distance(records)}
    return figures | ({"depth": draw_depth(deep)} if deep else {})


FIGURES = [draw]

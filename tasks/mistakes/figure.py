"""Draw each mistake beside the sound model: learning curve, BLEU, losses. No torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seqmodels.records.schema import Record
from seqmodels.report import load, style
from seqmodels.report.effects import base_of
from seqmodels.report.load import format_short, label_of, score_array
from seqmodels.report.style import GREY, LINE, PANEL, LineStyle

from ..figures import average

N_COLUMNS = 4
LOOKS = {
    False: LineStyle("without the mistake", GREY, "-", "o"),
    True: LineStyle("with it", "#D1495B", "-", "s"),
}
WAYS = {
    "at once": LineStyle("as in training: all words at once", "#D1495B", "", "s"),
    "by steps": LineStyle("word by word, as in search", "#1B75BC", "", "o"),
    "padded": LineStyle("at once, with 20 more pads", "#C98200", "", "^"),
}
"""The look of each loss that `measure_losses` computes."""


def name_of(group: Sequence[Record]) -> str:
    """Return the label of a model, without that of the Transformer before a mistake."""
    return label_of(group[0]).removeprefix("Transformer, ")


def draw_mistakes(records: Sequence[Record]) -> Figure:
    """Draw the learning curves with and without each mistake, and their BLEU as a title."""
    groups = load.group_by_model(records)
    cases = [(groups[base], g) for g in groups.values() if (base := base_of(g[0])) in groups]
    figure, axes = style.make_figure(
        "Mistakes: the learning curve, and the translation",
        records,
        [*LOOKS.values()],
        [PANEL] * -(-len(cases) // N_COLUMNS),
        N_COLUMNS,
        "Validation loss in nats per token, by target tokens · line: mean of the seeds · band: "
        "their range · BLEU: mean of the seeds, greedy",
    )
    for ax, case in zip(axes.flat, cases, strict=False):
        for look, group in zip(LOOKS.values(), case, strict=True):
            n = min(len(r.curve) for r in group)
            tokens = [point.tokens for point in group[0].curve[:n]]
            nats = np.array([[point.valid_nats for point in r.curve[:n]] for r in group])
            ax.fill_between(tokens, nats.min(0), nats.max(0), color=look.colour, alpha=0.2, lw=0)
            ax.plot(tokens, nats.mean(0), color=look.colour, lw=1.6)
        bleu = [score_array(g, g[0].tests[0].name, "bleu")[:, 0, 0].mean() for g in case]
        ax.set_title(f"{name_of(case[1])}\n{bleu[1]:.0f} BLEU, without {bleu[0]:.0f}", size=9)
        style.set_log(ax, "y", format_short)
        ax.set_xlim(0)
        ax.xaxis.set_major_locator(MaxNLocator(3))
        ax.xaxis.set_major_formatter(format_short)
    return figure


def draw_losses(records: Sequence[Record]) -> Figure:
    """Draw the loss of each model in three ways, which are one for a sound model."""
    groups = load.group_by_model(records)
    title = "The same loss in three ways, a marker for each seed"
    heights = [LINE * len(groups)]
    figure, ((ax,),) = style.make_figure(title, records, [*WAYS.values()], heights)
    for y, group in enumerate(groups.values()):
        for shift, (way, look) in zip((-0.22, 0, 0.22), WAYS.items(), strict=True):
            nats = [average([r], "losses", "nats", way=way)[0, 0] for r in group]
            ax.plot(nats, [y + shift] * len(nats), look.marker, color=look.colour, ms=4, alpha=0.8)
    ax.set_yticks(range(len(groups)), [name_of(group) for group in groups.values()])
    ax.invert_yaxis()
    style.set_log(ax, "x", format_short)
    ax.set_xlabel("nats per token of validation sentences, given the words before")
    return figure


def draw(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the figures by the names of their files; curves only beside a sound model."""
    models, measured = {r.model for r in records}, [r for r in records if "losses" in r.analyses]
    has_cases = any(base_of(r) in models for r in records)
    compared = {"mistakes": draw_mistakes(records)} if has_cases else {}
    return compared | ({"losses": draw_losses(measured)} if measured else {})


FIGURES = [draw]

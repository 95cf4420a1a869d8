"""Draw each mistake beside the sound model: curve and BLEU, losses, attention. No torch."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seqmodels.records.schema import Record
from seqmodels.report import load, style
from seqmodels.report.effects import base_of
from seqmodels.report.load import format_short, format_subtitle, label_of, score_array
from seqmodels.report.style import GREY, LineStyle

from ..figures import average, make_grid

SOUND = LineStyle("without the mistake", GREY, "-", "o")
MISTAKEN = LineStyle("with it", "#D1495B", "-", "s")
WAYS = {
    "at once": LineStyle("as in training: all words at once", "#D1495B", "", "s"),
    "by steps": LineStyle("word by word, as in search", "#1B75BC", "", "o"),
    "padded": LineStyle("at once, with 20 more pads", "#C98200", "", "^"),
}
"""The look of each loss that `measure_losses` computes."""


class Case(NamedTuple):
    """A mistake, and what it is compared with, one record for each seed."""

    name: str
    sound: Sequence[Record]
    mistaken: Sequence[Record]


def name_of(group: Sequence[Record]) -> str:
    """Return the label of a model, without that of the Transformer before a mistake."""
    return label_of(group[0]).removeprefix("Transformer, ")


def list_cases(records: Sequence[Record]) -> list[Case]:
    """Return the mistakes whose sound model is among the records."""
    groups = load.group_by_model(records)
    return [
        Case(name_of(group), groups[base], group)
        for group in groups.values()
        if (base := base_of(group[0])) in groups
    ]


# ------------------------------------------------------------------------------- Learning curves


def draw_mistakes(records: Sequence[Record]) -> Figure:
    """Draw the learning curve with and without each mistake, and the BLEU of each seed beside."""
    cases = list_cases(records)
    caption = (
        "Loss on the validation split, teacher-forced, by target tokens, on a log scale: mean of "
        "the seeds, and a band from the lowest to the highest. To the right of each: BLEU of the "
        "greedy translations of each seed, from 0 to 100, over all lengths."
    )
    texts = "Mistakes: the learning curve, and the translation", format_subtitle(records), caption
    figure, axes = make_grid(texts, len(cases), 3, 1.75, (SOUND, MISTAKEN))
    for ax, case in zip(axes, cases, strict=True):
        beside = ax.inset_axes((1.04, 0, 0.2, 1))
        for look, group in ((SOUND, case.sound), (MISTAKEN, case.mistaken)):
            _draw_case((ax, beside), look, group)
        style.set_log(ax, "y", format_short)
        ax.set_title(textwrap.fill(case.name, 34), size=9)
        ax.set_xlim(0)
        ax.xaxis.set_major_locator(MaxNLocator(3))
        ax.xaxis.set_major_formatter(format_short)
        beside.set(ylim=(0, 100), xlim=(-0.5, 1.5), xticks=[])
        beside.yaxis.tick_right()
        beside.set_title("BLEU", loc="center", size=8.5, color=GREY)
    return figure


def _draw_case(axes: tuple[Axes, Axes], look: LineStyle, group: Sequence[Record]) -> None:
    """Draw the curve and the scores of one model."""
    ax, beside = axes
    n = min(len(r.curve) for r in group)
    tokens, nats = (
        np.array([[getattr(p, field) for p in r.curve[:n]] for r in group])
        for field in ("tokens", "valid_nats")
    )
    tokens, mean, low, high = tokens.mean(0), nats.mean(0), nats.min(0), nats.max(0)
    ax.fill_between(tokens, low, high, color=look.colour, alpha=0.2, lw=0)
    ax.plot(tokens, mean, color=look.colour, lw=1.6)
    bleu = score_array(group, group[0].tests[0].name, "bleu")[:, 0, 0]
    shift = np.linspace(-0.25, 0.25, len(bleu)) if len(bleu) > 1 else np.zeros(1)
    beside.plot(
        (look is MISTAKEN) + shift, bleu, look.marker, color=look.colour, ms=3.5, clip_on=False
    )


# -------------------------------------------------------------------------------------- Losses


def draw_losses(records: Sequence[Record]) -> Figure:
    """Draw the loss of each model in three ways, which are one for a sound model."""
    groups = load.group_by_model(records)
    caption = (
        "Nats per token on validation sentences, given the true words before each word, on a log "
        "scale: a marker for each seed. In a sound model, all three are the same. Where the loss "
        "by steps is larger, the training has seen the word that it had to write, or another one "
        "that is yet to come; where more pads change it, pads are attended to."
    )
    texts = "The same loss in three ways", format_subtitle(records), caption
    figure, (ax,) = make_grid(texts, 1, 1, 0.6 + 0.27 * len(groups), [*WAYS.values()])
    for y, group in enumerate(groups.values()):
        for shift, (way, look) in zip((-0.22, 0, 0.22), WAYS.items(), strict=True):
            for r in group:
                ((nats,),) = average([r], "losses", "nats", way=way)
                ax.plot(nats, y + shift, look.marker, color=look.colour, ms=4, alpha=0.8, mew=0)
    ax.set_yticks(range(len(groups)), [name_of(group) for group in groups.values()])
    ax.invert_yaxis()
    style.set_log(ax, "x", format_short)
    ax.set_xlabel("nats per token")
    return figure


def draw_all(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the figures by the names of their files; those for which there are records."""
    compared = {"mistakes": draw_mistakes(records)} if list_cases(records) else {}
    return compared | {"losses": draw_losses(records)}


FIGURES = [draw_all]

"""Draw what is inside a model: heads, words, sublayers, states, scores. No torch.

A figure is drawn of the records that hold what it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seqmodels.records.schema import Record
from seqmodels.report import load, style
from seqmodels.report.load import AnalysisRow, label_of, rows_of
from seqmodels.report.style import GREY, LINE, PANEL

from ..figures import CHANGES, CONTROL, average

ATTENTIONS = {
    "encoder": "encoder to its own text", "decoder": "decoder to its own text",
    "source": "decoder to the source", "text": "source and target as one text",
}  # fmt: skip


def name_head(row: AnalysisRow) -> str:
    """Return layer and number of a head."""
    return f"{row['layer']}.{row['head']}"


def draw_heads(r: Record) -> Figure:
    """Draw heat maps of the share of weight by kind of pair and head, for each attention."""
    shares: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows_of(r, "heads"):
        pairs = shares.setdefault(row["attention"], {})
        pairs.setdefault(row["pair"], {})[name_head(row)] = row["share"]
    figure, axes = style.make_figure(
        f"{label_of(r)}: what the heads look for",
        [r],
        heights=[LINE * len(pairs) for pairs in shares.values()],
    )
    for ax, (kind, pairs) in zip(axes.flat, shares.items(), strict=True):
        heads = next(iter(pairs.values()))
        values = [[*own.values()] for own in pairs.values()]
        style.draw_map(ax, values, [*pairs], [*heads], top=100, lw=0.3)
        ax.set_xlabel(f"{ATTENTIONS[kind]}, by layer.head", weight="bold")
    maps = axes[0, 0].collections[0]
    figure.colorbar(maps, ax=axes, shrink=0.5, label="mean share of a query’s weight (%)")
    return figure


def draw_muted(r: Record, analysis: str) -> Figure:
    """Draw the exact translations lost without each part, and the kinds of words that change."""
    whole, *rows = rows_of(r, analysis)
    title = f"{label_of(r)}: what is lost if a part gives zero"
    figure, ((above,), (below,)) = style.make_figure(
        title, [r], heights=[PANEL, PANEL], sharex=True
    )
    x, base = np.arange(len(rows)), np.zeros(len(rows))
    lost = [whole["exact"] - row["exact"] for row in rows]
    above.bar_label(above.bar(x, lost, 0.7, color="#444444"), size=8, color=GREY, padding=1)
    above.set(title=f"Exact translations lost, of {whole['exact']}", ylim=(0, 1.12 * whole["n"]))
    for kind, colour in CHANGES.items():
        words = np.array([row[kind] for row in rows], float)
        below.bar(x, words, 0.7, base, color=colour, label=kind)
        base += words
    below.legend(ncols=5, loc="upper left")
    below.set(title="Changed words", ylim=(0, 1.25 * base.max() + 1))
    names = [
        f"{row['attention']} {name_head(row)}" if "head" in row
        else f"{row['stack']} {row['layer']} {row['sublayer']}"
        for row in rows
    ]  # fmt: skip
    below.set_xticks(x, names, rotation=90)
    return figure


def draw_neighbours(records: Sequence[Record]) -> Figure:
    """Draw how often the nearest word by embedding is of the same gender, meaning or kind."""
    groups = load.group_by_model(records)
    looks = style.line_styles_for(groups)
    title, subtitle = "Which words are near each other?", records
    figure, ((ax,),) = style.make_figure(title, subtitle, [*looks.values()])
    for model, look in looks.items():
        rows = rows_of(groups[model][0], "neighbours", layer=0)
        labels, same = ([row[key] for row in rows] for key in ("label", "same"))
        ax.plot(labels, same, look.marker, color=look.colour)
    ax.set(title="Nearest noun, or content word: same (%)", ylim=(0, 104))
    return figure


VERBS = "verb of a subject", "verb of an object"
PROBED = {
    "probes": ("What has “the” learned of its noun?", ("gender", "case", "number", "role")),
    "nouns": ("What does a noun know?", ("article", *VERBS, "place")),
}  # fmt: skip
"""The title and the properties of each analysis by linear probes."""


def draw_probes(analysis: str, records: Sequence[Record]) -> Figure:
    """Draw what linear probes read from words, layer by layer."""
    groups, (title, names) = load.group_by_model(records), PROBED[analysis]
    looks = style.line_styles_for(groups)
    figure, axes = style.make_figure(
        f"{title} Accuracy of linear probes (%)",
        records,
        [*looks.values(), CONTROL._replace(label="labels of another word")],
        [PANEL, PANEL],
        2,
    )
    for ax, name in zip(axes.flat, names, strict=True):
        for model, look in looks.items():
            columns = "layer", "score", "control"
            layer, score, control = average(groups[model], analysis, *columns, property=name)
            ax.plot(layer, control, **CONTROL.line, lw=0.9, zorder=1)
            ax.plot(layer, score, **look.line)
        ax.set(title=name.capitalize(), xlabel="layer (0: embedding)", ylim=(0, 104))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def draw_said(records: Sequence[Record]) -> Figure:
    """Draw whether words to come, and words that were generated, can be read from the state."""
    groups = load.group_by_model(records)
    looks = style.line_styles_for(groups)
    figure, ((ax,),) = style.make_figure(
        "What does the decoder's state say of a word? AUC of linear probes (%)",
        records,
        [*looks.values(), CONTROL._replace(label="probes of other sentences")],
    )
    states = [row["state"] for row in rows_of(records[0], "said")]
    for model, look in looks.items():
        auc, control = average(groups[model], "said", "auc", "control")
        ax.plot(states, control, **CONTROL.line, lw=0.9, zorder=1)
        ax.plot(states, auc, **look.line)
    ax.axhline(50, color=GREY, lw=0.8, ls=":")
    ax.set_xlabel("German words since the word was generated")
    return figure


def draw_smoothing(group: Sequence[Record]) -> Figure:
    """Draw the loss with other weights in place of the learned ones."""
    title = f"{label_of(group[0])}: attention as kernel smoothing"
    figure, ((ax,),) = style.make_figure(title, group)
    names = ["softmax", "kernel", "equal lengths"]
    nats = [average(group, "kernel", "nats", weights=name)[0, 0] for name in names]
    ax.bar_label(ax.bar(names, nats, 0.6, color="#444444"), fmt="{:.2g}", size=8, color=GREY)
    ax.set_title("Nats per token, with the weights replaced in all heads at test time")
    return figure


ALL: dict[str, Callable[[Sequence[Record]], Figure]] = {
    "neighbours": draw_neighbours, "said": draw_said,
    **{name: partial(draw_probes, name) for name in PROBED},
}  # fmt: skip
"""What draws all models, by the names of figure and analysis."""


def draw(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the figures of a folder by the names of their files: of one model, its first seed."""
    figures = {}
    for model, group in load.group_by_model(records).items():
        first = group[0]
        if first.analyses.get("heads"):
            figures[f"heads-{model}"] = draw_heads(first)
        for name, analysis in (("muted", "muting"), ("stream", "stream")):
            if first.analyses.get(analysis):
                figures[f"{name}-{model}"] = draw_muted(first, analysis)
        if first.analyses.get("kernel"):
            figures[f"smoothing-{model}"] = draw_smoothing(group)
    for name, draw_all in ALL.items():
        if measured := [r for r in records if r.analyses.get(name)]:
            figures[name] = draw_all(measured)
    return figures


FIGURES = [draw]

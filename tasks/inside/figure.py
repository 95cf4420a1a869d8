"""Draw what is inside a model: heads, words, sublayers, states, scores. No torch.

A figure is drawn of the records that hold what it shows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seqmodels.records.schema import Record
from seqmodels.report import load, style
from seqmodels.report.load import AnalysisRow, describe_run, format_subtitle, label_of, rows_of
from seqmodels.report.style import GREY

from ..figures import CHANGES, average, make_grid

ATTENTIONS = {
    "encoder": "encoder to its own text", "decoder": "decoder to its own text",
    "source": "decoder to the source", "text": "source and target as one text",
}  # fmt: skip


def name_head(row: AnalysisRow) -> str:
    """Return layer and number of a head."""
    return f"{row['layer']}.{row['head']}"


def draw_heads(r: Record) -> Figure:
    """Draw heat maps of the share of weight by kind of pair and head, for each attention."""
    kinds = dict.fromkeys(row["attention"] for row in rows_of(r, "heads"))
    caption = (
        "Share of a query's weight (%) on the keys of a kind of pair, averaged over queries that "
        "have such a key; 2.1 is head 1 of layer 2."
    )
    texts = f"{label_of(r)}: what the heads look for", describe_run(r), caption
    figure, axes = make_grid(texts, len(kinds), 1, 2.6, [])
    for ax, kind in zip(axes, kinds, strict=True):
        rows = rows_of(r, "heads", attention=kind)
        pairs = [*dict.fromkeys(row["pair"] for row in rows)]
        heads = [*dict.fromkeys(map(name_head, rows))]
        shares = np.array([row["share"] for row in rows]).reshape(len(pairs), len(heads))
        style.draw_map(ax, shares, pairs, heads, top=100, lw=0.3)
        ax.set_xlabel(ATTENTIONS[kind], weight="bold")
    return figure


def draw_muted(r: Record, analysis: str) -> Figure:
    """Draw the exact translations lost without each part, and the kinds of words that change."""
    whole, *rows = rows_of(r, analysis)
    caption = (
        "A part gives zero; nothing is trained again. A word changes its ending (another form of "
        "the same lemma), is replaced by another (choice), moves (order), is left out or added."
    )
    texts = f"{label_of(r)}: what is lost without each part", describe_run(r), caption
    figure, (above, below) = make_grid(texts, 2, 1, 2.4, [])
    x, base = np.arange(len(rows)), np.zeros(len(rows))
    lost = [whole["exact"] - row["exact"] for row in rows]
    above.bar_label(above.bar(x, lost, 0.7, color="#444444"), size=8, color=GREY, padding=1)
    above.set(title=f"Exact translations lost, of {whole['exact']}", ylim=(0, 1.12 * whole["n"]))
    for kind, colour in CHANGES.items():
        words = np.array([row[kind] for row in rows], float)
        below.bar(x, words, 0.7, base, color=colour, label=kind)
        base += words
    below.legend(fontsize=8, ncols=5, loc="upper left")
    below.set(title="Changed words", ylim=(0, 1.25 * base.max() + 1))
    names = [
        f"{row['attention']} {name_head(row)}" if "head" in row
        else f"{row['stack']} {row['layer']} {row['sublayer']}"
        for row in rows
    ]  # fmt: skip
    for ax in (above, below):
        ax.set_xticks(x, names, rotation=90, size=8)
    return figure


def draw_neighbours(records: Sequence[Record]) -> Figure:
    """Draw how often the nearest word by embedding is of the same gender, meaning or kind."""
    groups = load.group_by_model(records)
    caption = (
        "How often the nearest noun has the same German gender or meaning, and the nearest content "
        "word the same part of speech."
    )
    texts = "Which words are near each other?", format_subtitle(records), caption
    looks = style.line_styles_for(groups)
    figure, (ax,) = make_grid(texts, 1, 1, 2.4, [*looks.values()])
    for model, look in looks.items():
        rows = rows_of(groups[model][0], "neighbours", layer=0)
        labels, same = ([row[key] for row in rows] for key in ("label", "same"))
        ax.plot(labels, same, look.marker, color=look.colour, ms=5.5)
    ax.set(title="Nearest word: same (%)", ylim=(0, 104))
    return figure


def draw_probes(records: Sequence[Record]) -> Figure:
    """Draw what linear probes read from the word "the", layer by layer."""
    groups = load.group_by_model(records)
    caption = (
        "Accuracy, mean over the classes, of linear probes of the word “the” of the source. Layer "
        "0: the embedding. Grey: probes of the labels of another “the”."
    )
    texts = "What has “the” learned of its noun?", format_subtitle(records), caption
    looks, names = style.line_styles_for(groups), ("gender", "case", "number", "role")
    figure, axes = make_grid(texts, 4, 2, 2.2, [*looks.values()])
    for ax, name in zip(axes, names, strict=True):
        for model, look in looks.items():
            columns = "layer", "score", "control"
            layer, score, control = average(groups[model], "probes", *columns, property=name)
            ax.plot(layer, control, color="#AAAAAA", lw=0.9, zorder=1)
            ax.plot(layer, score, look.marker, color=look.colour, ls=look.dashes, lw=1.7, ms=4.5)
        ax.set(title=f"{name.capitalize()} (%)", xlabel="layer", ylim=(0, 104))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def draw_said(records: Sequence[Record]) -> Figure:
    """Draw whether words to come, and words that were generated, can be read from the state."""
    groups = load.group_by_model(records)
    caption = (
        "A linear probe for each content word reads the decoder's state after each German word: "
        "how often its score is higher in states of a sentence with the word than without; 50 is "
        "chance. Numbers: German words since it was generated. Grey: probes of other sentences."
    )
    title = "What does the decoder's state say of a word? (AUC, %)"
    texts = title, format_subtitle(records), caption
    looks = style.line_styles_for(groups)
    figure, (ax,) = make_grid(texts, 1, 1, 2.6, [*looks.values()])
    states = [row["state"] for row in rows_of(records[0], "said")]
    for model, look in looks.items():
        auc, control = average(groups[model], "said", "auc", "control")
        ax.plot(states, control, color="#AAAAAA", lw=0.9, zorder=1)
        ax.plot(states, auc, look.marker, color=look.colour, ls=look.dashes, lw=1.7, ms=4.5)
    ax.axhline(50, color=GREY, lw=0.8, ls=":")
    return figure


def draw_smoothing(group: Sequence[Record]) -> Figure:
    """Draw the loss with other weights in place of the learned ones."""
    caption = "Weights are replaced in all heads at test time; nothing is trained again."
    texts = f"{label_of(group[0])}: attention as kernel smoothing", format_subtitle(group), caption
    figure, (ax,) = make_grid(texts, 1, 1, 2.6, [])
    names = ["softmax", "kernel", "equal lengths"]
    nats = [average(group, "kernel", "nats", weights=name)[0, 0] for name in names]
    ax.bar_label(ax.bar(names, nats, 0.6, color="#444444"), fmt="{:.2g}", size=8, color=GREY)
    ax.set_title("Nats per token, by weights")
    return figure


ALL = {"neighbours": draw_neighbours, "probes": draw_probes, "said": draw_said}
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

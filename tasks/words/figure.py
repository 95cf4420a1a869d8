"""Draw what is inside a word: neighbours, probes, the stream, queries and keys. No torch.

Records of a model without a part have no figure of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seqmodels.records.schema import Record
from seqmodels.report import load, style
from seqmodels.report.load import describe_run, format_subtitle, label_of, rows_of
from seqmodels.report.style import GREY, LineStyle

from ..figures import CHANGES, average

Groups = Mapping[str, Sequence[Record]]
LABELS = {"gender": "German gender", "meaning": "meaning", "part of speech": "part of speech"}
PROPERTIES = {
    "gender": "Gender (accuracy, %)", "case": "Case (accuracy, %)",
    "number": "Number (accuracy, %)", "role": "Role (accuracy, %)",
    "position": "Position (R², %)", "distance": "Words to the verb (R², %)",
}  # fmt: skip
KINDS = {"article": "#B02A1E", "noun": "#1B75BC", "adjective": "#C98200", "verb": "#009B77"}
"""The colour of each part of speech."""
ASKED = {
    "encoder": ("article", "Articles of the source ask for their nouns"),
    "source": ("article", "The German article that is written asks for its noun in the source"),
    "decoder": ("noun", "Nouns of the source ask for their articles"),
}
"""By the attention: the part of speech of the query, and what it asks for."""


def make_axes(
    body: float,
    texts: style.Texts,
    shape: tuple[int, int],
    key: Sequence[LineStyle] = (),
    **its: Any,
) -> tuple[Figure, np.ndarray]:
    """Return a figure with rows and columns of axes, and a legend of models on the right."""
    figure = style.make_figure(body, texts)
    style.add_legend(figure, key, loc="outside right upper", labelspacing=0.7)
    return figure, figure.subplots(*shape, squeeze=False, **its)


def draw_dots(ax: Axes, groups: Groups, names: Sequence[str], find: Callable[..., Any]) -> None:
    """Draw a marker for each model beside each name; `find` returns its value and its control."""
    for i, (model, look) in enumerate(style.line_styles_for(groups).items()):
        for x, name in enumerate(names):
            value, control = find(groups[model], name)
            place = x + 0.7 * ((i + 0.5) / len(groups) - 0.5)
            ax.plot(place, value, look.marker, color=look.colour, ms=5.5)
            if control == control:
                ax.plot(place, control, "_", color="#999999", ms=6, zorder=1)
    ax.set_xticks(range(len(names)), [*names])
    ax.tick_params(axis="x", length=0)


def draw_lines(ax: Axes, groups: Groups, find: Callable[..., Any]) -> None:
    """Draw a line for each model; `find` returns its x, its values and, in grey, its controls."""
    for model, look in style.line_styles_for(groups).items():
        x, value, control = find(groups[model])
        ax.plot(x, control, color="#AAAAAA", lw=0.9, zorder=1)
        ax.plot(x, value, look.marker, color=look.colour, ls=look.dashes, lw=1.7, ms=4.5)


# ------------------------------------------------------------------------------------ all models


def draw_neighbours(records: Sequence[Record]) -> Figure:
    """Draw whether the nearest word is alike, three pairs of words, and two senses of a word."""
    groups = load.group_by_model(records)
    caption = (
        "Cosines of embeddings, less their mean. Left: how often the nearest of 45 nouns has the "
        "same German gender or meaning (human, animal, thing or place), and the nearest content "
        "word the same part of speech. Grey: the same with shuffled labels. Middle: three pairs of "
        "nouns. Right: how often the nearest other “that” of the sentences is the same part of "
        "speech, a conjunction or a relative pronoun; layer 0: the embedding, with its position "
        "where the model adds one."
    )
    texts = "Which words are near each other?", format_subtitle(records), caption
    key = [*style.line_styles_for(groups).values()]
    figure, ((left, middle, right),) = make_axes(3.0, texts, (1, 3), key, width_ratios=(1.25, 1, 1))
    left.set_title("Nearest word: same (%)")
    draw_dots(left, groups, [*LABELS], lambda group, label: (
        average(group, "neighbours", "same", "chance", label=label, layer=0)[:, 0]
    ))  # fmt: skip
    left.set_xticks(range(3), ["German\ngender", "meaning", "part of\nspeech"])
    middle.set_title("Cosine of girl and …")
    others = [row["other"] for row in rows_of(records[0], "nearest") if "other" in row]
    draw_dots(middle, groups, others, lambda group, other: (
        average(group, "nearest", "cosine", other=other)[0, 0], np.nan
    ))  # fmt: skip
    middle.axhline(0, color=GREY, lw=0.8, ls=":")
    right.set(title="“That”: same role (%)", xlabel="layer")
    draw_lines(right, groups, lambda own: average(own, "senses", "layer", "same", "chance"))
    for ax in (left, right):
        ax.set_ylim(0, 104)
    return figure


def draw_probes(records: Sequence[Record]) -> Figure:
    """Draw what probes read from the word "the", layer by layer."""
    groups = load.group_by_model(records)
    caption = (
        "Linear probes of the vector of the word “the” in the source, fitted on two thirds of the "
        "sentences and scored on the others. Accuracy is the mean over the classes. Layer 0: the "
        "embedding, with its position where the model adds one; a recurrent encoder is one layer. "
        "Grey: probes of the labels of another “the”. Dotted: chance."
    )
    texts = "What has “the” learned of its noun?", format_subtitle(records), caption
    key = [*style.line_styles_for(groups).values()]
    figure, axes = make_axes(4.4, texts, (2, 3), key, sharex=True)
    for ax, (name, title) in zip(axes.flat, PROPERTIES.items(), strict=True):
        ax.set_title(title)
        draw_lines(ax, groups, lambda own, name=name: (
            average(own, "probes", "layer", "score", "control", property=name)
        ))  # fmt: skip
        (row, *_) = rows_of(records[0], "probes", property=name)
        ax.axhline(row["chance"], color=GREY, lw=0.8, ls=":")
        ax.set_ylim(0, 104)
        ax.xaxis.get_major_locator().set_params(integer=True)
    for ax in axes[-1]:
        ax.set_xlabel("layer")
    return figure


def draw_positions(records: Sequence[Record]) -> Figure:
    """Draw the similarity of two positions by their distance, after and before training."""
    own = [r for r in records if r.analyses["positions"]]
    groups = load.group_by_model(own)
    kinds = {r.model: rows_of(r, "positions")[0]["kind"] for r in own}
    looks = style.line_styles_for(groups)
    key = [look._replace(label=f"{look.label}:\n{kinds[m]}") for m, look in looks.items()]
    caption = (
        "Mean cosine of the vectors of two of the first 80 positions, less the mean position. "
        "Thin, dotted: learned positions before training."
    )
    texts = "How alike are two positions?", format_subtitle(own), caption
    figure, ((ax,),) = make_axes(2.7, texts, (1, 1), key)
    for model, look in looks.items():
        for when, lw in (("before", 0.9), ("after", 1.8)):
            columns = average(groups[model], "positions", "distance", "cosine", when=when)
            dashes = look.dashes if when == "after" else ":"
            ax.plot(*columns, color=look.colour, ls=dashes, lw=lw)
    ax.axhline(0, color=GREY, lw=0.8, ls=":")
    ax.set(xlabel="distance of the two positions", ylabel="cosine")
    return figure


def draw_said(records: Sequence[Record]) -> Figure:
    """Draw whether words to come, and words that were said, can be read from the state."""
    groups = load.group_by_model(records)
    caption = (
        "A linear probe for each content word reads the decoder's state after each German word: "
        "how often its score is higher in states of a sentence with the word than in those of a "
        "sentence without it; 50 is chance. Left: of a word that was said, by the German words "
        "since. Right: of a word to come; and of words said in the last state, where only EOS is "
        "left. Grey: probes of the labels of another sentence of that length, which tell from the "
        "place alone how likely a word is."
    )
    texts = "Is a word that was said still in the state?", format_subtitle(records), caption
    key = [*style.line_styles_for(groups).values()]
    figure, ((left, right),) = make_axes(
        3.0, texts, (1, 2), key, width_ratios=(1.3, 1), sharey=True
    )
    left.set(title="Words said (AUC, %)", xlabel="German words since")
    right.set_title("Other states (AUC, %)")
    rows = rows_of(records[0], "said")
    ages = [row["state"] for row in rows[1:-1]]
    draw_lines(left, groups, lambda own: (
        range(len(ages)), *average(own, "said", "auc", "control")[:, 1:-1]
    ))  # fmt: skip
    left.set_xticks(range(len(ages)), ages)
    draw_dots(right, groups, ("to come", "before EOS"), lambda group, state: (
        average(group, "said", "auc", "control", state=state)[:, 0]
    ))  # fmt: skip
    right.set_xticks(range(2), ["words\nto come", "words said,\nbefore EOS"])
    for ax in (left, right):
        ax.axhline(50, color=GREY, lw=0.8, ls=":")
    left.set_ylim(45, 100)
    return figure


def draw_sentence(records: Sequence[Record]) -> Figure:
    """Draw, for each model, which words the probes take to be to come, word by word."""
    groups = load.group_by_model(records)
    caption = (
        "Least-squares estimates of linear probes, from white, 0 %, to dark, 60 %: is this word to "
        "come? Columns: the German word that was just read; rows: the content words of the source. "
        "Squares: it is to come. All models read the right German. First seed of each."
    )
    title = "The dog, who must have been able to see the cat running through the garden, ran"
    texts, n_rows = (title, format_subtitle(records), caption), -(-len(groups) // 2)
    figure, axes = make_axes(1.15 * n_rows + 0.6, texts, (n_rows, 2))
    for i, (ax, group) in enumerate(zip(axes.flat, groups.values(), strict=False)):
        rows = rows_of(group[0], "sentence")
        words, steps = ([*dict.fromkeys(row[c] for row in rows)] for c in ("word", "step"))
        written = [row["written"] for row in rows[:: len(words)]]
        values = np.array([row["to_come"] for row in rows]).reshape(len(steps), -1).T
        style.draw_map(ax, values, words, written if i < 2 else [], top=60, lw=0.3)
        for row in rows:
            if row["is_to_come"]:
                style.mark_cell(ax, row["step"], words.index(row["word"]), lw=0.9)
        ax.set_xlabel(label_of(group[0]), size=9.5, weight="bold")
    for ax in axes.flat[len(groups) :]:
        ax.set_visible(False)
    return figure


# -------------------------------------------------------------------------------------- one model


def draw_stream(r: Record) -> Figure:
    """Draw what each sublayer adds to the stream, and which words change without it."""
    whole, *rows = rows_of(r, "stream")
    caption = (
        "Left: the length of what a sublayer adds, over that of the stream that it reads, and the "
        "cosine of both; means over all words. Grey: before training. Right: the sublayer gives "
        "zero, nothing is trained again; exact translations that are lost, and changed words. "
        f"The whole model: {whole['exact']} of {whole['n']} translations exact."
    )
    title = f"What each layer adds, and what is lost without it: {label_of(r)}"
    figure, axes = make_axes(4.6, (title, describe_run(r), caption), (2, 2), sharex=True)
    (ratio, lost), (cosine, changed) = axes
    x = np.arange(len(rows))
    names = [f"{row['stack']} {row['layer']} {row['sublayer']}" for row in rows]

    def draw(ax: Axes, title: str, values: Any, base: Any = 0, **look: Any) -> None:
        ax.bar(x, values, 0.6, base, **{"color": "#444444", **look})

    for ax, name, title in (
        (ratio, "ratio", "Length added, over the stream's"),
        (cosine, "cosine", "Cosine to the stream"),
    ):
        draw(ax, title, [row[name] for row in rows])
        before = [row[f"{name}_before"] for row in rows]
        ax.plot(x, before, "_", color="#999999", ms=11, mew=2)
        ax.set_title(title)
    style.set_log(ratio, "y", "{x:g}")
    draw(lost, "Exact translations lost", [whole["exact"] - row["exact"] for row in rows])
    lost.bar_label(lost.containers[0], size=8, color=GREY, padding=1)
    lost.set(title="Exact translations lost", ylim=(0, 1.12 * whole["n"]))
    base = np.zeros(len(rows))
    for kind, colour in CHANGES.items():
        words = np.array([row[kind] for row in rows], float)
        draw(changed, f"Changed words: {kind}", words, base, color=colour, label=kind)
        base += words
    changed.bar_label(changed.containers[-1], [f"{n:.0f}" for n in base], size=8, color=GREY,
                      padding=1)  # fmt: skip
    changed.set(title="Changed words", ylim=(0, 1.12 * base.max() + 1))
    changed.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9)
    for ax in axes.flat:
        ax.set_xticks(x, names, rotation=90)
        ax.tick_params(axis="x", length=0)
    return figure


def draw_plane(r: Record) -> Figure:
    """Draw queries and keys of the article's head in two dimensions, before and after training."""
    heads = {row["when"]: row for row in rows_of(r, "plane") if "share" in row}
    best = heads["after"]
    who, text = ASKED[best["attention"]]
    caption = (
        "The two directions with most of the variance of the head's scores. The dot product of a "
        "query and a key is nearly their score, so a query attends to the keys that lie furthest "
        "in its direction. Above: the share of the weight on these pairs, and of the variance of "
        "the scores in this plane."
    )
    title = f"What a query asks and a key offers: the article's head, {label_of(r)}"
    text = f"{describe_run(r)}\n{text}, head {best['layer']}.{best['head']}"
    figure, axes = make_axes(3.7, (title, text, caption), (1, 2))
    for ax, when in zip(axes.flat, ("before", "after"), strict=True):
        for side, kind in (*(("key", kind) for kind in KINDS), ("query", who)):
            rows = rows_of(r, "plane", when=when, side=side, kind=kind)
            x, y = ([row[c] for row in rows] for c in "xy")
            look = {"color": KINDS[kind], "ms": 4.5, "alpha": 0.7, "marker": "^"}
            if side == "query":
                look = {"color": "#111111", "mfc": "none", "ms": 5.5, "marker": "o"}
            ax.plot(x, y, ls="", label=f"{side}: {kind}", **look)
        row = heads[when]
        shares = f"weight {row['share']:.0f} %, variance {row['variance']:.0f} %"
        ax.set_title(f"{when} training: {shares}".capitalize(), size=9.5)
        ax.axhline(0, color="#CCCCCC", lw=0.8)
        ax.axvline(0, color="#CCCCCC", lw=0.8)
        ax.set(xlabel="first direction", ylabel="second direction")
        ax.grid(False)
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside right upper", fontsize=9)
    return figure


def draw(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the figures of a folder by the names of their files."""
    figures = {"neighbours": draw_neighbours(records), "probes": draw_probes(records)}
    first = {r.model: r for r in reversed(records)}
    for name, part in (("stream", draw_stream), ("plane", draw_plane)):
        figures |= {f"{name}-{m}": part(r) for m, r in first.items() if r.analyses[name]}
    if any(r.analyses["positions"] for r in records):
        figures["positions"] = draw_positions(records)
    return figures | {"said": draw_said(records), "sentence": draw_sentence(records)}


FIGURES = [draw]

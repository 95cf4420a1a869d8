"""Draw what each head looks for, which words change without it, and the article's head. No torch.

Records of a model without heads, or without these analyses, have no figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import mean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from seqmodels.records.schema import Record
from seqmodels.report import load, style
from seqmodels.report.load import AnalysisRow, describe_run, format_subtitle, label_of, rows_of
from seqmodels.report.style import GREY, INK, WIDTH, LineStyle

from ..exhibits import Exhibit
from ..figures import CHANGES, average

ATTENTIONS = {
    "encoder": "Encoder to its own text",
    "decoder": "Decoder to its own text",
    "source": "Decoder to the source",
    "text": "Source and target",
}
EXPLAINED = {
    "kinds": "R²: both parts of speech", "offset": "R²: offset", "both": "R²: all of these",
}  # fmt: skip
PAIRS = (
    "article → noun", "article → other noun", "adjective → noun", "relative pronoun → noun",
    "noun → article", "noun → closest “the”", "noun → other “the”", "noun → verb",
    "verb → subject", "noun of the article written", "translation of the word written",
    "translation of the word read", "previous", "own", "next", "same word", "start of sentence",
    "end of sentence",
)  # fmt: skip
"""The order of the kinds of pairs."""
FEW = 10
"""Changed words below which their kinds are not drawn."""


def has_heads(r: Record) -> bool:
    """Return whether a record is of a model with heads, which were analysed."""
    return bool(r.analyses.get("article"))


def name_head(row: AnalysisRow) -> str:
    """Return layer and number of a head."""
    return f"{row['layer']}.{row['head']}"


# ------------------------------------------------------------------------------- shares of weight

COLUMN, LABEL, CELL, GAP = 0.33, 1.95, 0.22, 0.7
"""Inches: the most of a head, the names of the rows, a row, and the space between two maps."""
ABOVE = 10
"""Points above chance from which a share is written."""


def draw_heads(r: Record) -> Figure:
    """Draw heat maps of the share of weight by kind of pair and head, for each attention."""
    kinds = dict.fromkeys(row["attention"] for row in rows_of(r, "scores"))
    caption = (
        "Shade: share of a query's weight (%) on the keys of a kind of pair, averaged over queries "
        "that have such a key; 2.1 is head 1 of layer 2. Numbers: shares that are at least "
        f"{ABOVE} points above chance, the larger of those that the offset or the key's part of "
        f"speech alone predict. {'GPT' if 'text' in kinds else 'The decoder'} sees no later "
        "words. R²: variance of the scores before the softmax that a least-squares fit explains."
    )
    title = f"{label_of(r)}: what the heads look for"
    maps = {attention: _list_cells(r, attention) for attention in kinds}
    heights = {key: CELL * (len(cells) + 0.4) for key, cells in maps.items()}
    tops = dict.fromkeys(kinds, 0.45) | {"source": 0.45 + heights.get("decoder", 0) + GAP}  # inches
    n_heads = len(rows_of(r, "scores", attention=next(iter(kinds))))
    n_beside = 2 if len(kinds) > 1 else 1
    column = min(COLUMN, ((WIDTH - 0.3) / n_beside - LABEL) / n_heads)
    body = 0.05 + max(tops[key] + heights[key] for key in maps)
    figure, _, top = style.make_canvas(body, title, describe_run(r), caption)
    height = figure.get_figheight()
    for attention, cells in maps.items():
        side = attention in ("decoder", "source")
        left = LABEL + side * (LABEL + n_heads * column + 0.1)
        bottom = top * height - tops[attention] - heights[attention]
        size = n_heads * column / WIDTH, heights[attention] / height
        ax = figure.add_axes((left / WIDTH, bottom / height, *size))
        _draw_cells(ax, cells)
        x, y = (left - LABEL + 0.12) / WIDTH, (bottom + heights[attention] + 0.05) / height
        figure.text(x, y, ATTENTIONS[attention], weight="bold", color=INK, size=9.5)
    return figure


def _list_cells(r: Record, attention: str) -> dict[str, dict[str, tuple[float, float | None]]]:
    """Return the rows of a map: by name of the row and of the head, a value and its chance.

    They are the shares of weight on each kind of pair, then the explained variances.
    """
    cells: dict[str, dict[str, tuple[float, float | None]]] = {}
    for pair in PAIRS:
        for row in rows_of(r, "heads", attention=attention, pair=pair):
            chance = max(row["by_offset"], row["by_part_of_speech"])
            cells.setdefault(pair, {})[name_head(row)] = row["share"], chance
    scores = rows_of(r, "scores", attention=attention)
    for key, text in EXPLAINED.items():
        cells[text] = {name_head(row): (row[key], None) for row in scores}
    return cells


def _draw_cells(ax: Axes, cells: Mapping[str, Mapping[str, tuple[float, float | None]]]) -> None:
    """Draw a map, with a small space above the explained variances."""
    places = [y + 0.4 * (name in EXPLAINED.values()) for y, name in enumerate(cells)]
    for y, row in zip(places, cells.values(), strict=True):
        for x, (value, chance) in enumerate(row.values()):
            fill = style.HEAT(0.45 * value / 100)  # so light that the numbers can be read
            ax.add_patch(Rectangle((x, y), 1, 1, fc=fill, ec="#E0E0E0", lw=0.5))
            if chance is None or value >= chance + ABOVE:
                centred: dict[str, Any] = {"ha": "center", "va": "center", "color": INK}
                ax.text(x + 0.5, y + 0.5, f"{value:.0f}", size=8, **centred)
    *_, heads = map(list, cells.values())
    ax.set(xlim=(0, len(heads)), ylim=(places[-1] + 1, 0))
    ax.set_yticks([y + 0.5 for y in places], [*cells])
    ax.set_xticks(np.arange(len(heads)) + 0.5, heads)
    ax.xaxis.tick_top()
    ax.tick_params(length=0, labelcolor=INK)
    ax.tick_params(axis="x", labelsize=8.5 if len(heads) < 20 else 7)
    ax.grid(False)
    ax.spines[:].set_visible(False)


# ------------------------------------------------------------------------------ without one head


def draw_muted(r: Record) -> Figure:
    """Draw the exact translations lost without each head, and the kinds of words that change."""
    whole, *rows = rows_of(r, "muting")
    caption = (
        "The head gives zero; nothing is trained again. Compared with the translation by the whole "
        "model, a word changes its ending (another form of the same lemma), is replaced by another "
        "word (choice), moves (order), is left out or added. Numbers: changed words; below "
        f"{FEW}, their kinds are not drawn."
    )
    title = f"{label_of(r)}: translations lost and words changed without one head"
    of_whole = f"The whole model: {whole['exact']} of {whole['n']} translations exact"
    texts = title, f"{describe_run(r)}\n{of_whole}", caption
    figure = style.make_figure(4.3, texts, max(WIDTH, 0.9 + 0.34 * len(rows)))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.1))
    starts = [one["attention"] != two["attention"] for one, two in pairwise(rows)]
    x = np.arange(len(rows)) + np.cumsum([0, *starts])
    n_lost = [whole["exact"] - row["exact"] for row in rows]
    above.bar_label(above.bar(x, n_lost, 0.7, color="#444444"), size=8, color=GREY, padding=1)
    above.set(xlim=(-0.8, x[-1] + 0.8), ylim=(min(0, above.get_ylim()[0]), whole["n"]))
    _draw_kinds(below, x, rows)
    below.set_xticks(x, [name_head(row) for row in rows])
    for attention in dict.fromkeys(row["attention"] for row in rows):
        own = [place for place, row in zip(x, rows, strict=True) if row["attention"] == attention]
        below.text(mean(own), -0.2, ATTENTIONS[attention], ha="center", va="top",
                   transform=below.get_xaxis_transform())  # fmt: skip
    above.set_title("Exact translations lost")
    below.set_title("Changed words by kind of change (%)")
    for ax in (above, below):
        ax.tick_params(axis="x", length=0)
    return figure


def _draw_kinds(ax: Axes, x: np.ndarray, rows: Sequence[AnalysisRow]) -> None:
    """Draw the shares of the kinds of changes on top of each other, for each head."""
    most = max(sum(row[key] for key in CHANGES) for row in rows)
    size = 6.5 if most > 999 and len(rows) > 20 else 8
    for place, row in zip(x, rows, strict=True):
        n, base = sum(row[key] for key in CHANGES), 0.0
        ax.text(place, 101, f"{n}", ha="center", va="bottom", size=size, color=GREY)
        for key, colour in CHANGES.items():
            share = 100 * row[key] / n if n >= FEW else None
            if share is not None:
                ax.bar(place, share, 0.7, base, color=colour)
                base += share
    ax.set(ylim=(0, 112), yticks=[0, 50, 100])
    handles = [Patch(color=colour, label=key) for key, colour in CHANGES.items()]
    ax.legend(handles=handles, loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9)


# --------------------------------------------------------------------------------- article's head


def find_article_head(r: Record) -> AnalysisRow:
    """Return the row of the head that gives an article's noun the largest share of its weight."""
    return max(rows_of(r, "article"), key=lambda row: row["share"])


def format_article_heads(records: Sequence[Record]) -> list[list[str]]:
    """Return a table with a row for each training: its article's head, and what it does."""
    names = ["training", "head", "share", "chance", "at the start", "exact, whole", "without it"]
    table = [[*names, *CHANGES]]
    for r in filter(has_heads, records):
        row = find_article_head(r)
        chance = max(row["by_offset"], row["by_part_of_speech"])
        shares = [f"{share:.0f} %" for share in (row["share"], chance, row["before"])]
        exact = [f"{n} of {row['n']}" for n in (row["whole"], row["exact"])]
        name = f"{row['attention']} {name_head(row)}"
        changes = [f"{row[kind]}" for kind in CHANGES]
        table.append([f"{label_of(r)}, seed {r.seed}", name, *shares, *exact, *changes])
    return table


def draw_article_head(r: Record) -> Figure:
    """Draw the weights of the article's head in one sentence, before and after training."""
    best = find_article_head(r)
    place = {key: best[key] for key in ("attention", "layer", "head")}
    caption = (
        "Rows: the query; in attention to the source, the target word that is written. Columns: "
        "source words. Darker is more; each row sums to one"
        f"{' with the words of the target' if best['attention'] == 'text' else ''}. Squares: the "
        "article's noun."
    )
    title = f"{label_of(r)}: the head that gives an article's noun the most weight"
    text = (
        f"{describe_run(r)}\n{ATTENTIONS[best['attention']]}, head {name_head(best)}: an article "
        f"gives its noun {best['share']:.0f} % of its weight, before training "
        f"{best['before']:.0f} %"
    )
    maps = {when: rows_of(r, "maps", when=when, **place) for when in ("before", "after")}
    n = len(maps["after"])
    figure = style.make_figure(0.9 + 0.21 * n, (title, text, caption))
    axes = figure.subplots(1, 2)
    for ax, (when, rows) in zip(axes, maps.items(), strict=True):
        keys = rows[0]["keys"].split()
        weights = [[float(w) for w in row["weights"].split()] for row in rows]
        style.draw_map(ax, weights, [row["query"] for row in rows], keys, top=100, lw=0.3)
        for y, row in enumerate(rows):
            if row["noun"] >= 0:
                style.mark_cell(ax, row["noun"], y, lw=1.3)
        ax.set_xlabel(f"{when} training", size=10.5, weight="bold")
    return figure


# -------------------------------------------------------------------------------------- distances

PANELS = {
    "article → noun": "From an article to its noun",
    "noun → closest “the”": "From a noun to the closest “the”",
}


def draw_distances(records: Sequence[Record]) -> Figure:
    """Draw the share of weight by distance, of the best encoder head for each of two questions."""
    groups = load.group_by_model(records)
    rows = [row for r in records for row in rows_of(r, "distances")]
    shown = {pair: title for pair, title in PANELS.items() if pair in {r["pair"] for r in rows}}
    where = "encoder " if rows[0]["attention"] == "encoder" else ""
    caption = (
        f"For each model, the {where}head with the largest share over all distances; mean of the "
        "seeds. Thin, dotted: its share on all other nouns, or on all other occurrences of "
        "“the”. Nouns are those of sentences with several “the”."
    )
    texts = "Can one head find the closest word?", format_subtitle(records), caption
    styles = style.label_line_styles(records)
    figure, panels = style.make_panels(texts, styles, n_columns=len(shown))
    for ax, (pair, title) in zip(panels[0], shown.items(), strict=True):
        for model, line_style in style.line_styles_for(groups).items():
            if not rows_of(groups[model][0], "distances", pair=pair):
                continue
            names, colour = ("distance", "share", "others"), line_style.colour
            distance, shares, others = average(groups[model], "distances", *names, pair=pair)
            ax.plot(distance, shares, color=colour, lw=1.8, marker=line_style.marker, ms=5)
            ax.plot(distance, others, color=colour, lw=0.9, ls=":")
        far = max(row["distance"] for row in rows_of(records[0], "distances"))
        ax.set_xticks(range(1, far + 1), [*map(str, range(1, far)), f"{far} or more"])
        ax.set(title=title, xlabel="distance (words)", ylim=(0, 100))
    panels[0, 0].set_ylabel("share of weight (%)")
    return figure


# -------------------------------------------------------------------------------------- two heads

PLACES = {"encoder": "encoder", "decoder": "decoder", "source": "to source", "text": "GPT"}
LOOKS = {
    ("before", "pairs"): LineStyle("two heads,\nbefore training", "#C98200", "", "o"),
    ("after", "pairs"): LineStyle("two heads,\nafter training", "#11538F", "", "s"),
    ("before", "equal"): LineStyle("a head and equal weights,\nbefore training", GREY, "", "_"),
}


def draw_two_heads(exhibit: Exhibit) -> Figure:
    """Draw two heads' weights before and after training, and the distances in each layer."""
    settings, rows = exhibit["settings"], exhibit["rows"]
    caption = (
        "Distance: total variation between the weights of a query, mean of the queries with "
        f"several keys in {settings['n_sentences']} sentences; 0: the same, 1: no key in common. "
        "Maps: a row is a query, a column a key; darker is more. Below: mean of the pairs of heads "
        f"of a layer; whisker: the least and the most. Before training: {len(settings['seeds'])} "
        "seeds; after it: one."
    )
    shown = [row for row in rows if "maps" in row]
    apart = " and ".join(f"{row['pairs'][0]:.2f} {row['when']} training" for row in shown)
    text = f"Transformer, heads 1 and 2 of the encoder's second layer: a distance of {apart}"
    figure = style.make_figure(5.0, ("How far apart are two heads of a layer?", text, caption))
    (above,), (below,) = figure.subfigures(2, 1, squeeze=False, height_ratios=(1, 0.9))
    words = settings["sentence"]
    maps = [(f"head {i}, {row['when']} training", w) for row in shown
            for i, w in enumerate(row["maps"], 1)]  # fmt: skip
    for ax, (name, weights) in zip(above.subplots(1, len(maps)), maps, strict=True):
        style.draw_map(ax, weights, words, words, top=100, lw=0.3)
        ax.set_xlabel(name, weight="bold")
    ax = below.subplots()
    for i, ((when, column), look) in enumerate(LOOKS.items()):
        layers: dict[str, list[float]] = {}
        for row in (row for row in rows if row["when"] == when):
            name = f"{PLACES[row['attention']]}\n{row['layer']}"
            layers.setdefault(name, []).extend(row[column])
        places = {x + 0.22 * (i - 1): np.array(own) for x, own in enumerate(layers.values())}
        style.draw_seeds(ax, look, places)
    ax.set_xticks(range(len(layers)), [*layers])
    ax.set(title="Distance, by layer", ylim=(0, 1))
    style.add_legend(below, [*LOOKS.values()], loc="outside right center")
    return figure


def draw(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the figures of a folder by the names of their files: each model's first seed."""
    measured = [*filter(has_heads, records)]
    has_distances = any(rows_of(r, "distances") for r in measured)
    figures = {"distances": draw_distances(measured)} if has_distances else {}
    for model, (r, *_) in load.group_by_model(measured).items():
        figures[f"heads-{model}"] = draw_heads(r)
        figures[f"muted-{model}"] = draw_muted(r)
        figures[f"article-{model}"] = draw_article_head(r)
    return figures


FIGURES = [draw]

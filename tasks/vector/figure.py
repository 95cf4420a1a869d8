"""Draw what is kept of a prefix, what is left to say, and score against crossings. No torch."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seqmodels.records.schema import Record
from seqmodels.report import load, style
from seqmodels.report.load import Groups, format_bucket, format_subtitle
from seqmodels.report.style import GREY, LineStyle

from ..figures import average, draw_named, draw_with_band, mark_trained

CUTS = {"clause ends": "cut at the end of a clause", "anywhere": "cut anywhere"}
KEPT = {"content words": "Content words kept (%)", "roles": "Roles kept (%)"}
SCORES = {"pairs": "Two words in the right order (%)", "accuracy": "Balanced accuracy (%)"}
KINDS = {"all": "all", "noun": "nouns", "verb": "verbs", "adjective": "adjectives"}
CONTROLS = {
    "control": LineStyle("probe of labels from other sentences", "#999999", "", "_"),
    "place": LineStyle("probe of the number of target words", "#999999", "", "."),
}
"""The looks of the probes that know nothing of the words."""


def interval_names(name: str) -> list[str]:
    """Return the columns of a value and its interval."""
    return [f"{name}_value", f"{name}_low", f"{name}_high"]


def predict_roles(words: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Return the share of roles (%) that is left if content words are lost independently.

    A role is kept if its noun and its verb are. From the share of words kept, that of the output
    for another sentence is taken off: chance.
    """
    return np.asarray(100 * np.clip((words - chance) / (100 - chance), 0, 1) ** 2)


def draw_prefixes(records: Sequence[Record]) -> Figure:
    """Draw the shares of content words and roles that the output keeps, by words read."""
    groups = load.group_by_model(records)
    longest = records[0].tests[0].max_train_length
    caption = (
        "A model reads the first words of a sentence and a full stop, and translates them "
        "greedily. Content words: nouns, verbs and adjectives. Roles: which noun is subject or "
        "object of which verb; a German clause with two readings counts for both. Lines: mean of "
        "the seeds; bands: 95 % intervals over sentences. Thin lines: roles predicted from the "
        "words kept, if these were lost independently of each other. Grey: the share that the "
        "output for another sentence has. Dotted, vertical: "
        f"{longest} words, the longest sentence in training."
    )
    texts = "What is kept of the words read", format_subtitle(records), caption
    figure, axes = style.make_panels(texts, style.label_line_styles(records), ratios=(1, 1))
    for row, (cut, name) in zip(axes, CUTS.items(), strict=True):
        for ax, kept in zip(row, KEPT, strict=True):
            _draw_kept(ax, groups, cut=cut, kept=kept)
            if kept == "roles":
                _draw_predicted(ax, groups, cut)
            ax.axvline(longest, color=GREY, lw=0.8, ls=":")
            label = textwrap.fill(name, 15)  # left of the lines
            ax.annotate(label, (0.02, 0.22), xycoords="axes fraction", color=GREY, size=8.5)
    for top, bottom, title in zip(*axes, KEPT.values(), strict=True):
        top.set_title(title)
        bottom.set_xlabel("words read")
    return figure


def _draw_kept(ax: Axes, groups: Groups, **columns: str) -> None:
    names = ("words", "chance", *interval_names("share"))
    for model, line_style in style.line_styles_for(groups).items():
        words, chance, share, low, high = average(groups[model], "prefixes", *names, **columns)
        ax.plot(words, chance, color="#AAAAAA", lw=0.9, zorder=1)
        draw_with_band(ax, line_style, words, np.stack([share, low, high], 1))
    ax.set(xlim=(0, None), ylim=(0, 103))
    ax.xaxis.set_major_locator(MaxNLocator(7, integer=True))


def _draw_predicted(ax: Axes, groups: Groups, cut: str) -> None:
    names, columns = ("words", "share_value", "chance"), {"cut": cut, "kept": "content words"}
    for model, line_style in style.line_styles_for(groups).items():
        by_seed = [average([r], "prefixes", *names, **columns) for r in groups[model]]
        words = by_seed[0][0]
        predicted = np.mean([predict_roles(share, chance) for _, share, chance in by_seed], 0)
        ax.plot(words, predicted, color=line_style.colour, lw=0.9, ls=(0, (1, 1.2)), zorder=2)


def draw_probe(records: Sequence[Record]) -> Figure:
    """Draw what probes of the decoder's state tell of the words to come, and their controls."""
    groups = load.group_by_model(records)
    caption = (
        "A linear probe for each content word reads the decoder's state after each target word, "
        "and tells whether the word is translated or still to come. Left: of two words of one "
        "source, one translated and one to come, how often the first scores higher. Dotted: "
        "chance. Mean of the seeds; 95 % intervals over sentences."
    )
    texts = "What the decoder's state tells of the words to come", format_subtitle(records), caption
    key = [*style.label_line_styles(records), *CONTROLS.values()]
    figure, axes = style.make_panels(texts, key)
    for ax, (score, title) in zip(axes[0], SCORES.items(), strict=True):
        for i, (model, line_style) in enumerate(style.line_styles_for(groups).items()):
            place = 0.75 * ((i + 0.5) / len(groups) - 0.5)
            _draw_probes(ax, groups[model], score, line_style, place)
        ax.axhline(50, color=GREY, lw=0.8, ls=":")
        ax.set_xticks(range(len(KINDS)), [*KINDS.values()])
        ax.tick_params(axis="x", length=0)
        ax.set(title=title, ylim=(40, 101))
    return figure


def _draw_probes(
    ax: Axes, group: Sequence[Record], score: str, line_style: LineStyle, place: float
) -> None:
    """Draw the probe of one model's state and its controls, at its place beside each kind."""
    for x, kind in enumerate(KINDS):
        ends = average(group, "probe", *interval_names(score), probe="state", kind=kind)
        ((value,), (low,), (high,)) = ends
        ax.vlines(x + place, low, high, color=line_style.colour, lw=1.4)
        ax.plot(x + place, value, line_style.marker, color=line_style.colour, ms=5.5)
        for probe, look in CONTROLS.items():
            ((value,),) = average(group, "probe", f"{score}_value", probe=probe, kind=kind)
            ax.plot(x + place, value, look.marker, color=look.colour, ms=6, zorder=1)


def draw_crossings(records: Sequence[Record]) -> Figure:
    """Draw BLEU by length and, at one length, by the number of crossing links."""
    groups = load.group_by_model(records)
    by_length, by_crossings = (records[0].tests[i] for i in (0, 1))
    caption = (
        "Left: all test sentences; dotted, the longest in training. Right: other sentences, all of "
        "one length, by the pairs of alignment links that cross. Lines: mean of the seeds; bands: "
        "95 % intervals."
    )
    texts = "BLEU by length, and by reordering at one length", format_subtitle(records), caption
    figure, axes = style.make_panels(texts, style.label_line_styles(records))
    for ax, test in zip(axes[0], (by_length, by_crossings), strict=True):
        x, names = range(len(test.buckets)), [*map(format_bucket, test.buckets)]
        for model, line_style in style.line_styles_for(groups).items():
            scores = load.score_array(groups[model], test.name, "bleu")[:, 1:]
            draw_with_band(ax, line_style, x, scores.mean(0))
        step = 1 + len(names) // 6
        ax.set_xticks(x[::step], names[::step])
        ax.set(xlabel=test.axis, ylim=(0, 103))
        mark_trained(ax, test)
    axes[0, 0].set_title("BLEU by length")
    axes[0, 1].set_title("BLEU by crossings, at one length")
    return figure


DRAWINGS = {"prefixes": draw_prefixes, "probe": draw_probe, "crossings": draw_crossings}
FIGURES = [partial(draw_named, DRAWINGS)]

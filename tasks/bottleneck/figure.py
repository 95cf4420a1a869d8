"""Draw which component limits long sentences: the latent, words by place, prefixes, gradients.

A figure is drawn of the records that hold what it shows. No torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seqmodels.models import model_of, paper_of
from seqmodels.records.schema import Record
from seqmodels.report import load, style
from seqmodels.report.load import (
    format_bucket,
    format_short,
    format_subtitle,
    longest_trained_bucket,
    mean_scores,
    order_of,
    rows_of,
)
from seqmodels.report.style import GREY, LineStyle

from ..figures import average, draw_with_band, mark_trained

Group = Sequence[Record]
"""The seeds of a model."""
LENGTH, GREEDY, BEST, ATTENDING = "length", "greedy", "best_state", "bahdanau"
"""The test set by length, the same with greedy search, that from optimised States, and the model
with attention."""
LINE_STYLES = {
    "encoder": LineStyle("from the encoder's State", "#C98200", (0, (4, 1.6)), "s"),
    BEST: LineStyle("from the optimised State", "#B02A1E", "-", "D"),
    ATTENDING: LineStyle("with attention: Bahdanau", "#1B75BC", "-", "o"),
}


def draw(records: Group) -> dict[str, Figure]:
    """Return the figures of a folder by the names of their files."""
    optimised = [r for r in records if r.analyses.get(BEST)]
    groups = sorted(
        load.group_by_model(optimised).values(),
        key=lambda g: (order_of(g[0])[0], g[0].size("d_model"), g[0].train_config.tokens),
    )
    figures = {}
    if groups:
        figures["best-state"] = draw_by_length(groups, find_attending(records, groups[0]))
        unchanged = next((g for g in groups if not g[0].arm), groups[0])
        if unchanged[0].analyses.get("places"):
            figures["best-state-bits"] = draw_bits(unchanged)
    for name, draw_measured in {"prefixes": draw_prefixes, "gradients": draw_gradients}.items():
        if measured := [r for r in records if r.analyses.get(name)]:
            figures[name] = draw_measured(measured)
    return figures


FIGURES = [draw]


def find_attending(records: Group, group: Group) -> Group:
    """Return the runs of the model with attention, as it is or with the changes of a group."""
    first = group[0]
    changed = ATTENDING + first.model.removeprefix(model_of(first.base))
    attending = [r for r in records if r.model == ATTENDING]
    return attending or [r for r in records if r.model == changed]


def name_group(group: Group) -> str:
    """Return model, numbers and budget of a group."""
    first = group[0]
    label = paper_of(model_of(first.base)).label.split()[0]
    numbers = rows_of(first, BEST)[0]["numbers"]
    return f"{label}, {numbers} numbers, {format_short(first.train_config.tokens)} tokens"


def count_steps(group: Group) -> int:
    """Return the steps of gradient descent."""
    return max(row["steps"] for row in rows_of(group[0], BEST))


def draw_line(ax: Axes, line: str, x: Sequence[Any], y: Sequence[float]) -> None:
    """Draw the line of the encoder's or the optimised State."""
    look = LINE_STYLES[line]
    ax.plot(x, y, look.marker, color=look.colour, ls=look.dashes, lw=1.8, ms=4)


def draw_by_length(groups: Sequence[Group], attending: Group) -> Figure:
    """Draw BLEU by length from the encoder's State, from the optimised one, and with attention."""
    caption = (
        "The trained model is frozen. The encoder hands over a State; or it is optimised for each "
        f"sentence by {count_steps(groups[0])} steps of gradient descent on the loss of its "
        "reference, a lower bound of what a State can hold for this decoder. Bands: 95 % over "
        "seeds and sentences, with one seed over sentences. Dotted: the longest in training."
    )
    subtitle = format_subtitle([r for group in groups for r in group])
    key = [*LINE_STYLES.values()][: 3 if attending else 2]
    n_columns = 2 if len(groups) == 4 else min(3, len(groups))
    texts, rows = ("Which component limits long sentences?", subtitle, caption), len(groups)
    ratios = (1,) * -(-rows // n_columns)
    figure, axes = style.make_panels(texts, key, ratios, n_columns)
    test = load.tests_by_name(groups[0])[LENGTH]
    names = [*map(format_bucket, test.buckets)]
    for ax, group in zip(axes.flat, groups, strict=False):
        greedy = GREEDY if group[0].test(GREEDY) else LENGTH
        lines = {"encoder": (group, greedy), BEST: (group, BEST)}
        lines |= {ATTENDING: (attending, greedy)} if attending else {}
        for line, (own, test_name) in lines.items():
            scores = mean_scores(own, test_name, "bleu")[1:]
            draw_with_band(ax, LINE_STYLES[line], range(len(names)), scores)
        mark_trained(ax, test)
        ax.set_title(name_group(group), size=8.5)
        ax.set(ylim=(0, 104), ylabel="BLEU", xlabel=test.axis)
        ax.set_xticks(range(0, len(names), 2), names[::2])
        ax.label_outer()
    for ax in axes.flat[len(groups) :]:
        ax.set_visible(False)
    return figure


def draw_bits(group: Group) -> Figure:
    """Draw BLEU by bits of a number, and the share of words kept by their place."""
    test = load.tests_by_name(group)[LENGTH]
    longest = test.buckets[longest_trained_bucket(test) or -1]
    words, low = format_bucket(longest), longest.low
    caption = (
        f"{name_group(group)}, at {words} words. Left: each number is rounded to one of 2^bits "
        "values, equally spaced over the range that the encoder gives it. Right: content words of "
        "the source that the translation has, by their place. Means over seeds."
    )
    texts = "What an optimised State keeps", format_subtitle(group), caption
    key = [LINE_STYLES["encoder"], LINE_STYLES[BEST]]
    figure, ((left, right),) = style.make_panels(texts, key)
    for line, steps in {"encoder": 0, BEST: count_steps(group)}.items():
        bits = sorted({row["bits"] for row in rows_of(group[0], BEST) if "bits" in row})
        scores = [average(group, BEST, "bleu", steps=steps, bits=b, low=low)[0, 0] for b in bits]
        draw_line(left, line, bits, scores)
        (shares,) = average(group, "places", "share", steps=steps, low=low)
        draw_line(right, line, range(1, len(shares) + 1), shares)
    left.set(title="BLEU", xlabel="bits a number", ylim=(0, 104))
    right.set(title="Words kept (%)", xlabel="fifth of the source", ylim=(0, 104))
    return figure


def draw_prefixes(records: Group) -> Figure:
    """Draw the share of content words that the output keeps, by words read."""
    test, groups = records[0].tests[0], load.group_by_model(records)
    caption = (
        "A model reads the first words of a sentence and a full stop, and translates them "
        "greedily. Content words: nouns, verbs and adjectives. Mean of the "
        "seeds. Grey: the share that the output for another sentence has. Dotted: the longest "
        "sentence in training."
    )
    texts = "Content words kept of the words read (%)", format_subtitle(records), caption
    figure, ((ax,),) = style.make_panels(texts, style.label_line_styles(records), n_columns=1)
    of = {"cut": "anywhere", "kept": "content words"}
    for model, look in style.line_styles_for(groups).items():
        columns = average(groups[model], "prefixes", "words", "share_value", "chance", **of)
        words, share, chance = columns
        ax.plot(words, chance, color="#AAAAAA", lw=0.9, zorder=1)
        ax.plot(words, share, look.marker, color=look.colour, ls=look.dashes, lw=1.8, ms=4)
    if test.max_train_length:
        ax.axvline(test.max_train_length, color=GREY, lw=0.8, ls=":")
    ax.set(xlabel="words read", xlim=(0, None), ylim=(0, 103))
    return figure


def draw_gradients(records: Group) -> Figure:
    """Draw gradients by distance, before and after training."""
    groups = load.group_by_model(records)
    caption = (
        "Norm of ∂ loss / ∂ embedding of a source token over that of ∂ loss / ∂ logits, over the "
        "median of all distances. Line and band: median and quartiles over tokens, mean of the "
        "seeds."
    )
    texts = "How far back does a gradient reach?", format_subtitle(records), caption
    figure, panels = style.make_panels(texts, style.label_line_styles(records))
    for ax, when in zip(panels[0], ("before", "after"), strict=True):
        for model, look in style.line_styles_for(groups).items():
            names = ("distance", "low", "median", "high")
            x, low, middle, high = average(groups[model], "gradients", *names, when=when)
            ax.fill_between(x, low, high, color=look.colour, alpha=0.12, lw=0)
            ax.plot(x, middle, color=look.colour, ls=look.dashes, lw=1.8)
        style.set_log(ax, "y", "{x:g}")
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.set(title=f"{when.capitalize()} training", xlabel="distance (tokens)")
        ax.set(xlim=(1, max(x)), ylim=(max(ax.get_ylim()[0], 1e-6), min(ax.get_ylim()[1], 1e6)))
    return figure

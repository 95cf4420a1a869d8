"""Draw what an encoder writes beside the best States that could have been written. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seqmodels.models import model_of, paper_of
from seqmodels.records.schema import Record
from seqmodels.report import load, style
from seqmodels.report.load import (
    AnalysisRow,
    format_bucket,
    format_ends,
    format_short,
    format_subtitle,
    longest_trained_bucket,
    mean_scores,
    order_of,
    rows_of,
)
from seqmodels.report.style import LineStyle

from ..figures import average, draw_with_band, mark_trained

Group = Sequence[Record]
"""The seeds of a model."""
LENGTH, GREEDY, BEST, ATTENDING = "length", "greedy", "best_state", "bahdanau"
"""The test set by length, that on which a model translates from its best States, and the model that
looks back."""
LINE_STYLES = {
    "encoder": LineStyle("what the encoder writes", "#C98200", (0, (4, 1.6)), "s"),
    BEST: LineStyle("what could have been written", "#B02A1E", "-", "D"),
    ATTENDING: LineStyle("what looking back reads: Bahdanau", "#1B75BC", "-", "o"),
}
MOST_COLUMNS = 3


def draw(records: Group) -> dict[str, Figure]:
    """Return the figures of a folder with best States, by the names of their files."""
    written = [r for r in records if rows_of_best(r)]
    if not written:
        return {}
    groups = sorted(
        load.group_by_model(written).values(),
        key=lambda g: (order_of(g[0])[0], g[0].size("d_model"), g[0].train_config.tokens),
    )
    first = groups[0][0]
    changed = ATTENDING + first.model.removeprefix(model_of(first.base))  # with the same changes
    attending = [r for r in records if r.model == ATTENDING]
    attending = attending or [r for r in records if r.model == changed]
    figures = {"best-state": draw_by_length(groups, attending)}
    unchanged = next((g for g in groups if not g[0].arm), groups[0])
    if "surprisal" in rows_of_best(unchanged[0])[0]:  # which a grammar has, and a corpus has not
        figures["best-state-bits"] = draw_bits(unchanged)
    if followed := [r for r in written if r.analyses.get("training")]:
        figures["best-state-training"] = draw_training(followed)
    return figures


def rows_of_best(record: Record) -> list[AnalysisRow]:
    """Return what was measured of a run's best States."""
    return rows_of(record, BEST) if BEST in record.analyses else []


def name_group(group: Group) -> str:
    """Return model, numbers and budget of a group."""
    first = group[0]
    label = paper_of(model_of(first.base)).label.split()[0]
    numbers = rows_of_best(first)[0]["numbers"]
    return f"{label}, {numbers} numbers, {format_short(first.train_config.tokens)} tokens"


def count_steps(group: Group) -> int:
    """Return the steps of gradient descent that write the best States."""
    return max(row["steps"] for row in rows_of_best(group[0]))


def greedy_test(group: Group) -> str:
    """Return the name of the test set by length that is translated greedily, as best States are."""
    return GREEDY if group[0].test(GREEDY) else LENGTH


def draw_line(ax: Axes, line: str, x: Iterable[Any], y: Iterable[float]) -> None:
    """Draw the line of the encoder's or the best State."""
    look = LINE_STYLES[line]
    ax.plot([*x], [*y], look.marker, color=look.colour, ls=look.dashes, lw=1.8, ms=4)


# ------------------------------------------------------------------------------------- by length


def draw_by_length(groups: Sequence[Group], attending: Group) -> Figure:
    """Draw BLEU by length from the encoder's State, from the best one, and by looking back."""
    caption = (
        "The trained model is frozen. The encoder hands over a State; or the best State takes its "
        f"place, written for each sentence by {count_steps(groups[0])} steps of gradient descent "
        "on the loss of its reference. The best BLEU is a lower bound of what a State can hold for "
        "this decoder. Bands: 95 % over seeds and sentences, with one seed over sentences. "
        "Dotted: the longest sentences in training."
    )
    title = "Who loses the sentence: the encoder, the vector or the decoder?"
    subtitle = format_subtitle([r for group in groups for r in group])
    key = [*LINE_STYLES.values()][: 3 if attending else 2]
    n_columns = 2 if len(groups) == 4 else min(MOST_COLUMNS, len(groups))
    rows = (1,) * -(-len(groups) // n_columns)
    figure, axes = style.make_panels((title, subtitle, caption), key, rows, n_columns, gap=0.4)
    test = load.tests_by_name(groups[0])[LENGTH]
    names = [*map(format_bucket, test.buckets)]
    for ax, group in zip(axes.flat, groups, strict=False):
        lines = {"encoder": (group, greedy_test(group)), BEST: (group, BEST)}
        lines |= {ATTENDING: (attending, greedy_test(attending))} if attending else {}
        for line, (own, test_name) in lines.items():
            scores, look = mean_scores(own, test_name, "bleu")[1:], LINE_STYLES[line]
            draw_with_band(ax, look, range(len(names)), scores)
        mark_trained(ax, test)
        ax.set_title(name_group(group), size=8.5)
        ax.set_ylim(0, 104)
        ax.set_xticks(range(0, len(names), 2), names[::2])
        ax.tick_params(axis="x", length=0)
    for ax in axes.flat[len(groups) :]:
        ax.set_visible(False)
    for ax in axes[-1]:
        ax.set_xlabel(test.axis)
    for ax in axes[:, 0]:
        ax.set_ylabel("BLEU")
    return figure


# ---------------------------------------------------------------------- bits, surprisal, places


def draw_bits(group: Group) -> Figure:
    """Draw BLEU by bits of a number, by the surprisal of a sentence, and lost words by place."""
    test = load.tests_by_name(group)[LENGTH]
    longest = test.buckets[longest_trained_bucket(test) or -1]
    words, low = format_bucket(longest), longest.low
    caption = (
        f"{name_group(group)}. Left: at {words} words, each number of the State is rounded to one "
        "of 2^bits values, equally spaced over the range that the encoder gives it. Middle: the "
        "sentences of each bucket in two halves, by the bits of choice that the grammar put into "
        "them; the halves also differ in length. Right: content words of the source that the "
        f"translation has, by their place, at {words} words. Means over seeds."
    )
    texts = "What the best State keeps when it is rounded", format_subtitle(group), caption
    key = [LINE_STYLES["encoder"], LINE_STYLES[BEST]]
    figure, axes = style.make_panels(texts, key, n_columns=3)
    (left, middle, right) = axes[0]
    for line, steps in {"encoder": 0, BEST: count_steps(group)}.items():
        bits = sorted({row["bits"] for row in rows_of_best(group[0]) if "bits" in row})
        scores = [average(group, BEST, "bleu", steps=steps, bits=b, low=low)[0, 0] for b in bits]
        draw_line(left, line, bits, scores)
        _draw_surprisal(middle, group, line, steps)
        (shares,) = average(group, "places", "share", steps=steps, low=low)
        places = range(1, len(shares) + 1)
        draw_line(right, line, places, shares)
    for ax, title, label in (
        (left, f"BLEU at {words} words", "bits a number"),
        (middle, "BLEU; dotted: more bits of choice", test.axis),
        (right, f"Words kept at {words} words (%)", "fifth of the source"),
    ):
        ax.set_title(title, size=8.5)
        ax.set(xlabel=label, ylim=(0, 104))
    return figure


def _draw_surprisal(ax: Axes, group: Group, line: str, steps: int) -> None:
    """Draw BLEU by length of the half with fewer bits, and dotted of the half with more."""
    look = LINE_STYLES[line]
    numbers = rows_of_best(group[0])[0]["numbers"]  # of rows in which all bits are kept
    rows = rows_of(group[0], BEST, steps=steps, numbers=numbers)
    names = [format_ends(row["low"], row["high"]) for row in rows]
    columns = "bleu_fewer_bits", "bleu_more_bits"
    halves = average(group, BEST, *columns, steps=steps, numbers=numbers)
    for dashes, scores in zip((look.dashes, (0, (1, 1.2))), halves, strict=True):
        ax.plot(range(len(names)), scores, color=look.colour, ls=dashes, lw=1.8)
    ax.set_xticks(range(0, len(names), 3), names[::3])


# -------------------------------------------------------------------------------------- training


def draw_training(records: Group) -> Figure:
    """Draw BLEU from the encoder's and the best State over a training, by its snapshots."""
    test = load.tests_by_name(records)[LENGTH]
    words = format_bucket(test.buckets[longest_trained_bucket(test) or -1])
    caption = (
        f"At {words} words, at moments of one training: BLEU from the encoder's State, and from "
        "the State that a quarter of the steps of the other figures writes. The last points are "
        "those of the weights that are evaluated."
    )
    title = "When does a decoder learn to read, and an encoder to write?"
    texts = title, format_subtitle(records), caption
    key = [LINE_STYLES["encoder"], LINE_STYLES[BEST]]
    figure, ((ax,),) = style.make_panels(texts, key, n_columns=1)
    for record in records:
        rows = [row for row in rows_of(record, "training") if row["tokens"]]
        tokens = [row["tokens"] for row in rows]
        for line in ("encoder", BEST):
            scores = [row[line] for row in rows]
            draw_line(ax, line, tokens, scores)
    style.set_log(ax, "x", format_short)
    ax.set(xlabel="target tokens trained on", ylabel=f"BLEU at {words} words", ylim=(0, 104))
    return figure

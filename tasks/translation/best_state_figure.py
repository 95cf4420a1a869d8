"""Draw what an encoder writes beside the best States that could have been written. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from seqmodels.models import model_of
from seqmodels.report import load_records, style
from seqmodels.report.load_records import (
    Record,
    format_bucket,
    format_short,
    format_subtitle,
    label_of,
    longest_trained_bucket,
    mean_scores,
    rows_of,
)
from seqmodels.report.style import GREY, LineStyle
from seqmodels.report.tidy import FigureWithData, Table

Group = Sequence[Record]
"""The seeds of a model."""
LENGTH, BEST, ATTENDING = "length", "best_state", "bahdanau"
"""The test set by length, that on which a model translates from its best States, and the model that
looks back."""
LINE_STYLES = {
    "encoder": LineStyle("what the encoder writes", "#C98200", (0, (4, 1.6)), "s"),
    BEST: LineStyle("what could have been written", "#B02A1E", "-", "D"),
    ATTENDING: LineStyle("what looking back reads: Bahdanau", "#1B75BC", "-", "o"),
}
MOST_COLUMNS = 3


def draw(records: Group) -> dict[str, FigureWithData]:
    """Return the figures of a folder with best States, by the names of their files."""
    written = [r for r in records if rows_of_best(r)]
    if not written:
        return {}
    groups = sorted(load_records.group_by_model(written).values(), key=by_model_and_width)
    attending = [r for r in records if r["model"] == ATTENDING]
    figures = {
        "best-state": draw_by_length(groups, attending),
        "best-state-bits": draw_bits(groups),
    }
    if followed := [r for r in written if r["analyses"].get("training")]:
        figures["best-state-training"] = draw_training(followed)
    return figures


def rows_of_best(record: Record) -> list[Any]:
    """Return what was measured of a run's best States."""
    return list(record.get("analyses", {}).get(BEST, ()))


def by_model_and_width(group: Group) -> tuple[Any, ...]:
    """Return the key that orders groups by model, width and budget."""
    first = group[0]
    order = [*load_records.papers()].index(model_of(first["model"]))
    return order, first["model_config"]["d_model"], first["train_config"]["tokens"]


def name_group(group: Group) -> str:
    """Return model, numbers and budget of a group."""
    first = group[0]
    label = label_of(model_of(first["model"])).split()[0]
    numbers = rows_of_best(first)[0]["numbers"]
    return f"{label}, {numbers} numbers, {format_short(first['train_config']['tokens'])} tokens"


def draw_by_length(groups: Sequence[Group], attending: Group) -> FigureWithData:
    """Draw BLEU by length from the encoder's State, from the best one, and by looking back."""
    records = [r for group in groups for r in group]
    first = groups[0][0]
    n_steps = max(row["steps"] for row in rows_of_best(first))
    caption = (
        "The trained model is frozen. The encoder hands over a State; or the best State takes its "
        f"place, written for each sentence by {n_steps} steps of gradient descent on the loss of "
        "its reference. The decoder then translates greedily. The best BLEU is a bound from "
        "below of what a State can hold for this decoder. Bands: 95 % over seeds and sentences, "
        "with one seed over sentences. Dotted: the longest sentences in training."
    )
    title = "Who loses the sentence: the encoder, the vector or the decoder?"
    n_columns = 2 if len(groups) == 4 else min(MOST_COLUMNS, len(groups))
    n_rows = -(-len(groups) // n_columns)
    key = [*LINE_STYLES.values()][: 3 if attending else 2]
    texts = title, format_subtitle(records), caption
    figure, axes = style.make_panels(texts, key, (1,) * n_rows, n_columns)
    if n_rows > 1:  # room for the titles between the rows
        figure.set_figheight(figure.get_figheight() + 1.2 * (n_rows - 1))
        axes[0, 0].get_gridspec().hspace = 0.25
        for ax in axes.flat:
            ax.set_position(ax.get_subplotspec().get_position(figure))
    table = Table()
    for ax in axes.flat[len(groups) :]:
        ax.set_visible(False)
    test = next(t for t in first["tests"] if t["name"] == LENGTH)
    names = [*map(format_bucket, test["buckets"])]
    for ax, group in zip(axes.flat, groups, strict=False):
        lines = {"encoder": (group, LENGTH), BEST: (group, BEST)}
        lines |= {ATTENDING: (attending, LENGTH)} if attending else {}
        for line, (own, name) in lines.items():
            scores = mean_scores(own, name, "bleu")[1:]
            style.draw_line(ax, LINE_STYLES[line], range(len(names)), scores)
            about = {
                "panel": name_group(group),
                "seeds": len(group),
                "line": LINE_STYLES[line].label,
            }
            value, low, high = scores.T
            table.add(**about, words=names, bleu=value, low=low, high=high)
        mark_trained(ax, test)
        ax.set_title(name_group(group), loc="left", size=8.5)
        ax.set_ylim(0, 104)
        ax.set_xticks(range(0, len(names), 2), names[::2])
        ax.tick_params(axis="x", length=0)
    for ax in axes[-1]:
        ax.set_xlabel(test["axis"])
    for ax in axes[:, 0]:
        ax.set_ylabel("BLEU")
    return FigureWithData(figure, table.rows())


def mark_trained(ax: Axes, test: dict[str, Any]) -> None:
    """Mark the end of the lengths in training."""
    if longest := test["max_train_length"]:
        n_trained = sum(bucket["high"] <= longest for bucket in test["buckets"])
        ax.axvline(n_trained - 0.5, color=GREY, lw=0.8, ls=":")


def mean_of(group: Group, column: str, analysis: str = BEST, **columns: Any) -> np.ndarray:
    """Return a column of the rows with these values, as means over seeds."""
    found = [[row[column] for row in rows_of(r, analysis, **columns)] for r in group]
    return np.array(found, float).mean(0)


def draw_bits(groups: Sequence[Group]) -> FigureWithData:
    """Draw BLEU by bits of a number, by the surprisal of a sentence, and lost words by place."""
    group = next((g for g in groups if g[0].get("arm") is None), groups[0])
    first = group[0]
    test = next(t for t in first["tests"] if t["name"] == LENGTH)
    n_steps = max(row["steps"] for row in rows_of_best(first))
    index = longest_trained_bucket(test)
    low = test["buckets"][-1 if index is None else index]["low"]
    bits = sorted({row["bits"] for row in rows_of_best(first) if "bits" in row})
    words = format_bucket(next(b for b in test["buckets"] if b["low"] == low))
    name = name_group(group)
    caption = (
        f"{name}. Left: at {words} words, each number of the State is rounded to one of 2^bits "
        "values, equally spaced over the range that the encoder gives it. Middle: the sentences of "
        "each length in two halves, by the bits of choice that the grammar put into them. Right: "
        f"content words of the source that the translation has, by their place, at {words} words. "
        "Means over seeds."
    )
    texts = "What the best State needs and keeps", format_subtitle(group), caption
    figure, axes = style.make_panels(
        texts, [LINE_STYLES["encoder"], LINE_STYLES[BEST]], n_columns=3
    )
    table = Table()
    left, middle, right = axes[0]
    lines = {"encoder": 0, BEST: n_steps}
    for line, steps in lines.items():
        line_style = LINE_STYLES[line]
        scores = [mean_of(group, "bleu", steps=steps, bits=b, low=low)[0] for b in bits]
        left.plot(
            bits,
            scores,
            line_style.marker,
            color=line_style.colour,
            ls=line_style.dashes,
            lw=1.8,
            ms=4,
        )
        table.add(panel="bits", line=line_style.label, bits=bits, bleu=scores)
        rows = [row for row in rows_of_best(first) if row["steps"] == steps and "numbers" in row]
        if all("surprisal" in row for row in rows):
            names = [format_bucket(row) for row in rows]
            for half, dashes in (("fewer", line_style.dashes), ("more", (0, (1, 1.2)))):
                column = f"bleu_{half}_bits"
                own = [row for r in group for row in rows_of_best(r)]
                own = [row for row in own if row["steps"] == steps and "numbers" in row]
                values = np.array([row[column] for row in own]).reshape(len(group), -1).mean(0)
                middle.plot(range(len(names)), values, color=line_style.colour, ls=dashes, lw=1.8)
                middle.set_xticks(range(0, len(names), 3), names[::3])
                table.add(
                    panel="surprisal",
                    line=f"{line_style.label}, {half} bits",
                    words=names,
                    bleu=values,
                )
        if "places" in first["analyses"]:
            shares = mean_of(group, "share", "places", steps=steps, low=low)
            places = range(1, len(shares) + 1)
            right.plot(
                places,
                shares,
                line_style.marker,
                color=line_style.colour,
                ls=line_style.dashes,
                lw=1.8,
                ms=4,
            )
            table.add(panel="places", line=line_style.label, fifth=places, share=shares)
    left.set_title(f"BLEU at {words} words", loc="left", size=8.5)
    left.set_xlabel("bits a number")
    middle.set_title("BLEU; dotted: more bits of choice", loc="left", size=8.5)
    middle.set_xlabel(test["axis"])
    right.set_title(f"Words kept at {words} words (%)", loc="left", size=8.5)
    right.set_xlabel("fifth of the source")
    for ax in axes[0]:
        ax.set_ylim(0, 104)
    return FigureWithData(figure, table.rows())


def draw_training(records: Group) -> FigureWithData:
    """Draw BLEU from the encoder's and the best State over a training, by its snapshots."""
    first = records[0]
    test = next(t for t in first["tests"] if t["name"] == LENGTH)
    index = longest_trained_bucket(test)
    words = format_bucket(test["buckets"][-1 if index is None else index])
    caption = (
        f"At {words} words, at moments of one training: BLEU from the encoder's State, and from "
        "the State that a quarter of the steps of the other figures writes. The last points are "
        "those of the weights that are evaluated."
    )
    texts = (
        "When does a decoder learn to read, and an encoder to write?",
        format_subtitle(records),
        caption,
    )
    figure, axes = style.make_panels(
        texts, [LINE_STYLES["encoder"], LINE_STYLES[BEST]], n_columns=1
    )
    (ax,) = axes[0]
    table = Table()
    for record in records:
        rows = [row for row in record["analyses"]["training"] if row["tokens"]]
        tokens = [row["tokens"] for row in rows]
        for line in ("encoder", BEST):
            line_style, values = LINE_STYLES[line], [row[line] for row in rows]
            ax.plot(
                tokens,
                values,
                line_style.marker,
                color=line_style.colour,
                ls=line_style.dashes,
                lw=1.8,
                ms=4,
            )
            about = {"model": record["model"], "seed": record["seed"], "line": line_style.label}
            table.add(**about, tokens=tokens, bleu=values)
    style.set_log(ax, "x", format_short)
    ax.set_ylim(0, 104)
    ax.set_ylabel(f"BLEU at {words} words")
    ax.set_xlabel("target tokens trained on")
    return FigureWithData(figure, table.rows())

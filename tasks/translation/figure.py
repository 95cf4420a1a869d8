"""Draw the five papers in one panel, and the steps from one vector to the Transformer. No torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seqmodels.evaluation.metrics import metric_of
from seqmodels.models import FIVE, model_of
from seqmodels.records.schema import Record, Test
from seqmodels.report import figures, load, style
from seqmodels.report.style import LINE

from ..bottleneck import figure as bottleneck

REVERSED, FORWARD = "lstm_seq2seq", "lstm_seq2seq_forward"
LOOKS = {
    REVERSED: style.line_style_of(REVERSED)._replace(label="reads backwards"),
    FORWARD: style.line_style_of(FORWARD)._replace(label="reads forwards"),
}
NAMES = {
    "forward": "not\nreversed", "none": "last state\nalone", "last": "last\nvector", "dot": "dot",
    "general": "general", "additive": "additive",
}  # fmt: skip
"""Rungs in order, as they are named in the figure."""
FED = {
    False: style.LineStyle("without input feeding", "#E87A67", "", "s"),
    True: style.LineStyle("with input feeding", "#7E3125", "", "s"),
}
MARKS = "Mean of the seeds (small dots) · whisker: 95 % interval"
"""The note below a figure of presets."""
STEPS = {
    "bahdanau": "Bahdanau", "bahdanau_dot": "scaled dot product",
    "bahdanau_heads": "several heads", "bahdanau_tied": "tied output",
    "transformer_recurrent_1": "residuals, norms,\nfeed-forward",
    "transformer_recurrent": "a second layer",
    "transformer_recurrent_decoder": "self-attention\nin the encoder",
    "transformer": "and in the decoder:\nTransformer",
}  # fmt: skip
"""Models in order -> what each adds to the one before."""


def draw_five(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the scores of the five papers by source length, if the folder holds all of them."""
    five = [record for record in records if record.model in FIVE]
    if {record.model for record in five} != {*FIVE}:
        return {}
    test = next(iter(load.tests_by_name(five).values()))
    title = f"{figures.name_score(test, test.primary_metric)} by {test.axis}"
    return {"five-papers": figures.draw_headline(five, test, title)}


def draw(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the figures of a preset by the names of their files, if the folder is one's."""
    if "sequential_steps" in records[0].analyses:
        return {"rungs-to-transformer": draw_steps(records)}
    if not {REVERSED, FORWARD} <= {r.model for r in records}:
        return {}
    is_swept = len({r.settings.get("forget_bias") for r in records}) > 1
    return {"biases": draw_biases(records)} if is_swept else {"rungs": draw_rungs(records)}


FIGURES = (draw_five, bottleneck.draw, draw)


def name_bucket(test: Test, place: int) -> str:
    """Return the name of the primary metric in one bucket."""
    bucket = load.format_bucket(test.buckets[place])
    return f"{metric_of(test.primary_metric).name} at {bucket} {test.unit}"


def draw_rungs(records: Sequence[Record]) -> Figure:
    """Draw one bar per rung and feeding, in the longest trained bucket and in the longest one."""
    test = records[0].tests[0]
    rungs: dict[tuple[str, bool], list[Record]] = {}
    for r in records:
        kind = r.settings.get("attention", "forward" if r.model == FORWARD else "none")
        rungs.setdefault((str(kind), bool(r.settings.get("is_input_feeding"))), []).append(r)
    title = f"{metric_of(test.primary_metric).name} of each step from one vector to attention"
    figure, axes = style.make_figure(title, records, [*FED.values()], n_columns=2, note=MARKS)
    last = max((i for i, b in enumerate(test.buckets) if b.n >= load.MIN_EXAMPLES), default=0)
    for ax, place in zip(axes[0], (load.longest_trained_bucket(test) or 0, last), strict=True):
        for (kind, is_fed), group in rungs.items():
            is_pair = {(kind, False), (kind, True)} <= rungs.keys()
            x = [*NAMES].index(kind) + (0.2 if is_fed else -0.2) * is_pair
            cells = load.score_array(group, test.name, test.primary_metric)[:, 1 + place]
            value, low, high = cells.mean(axis=0)
            ax.bar([x], [value], 0.36, color=FED[is_fed].colour)
            ax.vlines([x], [low], [high], color=style.INK, lw=1.0)
            ax.plot([x] * len(group), cells[:, 0], "o", color="white", mec=style.INK, ms=3)
            ax.annotate(f"{value:.0f}", (x, max(value, high)), (0, 3), ha="center", size=8.5,
                        textcoords="offset points")  # fmt: skip
        beyond = ", longer than trained" * load.is_beyond(test, test.buckets[place])
        ax.set(title=name_bucket(test, place) + beyond, ylim=(0, 104))
        ax.set_xticks(range(len(NAMES)), [*NAMES.values()], size=8)
    return figure


def draw_biases(records: Sequence[Record]) -> Figure:
    """Draw loss and score against the forget gate's bias, with and without reversal."""
    test = records[0].tests[0]
    place = load.longest_trained_bucket(test) or 0
    figure, axes = style.make_figure(
        "Reading backwards, by the forget gate's bias before training",
        records,
        [*LOOKS.values()],
        n_columns=2,
        note="Line: mean of the seeds (dots)",
    )
    panels = (
        ("nats", 0, "Loss (nats per token), all lengths"),
        (test.primary_metric, 1 + place, name_bucket(test, place)),
    )
    for ax, (key, column, title) in zip(axes[0], panels, strict=True):
        for is_reversed, look in zip((True, False), LOOKS.values(), strict=True):
            means = {}
            for bias in sorted({r.size("forget_bias") for r in records}):
                group = [
                    r for r in records
                    if r.settings.get("is_reversed", True) == is_reversed
                    and r.size("forget_bias") == bias
                ]  # fmt: skip
                values = load.score_array(group, test.name, key)[:, column, 0]
                ax.plot([f"bias {bias}"] * len(values), values, look.marker, color=look.colour,
                        ms=4, alpha=0.6, mew=0)  # fmt: skip
                means[f"bias {bias}"] = values.mean()
            ax.plot([*means], [*means.values()], color=look.colour, ls=look.dashes)
        ax.set(title=title, ylim=(0, None))
    return figure


def draw_steps(records: Sequence[Record]) -> Figure:
    """Draw a row per model: score, seconds and sequential steps of training."""
    groups = load.group_by_model(records)
    groups = {model: groups[model] for model in STEPS if model in groups}
    test = records[0].tests[0]
    place = load.longest_trained_bucket(test) or 0
    figure, (axes,) = style.make_figure(
        "From Bahdanau's model to the Transformer: each row adds to the one above",
        records,
        heights=[1.6 * LINE * len(groups)],
        n_columns=3,
        note=MARKS,
        sharey=True,
    )
    for y, group in enumerate(groups.values()):
        scores = load.score_array(group, test.name, test.primary_metric)[:, 1 + place]
        axes[0].hlines([y], *scores[:, 1:].mean(0), color=style.INK, lw=1.0)
        steps = [row["steps"] for row in load.rows_of(group[0], "sequential_steps")]
        colour = style.LINE_STYLES[model_of(group[0].model)][0]
        draw_values(axes[0], y, scores[:, 0], colour, "{:.1f}")
        draw_values(axes[1], y, [min(map(seconds_per_step, group))], colour, "{:.2f}")
        draw_values(axes[2], y, [float(n) for n in steps], colour, "{:.0f}")
    titles = name_bucket(test, place), "Seconds a step, at best", "Sequential steps"
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title)
        ax.grid(True, axis="both")
        ax.margins(x=0.15)
    axes[0].set_yticks(range(len(groups)), [STEPS[model] for model in groups])
    axes[0].set_ylim(len(groups) - 0.5, -0.6)
    axes[1].set_xlim(0)
    axes[2].set_xlim(0)
    return figure


def draw_values(
    ax: Axes, y: int, values: Sequence[float] | np.ndarray, colour: str, form: str
) -> None:
    """Draw some values in a row, and their mean with its number above."""
    mean = float(np.mean(values))
    ax.plot(values, [y] * len(values), "o", color=colour, ms=3, alpha=0.5, mew=0)
    ax.plot([mean], [y], "o", color=colour, ms=6, zorder=4)
    ax.annotate(form.format(mean), (mean, y), (0, 5), textcoords="offset points", ha="center",
                size=8.5)  # fmt: skip


def seconds_per_step(r: Record) -> float:
    """Return the mean seconds of a training step between the two validations where it is least."""
    steps, seconds = np.array([(0, 0), *((p.step, p.seconds) for p in r.curve)], float).T
    return float((np.diff(seconds) / np.diff(steps)).min())

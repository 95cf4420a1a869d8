"""Draw the score of each step from one vector to attention, and from there to the Transformer.

Also the gain of reading backwards. No torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seqmodels.evaluation.intervals import student_quantile, wilson_interval
from seqmodels.evaluation.metrics import metric_of
from seqmodels.models import model_of
from seqmodels.records.schema import Record, Test
from seqmodels.records.significance import half_width
from seqmodels.report import load, style
from seqmodels.report.load import (
    MIN_EXAMPLES,
    format_bucket,
    format_interval_methods,
    format_subtitle,
    longest_trained_bucket,
    rows_of,
)

REVERSED, FORWARD = "lstm_seq2seq", "lstm_seq2seq_forward"
MANY = 1e4
"""Degrees of freedom that are as good as all."""
NAMES = {
    "forward": "not\nreversed", "none": "last state\nalone", "last": "last\nvector", "dot": "dot",
    "general": "general", "additive": "additive",
}  # fmt: skip
"""Rungs in order, as they are named in the figure."""
FED = {
    False: style.LineStyle("without input feeding", "#E87A67", "", "s"),
    True: style.LineStyle("with input feeding", "#7E3125", "", "s"),
}
"""The look of a bar, by whether the decoder is fed its last output."""
QUARTERS = ["first", "second", "third", "last"]
"""Parts of the target."""
Rungs = dict[tuple[str, bool], list[Record]]
"""What a decoder has of the source, and whether it has input feeding -> its records."""


def group_by_rung(records: Sequence[Record]) -> Rungs:
    """Return the LSTM and its variants by rung."""
    by_rung: Rungs = {}
    for r in records:
        sizes = r.settings
        if "attention" in sizes or r.model in (REVERSED, FORWARD):
            kind = sizes.get("attention", "none" if sizes.get("is_reversed", True) else "forward")
            rung = str(kind), bool(sizes.get("is_input_feeding", False))
            by_rung.setdefault(rung, []).append(r)
    return by_rung


def draw_rungs(records: Sequence[Record]) -> Figure:
    """Draw one bar per rung and feeding, in the longest trained bucket and in the longest one."""
    test, rungs = records[0].tests[0], group_by_rung(records)
    metric = metric_of(test.primary_metric)
    is_many = max(map(len, rungs.values())) > 1
    caption = (
        "Last state alone: the decoder starts from the encoder's last state; last vector: every "
        "step is given the encoder's last output; dot, general and additive attend to all outputs "
        "with these scores. Bar: "
        f"{'mean of the seeds; dots: each seed' if is_many else 'one seed'}; whisker: 95 % "
        f"interval ({format_interval_methods(records, [test.primary_metric])})"
        f"{', its ends averaged over the seeds' if is_many else ''}."
    )
    title = f"{metric.name} of each step from one vector to attention"
    texts = title, format_subtitle(records), caption
    figure, axes = style.make_panels(
        texts, [FED[is_fed] for is_fed in sorted({fed for _, fed in rungs})]
    )
    last = max((i for i, b in enumerate(test.buckets) if b.n >= MIN_EXAMPLES), default=0)
    for ax, place in zip(axes[0], (longest_trained_bucket(test) or 0, last), strict=True):
        _draw_bars(ax, rungs, test, place)
        beyond = ", longer than trained" * load.is_beyond(test, test.buckets[place])
        panel_title = f"{metric.name} at {format_bucket(test.buckets[place])} {test.unit}{beyond}"
        ax.set_title(panel_title)
        if metric.is_percent:
            ax.set_ylim(0, 100)
    return figure


def _draw_bars(ax: Axes, rungs: Rungs, test: Test, place: int) -> None:
    """Draw the bars of one bucket, each with its interval, its seeds and its value."""
    kinds = [kind for kind in NAMES if {(kind, False), (kind, True)} & rungs.keys()]
    for (kind, is_fed), group in rungs.items():
        is_pair = {(kind, False), (kind, True)} <= rungs.keys()
        x = kinds.index(kind) + (0.2 if is_fed else -0.2) * is_pair
        cells = load.score_array(group, test.name, test.primary_metric)[:, 1 + place]
        value, low, high = cells.mean(axis=0)
        ax.bar([x], [value], 0.36, color=FED[is_fed].colour)
        if np.isfinite([low, high]).all():
            ax.vlines([x], [low], [high], color=style.INK, lw=1.0)
        if len(group) > 1:
            spread = x + 0.07 * (np.arange(len(group)) - (len(group) - 1) / 2)
            ax.plot(spread, cells[:, 0], "o", color="white", mec=style.INK, ms=3.5, mew=0.8)
        top = max(value, high if np.isfinite(high) else value, *cells[:, 0])
        ax.annotate(f"{value:.0f}", (x, top), (0, 3), textcoords="offset points", ha="center",
                    size=8.5, color=style.INK)  # fmt: skip
    ax.set_xticks(range(len(kinds)), [NAMES[kind] for kind in kinds])
    ax.tick_params(axis="x", length=0, labelsize=8)


# ---------------------------------------------------------------------------- place in the target


def collect_accuracies(group: Sequence[Record]) -> np.ndarray:
    """Return (seeds, places, 2): the per cent of the next words that are right, of how many."""
    return np.array([[[row["accuracy"], row["n"]] for row in rows_of(r, "places")] for r in group])


def compute_gains(groups: dict[str, list[Record]]) -> np.ndarray:
    """Return (3, places): the points that reading backwards gains, low and high.

    The interval takes words as independent. If both models have several seeds, these vary as well,
    as in `records.significance`.
    """
    sides = [collect_accuracies(groups[model]) for model in (REVERSED, FORWARD)]
    after, before = (side[..., 0].mean(0) for side in sides)
    ends = [[wilson_interval(percent / 100, n) for percent, n in side.mean(0)] for side in sides]
    half = np.hypot(*(50 * np.diff(ends)[..., 0]))
    if min(map(len, sides)) > 1:
        by_seeds = np.array([side[..., 0].var(0, ddof=1) / len(side) for side in sides])
        by_words = [(half / student_quantile(MANY)) ** 2]
        freedom = [MANY, *(len(side) - 1 for side in sides)]
        at_places = np.concatenate([by_words, by_seeds]).T
        half = np.array([half_width([*zip(own, freedom, strict=True)], 0.05) for own in at_places])
    return np.stack([after - before, after - before - half, after - before + half])


def draw_places(records: Sequence[Record]) -> Figure:
    """Draw the accuracy by place for every model, and what reading backwards gains there."""
    groups = load.group_by_model(records)
    n_words = collect_accuracies(records)[0, :, 1].sum()
    is_many = min(len(groups[model]) for model in (REVERSED, FORWARD)) > 1
    caption = (
        f"Over the {n_words:,.0f} words and ends of sentence of the test sentences that are as "
        "long as those in training. A quarter: the words from 0, 25, 50 or 75 % of the target on. "
        "Line or bar: mean of the seeds. Whisker: 95 % interval over words, as if independent of "
        f"each other{', and over seeds' * is_many}."
    )
    texts = "Next-word accuracy by place in the target", format_subtitle(records), caption
    figure, axes = style.make_panels(texts, style.label_line_styles(records))
    left, right = axes[0]
    for model, line_style in style.line_styles_for(groups).items():
        values = collect_accuracies(groups[model])[..., 0]
        draw: dict[str, Any] = {"color": line_style.colour, "clip_on": False, "zorder": 4}
        left.plot(values.mean(0), line_style.marker, ls=line_style.dashes, lw=1.9, ms=4.5, **draw)
    left.set_title("Next-word accuracy (%), teacher-forced")
    for ax in axes[0]:
        ax.set_xticks(range(len(QUARTERS)), QUARTERS)
        ax.set_xlabel("quarter of the target")
    value, low, high = compute_gains(groups)
    right.bar(range(len(value)), value, 0.6, color=style.line_style_of(REVERSED).colour)
    right.vlines(range(len(value)), low, high, color=style.INK, lw=1.0)
    right.axhline(0, color=style.GREY, lw=0.8)
    right.set_title("Gain from reading backwards (points)")
    return figure


# -------------------------------------------------------------- reversal and the forget gate's bias


def group_by_bias(records: Sequence[Record]) -> dict[str, dict[float, list[Record]]]:
    """Return the LSTM's records, with and without reversal, by the forget gate's bias."""
    groups: dict[str, dict[float, list[Record]]] = {FORWARD: {}, REVERSED: {}}
    for r in records:
        sizes, bias = r.settings, r.settings.get("forget_bias")
        if "attention" not in sizes and isinstance(bias, int | float):
            model = REVERSED if sizes.get("is_reversed", True) else FORWARD
            groups[model].setdefault(bias, []).append(r)
    return groups


def draw_biases(records: Sequence[Record]) -> Figure:
    """Draw loss and score against the forget gate's bias, with and without reversal."""
    test, groups = records[0].tests[0], group_by_bias(records)
    metric, place = test.primary_metric, longest_trained_bucket(test) or 0
    line_styles = {model: style.line_style_of(model) for model in (REVERSED, FORWARD)}
    caption = (
        "Each point is one seed; lines join the means. Bias: the forget gate's before training. "
        "Sutskever et al. read backwards and name no bias (0); other comparisons here begin with "
        "2. Loss: teacher-forced, lower is better; BLEU at the longest lengths in training."
    )
    texts = "Reading backwards, by the forget gate's bias", format_subtitle(records), caption
    names = {REVERSED: "reads backwards", FORWARD: "reads forwards"}
    looks = [look._replace(label=names[model]) for model, look in line_styles.items()]
    figure, axes = style.make_panels(texts, looks)
    bucket = f"{format_bucket(test.buckets[place])} {test.unit}"
    panels = [("nats", 0, f"{load.capitalise(metric_of('nats').name)}, all lengths")]
    panels += [(metric, 1 + place, f"{metric_of(metric).name} at {bucket}")]
    biases = sorted({bias for by_bias in groups.values() for bias in by_bias})
    for ax, (key, column, title) in zip(axes[0], panels, strict=True):
        for model, by_bias in groups.items():
            means = []
            for x, bias in enumerate(biases):
                cells = load.score_array(by_bias.get(bias, []), test.name, key)
                values = cells[:, column, 0] if len(cells) else np.array([np.nan])
                ax.plot(x + np.zeros(len(values)), values, line_styles[model].marker, ms=4,
                        alpha=0.6, mew=0, color=line_styles[model].colour)  # fmt: skip
                means.append(values.mean())
            ax.plot(means, color=line_styles[model].colour, ls=line_styles[model].dashes, lw=2)
        ax.set_xticks(range(len(biases)), [f"bias {bias:g}" for bias in biases])
        ax.set(title=title, xlim=(-0.4, len(biases) - 0.6), ylim=(0, None))
    return figure


def draw(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the figures of a folder by the names of their files."""
    if "sequential_steps" in records[0].analyses:
        return {"rungs-to-transformer": draw_steps(records)}
    if all(len(by_bias) > 1 for by_bias in group_by_bias(records).values()):
        return {"biases": draw_biases(records)}
    figures = {"rungs": draw_rungs(records)} if group_by_rung(records) else {}
    if {REVERSED, FORWARD} <= {r.model for r in records}:
        figures["places"] = draw_places(records)
    return figures


# ------------------------------------------------------------------------------- to the Transformer

STEPS = {
    "bahdanau": "Bahdanau", "bahdanau_dot": "scaled dot product",
    "bahdanau_heads": "several heads", "bahdanau_tied": "tied output",
    "transformer_recurrent_1": "residuals, norms,\nfeed-forward",
    "transformer_recurrent": "a second layer",
    "transformer_recurrent_decoder": "self-attention\nin the encoder",
    "transformer": "and in the decoder:\nTransformer",
}  # fmt: skip
"""Models in order -> what each adds to the one before."""
N_EDGE = 8
"""Shortest and longest distances whose gradients are compared."""


def seconds_per_step(r: Record) -> float:
    """Return the mean seconds of a training step between the two validations where it is least."""
    steps, seconds = np.array([(0, 0), *((p.step, p.seconds) for p in r.curve)], float).T
    return float((np.diff(seconds) / np.diff(steps)).min())


def gradient_ratio(r: Record, when: str) -> float:
    """Return the mean of the gradients at the longest distances over that at the shortest."""
    medians = [row["median"] for row in rows_of(r, "gradients", when=when)]
    return float(np.mean(medians[-N_EDGE:]) / np.mean(medians[:N_EDGE]))


def draw_steps(records: Sequence[Record]) -> Figure:
    """Draw a row per model: score, seconds and sequential steps of training, gradient ratio."""
    groups = load.group_by_model(records)
    groups = {model: groups[model] for model in STEPS if model in groups}
    test, first = records[0].tests[0], next(iter(groups.values()))[0]
    key, place = test.primary_metric, longest_trained_bucket(test) or 0
    (row,), n = rows_of(first, "sequential_steps"), len(first.analyses["gradients"]) // 2
    caption = (
        "Each row adds to the one above. Filled: mean of the seeds; small: each seed; whisker: "
        f"95 % interval ({format_interval_methods(records, [key])}), its ends averaged over the "
        "seeds. Seconds: of the fastest part between two validations, of all seeds. Sequential "
        "steps: layers, or steps of a recurrence, each of which waits for the one before, in "
        f"training on a source of {row['n_source']:.0f} and a target of {row['n_target']:.0f} "
        "tokens. Gradient: of a target token's loss, by a source token's embedding; the mean of "
        f"the medians at the {N_EDGE} longest distances (to {n} tokens) over that at the {N_EDGE} "
        "shortest. Hollow: before training."
    )
    texts = "From Bahdanau's model to the Transformer", format_subtitle(records), caption
    figure = style.make_figure(0.6 + 0.42 * len(groups), texts)
    axes = figure.subplots(1, 4, sharey=True)
    bucket = f"{metric_of(key).name} at {format_bucket(test.buckets[place])} {test.unit}"
    titles = (bucket, "Seconds a step", "Sequential steps", "Gradient, far / near")
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title)
        ax.grid(True, axis="both")
        ax.tick_params(axis="y", length=0)
        ax.margins(x=0.15)
    for y, group in enumerate(groups.values()):
        _draw_step(axes, y, group, test, place)
    axes[0].set_yticks(range(len(groups)), [STEPS[model] for model in groups])
    axes[0].set_ylim(len(groups) - 0.5, -0.6)
    for ax in axes[1:3]:
        ax.set_xlim(0)
    style.set_log(axes[3], "x", "{x:g}")
    axes[3].axvline(1, color=style.GREY, lw=0.8)
    return figure


def _draw_step(axes: np.ndarray, y: int, group: Sequence[Record], test: Test, i: int) -> None:
    """Draw the row of one model, with its scores in bucket i."""
    model, key = group[0].model, test.primary_metric
    colour = style.LINE_STYLES[model_of(model)][0]
    score, low, high = load.score_array(group, test.name, key)[:, 1 + i].T
    axes[0].hlines([y], low.mean(), high.mean(), color=style.INK, lw=1.0)
    (steps,) = rows_of(group[0], "sequential_steps")
    before, after = ([gradient_ratio(r, when) for r in group] for when in ("before", "after"))
    seconds = min(map(seconds_per_step, group))
    _draw_values(axes[0], y, score, colour, "{:.1f}")
    _draw_values(axes[1], y, [seconds], colour, "{:.2f}")
    _draw_values(axes[2], y, [steps["steps"]], colour, "{:.0f}")
    _draw_values(axes[3], y, after, colour, "{:.2f}")
    axes[3].plot([np.mean(before)], [y], "o", ms=5.5, mfc="white", mec=colour)


def _draw_values(
    ax: Axes, y: int, values: Sequence[float] | np.ndarray, colour: str, form: str
) -> None:
    """Draw the mean of some values with its number above, and each of them if there are several."""
    mean = float(np.mean(values))
    if len(values) > 1:
        ax.plot(values, [y] * len(values), "o", color=colour, ms=3, alpha=0.5, mew=0)
    ax.plot([mean], [y], "o", color=colour, ms=6, zorder=4)
    ax.annotate(form.format(mean), (mean, y), (0, 5), textcoords="offset points", ha="center",
                size=8.5, color=style.INK)  # fmt: skip


FIGURES = [draw]

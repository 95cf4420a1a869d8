"""Arms against the models that they vary: the effect of each change, and sweeps of a field.

A sweep is a curve of the scores over the values of a number, such as a size or the budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from seqmodels.evaluation.metrics import metric_of
from seqmodels.models import INFOS
from seqmodels.records.schema import Record, Test, Value
from seqmodels.records.significance import Comparison, Pair, Significance
from seqmodels.report import load, style
from seqmodels.report.style import BETTER, GREY, INK, LINE, WORSE, LineStyle

VERDICTS = (
    "Blue: significantly better · orange: significantly worse · grey: not shown · hollow: not "
    "tested · line: 95 % interval · *: seeds do not overlap"
)
"""The note below a figure of effects: its colours and marks."""
MIN_VALUES = 3
"""Values of a field from which its scores are a curve."""

# ---------------------------------------------------------------------------------------- Effects


def find_effects(records: Sequence[Record], comparison: Comparison) -> list[tuple[str, Pair]]:
    """Return the label and the effect of each change in a folder with arms.

    An effect is the pair of the changed model and the model as it is, which is listed before. A
    variant is a change as well.
    """
    first = {model: group[0] for model, group in load.group_by_model(records).items()}
    if not any(record.arm for record in first.values()):
        return []
    pairs = {(pair.row, pair.column): pair for pair in comparison.pairs}
    effects = []
    for model, record in first.items():
        base, label = base_of(record), load.label_of(record)
        if base not in first:
            continue
        if changed := changed_fields(record):
            change = ", ".join(load.format_field(field, value) for field, value in changed.items())
            label = f"{load.label_of(first[base])}: {change}"
        if pair := pairs.get((model, base)):
            effects.append((label, pair))
    return effects


def base_of(record: Record) -> str:
    """Return the model that a record's arm or variant varies; empty for a model of its own."""
    if record.arm:
        return record.arm.varies
    info = INFOS.get(record.base)
    return info.variant_of if info else ""


def effect_rows(
    records: Sequence[Record], test: Test, compared: Significance | None
) -> list[list[str]]:
    """Return the rows of a table: change, effect, p and verdict."""
    comparison = compared and compared.on(test.name)
    if not comparison or not (effects := find_effects(records, comparison)):
        return []
    metric = comparison.metric
    rows = [["change", f"effect on {metric_of(metric).name}", "p (Holm)", "verdict"]]
    for label, pair in effects:
        effect = load.format_difference(pair.overall, metric)
        rows.append([label, effect, load.format_p_value(pair.p), load.format_verdict(pair, metric)])
    return rows


def draw_effects(records: Sequence[Record], test: Test, comparison: Comparison) -> Figure:
    """Draw a forest plot: the effect of each change with its interval."""
    metric, effects = comparison.metric, find_effects(records, comparison)
    effects.sort(key=lambda effect: -effect[1].overall.value)
    name = metric_of(metric).name
    figure, ((ax,),) = style.make_figure(
        f"What each change does to {name}",
        records,
        heights=[LINE * len(effects)],
        note=VERDICTS,
    )
    for y, (_, pair) in enumerate(effects):
        part, colour = pair.overall, GREY
        if pair.is_significant:
            colour = BETTER if (part.value < 0) == metric_of(metric).is_loss else WORSE
        if part.low is not None and part.high is not None:
            ax.hlines(y, part.low, part.high, color=colour, lw=2)
        ax.plot(part.value, y, "o", color=colour, mfc="white" if pair.p is None else colour, ms=6)
        text = load.format_difference(part, metric) + "*" * pair.is_separated
        ax.text(1.01, y, text, transform=ax.get_yaxis_transform(), color=GREY, size=9, va="center")
    ax.axvline(0, color=INK, lw=0.9)
    ax.set_yticks(range(len(effects)), [label for label, _ in effects])
    ax.tick_params(axis="y", length=0, labelcolor=INK)
    ax.set_ylim(len(effects) - 0.5, -0.5)
    better = "lower is better" if metric_of(metric).is_loss else "higher is better"
    ax.set_xlabel(f"difference in {name}, {better}")
    ax.grid(True, axis="x")
    return figure


# ----------------------------------------------------------------------------------------- Sweeps

Sweep = dict[str, dict[float, list[Record]]]
"""Model -> value of the field -> the records, one for each seed."""


def find_sweeps(records: Sequence[Record]) -> dict[str, Sweep]:
    """Return the sweep of each numeric field that alone was varied, over MIN_VALUES values.

    The model as it is belongs to each of its sweeps, at its own value of the field, unless that is
    no number, as where d_k follows from the width.
    """
    by_name = load.group_by_model(records)
    groups: dict[tuple[str, str], dict[Value, list[Record]]] = {}
    for group in by_name.values():
        changed, base = changed_fields(group[0]), group[0].base
        if len(changed) == 1 and base in by_name:
            ((field, value),) = changed.items()
            first = by_name[base][0]
            unchanged = {"width": 1, **first.train_config.model_dump(), **first.settings}.get(field)
            own = {unchanged: by_name[base]}
            groups.setdefault((field, base), own)[value] = group
    sweeps: dict[str, Sweep] = {}
    for (field, model), own in groups.items():
        values = sorted(value for value in own if isinstance(value, int | float))
        if len(values) >= MIN_VALUES:
            sweeps.setdefault(field, {})[model] = {value: own[value] for value in values}
    return sweeps


def changed_fields(record: Record) -> dict[str, Value]:
    """Return the fields that the command line changed in the arm of a record, with their values."""
    if (arm := record.arm) is None:
        return {}
    return {**arm.sizes, **arm.training, **({"width": arm.width} if arm.width != 1 else {})}


def draw_sweeps(records: Sequence[Record]) -> dict[str, Figure]:
    """Draw each sweep, the first test set's scores; return the figures by their files' names."""
    test = next(iter(load.tests_by_name(records).values()))
    groups, figures = load.group_by_model(records), {}
    for field, sweep in find_sweeps(records).items():
        line_styles = style.line_styles_for({model: groups[model] for model in sweep})
        figures[f"sweep-{field}"] = draw_sweep(field, sweep, test, line_styles)
    return figures


def draw_sweep(
    field: str, sweep: Sweep, test: Test, line_styles: Mapping[str, LineStyle]
) -> Figure:
    """Draw the score and the loss at the longest trained length against a field."""
    primary, place = metric_of(test.primary_metric), load.longest_trained_bucket(test)
    where, part = "all lengths", 0
    if place is not None:
        where, part = f"{load.format_bucket(test.buckets[place])} {test.unit}", place + 1
    records = [r for values in sweep.values() for group in values.values() for r in group]
    label, score = load.name_field(field), primary.name
    title = f"{score[:1].upper()}{score[1:]} and loss at {where}, by {label}"
    key = [*line_styles.values()]
    figure, axes = style.make_figure(title, records, key, n_columns=2, note=style.MARKS)
    values = sorted({value for own in sweep.values() for value in own})
    for ax, metric in zip(axes[0], (test.primary_metric, "nats"), strict=True):
        for model, line_style in line_styles.items():
            style.draw_line(ax, line_style, {
                value: load.score_array(group, test.name, metric)[:, part]
                for value, group in sweep[model].items()
            })  # fmt: skip
        if values[0] > 0 and values[-1] >= 8 * values[0]:
            ax.set_xscale("log")
            ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xticks(values, [load.format_short(value) for value in values])
        ax.set_xlabel(label)
    axes[0, 0].set_title(f"{score}{load.format_search(test)}")
    axes[0, 1].set_title("Nats per token, teacher-forced, log scale")
    if primary.is_percent:
        axes[0, 0].set_ylim(0, 100)
    style.set_log(axes[0, 1], "y", load.format_short)
    return figure

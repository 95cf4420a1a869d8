"""Draw when models learn a task that is learned suddenly or not at all. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from seqmodels.report import layout, reading, style, wording
from seqmodels.report.findings import label_of
from seqmodels.report.reading import Record

LEARNED = 95.0
"""Validation accuracy (%) from which a task counts as learned."""


def is_drawn(records: Sequence[Record]) -> bool:
    """Return whether the first test has a baseline, the score without the ability it measures."""
    return any(r["tests"][0].get("baseline") for r in records)


def steps_to(r: Record, accuracy: float = LEARNED) -> int | None:
    """Return the first validated step with this validation accuracy (%); None if there is none."""
    return next((p["step"] for p in r["curve"] if p["valid_accuracy"] >= accuracy), None)


def draw_transition(records: Sequence[Record]) -> Figure:
    """Draw validation accuracy against steps, and the step at which each seed has learned."""
    groups = reading.by_model(records)
    caption = (
        "Each line and each marker is one seed; teacher-forced accuracy on the validation split. "
        f"Right: the first validation with {LEARNED:g} %; hollow, at the right edge: never."
    )
    topic, subtitle = f"Steps until {LEARNED:g} % are right", wording.subtitle(records)
    title = finding(groups)
    texts = title or topic, f"{topic}\n{subtitle}" if title else subtitle, caption
    figure, axes = layout.panels(texts, layout.key_of(records), (6,), 0.45)
    _draw_curves(axes[0, 0], groups)
    _draw_steps(axes[0, 1], groups)
    for ax in axes[0]:
        ax.set_xlabel("training steps")
        ax.xaxis.set_major_locator(MaxNLocator(5))
        ax.xaxis.set_major_formatter(FuncFormatter(wording.short))
    return figure


def finding(groups: Mapping[str, Sequence[Record]]) -> str:
    """Return a title: which models learned on every seed and when, and which on none."""
    steps = {model: [steps_to(r) for r in group] for model, group in groups.items()}
    clauses = [
        f"{label_of(model)} after {median(found):,.0f}"
        for model, seeds in steps.items()
        if len(found := [n for n in seeds if n is not None]) == len(seeds)
    ]
    never = [label_of(model) for model, seeds in steps.items() if not any(seeds)]
    if not clauses:
        return ""
    learned = f"Learned: {', '.join(clauses)} steps"
    return f"{learned}; never: {', '.join(never)}" if never else learned


def _draw_curves(ax: Axes, groups: Mapping[str, Sequence[Record]]) -> None:
    """Draw one learning curve per seed."""
    for model, look in style.looks(groups).items():
        for r in groups[model]:
            x, y = ([p[key] for p in r["curve"]] for key in ("step", "valid_accuracy"))
            ax.plot(x, y, color=look.colour, ls=look.dashes, lw=1.4, clip_on=False)
    ax.set_title("Validation accuracy (%)", loc="left", size=10.5)
    ax.set_xlim(0)
    ax.set_ylim(0, 100)
    ax.axhline(LEARNED, color=style.GREY, lw=0.8, ls=":")


def _draw_steps(ax: Axes, groups: Mapping[str, Sequence[Record]]) -> None:
    """Draw one row per model, with a marker per seed."""
    last = max(r["curve"][-1]["step"] for group in groups.values() for r in group)
    ends = []
    for row, (model, look) in enumerate(style.looks(groups).items()):
        for i, r in enumerate(groups[model]):
            step = steps_to(r)
            fill = "white" if step is None else look.colour
            x, y = last if step is None else step, 0.18 * ((len(groups[model]) - 1) / 2 - i) - row
            ax.plot([x], [y], look.marker, color=look.colour, mfc=fill, ms=6, clip_on=False)
        ends.append((last, -row, layout.in_rows(look.label), look.colour))
    ax.set_title(f"Steps until {LEARNED:g} %", loc="left", size=10.5)
    ax.set_xlim(0, last)
    ax.set_ylim(-len(groups) + 0.5, 0.5)
    ax.set_yticks([])
    ax.grid(True, axis="x")
    layout.label_ends(ax, ends)

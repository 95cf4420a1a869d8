"""Draw which component limits long sentences: the latent, words by place, prefixes.

A figure is drawn of the records that hold what it shows. No torch.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from seqmodels.models import model_of, paper_of
from seqmodels.records.schema import Record
from seqmodels.report import load, style
from seqmodels.report.load import format_bucket, format_short, rows_of
from seqmodels.report.style import PANEL, LineStyle

from ..figures import CONTROL, average
from . import FRESH

Group = Sequence[Record]
"""The seeds of a model."""
LENGTH, BEST, ATTENDING = "length", "best_state", "bahdanau"
"""The test set by length, that from optimised States, and the model with attention."""
LOOKS = {
    "encoder": LineStyle("encoder's vector → its decoder", "#C98200", (0, (4, 1.6)), "s"),
    BEST: LineStyle("optimised on the reference → same", "#B02A1E", "-", "D"),
    FRESH: LineStyle("encoder's vector → fresh decoder", "#6A3D9A", (0, (1, 1)), "^"),
    ATTENDING: LineStyle("Bahdanau, with attention", "#1B75BC", "-", "o"),
}


def draw(records: Group) -> dict[str, Figure]:
    """Return the figures of a folder by the names of their files."""
    figures = {}
    if optimised := [r for r in records if r.analyses.get(BEST)]:
        groups = sorted(load.group_by_model(optimised).values(), key=lambda g: (
            load.order_of(g[0])[0], g[0].size("d_model"), g[0].train_config.tokens,
        ))  # fmt: skip
        first = groups[0][0]
        changed = ATTENDING + first.model.removeprefix(model_of(first.base))
        attending = [r for r in records if r.model == ATTENDING]  # or with the same changes
        attending = attending or [r for r in records if r.model == changed]
        fresh = [r for r in records if r.base == FRESH]
        figures["best-state"] = draw_by_length(groups, attending, fresh)
        unchanged = next((g for g in groups if not g[0].arm), groups[0])
        if unchanged[0].analyses.get("places"):
            figures["best-state-bits"] = draw_bits(unchanged)
    if measured := [r for r in records if r.analyses.get("prefixes")]:
        figures["prefixes"] = draw_prefixes(measured)
    return figures


FIGURES = [draw]


def name_group(group: Group) -> str:
    """Return the model of a group, and the numbers of its vector."""
    first = group[0]
    label = paper_of(model_of(first.base)).label.split()[0]
    numbers = rows_of(first, BEST)[0]["numbers"]
    return f"{label}, vector of {numbers} numbers"


def count_steps(group: Group) -> int:
    """Return the steps of gradient descent."""
    return max(row["steps"] for row in rows_of(group[0], BEST))


def draw_by_length(groups: Sequence[Group], attending: Group, fresh: Group) -> Figure:
    """Draw BLEU by length from the encoder's State, from the optimised one, and with attention.

    If a folder has them, also of fresh decoders that were trained for the encoder with its budget.
    """
    figure, axes = style.make_figure(
        "Which component limits long sentences?",
        [*(r for group in groups for r in group), *fresh],
        [look for line, look in LOOKS.items() if fresh or line != FRESH],
        [PANEL] * -(-len(groups) // 2),
        min(2, len(groups)),
        style.MARKS,
    )
    test = load.tests_by_name(groups[0])[LENGTH]
    names = [*map(format_bucket, test.buckets)]
    for ax, group in zip(axes.flat, groups, strict=False):
        greedy = "greedy" if group[0].test("greedy") else LENGTH
        lines = {"encoder": (group, greedy), BEST: (group, BEST)}
        tokens, width = group[0].train_config.tokens, group[0].size("d_model")
        same = tokens, width, width
        its_own = [
            r for r in fresh
            if (r.train_config.tokens, r.size("d_vector"), r.size("d_model")) == same
        ]  # fmt: skip
        lines |= {FRESH: (its_own, LENGTH)} if its_own else {}
        lines |= {ATTENDING: (attending, greedy)} if attending else {}
        for line, (own, test_name) in lines.items():
            scores = load.score_array(own, test_name, "bleu")[:, 1:].swapaxes(0, 1)
            n = [bucket.n for bucket in load.tests_by_name(own)[test_name].buckets]
            style.draw_line(ax, LOOKS[line], dict(enumerate(scores)), n)
        style.mark_trained(ax, test)
        ax.set_title(f"{name_group(group)}\n{format_short(tokens)} tokens", size=8.5)
        ax.set(ylim=(0, 104), ylabel="BLEU", xlabel=test.axis)
        ax.set_xticks(range(0, len(names), 2), names[::2])
    return figure


def draw_bits(group: Group) -> Figure:
    """Draw BLEU by bits of a number, and the share of words kept by their place."""
    test = load.tests_by_name(group)[LENGTH]
    longest = test.buckets[load.longest_trained_bucket(test) or -1]
    words, low = format_bucket(longest), longest.low
    figure, ((left, right),) = style.make_figure(
        f"What an optimised State keeps at {words} words",
        group,
        [LOOKS["encoder"], LOOKS[BEST]],
        n_columns=2,
        note=name_group(group),
    )
    bits = sorted({row["bits"] for row in rows_of(group[0], BEST) if "bits" in row})
    for line, steps in {"encoder": 0, BEST: count_steps(group)}.items():
        scores = [average(group, BEST, "bleu", steps=steps, bits=b, low=low)[0, 0] for b in bits]
        places, shares = average(group, "places", "place", "share", steps=steps, low=low)
        look = LOOKS[line]
        for ax, x, y in ((left, bits, scores), (right, places, shares)):
            ax.plot(x, y, **look.line)
    left.set(title="BLEU of rounded numbers", xlabel="bits a number", ylim=(0, 104))
    right.set(title="Content words kept (%)", xlabel="fifth of the source", ylim=(0, 104),
              xticks=places)  # fmt: skip
    return figure


def draw_prefixes(records: Group) -> Figure:
    """Draw the share of content words that the output keeps, by words read."""
    groups, of = load.group_by_model(records), {"cut": "anywhere", "kept": "content words"}
    looks = style.line_styles_for(groups)
    figure, ((ax,),) = style.make_figure(
        "Content words kept of the first words of a sentence (%)",
        records,
        [*looks.values(), CONTROL._replace(label="output for another sentence")],
    )
    for model, look in looks.items():
        columns = average(groups[model], "prefixes", "words", "share_value", "chance", **of)
        words, share, chance = columns
        ax.plot(words, chance, **CONTROL.line, lw=0.9, zorder=1)
        ax.plot(words, share, **look.line)
    ax.set(xlabel="words read", xlim=(0, None), ylim=(0, 103))
    return figure

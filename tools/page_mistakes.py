"""The numbers, texts and tables of tasks/mistakes/README.md."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from seqmodels.models import VARIANTS
from seqmodels.report.tables import format_markdown
from tools.numbers import (
    GPT,
    TRANSFORMER,
    Results,
    bold_interval,
    interval,
    label_of,
    lowest_loss,
    span,
)

MISTAKES = Results("mistakes")
ABLATIONS = ("transformer_unscaled", "transformer_unnormalised")
SOURCE_LOSS = f"{GPT}-source_loss-1.0"
LISTED = [name for name, info in VARIANTS.items() if info.group == "mistaken" or name in ABLATIONS]
"""The Transformer's mistakes, in the order of the table of variants."""
N_WORDS = 20
"""Words of a text that are shown."""


def final_losses(model: str) -> list[float]:
    """Return the lowest loss on valid of each seed, in nats per token."""
    return [lowest_loss(record) for record in MISTAKES.records(model)]


def is_apart(values: Sequence[float], others: Sequence[float]) -> bool:
    """Return whether all values are above all others, or all are below."""
    return min(values) > max(others) or max(values) < min(others)


def mean_loss(model: str, way: str) -> float:
    """Return the mean over the seeds of the loss in one of the ways to compute it."""
    return mean(row["nats"] for row in MISTAKES.rows(model, "losses", way=way))


def describe(model: str, sound: str = TRANSFORMER) -> str:
    """Format the scores with a mistake and without it, and whether they differ."""
    own, others = final_losses(model), final_losses(sound)
    verdict = "the two do not overlap" if is_apart(own, others) else "the two overlap"
    effect = MISTAKES.difference(model, sound)
    significant = "significant" if effect.is_significant else "not significant"
    at_once, by_steps, padded = (mean_loss(model, w) for w in ("at once", "by steps", "padded"))
    return (
        f"Loss on valid {span(own, 3)} nats per token, without the mistake {span(others, 3)}: "
        f"{verdict}. BLEU {MISTAKES.mean(model):.1f}, without it {MISTAKES.mean(sound):.1f}: "
        f"{interval(effect)}, {significant}. The loss of the same words at once is {at_once:.2f}, "
        f"by steps {by_steps:.2f}, with more pads {padded:.2f}. "
        f"What the first seed writes: *{written_text(model)}*"
    )


def written_text(model: str) -> str:
    """Return what the first seed writes for the sentence that is shown, or its first words."""
    words = str(MISTAKES.rows(model, "texts")[0]["text"]).split(" ")
    return " ".join([*words[:N_WORDS], *["…"] * (len(words) > N_WORDS)]) or "(nothing)"


def shown_sentence() -> str:
    """Format the sentence that is shown: its source, its reference and the sound translation."""
    row = MISTAKES.rows(TRANSFORMER, "texts")[0]
    return (
        f"The sentence is *{row['source']}* Its reference is *{row['reference']}* "
        f"The sound model of the first seed writes: *{written_text(TRANSFORMER)}*"
    )


def mistake_table() -> str:
    """Return losses and BLEU with each mistake, and the difference that it makes."""
    rows = [["", "loss on valid", "apart", "by steps", "more pads", "BLEU", "difference"]]
    for model in (TRANSFORMER, *LISTED):
        losses = final_losses(model)
        is_sound = model == TRANSFORMER
        rows.append([
            label_of(model).removeprefix("Transformer, "),
            span(losses, 3),
            "" if is_sound else "yes" if is_apart(losses, final_losses(TRANSFORMER)) else "no",
            *(f"{mean_loss(model, way):.3f}" for way in ("by steps", "padded")),
            f"{MISTAKES.mean(model):.1f}",
            "" if is_sound else bold_interval(MISTAKES.difference(model, TRANSFORMER)),
        ])  # fmt: skip
    return format_markdown(rows)

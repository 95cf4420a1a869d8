"""Findings on the papers' own experiments, which test_claims.py checks with the others."""

from __future__ import annotations

from statistics import mean
from typing import Any

from claims import ATTENDING, MODELS, ONE_VECTOR, about, cells, join, labels, numbers, records

from seqmodels.report import distance, places

HEADS = "heads-laptop"


def heads(analysis: str, **named: Any) -> list[dict[str, Any]]:
    """Return the rows of an analysis of heads with these values."""
    (record,) = records(HEADS, "transformer")
    rows = record["analyses"][analysis]
    return [row for row in rows if all(row.get(key) == named[key] for key in named)]


@about(HEADS)
def heads_align() -> str:
    """Say how well the heads over the source align words, and in which row."""
    written = {
        row["head"]: row["aer_written"] for row in heads("heads", attention="source", layer=2)
    }
    read = [row["aer_read"] for row in heads("heads", attention="source")]
    alone = [error for head, error in written.items() if head]
    assert written[0] < min(alone)
    return (
        f"In the last layer, the mean of the heads aligns words with an error rate of "
        f"{written[0]:.1f} %, each head alone with {min(alone):.1f} to {max(alone):.1f} %, where "
        f"a word is written; where it is read, the error rate is at least {min(read):.0f} %."
    )


@about(HEADS)
def heads_removed() -> str:
    """Say what the model loses without one head, and without all that attend to the source."""
    (whole,) = (row["nats"] for row in heads("ablation", removed=0))
    one = [row["nats"] - whole for row in heads("ablation", removed=1)]
    source = [row["nats"] - whole for row in heads("ablation", removed=4, attention="source")]
    assert len(one) == 24
    return (
        f"Without one head the loss grows by {min(one):.3f} to {max(one):.3f} nats per token, "
        f"without all attention of a layer to the source by {min(source):.1f} to "
        f"{max(source):.1f}."
    )


@about(HEADS)
def few_heads_can_go() -> str:
    """Say how many heads can go for a small loss: a negative result."""
    steps = sorted(heads("pruning"), key=lambda row: row["removed"])
    free = max(row["removed"] for row in steps if row["nats"] <= steps[0]["nats"] + 0.05)
    assert free < 6
    return (
        f"Hardly any head is dispensable: the cheapest first, {free} of the 24 can go for 0.05 "
        "nats."
    )


@about(HEADS)
def where_parameters_are() -> str:
    """Say which share of the parameters is where."""
    n = {row["part"]: row["n"] for row in heads("parameters")}
    share = {part: 100 * n[part] / sum(n.values()) for part in n}
    return (
        f"Attention holds {share['attention']:.0f} % of the parameters, the feed-forward networks "
        f"{share['feed-forward']:.0f} %."
    )


DISTANCE, LONGEST = "distance-laptop", 24
LATER = "linear_attention"


def run(model: str) -> dict[str, Any]:
    """Return the one record of a model on symbols said twice."""
    (record,) = records(DISTANCE, model)
    return record


def probed(model: str) -> dict[int, float]:
    """Return how often a probe reads the symbol so many places back (%)."""
    return {row["back"]: row["accuracy"] for row in distance.rows_of(run(model), "probe")}


@about(DISTANCE)
def gradients_at_the_start() -> str:
    """Say how much smaller the gradient is far back before training."""
    fall = {m: distance.fall(run(m), "before") for m in (*MODELS, LATER)}
    flat = [fall[m] for m in (*ATTENDING, LATER)]
    assert max(flat) < 2 < 40 < min(fall[m] for m in ONE_VECTOR)
    return (
        "Before training, the gradient of the loss is smaller at 23 tokens than at 1 by a factor "
        f"of {numbers(ONE_VECTOR, fall)} for {labels(ONE_VECTOR)}, of {min(flat):.1f} to "
        f"{max(flat):.1f} for all that attend."
    )


@about(DISTANCE)
def gradients_after_training() -> str:
    """Say where it is largest after training."""
    place = {}
    for model in (*MODELS, LATER):
        rows = distance.rows_of(run(model), "gradients", when="after")
        place[model] = max(rows, key=lambda row: row["median"])["distance"]
    assert all(place[m] == LONGEST for m in (*ATTENDING, LATER))
    assert all(place[m] == 2 * LONGEST - 1 for m in ONE_VECTOR)
    return (
        "After it, all that attend have the largest gradient at the symbol to be copied, 24 "
        "back; the two with one vector at the first symbol of the text."
    )


@about(DISTANCE)
def what_a_probe_reads() -> str:
    """Say what is left of the source at its last place."""
    first = {m: probed(m)[LONGEST] for m in MODELS}
    middle = {m: probed(m)[LONGEST // 2] for m in MODELS}
    ends = {m: mean(probed(m).values()) for m in (*MODELS, LATER)}
    control = [row["control"] for m in ends for row in distance.rows_of(run(m), "probe")]
    assert min(first[m] for m in ONE_VECTOR) > 95 > 25 > max(middle.values())
    assert ends[LATER] > 2 * max(ends[m] for m in MODELS)
    return (
        "Of what passes to the decoder at the last place, all of it if its size is fixed, a linear "
        f"probe reads the first of 24 symbols from {labels(ONE_VECTOR)} in "
        f"{numbers(ONE_VECTOR, first)} %, a middle one in {numbers(ONE_VECTOR, middle)} % (other "
        f"labels: at most {max(control):.0f} %): what is "
        f"written first is kept best. From linear attention it reads {ends[LATER]:.0f} % of all "
        f"symbols, from the five at most {max(ends[m] for m in MODELS):.0f} %."
    )


LADDER, LSTM = "ladder-laptop", "lstm_seq2seq"
SCORES = ("dot", "general", "additive")


def at_longest(model: str) -> dict[str, float]:
    """Return a model's BLEU, with its interval, at 16 to 20 words."""
    (cell,) = cells(LADDER, model, "length", 16)
    return cell["bleu"]


def with_interval(cell: dict[str, float]) -> str:
    """Write a score with its interval."""
    return f"{cell['value']:.1f} [{cell['low']:.1f}, {cell['high']:.1f}]"


@about(LADDER)
def rung_by_rung() -> str:
    """Say what each step gains at the longest trained length."""
    forward, backward, last = map(at_longest, (f"{LSTM}_forward", LSTM, f"{LSTM}_last"))
    attending = [at_longest(f"{LSTM}_{kind}")["value"] for kind in SCORES]
    assert forward["value"] < backward["value"] < last["value"] < min(attending) / 3
    assert last["low"] > backward["high"]
    return (
        f"At 16–20 words, the longest trained, an LSTM has {with_interval(forward)} BLEU reading "
        f"the source forwards, {with_interval(backward)} reading it backwards, and "
        f"{with_interval(last)} if every step is given the last vector; with attention, it has "
        f"{join([f'{value:.1f}' for value in attending])} (dot, general, additive)."
    )


@about(LADDER)
def feeding_does_not_help() -> str:
    """Say what input feeding changes: a negative result."""
    gains = [
        at_longest(f"{LSTM}_{kind}_fed")["value"] - at_longest(f"{LSTM}_{kind}")["value"]
        for kind in ("last", *SCORES)
    ]
    assert max(gains) < 0
    written = join([f"{gain:.1f}".replace("-", "−") for gain in gains])
    return f"Input feeding does not help here: {written} BLEU with the last vector and these three."


@about(LADDER)
def where_reversal_helps() -> str:
    """Say in which part of the target reading backwards helps."""
    sides = {m: records(LADDER, m) for m in (LSTM, f"{LSTM}_forward")}
    gained = places.gains(sides)
    assert gained is not None
    value, low, high = gained[:, [0, -1]]
    assert value[0] < value[1]
    first, final = (
        f"{v:+.1f} [{a:+.1f}, {b:+.1f}]".replace("-", "−")
        for v, a, b in zip(value, low, high, strict=True)
    )
    return (
        f"Reading backwards gains {first} points of next-word accuracy in the first quarter of "
        f"the target and {final} in the last: not the beginning alone."
    )

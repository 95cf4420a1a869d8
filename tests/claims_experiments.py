"""Findings on the papers' own experiments, which test_claims.py checks with the others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from statistics import mean
from typing import Any

from claims import (
    ATTENDING,
    MODELS,
    ONE_VECTOR,
    about,
    each,
    falls,
    gain,
    join,
    labels,
    numbers,
    records,
    score,
)

from seqmodels.evaluation.significance import Difference
from tasks.bottleneck import figure as bottleneck
from tasks.distance import figure as distance
from tasks.ladder import figure as places

HEADS = "heads"


def fall(run: dict[str, Any], when: str) -> float:
    """Return how many times smaller the median gradient is one source length back than one token.

    It is measured one token before that distance, since the token that is copied is there.
    """
    rows = distance.rows_of(run, "gradients", when=when)
    medians = {row["distance"]: row["median"] for row in rows}
    return float(medians[1] / medians[distance.n_source(run) - 1])


def with_interval(found: dict[str, float] | Difference) -> str:
    """Write a score, or a difference, with its interval."""
    cell = found.model_dump() if isinstance(found, Difference) else found
    written = f"{cell['value']:.1f} [{cell['low']:.1f}, {cell['high']:.1f}]"
    return written.replace("-0.0", "0.0").replace("-", "−")


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Write the lowest and the highest of the seeds' values."""
    low, high = (f"{end(values):.{digits}f}" for end in (min, max))
    return low if low == high else f"{low} to {high}"


def heads(analysis: str, **named: Any) -> list[dict[str, Any]]:
    """Return the rows of an analysis of heads with these values, of every seed."""
    rows = [row for run in records(HEADS, "transformer") for row in run["analyses"][analysis]]
    return [row for row in rows if all(row.get(key) == named[key] for key in named)]


@about(HEADS)
def heads_align() -> str:
    """Say how well the heads over the source align words, and in which row."""
    last = heads("heads", attention="source", layer=2)
    together = [row["aer_written"] for row in last if not row["head"]]
    alone = [row["aer_written"] for row in last if row["head"]]
    best = [min(alone[i : i + 4]) for i in range(0, len(alone), 4)]
    read = [row["aer_read"] for row in heads("heads", attention="source")]
    assert len(best) == len(together) == len(records(HEADS, "transformer"))
    assert max(best) < min(together)
    return (
        f"In the last layer, the best head aligns words with an error rate of {spread(best)} %, "
        f"the mean of the heads with {spread(together)} %, where a word is written; where it is "
        f"read, the error rate is at least {min(read):.0f} %."
    )


@about(HEADS)
def heads_removed() -> str:
    """Say what the model loses without one head, and without all that attend to the source."""
    one, source = [], []
    for run in records(HEADS, "transformer"):
        rows = run["analyses"]["ablation"]
        (whole,) = (row["nats"] for row in rows if not row["removed"])
        one += [row["nats"] - whole for row in rows if row["removed"] == 1]
        source += [
            row["nats"] - whole
            for row in rows
            if row["removed"] == 4 and row["attention"] == "source"
        ]
    assert len(one) == 24 * len(records(HEADS, "transformer"))
    return (
        f"Without one head the loss grows by {min(one):.3f} to {max(one):.3f} nats per token, "
        f"without all attention of a layer to the source by {min(source):.1f} to "
        f"{max(source):.1f}."
    )


@about(HEADS)
def few_heads_can_go() -> str:
    """Say how many heads can go for a small loss: a negative result."""
    free = []
    for run in records(HEADS, "transformer"):
        steps = sorted(run["analyses"]["pruning"], key=lambda row: row["removed"])
        small = [row["removed"] for row in steps if row["nats"] <= steps[0]["nats"] + 0.05]
        free.append(max(small))
    assert max(free) < 6
    return (
        "Hardly any head is dispensable: the cheapest first, "
        f"{spread(free, 0)} of the 24 can go for 0.05 nats."
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


DISTANCE, LONGEST = "distance", 24
LATER = "linear_attention"


def probed(model: str) -> dict[int, float]:
    """Return how often a probe reads the symbol so many places back (%), the mean of the seeds."""
    found: dict[int, list[float]] = {}
    for run in records(DISTANCE, model):
        for row in distance.rows_of(run, "probe"):
            found.setdefault(row["back"], []).append(row["accuracy"])
    return {back: mean(values) for back, values in found.items()}


@about(DISTANCE)
def gradients_at_the_start() -> str:
    """Say how much smaller the gradient is far back before training."""
    factors = {m: [fall(run, "before") for run in records(DISTANCE, m)] for m in (*MODELS, LATER)}
    flat = [fall for m in (*ATTENDING, LATER) for fall in factors[m]]
    assert max(flat) < 2 < 40 < min(fall for m in ONE_VECTOR for fall in factors[m])
    return (
        "Before training, the gradient of the loss is smaller at 23 tokens than at 1 by a factor "
        f"of {join([spread(factors[m], 0) for m in ONE_VECTOR])} for {labels(ONE_VECTOR)}, of "
        f"{spread(flat)} for all that attend."
    )


@about(DISTANCE)
def gradients_after_training() -> str:
    """Say where it is largest after training."""
    for model in (*MODELS, LATER):
        for run in records(DISTANCE, model):
            rows = distance.rows_of(run, "gradients", when="after")
            assert max(rows, key=lambda row: row["median"])["distance"] == LONGEST
    return "After it, all six have the largest gradient at the symbol to be copied, 24 back."


@about(DISTANCE)
def what_a_probe_reads() -> str:
    """Say what is left of the source at its last place."""
    first = {m: probed(m)[LONGEST] for m in ONE_VECTOR}
    middle = {m: probed(m)[LONGEST // 2] for m in ONE_VECTOR}
    ends = {m: mean(probed(m).values()) for m in (*MODELS, LATER)}
    control = [
        row["control"]
        for m in ends
        for run in records(DISTANCE, m)
        for row in distance.rows_of(run, "probe")
    ]
    assert min(first.values()) > 95 > 2 * max(middle.values())
    assert min(middle.values()) > 2 * max(control)
    return (
        "Of what passes to the decoder at the last place, all of it if its size is fixed, a linear "
        f"probe reads the first of 24 symbols from {labels(ONE_VECTOR)} in "
        f"{numbers(ONE_VECTOR, first)} %, a middle one in {numbers(ONE_VECTOR, middle)} % (other "
        f"labels: at most {max(control):.0f} %): what is "
        f"written first is kept best. From linear attention it reads {ends[LATER]:.0f} % of all "
        f"symbols, from the five at most {max(ends[m] for m in MODELS):.0f} %."
    )


LADDER, LSTM = "ladder", "lstm_seq2seq"
SCORES = ("dot", "general", "additive")


def at_longest(kind: str) -> float:
    """Return the BLEU of a rung at 16 to 20 words."""
    return score(LADDER, f"{LSTM}{kind}", "length", "bleu", 16)


def climbed(kind: str, before: str) -> Difference:
    """Return the BLEU that one rung gains over another at 16 to 20 words."""
    return gain(LADDER, f"{LSTM}{kind}", f"{LSTM}{before}", "length", 16)


@about(LADDER)
def rung_by_rung() -> str:
    """Say what each step gains at the longest trained length."""
    forward, backward, last = map(at_longest, ("_forward", "", "_last"))
    attending = [at_longest(f"_{kind}") for kind in SCORES]
    vector = climbed("_last", "")
    attention = [climbed(f"_{kind}", "_last") for kind in SCORES]
    assert all(found.is_significant for found in (vector, *attention))
    return (
        f"At 16–20 words, the longest trained, an LSTM has {forward:.1f} BLEU reading the source "
        f"forwards, {backward:.1f} reading it backwards, {last:.1f} if every step is given the "
        f"last vector, and {join([f'{bleu:.1f}' for bleu in attending])} with attention (dot, "
        f"general, additive). The last vector gains {with_interval(vector)}, attention "
        f"{join([with_interval(found) for found in attention])} more; all are significant."
    )


@about(LADDER)
def reversal_does_not_help() -> str:
    """Say what reading backwards gains, and in which part of the target: a negative result."""
    gained = climbed("", "_forward")
    assert gained.low is not None
    assert gained.high is not None
    assert gained.low < 0 < gained.high
    by_place = places.gains({m: records(LADDER, m) for m in (LSTM, f"{LSTM}_forward")})
    assert by_place is not None
    first, final = (
        with_interval(dict(zip(("value", "low", "high"), by_place[:, i], strict=True)))
        for i in (0, -1)
    )
    return (
        f"Reading backwards gains nothing here: {with_interval(gained)} BLEU, and {first} points "
        f"of next-word accuracy in the first quarter of the target, {final} in the last."
    )


@about(LADDER)
def feeding_does_not_help() -> str:
    """Say what input feeding changes: a negative result."""
    vector, *attending = (climbed(f"_{kind}_fed", f"_{kind}") for kind in ("last", *SCORES))
    assert vector.is_significant
    assert vector.value < 0
    assert not any(found.is_significant for found in attending)
    return (
        f"Nor does input feeding help: {with_interval(vector)} BLEU with the last vector, a "
        f"significant loss, and {join([with_interval(found) for found in attending])} with "
        "attention, none of which is significant."
    )


BOTTLENECK, SYMBOLS = "bottleneck", 48


def bits(model: str) -> list[float]:
    """Return the bits that each seed of a model carries of the longest texts."""
    found = records(BOTTLENECK, model)
    assert bottleneck.lengths(found)[-1] == SYMBOLS
    return list(bottleneck.bits({model: found})[model][:, -1, 0])


@about(BOTTLENECK)
def bits_by_width() -> str:
    """Say what one vector carries, and what twice as many numbers add."""
    widths = (32, 64, 128, 256, 512)
    most = bottleneck.plateaus(
        {name: records(BOTTLENECK, name) for name in (f"rnn_encdec_{d}" for d in widths)}
    )
    carried = [most[d].mean() for d in widths]
    more = [b - a for a, b in pairwise(carried)]
    assert more == sorted(more, reverse=True)
    fell = falls(BOTTLENECK, [f"rnn_encdec_{d}" for d in widths])
    return (
        f"One vector of {join([str(d) for d in widths])} numbers carries "
        f"{join([f'{bits:.0f}' for bits in carried])} bits, {carried[0] / widths[0]:.1f} to "
        f"{carried[-1] / widths[-1]:.2f} a number. In the last tenth of the budget the loss still "
        f"fell by {fell}: wide vectors may hold more than they "
        "learned to."
    )


@about(BOTTLENECK)
def bits_by_vectors() -> str:
    """Say what several vectors carry: one, pooled, carries more than a last state of its size."""
    pooled = {k: bits(f"bahdanau_{k}") for k in (1, 2, 4, 8, 16)}
    whole, equal, wide = (bits(m) for m in ("bahdanau", "rnn_encdec_128", "rnn_encdec_512"))
    several = join([f"{mean(found):.0f}" for found in pooled.values()])
    assert min(pooled[1]) > max(equal) + 10
    assert min(pooled[1]) < max(wide)
    assert min(wide) < max(pooled[1])
    return (
        f"Of the {6 * SYMBOLS} bits of {SYMBOLS} symbols, Bahdanau's annotations carry "
        f"{mean(whole):.0f}; pooled into 1, 2, 4, 8 and 16 vectors, they carry {several}, with 16 "
        f"from seed to seed {spread(pooled[16], 0)}. Even one of these, of 128 numbers, carries "
        f"more than a last state of as many, {spread(pooled[1], 0)} against {spread(equal, 0)} "
        f"bits from seed to seed, and as much as one of 512, {spread(wide, 0)}."
    )


POSITIONS, KINDS = "positions", ("sinusoids", "learned", "rotary")


def by_length(kind: str, low: int) -> list[float]:
    """Return every seed's BLEU with a kind of positions, for sentences from `low` words."""
    return each(POSITIONS, f"transformer_{kind}", "length", "bleu", low)


def over(one: str, other: str, low: int) -> Difference:
    """Return how much more BLEU one kind of positions has than another, from `low` words."""
    return gain(POSITIONS, f"transformer_{one}", f"transformer_{other}", "length", low)


@about(POSITIONS)
def positions_within() -> str:
    """Say what positions give within the trained lengths."""
    trained = {kind: mean(by_length(kind, 16)) for kind in (*KINDS, "none")}
    assert all(over(kind, "none", 16).is_significant for kind in KINDS)
    *known, none = (f"{bleu:.1f}" for bleu in trained.values())
    return (
        "At 16–20 words, the longest trained, sinusoids, learned and rotary positions have "
        f"{join(known)} BLEU, and a Transformer without positions {none}."
    )


@about(POSITIONS)
def positions_beyond() -> str:
    """Say how positions carry over: rotary ones a little further, and none far."""
    near = [over("rotary", kind, 21) for kind in ("sinusoids", "learned")]
    assert [found.is_significant for found in near] == [True, False]
    first, second = map(with_interval, near)
    assert not any(over(*pair, 56).is_significant for pair in combinations(KINDS, 2))
    far = [by_length(kind, 56) for kind in KINDS]
    return (
        f"At 21–25 words rotary positions have {mean(by_length('rotary', 21)):.1f}, {first} more "
        f"than sinusoids, a significant difference, and {second} more than learned positions, "
        "which is not significant once corrected. At 56–60 words these three have "
        f"{join([f'{mean(bleu):.1f}' for bleu in far])}, from seed to seed "
        f"{join([spread(bleu, 0) for bleu in far])}; no difference between them is significant, "
        "although learned positions beyond 20 words are untrained."
    )

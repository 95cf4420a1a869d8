"""The numbers and tables of tasks/words/README.md.

Each function named `confirm_…` raises an error where the records no longer support a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from tools.numbers import (
    BAHDANAU,
    GPT,
    LINEAR,
    LSTM,
    RNN,
    SIX,
    TRANSFORMER,
    Results,
    label_of,
    span,
    table,
)

WORDS = Results("words")
CHANCE = (("gender", 33.3), ("case", 33.3), ("number", 50.0), ("role", 33.3))
AGES = ("1", "2", "3–4", "5–8", "9 or more")


def value(model: str, analysis: str, column: str, **columns: Any) -> Any:
    """Return the value of a column in the only row of an analysis that has these values."""
    (only,) = WORDS.values(model, analysis, column, **columns)
    return only


def values(analysis: str, column: str, models: Sequence[str] = SIX, **columns: Any) -> list[Any]:
    """Return the value of each model."""
    return [value(model, analysis, column, **columns) for model in models]


def last_layer(model: str) -> int:
    """Return the number of the last layer in which words are probed."""
    return max(WORDS.values(model, "probes", "layer"))


def probe(model: str, name: str, layer: int | None = None, column: str = "score") -> float:
    """Return what a probe reads from "the" in a layer; by default, in the last one."""
    layer = last_layer(model) if layer is None else layer
    return float(value(model, "probes", column, property=name, layer=layer))


def confirm_neighbours() -> None:
    """Confirm: gender in all models, meaning not in two; girl is nearer to car than to boy."""
    WORDS.confirm(SIX, tokens=5_000_000, parameters=1e6, seeds=1)
    assert max(values("neighbours", "p", layer=0, label="gender")) < 0.01
    p = dict(zip(SIX, values("neighbours", "p", layer=0, label="meaning"), strict=True))
    assert {model for model in SIX if p[model] > 0.05} == {RNN, LSTM}
    girl = {other: values("nearest", "cosine", other=other) for other in ("boy", "car", "horse")}
    assert all(b < c < h for b, c, h in zip(*girl.values(), strict=True))


def nearest_table() -> str:
    """Return the nearest nouns of some words by model, and the share of each kind."""
    rows = {}
    for model in SIX:
        gender, meaning, p = (
            value(model, "neighbours", column, layer=0, label=label)
            for label, column in (("gender", "same"), ("meaning", "same"), ("meaning", "p"))
        )
        shares = [f"{gender:.0f} %", f"{meaning:.0f} % ({p:.3f})"]
        words = [WORDS.rows(model, "nearest", word=w)[0]["nearest"] for w in ("girl", "dog")]
        rows[label_of(model)] = [*shares, *(w.replace(" ", ", ") for w in words)]
    return table(["", "same gender", "same meaning (p)", "nearest to girl", "to dog"], rows)


def confirm_probes() -> None:
    """Confirm: who has read the noun knows its gender, except for the Transformer's encoder."""
    assert min(probe(m, "gender") for m in (BAHDANAU, LSTM)) > 95
    others = (RNN, TRANSFORMER, GPT, LINEAR)
    assert max(probe(m, "gender") for m in others) < 45
    assert min(probe(m, "case") for m in SIX if m != LSTM) > 90
    assert head(TRANSFORMER, "attention") == "source"
    assert max(abs(probe(m, name, column="control") - c) for m in SIX for name, c in CHANCE) < 12


def neuron_table() -> str:
    """Return the AUC of the best neuron of each class, of all layers, and its control."""
    models = TRANSFORMER, GPT
    names = [name for m in models for name in WORDS.values(m, "neurons", "class")]
    rows: dict[str, list[str]] = {name: [] for name in names}
    for name, model in product(rows, models):
        best = max(WORDS.rows(model, "neurons", **{"class": name}), key=lambda r: r["auc"])
        rows[name] += [f"{best['auc']:.0f}", f"{best['control']:.0f}"]
    return table(["", *(f"{label_of(m)}{of}" for m in models for of in ("", ", shuffled"))], rows)


def head(model: str, column: str, when: str = "after") -> Any:
    """Return a column of the article's head."""
    return next(row[column] for row in WORDS.rows(model, "plane", when=when) if "share" in row)


def ranks(model: str, column: str = "rank") -> str:
    """Return the lowest and the highest effective rank of a model's heads."""
    return span(WORDS.values(model, "ranks", column))


def said_table() -> str:
    """Return what is read of words that were said, by the German words since, and its control."""
    rows: dict[str, list[str]] = {label_of(m): [] for m in SIX}
    for model, state in product(SIX, (*AGES, "before EOS")):
        own, control = (value(model, "said", c, state=state) for c in ("auc", "control"))
        rows[label_of(model)].append(f"{own:.0f} ({control:.0f})")
    return table(["", *AGES, "before EOS"], rows)


def confirm_stream() -> None:
    """Confirm: an attention of the Transformer and a feed-forward part of GPT are hardly needed."""
    first = value(TRANSFORMER, "stream", "changed", stack="encoder", layer=1, sublayer="attention")
    third = value(GPT, "stream", "changed", layer=3, sublayer="feed-forward")
    assert (first, third) == (0, 1)


def confirm_said() -> None:
    """Confirm: words that were said fade; where a decoder attends, down to the control."""
    for model in SIX:
        fading = [value(model, "said", "auc", state=age) for age in AGES[:4]]
        assert fading == sorted(fading, reverse=True)
    for model in (BAHDANAU, TRANSFORMER, GPT):
        own, control = (value(model, "said", c, state=AGES[-1]) for c in ("auc", "control"))
        assert abs(own - control) < 1.5
    ends = dict(zip(SIX, values("said", "auc", state="before EOS"), strict=True))
    assert min(ends, key=ends.__getitem__) == TRANSFORMER


def confirm_lengths() -> None:
    """Confirm: "very" does nothing to what the LSTM has read before, and lengthens GPT's vector."""
    assert {(row["ratio"], row["shift"]) for row in WORDS.rows(LSTM, "lengths")} == {(1, 0)}
    assert very(GPT, "ratio") > 1 > very(TRANSFORMER, "ratio")


def very(model: str, column: str) -> float:
    """Return how "very" changes an adjective's vector in the last layer."""
    return float(value(model, "lengths", column, word="very", layer=last_layer(model)))

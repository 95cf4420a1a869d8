"""Look-up: values are asked for by their keys, and they alone are scored."""

from __future__ import annotations

import argparse
import random
from collections import Counter
from dataclasses import replace

import pytest

from seqmodels import EOS, MODELS
from seqmodels.comparison import compare
from seqmodels.comparison.arm import model_sizes
from seqmodels.comparison.task import Task
from seqmodels.models import VARIANTS
from tasks.lookup import __main__ as lookup


def make_task(**given: object) -> Task:
    """Return the task at its smallest size."""
    return lookup.make_task(
        argparse.Namespace(**{"size": "smoke", "tokens": None, "width": None} | given)
    )


def test_earlier_runs_decide_the_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a folder of two precisions: flag, earlier runs and task decide in this order."""
    monkeypatch.setattr(compare, "fastest_precision", lambda device: "measured")
    own, free = make_task(), replace(make_task(), training={})
    earlier = ["bfloat16"]
    chosen = [
        compare.choose_precision(*given).training["precision"]
        for given in (
            (own, "flag", "cpu", earlier), (own, "auto", "cpu", earlier), (own, "auto", "cpu"),
            (free, "auto", "cpu"),
        )
    ]  # fmt: skip
    assert chosen == ["flag", "bfloat16", "float32", "measured"]


@pytest.mark.parametrize("n", [2, 5, 16])
def test_every_answer_is_in_the_source(n: int) -> None:
    """Keeps out a value of another key, a key or value that occurs twice, a fixed question."""
    rng, places = random.Random(n), Counter()
    for _ in range(200):
        for pair in (lookup.draw_pair(rng, n), lookup.draw_query(rng, n)):
            src, tgt = pair.src.split(), pair.tgt.split()
            values = dict(zip(src[0::2], src[1::2], strict=True))
            assert len(values) == len(set(values.values())) == n == lookup.n_pairs(pair)
            assert values.keys() <= set(lookup.KEYS)
            assert set(values.values()) <= set(lookup.VALUES)
            assert tgt[0::3] == tgt[1::3]
            assert [values[key] for key in tgt[0::3]] == tgt[2::3]
            assert len(set(tgt[0::3])) == len(tgt) // 3 in (1, n // 2, n)
            places[src.index(tgt[0]) // 2] += 1
    assert set(places) == set(range(n))


def test_half_or_all_keys_are_asked_for() -> None:
    """Keeps out training in which a model can strike out the values that it has already written."""
    rng = random.Random(1)
    asked = Counter(len(lookup.draw_pair(rng, 8).tgt.split()) // 3 for _ in range(1_000))
    assert asked.keys() == {4, 8}
    assert 400 < asked[4] < 600


def test_values_alone_are_scored() -> None:
    """Keeps out points for keys, which are given, and a test in which later values help."""
    task = make_task()
    (test,) = task.tests
    for example in (*task.train, *task.valid, *test.examples):
        assert task.tokenizer.tokens(example.scored()) == task.tokenizer.tokens(example.tgt)[2::3]
        assert example.src[-1] == EOS
    assert {len(e.tgt) for e in (*task.valid, *test.examples)} == {3}
    assert {len(e.src) for e in task.valid} == {2 * lookup.MAX_TRAIN + 1}
    assert max(len(e.src) for e in task.train) == task.data["n_tokens_source"]
    assert Counter(test.x) == dict.fromkeys(lookup.PAIRS, lookup.SIZES["smoke"]["per_number"])
    assert [len(e.src) for e in test.examples] == [2 * n + 1 for n in test.x]
    assert test.baseline == [1 / n for n in test.x]
    assert task.training["precision"] == "float32"
    example, links = task.alignment_example
    assert all(example.src[s] == example.tgt[t] for s, t in links)  # to the value, not the key
    assert len(links) == len(example.scored())


def test_widths_and_sizes() -> None:
    """Keeps out models of one width that differ, and of one size that are not as large."""
    names = [*MODELS, "transformer_rotary"]
    assert "transformer_rotary" in VARIANTS
    wide = make_task(width=48)
    assert {model_sizes(name, wide)["d_model"] for name in names} == {48}
    assert len({model_sizes(name, make_task())["d_model"] for name in names}) > 2


def test_rates_fall_beyond_the_widths_that_they_suit() -> None:
    """Keeps out a rate and weights that GPT does not learn with at 256, and others at the rest."""
    equal, narrow, wide = (make_task(width=width).recipes for width in (None, 128, 256))
    for name, recipe in equal.items():
        factor = 1 if name == "lstm_seq2seq" else 0.5
        assert (narrow[name].lr, wide[name].lr) == (recipe.lr, factor * recipe.lr)
    starts = [recipes["gpt"].sizes["init_std"] for recipes in (equal, narrow, wide)]
    assert starts == [0.08, 0.08, 0.04]

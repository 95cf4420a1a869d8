"""Copying and reversing random symbols, and the bits that pass through vectors."""

import math
import random
from typing import Any

import pytest
from fake_records import as_records, fake_record, metric

from seqmodels import EOS
from seqmodels.experiments.sweep import make_spec, model_sizes
from seqmodels.models import paper_of
from tasks.copy import __main__ as copying
from tasks.copy import figure

NAMES = copying.BITS


@pytest.mark.parametrize("kind", copying.KINDS)
def test_the_target_repeats_or_reverses_the_source(kind: str) -> None:
    rng = random.Random(2)
    for n in (4, 7, 128):
        pair = copying.draw_pair(rng, n, kind)
        first, *symbols = pair.src.split()
        assert (first, len(symbols)) == (kind, n)
        assert pair.tgt.split() == (symbols if kind == "copy" else symbols[::-1]) != symbols[::2]
        assert {*symbols} <= {*copying.SYMBOLS}


def test_each_kind_has_its_test_set() -> None:
    task = copying.make_task(copying.PARSER.parse_args(["--size", "smoke"]))
    for kind, test in zip(copying.KINDS, task.tests, strict=True):
        assert {task.tokenizer.decode(e.src).split()[0] for e in test.examples} == {kind}
    assert all(e.tgt[-1] == EOS for e in task.train)
    assert {len(e.tgt) - 1 for e in task.train} == {*range(4, 17, 2)}
    assert {task.tokenizer.decode(e.src).split()[0] for e in task.train} == {"copy", "reverse"}
    example, links = task.alignment_example
    assert len(links) == len(example.tgt) - 1
    assert all(example.src[s] == example.tgt[t] for s, t in links)


def test_bits_are_of_copies_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    few = copying.BITS_SIZES["full"] | {"n_train": 200, "n_valid": 10}
    monkeypatch.setitem(copying.BITS_SIZES, "full", few)
    task = copying.make_task(copying.PARSER.parse_args(["--bits", "--size", "full"]))
    (test,) = task.tests
    for e in (*task.train, *task.valid, *test.examples):
        assert [*e.tgt, EOS] == list(e.src)
        assert len(e.tgt) <= few["max_train"]
    assert [len(e.tgt) for e in test.examples] == list(test.x)
    assert task.data["n_symbols"] == 64
    sizes = {name: model_sizes(make_spec(name), task) for name in NAMES}
    widths = [own["d_model"] for name, own in sizes.items() if name.startswith("rnn_encdec")]
    assert widths == [32, 64, 128, 256, 512]
    pooled = [own for name, own in sizes.items() if name.startswith("bahdanau")]
    assert [own.pop("n_queries", None) for own in pooled] == [1, 2, 4, 8, 16, None]
    assert len({str(own) for own in pooled}) == 1


LENGTHS = (1, 4, 8)


def carrying(model: str, bits: list[float], seed: int = 1) -> dict[str, Any]:
    """Make a record of a model that carries so many bits at each length, ± 1 bit a symbol."""
    r = fake_record(model, seed) | {"model_config": {"d_model": 64, **paper_of(model).sizes}}
    r["data"] |= {"name": "random symbols", "n_symbols": 64}
    (test,), buckets = r["tests"], []
    for n, b in zip(LENGTHS, bits, strict=True):
        accuracy = metric(100 * b / (6 * n), 1, 100)
        nats = metric((6 - b / n) * math.log(2), math.log(2))
        buckets.append({"low": n, "high": n, "n": 100, "token_accuracy": accuracy, "nats": nats})
    test |= {"name": "copy", "primary_metric": "token_accuracy"}
    test |= {"max_train_length": 8, "buckets": buckets}
    return r


def test_bits_are_those_of_the_symbols_less_the_loss() -> None:
    records = as_records([carrying("bahdanau_2", [6, 24, 36])])
    assert list(figure.compute_bits(records)[0, 2]) == pytest.approx([36, 36 - 8, 36 + 8])

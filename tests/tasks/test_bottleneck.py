"""Bits through one vector, and through pooled vectors."""

import argparse
import math
from typing import Any

import numpy as np
import pytest
from fake_records import as_records, fake_record, metric

from seqmodels import EOS
from seqmodels.experiments.specs import make_spec, model_sizes
from seqmodels.models import paper_of
from seqmodels.report import style
from tasks.bottleneck import __main__ as bottleneck
from tasks.bottleneck import figure as bottleneck_figure

NAMES = bottleneck.MODELS


def test_targets_are_copies_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    few = bottleneck.SIZES["full"] | {"n_train": 200, "n_valid": 10}
    monkeypatch.setitem(bottleneck.SIZES, "full", few)
    task = bottleneck.make_task(argparse.Namespace(size="full", tokens=None))
    (test,) = task.tests
    for e in (*task.train, *task.valid, *test.examples):
        assert [*e.tgt, EOS] == list(e.src)
        assert not e.unscored
        assert len(e.tgt) <= few["max_length"]
    assert [len(e.tgt) for e in test.examples] == list(test.x)
    assert task.data["n_symbols"] == 64
    assert not test.is_generated
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


RECORDS = as_records([
    carrying("rnn_encdec_32", [6, 20, 16]), carrying("rnn_encdec_32", [6, 22, 20], 2),
    carrying("rnn_encdec_128", [6, 24, 40]), carrying("bahdanau_2", [6, 24, 36]),
])  # fmt: skip

LOOKING_BACK = as_records([carrying("bahdanau", [6, 23, 35])])


def test_bits_are_those_of_the_symbols_less_the_loss() -> None:
    (left,) = bottleneck_figure.draw_bits([*RECORDS, *LOOKING_BACK]).figure.axes
    (right,) = bottleneck_figure.draw_most_bits(RECORDS).figure.axes
    expected = {"rnn_encdec_32": [6, 21, 18], "bahdanau": [6, 23, 35]}  # every second vector
    for model, bits in expected.items():
        colour = style.line_style_of(model).colour
        line = next(line for line in left.lines if line.get_color() == colour)
        assert list(line.get_xdata()) == list(LENGTHS)
        assert list(line.get_ydata()) == pytest.approx(bits)
    assert len(left.lines) == len(expected) + 1  # all bits
    found = bottleneck_figure.compute_bits({"bahdanau_2": RECORDS[3:]})["bahdanau_2"][0, 2]
    assert list(found) == pytest.approx([36, 36 - 8, 36 + 8])
    assert list(right.lines[0].get_xdata()) == [32, 128]
    assert list(right.lines[0].get_ydata()) == pytest.approx([(20 + 22) / 2, 40])
    assert [text.get_text() for text in right.texts] == ["0.66", "0.31"]


def test_reach_is_interpolated_between_lengths() -> None:
    n = np.array([1.0, 4.0, 8.0])
    assert bottleneck_figure.interpolate_reach(np.array([100.0, 90, 50]), n, 70) == pytest.approx(6)
    assert bottleneck_figure.interpolate_reach(np.array([100.0, 90, 50]), n, 40) == math.inf
    assert math.isnan(bottleneck_figure.interpolate_reach(np.array([60.0, 50, 40]), n, 70))
    by_width, by_number = bottleneck_figure.draw_reach(RECORDS).figure.axes
    at_90 = by_width.lines[0]
    assert list(at_90.get_xdata()) == [32, 128]
    # 32 numbers: from 87.5 % at 4 symbols, so between 1 and 4; 128: from 100 % at 4 to 83 % at 8
    expected = [1 + 3 * 10 / 12.5, 4 + 4 * 10 / (100 - 100 * 40 / 48)]
    assert list(at_90.get_ydata()) == pytest.approx(expected, rel=0.02)
    assert list(by_number.lines[0].get_xdata()) == [2]

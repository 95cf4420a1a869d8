"""Bits carried and lengths reached, read back from figures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from fake_records import fake_record, metric

from seqmodels.models import VARIANTS
from seqmodels.report import style
from tasks.bottleneck import figure as bottleneck

LENGTHS = (1, 4, 8)


def copied(model: str, bits: list[float], seed: int = 1) -> dict[str, Any]:
    """Make a record of a model that carries so many bits at each length, ± 1 bit a symbol."""
    r = fake_record(model, seed) | {"model_config": {"d_model": 64, **VARIANTS[model].sizes}}
    r["data"] = {"name": "random symbols", "sha256": "00", "n_symbols": 64}
    buckets = [
        {"low": n, "high": n, "n": 100, "token_accuracy": metric(100 * b / (6 * n), 1, 100),
         "nats": {"value": (6 - b / n) * math.log(2), "low": (5 - b / n) * math.log(2),
                  "high": (7 - b / n) * math.log(2)}}
        for n, b in zip(LENGTHS, bits, strict=True)
    ]  # fmt: skip
    r["tests"] = [r["tests"][0] | {"name": "copy", "primary_metric": "token_accuracy",
                                   "max_train_length": 8, "buckets": buckets}]  # fmt: skip
    return r


RECORDS = [
    copied("rnn_encdec_32", [6, 20, 16]), copied("rnn_encdec_32", [6, 22, 20], 2),
    copied("rnn_encdec_128", [6, 24, 40]), copied("bahdanau_2", [6, 24, 36]),
]  # fmt: skip


def test_bits_are_those_of_the_symbols_less_the_loss() -> None:
    """Keeps out nats for bits, a loss per token for one per text, and a band upside down."""
    left, right = bottleneck.draw_bits(RECORDS).axes
    expected = {"rnn_encdec_32": [6, 21, 18], "bahdanau_2": [6, 24, 36]}
    for model, bits in expected.items():
        colour = style.looks([model])[model].colour
        line = next(line for line in left.lines if line.get_color() == colour)
        assert list(line.get_xdata()) == list(LENGTHS)
        assert list(line.get_ydata()) == pytest.approx(bits)
    found = bottleneck.bits({"bahdanau_2": RECORDS[3:]})["bahdanau_2"][0, 2]
    assert list(found) == pytest.approx([36, 36 - 8, 36 + 8])
    assert list(right.lines[0].get_xdata()) == [32, 128]
    assert list(right.lines[0].get_ydata()) == pytest.approx([(20 + 22) / 2, 40])
    assert [text.get_text() for text in right.texts] == ["0.66", "0.31"]


def test_a_length_is_reached_between_two_lengths() -> None:
    """Keeps out the next length tested for the one at which the accuracy falls."""
    n = np.array([1.0, 4.0, 8.0])
    assert bottleneck.reach(np.array([100.0, 90, 50]), n, 70) == pytest.approx(6)
    assert bottleneck.reach(np.array([100.0, 90, 50]), n, 40) == math.inf
    assert math.isnan(bottleneck.reach(np.array([60.0, 50, 40]), n, 70))
    by_width, by_number = bottleneck.draw_reach(RECORDS).axes
    at_90 = by_width.lines[0]
    assert list(at_90.get_xdata()) == [32, 128]
    # 32 numbers: from 87.5 % at 4 symbols, so between 1 and 4; 128: from 100 % at 4 to 83 % at 8
    expected = [1 + 3 * 10 / 12.5, 4 + 4 * 10 / (100 - 100 * 40 / 48)]
    assert list(at_90.get_ydata()) == pytest.approx(expected, rel=0.02)
    assert list(by_number.lines[0].get_xdata()) == [2]


def test_lengths_beyond_the_longest_are_marked() -> None:
    """Keeps out a line that ends without a reason, or that looks measured there."""
    all_right = copied("bahdanau_4", [6, 24, 48])
    (_, ax) = bottleneck.draw_reach([*RECORDS, all_right]).axes
    at_90, at_50 = (line for line in ax.lines if len(line.get_xdata()) > 1)
    assert list(at_90.get_xdata()) == [2, 4]
    assert at_90.get_ydata()[0] < at_90.get_ydata()[1] == 8
    assert list(at_50.get_ydata()) == [8, 8]
    marks = [line.get_marker() for line in ax.lines if len(line.get_xdata()) == 1]
    assert marks == ["o", "^", "^", "^"]

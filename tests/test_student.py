"""Student's t distribution."""

from __future__ import annotations

import math

import pytest

from seqmodels.evaluation import student


@pytest.mark.parametrize(
    ("df", "quantile"),
    [(1, 12.70620), (2, 4.30265), (4, 2.77645), (9, 2.26216), (20, 2.08596), (1e7, 1.95996)],
)
def test_quantiles_are_those_of_the_printed_tables(df: float, quantile: float) -> None:
    """Keeps out a normal's quantile for few degrees of freedom."""
    assert student.quantile(df) == pytest.approx(quantile, abs=1e-5)
    assert student.p_value(quantile, df) == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize("t", [0.0, 0.5, 2.0, 12.0, 60.0, -60.0])
def test_p_values_are_those_of_the_closed_forms(t: float) -> None:
    """Keeps out a p-value of 0 where seeds are few, and one of a single tail."""
    sine = abs(t) / math.sqrt(4 + t * t)
    expected = {
        1: 2 / math.pi * (math.pi / 2 - math.atan(abs(t))),
        2: 2 / (2 + t * t) / (1 + abs(t) / math.sqrt(2 + t * t)),
        4: (1 - sine) ** 2 * (2 + sine) / 2,
        1e9: math.erfc(abs(t) / math.sqrt(2)),
    }
    for df, p in expected.items():
        assert student.p_value(t, df) == pytest.approx(p, rel=1e-6, abs=1e-30)

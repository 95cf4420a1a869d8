"""Student's t distribution, for any number of degrees of freedom. No torch.

The probability of a value beyond ±t is the incomplete beta function of (df/2, 1/2) at
x = 1 / (1 + t²/df). Substituting exp(−s²) = (v/x)^(df/2) for its variable v leaves an integrand
that is smooth for all df, and for all t but the smallest:

    x^(df/2) ∫ 2 s exp(−s²) / √(1 − x exp(−2 s²/df)) ds · 2 / (df B(df/2, 1/2))
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

NODES, WEIGHTS = np.polynomial.legendre.leggauss(80)
S, DS = 3.25 * (NODES + 1), 3.25 * WEIGHTS
"""Nodes and weights from 0 to 6.5; beyond, exp(−s²) is below 1e-18."""


def beta(df: float) -> float:
    """Return the beta function of (df/2, 1/2)."""
    return math.exp(math.lgamma(df / 2) + math.lgamma(0.5) - math.lgamma(df / 2 + 0.5))


def p_value(t: float, df: float) -> float:
    """Return the probability of a value beyond ±t."""
    log_x = -math.log1p(t * t / df)
    smooth = 2 * S * np.exp(-(S**2)) / np.sqrt(-np.expm1(log_x - 2 * S**2 / df))
    return min(1.0, math.exp(df / 2 * log_x) * float(DS @ smooth) * 2 / (df * beta(df)))


@cache
def quantile(df: float) -> float:
    """Return the 97.5 % quantile, by Newton's method from below."""
    t, step = 1.9, 1.0
    while step > 1e-9:
        density = (1 + t * t / df) ** (-(df + 1) / 2) / (math.sqrt(df) * beta(df))
        step = (p_value(t, df) - 0.05) / (2 * density)
        t += step
    return t

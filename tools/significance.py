"""Simulate how often models that are equal are called different, and how often others are found.

    python -m tools.significance --draws 400

Ten models are compared in nine buckets and overall, corrected for all pairs. The unit is the
standard error that the sentences give a model's score in a bucket; seeds spread by `sd` of it, and
by the same amount in all buckets or independently in each. Where models are unequal, the variances
of every second one are five times as large. Prints the table of docs/fairness.md.
"""

from __future__ import annotations

import argparse
from itertools import combinations

import numpy as np

from seqmodels.records.significance import Mean, Part, compute_difference, moderate
from seqmodels.utils.terminal import Parser, positive

N_MODELS, N_PARTS, N_SENTENCES, N_RESAMPLES = 10, 10, 60, 200
SPREADS = (0.0, 0.3, 1.0, 2.0, 5.0)
PAIRS = list(combinations(map(str, range(N_MODELS)), 2))


def draw_parts(
    rng: np.random.Generator, n_seeds: int, sd: float, ratio: float, is_shared: bool, gain: float
) -> list[Part]:
    """Draw the scores of models in each bucket; the first one's are larger by `gain`.

    Half of a sentence's variance is the same for all seeds of a model. `ratio`: of the variances
    of seeds of every second model to those of the others.
    """
    spread = np.where(np.arange(N_MODELS) % 2, sd * ratio**-0.25, sd * ratio**0.25)
    seeds = rng.normal(size=(N_PARTS, N_MODELS, n_seeds))
    seeds = (seeds[:1] if is_shared else seeds) * spread[:, None]
    error_sd = np.sqrt(0.5 + 0.5 / n_seeds)
    parts = []
    for by_seed in np.broadcast_to(seeds, (N_PARTS, N_MODELS, n_seeds)):
        by_model = rng.normal(0, np.sqrt(0.5), N_MODELS)
        scores = by_seed + by_model[:, None] + rng.normal(0, np.sqrt(0.5), by_seed.shape)
        scores[0] += gain
        chi = np.sqrt(rng.chisquare(N_SENTENCES - 1, N_MODELS) / N_SENTENCES)
        resampled = rng.normal(0, 1, (N_MODELS, N_RESAMPLES)) * (error_sd * chi)[:, None]
        means = {
            str(i): Mean(
                float(own.mean()), resampled[i], n_seeds, float(own.var(ddof=1)), n_seeds - 1
            )
            for i, own in enumerate(scores)
        }
        parts.append(Part(means, N_SENTENCES))
    return parts


def simulate(
    n_draws: int, n_seeds: int, sd: float, ratio: float = 1.0, gain: float = 0.0
) -> tuple[float, float]:
    """Return how often (%) equal models differ anywhere, and the share (%) of gains found."""
    n_tested, n_false, n_right = len(PAIRS) * N_PARTS, 0, 0
    for i in range(n_draws):
        rng = np.random.default_rng([i, n_seeds])
        parts = draw_parts(rng, n_seeds, sd, ratio, i % 2 == 0, gain)
        moderate(parts)
        is_wrong = False
        for part in parts:
            for column, row in PAIRS:
                found = compute_difference(part, row, column, n_tested).is_significant
                if gain and column == "0":
                    n_right += found
                else:
                    is_wrong |= found
        n_false += is_wrong
    return 100 * n_false / n_draws, 100 * n_right / (n_draws * N_PARTS * (N_MODELS - 1))


def main() -> None:
    """Print the table."""
    p = Parser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--draws", type=positive, default=400)
    n = p.parse_args().draws
    print("| seeds | models | " + " | ".join(f"{sd:g}" for sd in SPREADS) + " | power |")
    print("| ---: | --- |" + " ---: |" * (len(SPREADS) + 1))
    for n_seeds in (3, 5):
        for ratio in (1.0, 5.0):
            shares = [f"{simulate(n, n_seeds, sd, ratio)[0]:.1f} %" for sd in SPREADS]
            power = f"{simulate(max(1, n // 10), n_seeds, 1.0, ratio, 10.0)[1]:.0f} %"
            kind = "equal" if ratio == 1 else "unequal"
            print(f"| {n_seeds} | {kind} | {' | '.join(shares)} | {power} |", flush=True)


if __name__ == "__main__":
    main()

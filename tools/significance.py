"""Simulate how often equal models are called different, in the designs of the committed records.

    python -m tools.significance --draws 1000

Simulates the test of seqmodels.records.significance, by its own functions. For every family of a
folder: its contrasts, seeds and buckets, the covariance of its models' scores over draws of the
examples, and as true variances of the seeds those that the test has estimated. Half of the variance
of a seed is the same in all buckets. All models are equal: the family-wise error is the share of
draws in which any of the tested pairs differs significantly, and coverage that of their single 95 %
intervals that hold zero. Writes the folders of results/calibration.json: ten minutes on one core.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path

import numpy as np

from seqmodels.evaluation.intervals import MIN_ROWS
from seqmodels.evaluation.metrics import metric_of
from seqmodels.records import significance
from seqmodels.records.io import sums_path
from seqmodels.records.significance import Family, Mean, Part
from seqmodels.report import load

RESULTS = Path(__file__).parents[1] / "results"
SHARED = 0.5
"""Share of a seed's variance that is the same in all buckets."""


def find_root(part: Part) -> np.ndarray:
    """Return a root of the covariance of the models' means over draws of the examples."""
    covariance = np.cov(np.stack([mean.resampled for mean in part.means.values()]))
    values, vectors = np.linalg.eigh(covariance * part.n_groups / max(part.n_groups - 1, 1))
    return vectors * np.sqrt(values.clip(0))


def draw_parts(rng: np.random.Generator, family: Family) -> list[Part]:
    """Draw the scores of equal models in each bucket, with the variances of a family."""
    shared = {name: rng.normal(size=mean.n_seeds) for name, mean in family.parts[0].means.items()}
    parts = []
    for old in family.parts:
        root, n_models = find_root(old), len(shared)
        by_examples = root @ rng.normal(size=n_models)
        resampled, means = root @ rng.normal(size=(n_models, old.n_groups)), {}
        for i, (name, mean) in enumerate(old.means.items()):
            n = mean.n_seeds
            own = np.sqrt(SHARED) * shared[name] + np.sqrt(1 - SHARED) * rng.normal(size=n)
            own *= np.sqrt(np.nan_to_num(mean.variance))  # of one seed: 0
            variance = float(own.var(ddof=1)) if n > 1 else np.nan
            means[name] = Mean(float(own.mean() + by_examples[i]), resampled[i], n, variance, n - 1)
        parts.append(Part(means, old.n_groups))
    return parts


def simulate(family: Family, n_draws: int) -> tuple[float, np.ndarray]:
    """Return, in %, the family-wise error and the coverage (tested pairs, buckets)."""
    significance.shrink_variances(family.parts)
    is_percent = metric_of(family.metric).is_percent
    places = [i for i, part in enumerate(family.parts) if part.n_groups >= MIN_ROWS]
    n_false, covered = 0, np.zeros((len(family.tested), len(places)))
    for draw in range(n_draws):
        parts, is_wrong = draw_parts(np.random.default_rng(draw), family), False
        significance.shrink_variances(parts)
        for (i, (column, row)), (j, place) in product(enumerate(family.tested), enumerate(places)):
            pair = parts[place], row, column
            single = significance.compute_difference(*pair, is_percent=is_percent)
            holds_zero = (single.low or 0) <= 0 <= (single.high or 0)
            covered[i, j] += holds_zero
            if not holds_zero:  # simultaneous intervals are wider
                tested = significance.compute_difference(*pair, family.n_tested, is_percent)
                is_wrong |= tested.is_significant
        n_false += is_wrong
    return 100 * n_false / n_draws, 100 * covered / n_draws


def main() -> None:
    """Write the file."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--draws", type=int, default=1000)
    n, folders = p.parse_args().draws, []
    for path in sorted(RESULTS.glob(f"*/{significance.FILE}")):
        records = load.load_folder(path.parent).records
        if not all(sums_path(path.parent, record).exists() for record in records.values()):
            continue
        for family in (f for f in significance.score_folder(path.parent, records) if f.tested):
            error, coverage = simulate(family, n)
            seeds = {family.parts[0].means[name].n_seeds for pair in family.tested for name in pair}
            folders.append({
                "folder": path.parent.name, "test": family.test, "metric": family.metric,
                "seeds": sorted(seeds), "tests": family.n_tested, "error": round(error, 1),
                "mean": round(float(coverage.mean()), 1), "lowest": round(float(coverage.min()), 1),
            })  # fmt: skip
            print(folders[-1], flush=True)
    text = json.dumps({"draws": n, "shared": SHARED, "folders": folders}, indent=1) + "\n"
    (RESULTS / "calibration.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

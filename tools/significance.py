"""Simulate how often equal models are called different, in the designs of the committed records.

    python -m tools.significance --draws 1000

Simulates the test of seqmodels.records.significance, by its own functions. For every family of a
folder: its named pairs, seeds and buckets, the covariance of its models' scores over draws of the
examples, and as true variances of the seeds those that the test has estimated. Half of the variance
of a seed is the same in all buckets. All models are equal: the family-wise error is the share of
draws in which any of the tested pairs differs significantly, and coverage that of their single 95 %
intervals that hold zero.

A generic family has five models, six named contrasts and nine buckets of 100 examples. The unit is
the standard error that the examples give a model's score, `sd` the standard deviation of the seeds
in it, and `tau` the standard deviation of its logarithm between models. Its power is the share of
differences of ten units that are found.

Writes results/calibration.json, from which docs/fairness.md is filled in: ten minutes on one core.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from seqmodels.evaluation.intervals import MIN_ROWS
from seqmodels.evaluation.metrics import metric_of
from seqmodels.records import significance
from seqmodels.records.io import sums_path
from seqmodels.records.significance import Family, Mean, VarianceComponent
from seqmodels.report import load
from seqmodels.utils.terminal import Parser, positive

RESULTS = Path(__file__).parents[1] / "results"
FILE = RESULTS / "calibration.json"
SHARED = 0.5
"""Share of a seed's variance that is the same in all buckets."""
NAMED = [("0", "1"), ("1", "2"), ("2", "3"), ("3", "4"), ("0", "4"), ("1", "4")]
SEEDS, SPREADS, TAUS = (3, 5, 2), (0.3, 1.0, 3.0), (0.0, 1.0)
GAIN = 10.0


class Design(NamedTuple):
    """What a comparison of equal models is drawn from."""

    family: Family
    variances: np.ndarray
    """True variances of the seeds (buckets, models)."""
    roots: Sequence[np.ndarray]
    """For each bucket, a root of the covariance of the models' means over draws of the examples."""


def design_of(family: Family) -> Design:
    """Return the design of a family, whose variances are moderated in place."""
    significance.shrink_variances(family.parts)
    means = [list(part.means.values()) for part in family.parts]
    variances = np.nan_to_num([[mean.variance for mean in row] for row in means])  # one seed: 0
    roots = []
    for row, part in zip(means, family.parts, strict=True):
        covariance = np.cov(np.stack([mean.resampled for mean in row]))
        values, vectors = np.linalg.eigh(covariance * part.n_groups / max(part.n_groups - 1, 1))
        roots.append(vectors * np.sqrt(values.clip(0)))
    return Design(family, variances, roots)


def draw_parts(
    rng: np.random.Generator, design: Design, gain: float = 0.0
) -> list[VarianceComponent]:
    """Draw the scores of equal models in each bucket; the first one's are larger by `gain`."""
    n_seeds = {name: mean.n_seeds for name, mean in design.family.parts[0].means.items()}
    shared, parts = [rng.normal(size=n) for n in n_seeds.values()], []
    by_part = zip(design.family.parts, design.variances, design.roots, strict=True)
    for old, variances, root in by_part:
        by_examples = root @ rng.normal(size=len(n_seeds))
        resampled = root @ rng.normal(size=(len(n_seeds), old.n_groups))
        means = {}
        for i, (name, n) in enumerate(n_seeds.items()):
            own = np.sqrt(SHARED) * shared[i] + np.sqrt(1 - SHARED) * rng.normal(size=n)
            own *= np.sqrt(variances[i])
            value = float(own.mean() + by_examples[i]) + gain * (i == 0)
            variance = float(own.var(ddof=1)) if n > 1 else np.nan
            means[name] = Mean(value, resampled[i], n, variance, n - 1)
        parts.append(VarianceComponent(means, old.n_groups))
    return parts


def simulate(design: Design, draws: range, gain: float = 0.0) -> tuple[float, np.ndarray, float]:
    """Return (in %) family-wise error, coverage (tested pairs, buckets), and gains found."""
    family, n_false, n_found = design.family, 0, 0
    first = next(iter(family.parts[0].means))
    is_percent = metric_of(family.metric).is_percent
    places = [i for i, part in enumerate(family.parts) if part.n_groups >= MIN_ROWS]
    covered = np.zeros((len(family.tested), len(places)))
    for draw in draws:
        parts = draw_parts(np.random.default_rng(draw), design, gain)
        significance.shrink_variances(parts)
        is_wrong = False
        for (i, (column, row)), (j, place) in product(enumerate(family.tested), enumerate(places)):
            pair = parts[place], row, column
            single = significance.compute_difference(*pair, is_percent=is_percent)
            assert single.low is not None
            assert single.high is not None
            if single.low <= 0 <= single.high:
                covered[i, j] += 1
            else:  # simultaneous intervals are wider
                found = significance.compute_difference(*pair, family.n_tested, is_percent)
                is_gain = bool(gain) and first in (column, row)
                n_found += found.is_significant and is_gain
                is_wrong |= found.is_significant and not is_gain
        n_false += is_wrong
    n, n_gains = len(draws), len(draws) * len(places) * sum(first in pair for pair in family.tested)
    return 100 * n_false / n, 100 * covered / n, 100 * n_found / max(n_gains, 1)


def list_families() -> Iterator[tuple[str, Family]]:
    """Yield the families with tested pairs of all folders whose sums are kept."""
    for path in sorted(RESULTS.glob(f"*/{significance.FILE}")):
        records = load.load_folder(path.parent).records
        if all(sums_path(path.parent, record).exists() for record in records.values()):
            for family in significance.score_folder(path.parent, records):
                if family.tested:
                    yield path.parent.name, family


def generic_design(rng: np.random.Generator, n_seeds: int, sd: float, tau: float) -> Design:
    """Draw a generic family: the true variances of its models' seeds."""
    mean = Mean(0.0, np.zeros(2), n_seeds, np.nan, 0)
    parts = [VarianceComponent({str(i): mean for i in range(5)}, 100)] * 9
    variances = np.tile((sd * np.exp(tau * rng.normal(size=5))) ** 2, (9, 1))
    return Design(Family("", [], "nats", parts, NAMED), variances, [np.eye(5)] * 9)


def main() -> None:
    """Write the file."""
    p = Parser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--draws", type=positive, default=1000)
    n = p.parse_args().draws
    folders, generic = [], []
    for folder, family in list_families():
        design = design_of(family)
        error, coverage, _ = simulate(design, range(n))
        folders.append({
            "folder": folder, "test": family.test, "metric": family.metric,
            "seeds": sorted({family.parts[0].means[m].n_seeds for p in family.tested for m in p}),
            "tests": family.n_tested, "error": round(error, 1),
            "mean": round(float(coverage.mean()), 1), "lowest": round(float(coverage.min()), 1),
        })  # fmt: skip
        print(folders[-1], flush=True)
    for n_seeds, sd, tau in product(SEEDS, SPREADS, TAUS):
        significance.MIN_SEEDS = min(significance.MIN_SEEDS, n_seeds)  # as if two were tested
        n_models = 20  # draws of the models' variances
        results = []
        for i in range(n_models):
            design = generic_design(np.random.default_rng(i), n_seeds, sd, tau)
            error, coverage, _ = simulate(design, range(i, n, n_models))
            power = simulate(design, range(i, n // 10, n_models), GAIN)[2]
            results.append((error, coverage.mean(), power))
        error, mean, power = (round(float(x), 1) for x in np.mean(results, axis=0))
        about = {"seeds": n_seeds, "sd": sd, "tau": tau}
        generic.append({**about, "error": error, "mean": mean, "power": power})
        print(generic[-1], flush=True)
    value = {"draws": n, "shared": SHARED, "folders": folders, "generic": generic}
    FILE.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

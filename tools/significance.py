"""Simulate how often equal models are called different, in the design of each committed family.

    python -m tools.significance

Each family has its contrasts, seeds and buckets, the covariance of its models' scores over the
examples, and as true spread of the seeds that of the records, half of it the same in all buckets;
shares are drawn as arcsin √share. `error` is the share of draws in which any tested difference is
called significant if there are none, `coverage` that of the worst interval; `called` of the
`separated` contrasts, whose seeds do not overlap, are significant. Writes results/calibration.json
and the table of docs/fairness.md: two minutes on one core.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqmodels.evaluation.intervals import MIN_ROWS
from seqmodels.evaluation.metrics import metric_of
from seqmodels.records import significance
from seqmodels.records.significance import ALPHA, Family, Part, estimate, p_value
from seqmodels.report import load
from seqmodels.report.tables import format_markdown

RESULTS = Path(__file__).parents[1] / "results"
PAGE = RESULTS.parent / "docs" / "fairness.md"
KEYS = ("folder", "test", "metric", "tests", "seeds", "error", "coverage", "separated", "called")
N_DRAWS = 2000
SHARED = 0.5
"""Share of a seed's variance that is the same in all buckets."""


def draw_part(
    rng: np.random.Generator, part: Part, shared: dict[str, np.ndarray], is_percent: bool
) -> Part:
    """Draw the scores of a part as often as the noise of each model's seeds, (draws, seeds)."""
    means = np.array([own.mean() for own in part.seeds.values()])
    slope = 2 * np.sqrt(means * (100 - means)) if is_percent else np.ones_like(means)
    angles = np.arcsin(np.sqrt(means / 100)) if is_percent else means
    scale = np.divide(1, slope, out=np.zeros_like(slope), where=slope > 0)
    values, vectors = np.linalg.eigh(part.covariance * np.outer(scale, scale))
    root, n_draws = vectors * np.sqrt(values.clip(0)), len(next(iter(shared.values())))
    drawn, seeds = angles + rng.normal(size=(n_draws, len(means))) @ root.T, {}
    for i, (model, own) in enumerate(part.seeds.items()):
        alone = rng.normal(size=shared[model].shape)
        noise = np.sqrt(SHARED) * shared[model] + np.sqrt(1 - SHARED) * alone
        seeds[model] = drawn[:, i, None] + scale[i] * own.std(ddof=len(own) > 1) * noise
    if not is_percent:
        return Part(seeds, part.covariance, part.n_groups)
    seeds = {model: 100 * np.sin(own) ** 2 for model, own in seeds.items()}
    means = np.stack([own.mean(axis=-1) for own in seeds.values()], axis=-1)
    change = 2 * np.sqrt(means * (100 - means)) * scale  # another mean has another variance
    covariance = part.covariance * change[:, :, None] * change[:, None, :]
    return Part(seeds, covariance, part.n_groups)


def simulate(family: Family, n_draws: int) -> tuple[float, float]:
    """Return, in %, the family-wise error and the coverage of the worst interval."""
    rng, is_percent = np.random.default_rng(1), metric_of(family.metric).is_percent
    shared = {m: rng.normal(size=(n_draws, len(own))) for m, own in family.parts[0].seeds.items()}
    coverage, lowest = [], np.ones(n_draws)
    for part in (part for part in family.parts if part.n_groups >= MIN_ROWS):
        drawn = draw_part(rng, part, shared, is_percent)
        for column, row in family.tested:
            true = drawn.seeds[row].mean() - drawn.seeds[column].mean()
            own = estimate(drawn, (column, row), is_percent)
            coverage.append(float(100 * np.mean((own.low <= true) & (true <= own.high))))
            if part is family.parts[0]:
                lowest = np.minimum(lowest, p_value(drawn, (column, row), is_percent, true))
    return float(100 * np.mean(lowest * len(family.tested) <= ALPHA)), min(coverage)


def format_page(page: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the page with the table of all families."""
    lines = [KEYS, *([str(row[key]) for key in KEYS] for row in rows)]
    between = r"(?<=<!-- calibration -->\n).*?(?=<!-- end -->)"
    return re.sub(between, f"\n{format_markdown(lines)}\n\n", page, flags=re.S)


def main() -> None:
    """Write the file and the page."""
    rows = []
    for path in sorted(RESULTS.glob(f"*/{significance.FILE}")):
        records = load.load_folder(path.parent).records
        families = significance.score_folder(path.parent, records)
        for family in (family for family in families if family.tested):
            error, coverage = simulate(family, N_DRAWS)
            pairs = [p for p in significance.compare_models(family).pairs if p.p is not None]
            separated = [pair.is_significant for pair in pairs if pair.is_separated]
            seeds = load.format_range((n for p in pairs for n in p.n_seeds), str)
            its = [path.parent.name, family.test, family.metric, len(pairs), seeds]
            its += [round(error, 1), round(coverage, 1), len(separated), sum(separated)]
            rows.append(dict(zip(KEYS, its, strict=True)))
            print(rows[-1], flush=True)
    text = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (RESULTS / "calibration.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")
    PAGE.write_text(format_page(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main()

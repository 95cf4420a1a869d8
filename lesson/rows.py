"""Read the hypotheses of the runs of a folder, side by side. No torch.

A run's rows are in RUN.jsonl, which is not kept in every copy of a folder: a run without them is
left out. Like a record, the file can come from a stranger.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from seqmodels.data.text import read_lines
from seqmodels.evaluation.metrics import check_tokenizer, metric_of, sacrebleu_metrics
from seqmodels.records.schema import Count, Name, Test, validate

MAX_EXAMPLES_PER_BUCKET = 500
"""Maximum examples of a bucket in a page."""

Finite = Annotated[float, Field(allow_inf_nan=False)]


class Row(BaseModel):
    """The fields of RUN.jsonl that a page shows; a run has a row for each test example."""

    model_config = ConfigDict(extra="ignore", strict=True)

    set: Name
    x: Count
    src: str
    ref: str
    hyp: str | None = None
    """None: nothing was generated."""
    nats: Finite | None = None
    n_tokens: Count = 0
    n_same: Count = 0
    n_places: Count = 0


def read(path: Path) -> list[Row]:
    """Return a run's rows; none if the file is missing. Raises ValueError if one is invalid."""
    if not path.exists():
        return []
    rows = []
    for n, line in enumerate(read_lines(path), 1):
        try:
            rows.append(validate(Row, json.loads(line)))
        except ValueError as error:  # json's is one
            raise ValueError(f"{path}, line {n}: not a row of a run: {error}") from None
    return rows


def side_by_side(
    by_run: Mapping[str, Sequence[Row]], test: Test, tokenize: str
) -> list[dict[str, Any]]:
    """Return the examples of a test set: x, src, ref and, in the order of the runs, hyps, scores.

    Those of a bucket after the first MAX_EXAMPLES_PER_BUCKET are left out. Raises ValueError if two
    runs have other examples.
    """
    parts = {run: [r for r in rows if r.set == test.name] for run, rows in by_run.items()}
    (first, examples), *others = parts.items()
    for run, rows in others:
        if [(r.x, r.src, r.ref) for r in rows] != [(r.x, r.src, r.ref) for r in examples]:
            raise ValueError(f"{first} and {run} have other examples of the test {test.name!r}")
    in_page: list[int] = []
    for b in test.buckets:
        inside = [i for i, r in enumerate(examples) if b.low <= r.x <= b.high]
        in_page += inside[:MAX_EXAMPLES_PER_BUCKET]
    metrics: dict[str, Any] = {}
    if metric_of(test.primary_metric).sacrebleu:
        check_tokenizer(tokenize)
        metrics |= sacrebleu_metrics(tokenize)
        metrics["bleu"].effective_order = True  # otherwise a sentence of three words has none
    return [
        {
            "x": examples[i].x,
            "src": examples[i].src,
            "ref": examples[i].ref,
            "hyps": [rows[i].hyp for rows in parts.values()],
            "scores": [score(rows[i], metrics) for rows in parts.values()],
        }
        for i in sorted(in_page)
    ]  # fmt: skip


def score(row: Row, metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores of a run's row: by these metrics of sacreBLEU if given, or its own."""
    scores = {}
    if row.hyp is not None and metrics:
        for key, metric in metrics.items():
            scores[key] = metric.sentence_score(row.hyp, [row.ref]).score
    elif row.hyp is not None:
        scores["right"] = 100 * row.n_same / max(row.n_places, 1)
    if row.nats is not None:
        scores["nats"] = row.nats / max(row.n_tokens, 1)
    return {key: round(value, digits(key)) for key, value in scores.items()}


def digits(key: str) -> int:
    """Return the decimal places of a score."""
    return 1 if key == "right" else metric_of(key).digits

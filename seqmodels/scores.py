"""Scores of rows, overall and by length, with 95 % bootstrap intervals over rows. No torch.

A row holds what one test example gave; every score is computed from rows alone, so the JSONL
beside a record is enough to compute them again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU, CHRF

N_BOOTSTRAP = 1000

Row = dict[str, Any]
Interval = dict[str, Any]


def resample(columns: np.ndarray) -> np.ndarray:
    """Return the columns' sums over N_BOOTSTRAP draws of rows; the same draws for every score."""
    rng, n = np.random.default_rng(1), len(columns)
    return np.stack([columns[rng.integers(n, size=n)].sum(0) for _ in range(N_BOOTSTRAP)])


def ratio(rows: Sequence[Row], above: str, below: Callable[[Row], float], scale: float) -> Interval:
    """Return scale × Σ above / Σ below with its bootstrap interval."""
    pairs = np.array([(row[above], below(row)) for row in rows], dtype=np.float64)
    sums = resample(pairs)
    low, high = np.percentile(sums[:, 0] / sums[:, 1], [2.5, 97.5])
    value = pairs[:, 0].sum() / pairs[:, 1].sum()
    return {"value": float(scale * value), "low": float(scale * low), "high": float(scale * high)}


def count(
    metric: BLEU | CHRF, hyps: Sequence[str], refs: Sequence[Sequence[str]] | None
) -> np.ndarray:
    """Return sacreBLEU's counts, a row per sentence: a score is one of their sums.

    Without `refs` those count with which the metric was made.
    """
    return np.array(metric._extract_corpus_statistics(hyps, refs), dtype=np.float64)


def sacre(metric: BLEU | CHRF, counts: np.ndarray) -> Interval:
    """Return sacreBLEU's score with its bootstrap interval.

    Its own bootstrap fails on chrF where some draws score nothing: a mean of float and float32.
    """
    value, *drawn = (
        metric._compute_score_from_stats(list(sums)).score
        for sums in (counts.sum(0), *resample(counts))
    )
    low, high = np.percentile(drawn, [2.5, 97.5])
    return {"value": float(value), "low": float(low), "high": float(high)}


def scores(rows: Sequence[Row]) -> dict[str, Interval]:
    """Return every score that the rows allow.

    Teacher-forced: nats per token, bits_per_byte, token_accuracy (%). Free-running, where the rows
    hold a `hyp`: bleu, chrf, accuracy (% of places right), exact (% of targets right),
    length_ratio (of what was written to the references, in BLEU's tokens). Without a `hyp`, exact
    counts the targets whose every token was the likeliest: what greedy search writes.
    """
    result = {
        "nats": ratio(rows, "nats", lambda row: row["n_tokens"], 1.0),
        "bits_per_byte": ratio(rows, "nats", lambda row: row["n_bytes"], 1 / math.log(2)),
        "token_accuracy": ratio(rows, "n_right", lambda row: row["n_tokens"], 100.0),
        "exact": ratio(rows, "exact", lambda row: 1.0, 100.0),
    }
    if "hyp" in rows[0]:
        hyps, refs = [row["hyp"] for row in rows], [[row["ref"] for row in rows]]
        result["accuracy"] = ratio(rows, "n_same", lambda row: row["n_places"], 100.0)
        for name, metric in (("bleu", BLEU(force=True)), ("chrf", CHRF())):
            result[name] = sacre(metric, count(metric, hyps, refs))
        written, true, *_ = count(BLEU(), hyps, refs).sum(0)  # lengths in BLEU's tokens
        result["length_ratio"] = {"value": float(written / max(true, 1)), "low": None, "high": None}
    return result


def signatures() -> dict[str, str]:
    """Return sacreBLEU's signatures of the two scores."""
    found = {}
    for name, metric in (("bleu", BLEU(force=True)), ("chrf", CHRF())):
        metric.corpus_score(["a"], [["a"]])
        found[name] = str(metric.get_signature())
    return found


def by_bin(
    rows: Sequence[Row],
    bins: Sequence[tuple[int, int]],
    score: Callable[[Sequence[Row]], dict[str, Any]] = scores,
) -> list[dict[str, Any]]:
    """Return the scores of each bin (low ≤ x ≤ high) with its count; empty bins are left out."""
    table = []
    for low, high in bins:
        inside = [row for row in rows if low <= row["x"] <= high]
        if inside:
            table.append({"low": low, "high": high, "n": len(inside), **score(inside)})
    return table

"""The only list of metrics: how each is named, formatted and computed. No torch.

A row holds the measurements of one test example. Every score is computed from rows only, so the
JSONL next to a record is enough to recompute all scores. A new metric is one entry here: records,
tables, figures, `seqmodels score` and the ledger of published figures all use this list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from seqmodels.evaluation.intervals import (
    Interval,
    Row,
    Sums,
    groups_of,
    quotient,
    ratio,
    ratio_sums,
    without_interval,
)
from seqmodels.evaluation.sacre import SacreMetric, bleu, chrf, count, make_bleu, make_chrf

Compute = Callable[[Sequence[Row], str], Interval | None]
"""Computes a score from rows with a sacreBLEU tokenizer; None if rows lack its fields."""
Counts = Callable[[Sequence[Row], str], Sums | None]
"""Counts per row what a score of sums needs; None if rows lack its fields."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric."""

    label: str
    unit: str = ""
    digits: int = 1
    """Decimals in tables."""
    better: Literal["higher", "lower"] | None = "higher"
    """None: neither is better."""
    decoding: Literal["teacher-forced", "free-running"] = "free-running"
    """Whether each token is predicted after the true tokens or after the model's own."""
    top: float | None = None
    """The best possible score, if there is one."""
    interval: str | None = "BCa bootstrap"
    """How its interval is computed; None: it has no interval."""
    counts: Counts | None = None
    """For a score of sums over the rows: what is counted per row."""
    sacre: SacreMetric | None = None
    """For one of sacreBLEU's metrics, on the texts of hypotheses and references."""
    compute: Compute | None = None
    """For any other score of rows. Without all three, it is computed from alignments."""

    @property
    def name(self) -> str:
        """Return the label with its unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def is_loss(self) -> bool:
        """Return whether lower is better."""
        return self.better == "lower"

    @property
    def is_teacher_forced(self) -> bool:
        """Return whether each token is predicted after the true tokens."""
        return self.decoding == "teacher-forced"

    def sums(self, rows: Sequence[Row], tokenize: str) -> Sums | None:
        """Return the columns of the rows whose sums give the score; None if there are none."""
        if self.sacre is None:
            return self.counts(rows, tokenize) if self.counts else None
        if "hyp" not in rows[0]:
            return None
        hyps, refs = texts(rows)
        counts = count(self.sacre.make(tokenize), hyps, [refs])
        return Sums(counts, self.sacre.from_counts, self.sacre.is_percent)

    def of_sums(self, columns: np.ndarray) -> Sums:
        """Return what `sums` has returned, from its columns."""
        score = self.sacre.from_counts if self.sacre else quotient
        return Sums(columns, score, is_percent=self.top == 100)

    def score(self, rows: Sequence[Row], tokenize: str) -> Interval | None:
        """Return the score of the rows; None if they lack the fields for it."""
        if self.compute:
            return self.compute(rows, tokenize)
        if (sums := self.sums(rows, tokenize)) is None:
            return None
        if self.sacre is None:
            return sums.interval(groups_of(rows))
        return self.sacre.score(self.sacre.make(tokenize), sums.columns, groups_of(rows))


# ------------------------------------------------------------------------------------- Computing


def texts(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Return hypotheses and references."""
    return [row["hyp"] for row in rows], [row["ref"] for row in rows]


def mean_of(above: str, below: str, scale: float = 1.0, **kind: bool) -> Counts:
    """Return a function that counts scale × Σ above / Σ below; None for rows without `above`."""

    def counts(rows: Sequence[Row], tokenize: str) -> Sums | None:
        if above not in rows[0]:
            return None
        return ratio_sums(rows, lambda row: row[above], lambda row: row[below], scale, **kind)

    return counts


def exact_match(rows: Sequence[Row], tokenize: str) -> Sums:
    """Count the targets that are entirely correct, in per cent.

    Without a free-running search, a target counts if each of its tokens was the most likely one:
    greedy search would write it.
    """
    return ratio_sums(
        rows, lambda row: row["exact_match"], lambda row: 1.0, 100.0,
        is_percent=True, is_yes_no=True,
    )  # fmt: skip


def perplexity(rows: Sequence[Row], tokenize: str) -> Interval:
    """Return the exponential of the loss per token."""
    loss = ratio(rows, lambda row: row["nats"], lambda row: row["n_tokens"], 1.0)
    return {k: None if nats is None else math.exp(min(nats, 99)) for k, nats in loss.items()}


def source_gain(rows: Sequence[Row], tokenize: str) -> Interval | None:
    """Return the nats per token that a row's own source saves over another row's source."""
    known = [row for row in rows if "nats_shuffled" in row]
    if not known:
        return None
    return ratio(
        known, lambda row: row["nats_shuffled"] - row["nats"], lambda row: row["n_tokens"], 1.0
    )


def baseline(rows: Sequence[Row], tokenize: str) -> Interval | None:
    """Return the mean percentage correct without the ability that the test measures."""
    if "baseline" not in rows[0]:
        return None
    return without_interval(100 * float(np.mean([row["baseline"] for row in rows])))


def length_ratio(rows: Sequence[Row], tokenize: str) -> Interval | None:
    """Return the length of the hypotheses divided by that of the references, in BLEU's tokens."""
    if "hyp" not in rows[0]:
        return None
    hyps, refs = texts(rows)
    n_hyp, n_ref, *_ = count(make_bleu(tokenize), hyps, [refs]).sum(0)
    return without_interval(float(n_hyp / max(n_ref, 1)))


def chance_bleu(rows: Sequence[Row], tokenize: str) -> Interval | None:
    """Return the BLEU of the references when each is scored against another row's reference."""
    if "hyp" not in rows[0] or len(rows) < 2:
        return None
    refs = texts(rows)[1]
    others = [refs[i] for i in partners([len(ref) for ref in refs])]
    return without_interval(make_bleu(tokenize).corpus_score(others, [refs]).score)


def partners(lengths: Sequence[int]) -> list[int]:
    """Return, for each of at least two rows, another row of similar length.

    Neighbours by length swap; if their number is odd, the last three rotate. Among rows of equal
    length, the pairs are random.
    """
    n = len(lengths)
    order = np.lexsort((np.random.default_rng(1).permutation(n), np.array(lengths)))
    swapped = np.arange(n) ^ 1
    if n % 2:
        swapped[-3:] = np.roll(np.arange(n)[-3:], 1)
    found = np.empty(n, dtype=int)
    found[order] = order[swapped]
    return found.tolist()


# ------------------------------------------------------------------------------------- The table

LOSSES = ("nats", "bits_per_byte")
"""Shown in every table."""

METRICS = {
    "nats": Metric(
        label="loss", unit="nats per token", digits=3, better="lower", decoding="teacher-forced",
        counts=mean_of("nats", "n_tokens"),
    ),
    "bits_per_byte": Metric(
        label="loss", unit="bits per byte", digits=3, better="lower", decoding="teacher-forced",
        counts=mean_of("nats", "n_bytes", 1 / math.log(2)),
    ),
    "perplexity": Metric(
        label="perplexity", unit="per token", better="lower", decoding="teacher-forced",
        compute=perplexity,
    ),
    "token_accuracy": Metric(
        label="next-token accuracy", unit="%", decoding="teacher-forced", top=100,
        counts=mean_of("n_correct", "n_tokens", 100.0, is_percent=True),
    ),
    "source_gain": Metric(
        label="gain from the source", unit="nats per token", digits=3, decoding="teacher-forced",
        compute=source_gain,
    ),
    "exact_match": Metric(
        label="exact match", unit="%", top=100, interval="Wilson", counts=exact_match
    ),
    "accuracy": Metric(
        label="symbol accuracy", unit="%", top=100,
        counts=mean_of("n_same", "n_places", 100.0, is_percent=True),
    ),
    "bleu": Metric(label="BLEU", top=100, sacre=SacreMetric(make_bleu, bleu)),
    "chrf": Metric(label="chrF", top=100, sacre=SacreMetric(make_chrf, chrf)),
    "aer": Metric(label="AER", unit="%", better="lower"),
    "precision": Metric(label="precision", unit="%", top=100),
    "recall": Metric(label="recall", unit="%", top=100),
    "length_ratio": Metric(
        label="Length ratio", digits=3, better=None, interval=None,
        compute=length_ratio,
    ),
    "chance_bleu": Metric(label="BLEU by chance", interval=None, compute=chance_bleu),
    "baseline": Metric(label="baseline", unit="%", interval=None, compute=baseline),
}  # fmt: skip
"""Metrics by their field names in records."""


def sacre_metrics() -> dict[str, SacreMetric]:
    """Return sacreBLEU's metrics in the table, which `seqmodels score` uses."""
    return {key: metric.sacre for key, metric in METRICS.items() if metric.sacre}


def metric_of(key: str) -> Metric:
    """Return a metric; one that is not in the table is labelled by its key."""
    return METRICS.get(key) or Metric(label=key)


def scores(rows: Sequence[Row], tokenize: str = "13a") -> dict[str, Interval]:
    """Return all scores that the rows allow; `tokenize` is sacreBLEU's tokenizer for BLEU."""
    found = {key: metric.score(rows, tokenize) for key, metric in METRICS.items()}
    return {key: score for key, score in found.items() if score is not None}


def by_bucket(
    rows: Sequence[Row],
    buckets: Sequence[tuple[int, int]],
    score: Callable[[Sequence[Row]], dict[str, Any]] = scores,
) -> list[dict[str, Any]]:
    """Return the scores and the count of each bucket (low ≤ x ≤ high), without empty buckets."""
    table = []
    for low, high in buckets:
        inside = [row for row in rows if low <= row["x"] <= high]
        if inside:
            table.append({"low": low, "high": high, "n": len(inside), **score(inside)})
    return table


def methods(keys: Iterable[str]) -> dict[str, str]:
    """Return the method used for each score's interval."""
    named = {key: metric_of(key).interval for key in keys}
    return {key: method for key, method in named.items() if method}


def signatures(tokenize: str = "13a") -> dict[str, str]:
    """Return the signatures of sacreBLEU's metrics."""
    found = {}
    for key, sacre in sacre_metrics().items():
        metric = sacre.make(tokenize)
        metric.corpus_score(["a"], [["a"]])
        found[key] = str(metric.get_signature())
    return found

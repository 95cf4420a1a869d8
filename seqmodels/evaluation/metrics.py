"""The only list of metrics: how each is named, formatted and computed. No torch.

A row holds the measurements of one test example. Every score is computed from rows only, so the
JSONL next to a record is enough to recompute all scores. A new metric is one entry here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqmodels.data.text import HANGUL, N_SAMPLED, unspaced_script
from seqmodels.evaluation.intervals import Interval, Row, Score, compute_interval, groups_of
from seqmodels.models import import_file

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU


N_CHRF = 6
"""Letters of the longest n-grams of chrF."""


def quotient(sums: np.ndarray) -> np.ndarray:
    """Return the first sum divided by the second."""
    return np.asarray(sums[..., 0] / sums[..., 1])


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric: a score of sums (`ratio` or `count`), or one without sums and interval."""

    label: str
    unit: str = ""
    digits: int = 1
    """Decimals in tables."""
    is_loss: bool = False
    """Whether lower is better."""
    is_teacher_forced: bool = False
    """Whether each token is predicted after the true tokens, not after the model's own."""
    is_percent: bool = False
    """Whether the score is between 0 and 100."""
    ratio: tuple[str, str | None, float] | None = None
    """(above, below, scale): scale × Σ above / Σ below of these fields; None below: per row."""
    count: Callable[[Sequence[str], Sequence[str], str], np.ndarray] | None = None
    """count(hyps, refs, tokenize) returns the counts of each pair, whose sums give the score."""
    score_from_stats: Score = quotient
    """Computes the score from summed terms, for many resamples at once."""

    @property
    def name(self) -> str:
        """Return the label with its unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    def terms(self, rows: Sequence[Row], tokenize: str) -> np.ndarray | None:
        """Return each row's terms, whose sums give the score; None if the rows lack its fields."""
        if self.count and "hyp" in rows[0]:
            return self.count([row["hyp"] for row in rows], [row["ref"] for row in rows], tokenize)
        if self.ratio and self.ratio[0] in rows[0]:
            above, below, scale = self.ratio
            pairs = [(scale * row[above], row[below] if below else 1.0) for row in rows]
            return np.array(pairs, dtype=np.float64)
        return None


def perplexity(sums: np.ndarray) -> np.ndarray:
    """Return the exponential of the loss per token."""
    return np.asarray(np.exp(np.minimum(quotient(sums), 99)))


# ------------------------------------------------------------------------------------ sacreBLEU


def make_bleu(tokenize: str) -> BLEU:
    """Return sacreBLEU's BLEU, without its warning about texts that look tokenized."""
    from sacrebleu.metrics import BLEU  # only where a text is scored

    return BLEU(force=True, tokenize=tokenize)


def sacrebleu_signatures(tokenize: str = "13a") -> dict[str, str]:
    """Return the signatures of sacreBLEU's metrics by their names here."""
    from sacrebleu.metrics import CHRF

    signatures = {}
    for key, metric in (("bleu", make_bleu(tokenize)), ("chrf", CHRF())):
        metric.corpus_score(["a"], [["a"]])
        signatures[key] = str(metric.get_signature())
    return signatures


def count_bleu(hyps: Sequence[str], refs: Sequence[str], tokenize: str) -> np.ndarray:
    """Return for each pair the tokens of hypothesis and reference, and matching and all n-grams."""
    bleu = make_bleu(tokenize)
    scores = (bleu.corpus_score([hyp], [[ref]]) for hyp, ref in zip(hyps, refs, strict=True))
    return np.array([(s.sys_len, s.ref_len, *s.counts, *s.totals) for s in scores], np.float64)


def bleu_of_counts(sums: np.ndarray) -> np.ndarray:
    """Return BLEU from sums of `count_bleu`, as sacreBLEU does, for many resamples at once."""
    n_hyp, n_ref, matches, ngrams = sums[..., 0], sums[..., 1], sums[..., 2:6], sums[..., 6:10]
    smooth = 0.5 ** np.cumsum(matches == 0, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(matches > 0, matches, smooth) / ngrams
        brevity = np.where(n_hyp < n_ref, 1 - n_ref / n_hyp, 0)
        score = 100 * np.exp(brevity + np.log(precision).mean(-1))
    return np.where(matches.any(-1) & ngrams.all(-1), score, 0.0)


def count_chrf(hyps: Sequence[str], refs: Sequence[str], tokenize: str) -> np.ndarray:
    """Return for each pair and n the n-grams of letters of hypothesis and reference, and matches.

    sacreBLEU keeps these counts to itself.
    """
    counts = np.zeros((len(hyps), N_CHRF, 3))
    for i, pair in enumerate(zip(hyps, refs, strict=True)):
        letters = ["".join(text.split()) for text in pair]
        for n in range(1, N_CHRF + 1):
            hyp, ref = (Counter(t[j : j + n] for j in range(len(t) - n + 1)) for t in letters)
            counts[i, n - 1] = hyp.total() * bool(ref), ref.total(), (hyp & ref).total()
    return counts.reshape(len(hyps), -1)


def chrf_of_counts(sums: np.ndarray) -> np.ndarray:
    """Return chrF from sums of `count_chrf`, as sacreBLEU does, for many resamples at once."""
    n_hyp, n_ref, n_same = np.moveaxis(sums.reshape(*sums.shape[:-1], -1, 3), -1, 0)
    both = (n_hyp > 0) & (n_ref > 0)
    n_orders = np.maximum(both.sum(-1), 1)
    precision, recall = (
        np.divide(n_same, n, out=np.zeros_like(n), where=both).sum(-1) / n_orders
        for n in (n_hyp, n_ref)
    )
    below = 4 * precision + recall
    return 100 * np.divide(5 * precision * recall, below, out=np.zeros_like(below), where=below > 0)


TOKENIZER_OF_SCRIPT = {"han": "zh", "kana": "ja-mecab", "other": "flores200", None: "13a"}
"""sacreBLEU's tokenizers for languages written without spaces, and for the others."""


def tokenizer_for(texts: Iterable[str]) -> str:
    """Return the name of sacreBLEU's tokenizer for the script of texts; "char" if it fails here."""
    sample = [*islice(texts, N_SAMPLED)]
    script = unspaced_script(sample)
    is_korean = script is None and 2 * sum(bool(HANGUL.search(t)) for t in sample) > len(sample)
    name = "ko-mecab" if is_korean else TOKENIZER_OF_SCRIPT[script]
    try:
        check_tokenizer(name)
    except ValueError:
        return "char"
    return name


def check_tokenizer(name: str) -> None:
    """Raise ValueError for a tokenizer of sacreBLEU that does not work here."""
    try:
        make_bleu(name)
    except (KeyError, ImportError, OSError, RuntimeError) as error:  # not there; no network
        raise ValueError(f"sacreBLEU's tokenizer {name} does not work here: {error}") from error


# ------------------------------------------------------------------------------------- The table

METRICS = {
    "nats": Metric(
        label="loss", unit="nats per token", digits=3, is_loss=True, is_teacher_forced=True,
        ratio=("nats", "n_tokens", 1.0),
    ),
    "bits_per_byte": Metric(
        label="loss", unit="bits per byte", digits=3, is_loss=True, is_teacher_forced=True,
        ratio=("nats", "n_bytes", 1 / math.log(2)),
    ),
    "perplexity": Metric(
        label="perplexity", unit="per token", is_loss=True, is_teacher_forced=True,
        ratio=("nats", "n_tokens", 1.0), score_from_stats=perplexity,
    ),
    "token_accuracy": Metric(
        label="next-token accuracy", unit="%", is_teacher_forced=True, is_percent=True,
        ratio=("n_correct", "n_tokens", 100.0),
    ),
    "exact_match": Metric(
        label="exact match", unit="%", is_percent=True, ratio=("exact_match", None, 100.0)
    ),
    "accuracy": Metric(
        label="symbol accuracy", unit="%", is_percent=True, ratio=("n_same", "n_places", 100.0)
    ),
    "bleu": Metric(
        label="BLEU", is_percent=True, count=count_bleu, score_from_stats=bleu_of_counts
    ),
    "chrf": Metric(
        label="chrF", is_percent=True, count=count_chrf, score_from_stats=chrf_of_counts
    ),
    "length_ratio": Metric(label="Length ratio", digits=3),
    "baseline": Metric(label="baseline", unit="%"),
}  # fmt: skip
"""Metrics by their field names in records. Without a free-running search, a target is an exact
match if each of its tokens was the most likely one: greedy search would write it."""


COMPUTED = [key for key, metric in METRICS.items() if metric.ratio or metric.count]
"""The built-in metrics that are computed from rows."""


def register_metric(name: str) -> str:
    """Return a key of METRICS, or FILE.py:NAME, whose function is added to them as NAME.

    Its score is the mean of what it returns for a hypothesis and its reference. Raises ValueError
    if there is no such function, or a built-in metric has its name.
    """
    place, _, key = name.rpartition(":")
    if not place and key in COMPUTED:
        return name
    function = getattr(import_file(Path(place).resolve()), key, None) if place else None
    if not callable(function) or key in COMPUTED:
        names = ", ".join(COMPUTED)
        raise ValueError(f"{name}: give FILE.py:NAME of a function of another name than {names}")

    def count(hyps: Sequence[str], refs: Sequence[str], _: str) -> np.ndarray:
        return np.array([(function(h, r), 1) for h, r in zip(hyps, refs, strict=True)], float)

    METRICS[key] = replace(metric_of(key), count=count)
    return name


def metric_of(key: str) -> Metric:
    """Return a metric; one that is not in the table is labelled by its key."""
    return METRICS.get(key) or Metric(label=key.replace("_", " "))


def compute_scores_by_bucket(
    rows: Sequence[Row], buckets: Sequence[tuple[int, int]], tokenize: str = "13a"
) -> tuple[dict[str, Interval], list[dict[str, Any]]]:
    """Compute all scores whose fields the rows have, overall and in buckets of x.

    `tokenize` is sacreBLEU's tokenizer for BLEU. N-grams are counted once for all buckets.
    """
    terms = {key: metric.terms(rows, tokenize) for key, metric in METRICS.items()}
    groups = groups_of(rows)

    def score(indices: np.ndarray) -> dict[str, Interval]:
        own = {key: each[indices] for key, each in terms.items() if each is not None}
        own_groups = None if groups is None else [groups[i] for i in indices]
        scores = {}
        for key, each in own.items():
            metric = METRICS[key]
            scores[key] = compute_interval(
                each, metric.score_from_stats, own_groups, metric.is_percent
            )
        if "bleu" in own:  # the length of the hypotheses divided by that of the references
            n_hyp, n_ref, *_counts = own["bleu"].sum(0)
            ratio = float(n_hyp / max(n_ref, 1))
            scores["length_ratio"] = {"value": ratio, "low": None, "high": None}
        if "baseline" in rows[0]:  # what is correct without the ability that a test measures
            baseline = 100 * float(np.mean([rows[i]["baseline"] for i in indices]))
            scores["baseline"] = {"value": baseline, "low": None, "high": None}
        return scores

    lengths = [row["x"] for row in rows] if buckets else []
    return score(np.arange(len(rows))), map_buckets(lengths, buckets, score)


def map_buckets(
    x: Sequence[float],
    buckets: Sequence[tuple[int, int]],
    score: Callable[[np.ndarray], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Return the count and the scores of each bucket (low ≤ x ≤ high), without empty buckets.

    `score` gets the indices of a bucket's examples.
    """
    parts = []
    for low, high in buckets:
        indices = np.flatnonzero([low <= each <= high for each in x])
        if indices.size:
            parts.append({"low": low, "high": high, "n": len(indices), **score(indices)})
    return parts

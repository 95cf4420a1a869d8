"""The only list of metrics: how each is named, formatted and computed. No torch.

A row holds the measurements of one test example. Every score is computed from rows only, so the
JSONL next to a record is enough to recompute all scores. A new metric is one entry here: records,
tables and figures all use this list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from seqmodels.data.scripts import HANGUL, N_SAMPLED, unspaced_script
from seqmodels.evaluation.intervals import (
    Interval,
    Row,
    Score,
    compute_interval,
    groups_of,
    quotient,
)

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU, CHRF


class Part(NamedTuple):
    """The rows of a bucket, or all rows, from which a metric is computed."""

    rows: Sequence[Row]
    tokenize: str
    terms: dict[str, np.ndarray]
    """The terms of each metric whose fields the rows have."""
    scores: dict[str, Interval]
    """The scores of these metrics."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric: a score of sums (`ratio` or `sacrebleu`), or another one (`compute`)."""

    label: str
    unit: str = ""
    digits: int = 1
    """Decimals in tables."""
    better: Literal["higher", "lower"] | None = "higher"
    """None: neither is better."""
    is_teacher_forced: bool = False
    """Whether each token is predicted after the true tokens, not after the model's own."""
    is_percent: bool = False
    """Whether the score is between 0 and 100."""
    interval: str | None = "BCa bootstrap"
    """How its interval is computed; None: it has no interval."""
    ratio: tuple[str, str | None, float] | None = None
    """(above, below, scale): scale × Σ above / Σ below of these fields; None below: per row."""
    sacrebleu: Callable[..., BLEU | CHRF] | None = None
    """make(tokenize, is_lowercase=False) returns sacreBLEU's metric object."""
    score_from_stats: Score = quotient
    """Computes the score from summed terms, for many resamples at once."""
    compute: Callable[[Part], Interval | None] | None = None
    """Computes any other score; None if the rows lack its fields."""

    @property
    def name(self) -> str:
        """Return the label with its unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def is_loss(self) -> bool:
        """Return whether lower is better."""
        return self.better == "lower"

    def terms(self, rows: Sequence[Row], tokenize: str) -> np.ndarray | None:
        """Return each row's terms, whose sums give the score; None if the rows lack its fields."""
        if self.sacrebleu and "hyp" in rows[0]:
            hyps, refs = ([row[key] for row in rows] for key in ("hyp", "ref"))
            return sacrebleu_counts(self.sacrebleu(tokenize), hyps, [refs])
        if self.ratio and self.ratio[0] in rows[0]:
            above, below, scale = self.ratio
            pairs = [(scale * row[above], row[below] if below else 1.0) for row in rows]
            return np.array(pairs, dtype=np.float64)
        return None

    def score(self, terms: np.ndarray, groups: Sequence[Hashable] | None = None) -> Interval:
        """Return the score of the rows' terms with its interval."""
        result = compute_interval(
            terms,
            self.score_from_stats,
            groups,
            self.is_percent,
            is_binary=self.interval == "Wilson",
        )
        if self.sacrebleu:  # to the last digit
            exact = self.sacrebleu("none")._compute_score_from_stats(list(terms.sum(0)))
            result["value"] = float(exact.score)
        return result


# -------------------------------------------------------------------------------- Other scores


def perplexity(part: Part) -> Interval | None:
    """Return the exponential of the loss per token."""
    if "nats" not in part.scores:
        return None
    ends = part.scores["nats"].items()
    return {k: None if nats is None else math.exp(min(nats, 99)) for k, nats in ends}


def source_gain(part: Part) -> Interval | None:
    """Return the mean gain from the source: nats per token saved over another row's source."""
    rows = [row for row in part.rows if "nats_shuffled" in row]
    if not rows:
        return None
    saved = [(row["nats_shuffled"] - row["nats"], row["n_tokens"]) for row in rows]
    return compute_interval(np.array(saved, dtype=np.float64), quotient, groups_of(rows))


def mean_baseline(part: Part) -> Interval | None:
    """Return the mean baseline: the percentage correct without the ability that a test measures."""
    if "baseline" not in part.rows[0]:
        return None
    return without_interval(100 * float(np.mean([row["baseline"] for row in part.rows])))


def length_ratio(part: Part) -> Interval | None:
    """Return the length of the hypotheses divided by that of the references, in BLEU's tokens."""
    if "bleu" not in part.terms:
        return None
    n_hyp, n_ref, *_ = part.terms["bleu"].sum(0)
    return without_interval(float(n_hyp / max(n_ref, 1)))


def chance_bleu(part: Part) -> Interval | None:
    """Return the BLEU of the references when each is scored against another row's reference."""
    if "hyp" not in part.rows[0] or len(part.rows) < 2:
        return None
    refs = [row["ref"] for row in part.rows]
    others = [refs[i] for i in pair_by_length([len(ref) for ref in refs])]
    return without_interval(make_bleu(part.tokenize).corpus_score(others, [refs]).score)


def pair_by_length(lengths: Sequence[int]) -> list[int]:
    """Pair each of at least two rows with another row of similar length.

    Neighbours by length swap; if their number is odd, the last three rotate. Among rows of equal
    length, the pairs are random.
    """
    n = len(lengths)
    order = np.lexsort((np.random.default_rng(1).permutation(n), np.array(lengths)))
    swapped = np.arange(n) ^ 1
    if n % 2:
        swapped[-3:] = np.roll(np.arange(n)[-3:], 1)
    partner_of = np.empty(n, dtype=int)
    partner_of[order] = order[swapped]
    return partner_of.tolist()


def without_interval(value: float) -> Interval:
    """Return a value with no interval."""
    return {"value": value, "low": None, "high": None}


# ------------------------------------------------------------------------------------ sacreBLEU


def sacrebleu_counts(
    metric: BLEU | CHRF, hyps: Sequence[str], refs: Sequence[Sequence[str]]
) -> np.ndarray:
    """Return the counts of a sacreBLEU metric, a row per sentence; scores depend on their sums."""
    return np.array(metric._extract_corpus_statistics(hyps, refs), dtype=np.float64)


def bleu_of_counts(sums: np.ndarray) -> np.ndarray:
    """Return BLEU from sacreBLEU's counts, as its compute_bleu does, for many resamples at once.

    The counts are hypothesis tokens, reference tokens, matching n-grams and hypothesis n-grams.
    """
    n_hyp, n_ref, matches, ngrams = sums[..., 0], sums[..., 1], sums[..., 2:6], sums[..., 6:10]
    smooth = 0.5 ** np.cumsum(matches == 0, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(matches > 0, matches, smooth) / ngrams
        brevity = np.where(n_hyp < n_ref, 1 - n_ref / n_hyp, 0)
        score = 100 * np.exp(brevity + np.log(precision).mean(-1))
    return np.where(matches.any(-1) & ngrams.all(-1), score, 0.0)


def chrf_of_counts(sums: np.ndarray) -> np.ndarray:
    """Return chrF from sacreBLEU's counts, as its _compute_f_score does, for many resamples."""
    n_hyp, n_ref, n_same = np.moveaxis(sums.reshape(*sums.shape[:-1], -1, 3), -1, 0)
    both = (n_hyp > 0) & (n_ref > 0)
    n_orders = np.maximum(both.sum(-1), 1)
    precision, recall = (
        np.divide(n_same, n, out=np.zeros_like(n), where=both).sum(-1) / n_orders
        for n in (n_hyp, n_ref)
    )
    below = 4 * precision + recall
    return 100 * np.divide(5 * precision * recall, below, out=np.zeros_like(below), where=below > 0)


def make_bleu(tokenize: str, is_lowercase: bool = False) -> BLEU:
    """Return sacreBLEU's BLEU, without its warning about texts that look tokenized."""
    from sacrebleu.metrics import BLEU  # only where a text is scored

    return BLEU(lowercase=is_lowercase, force=True, tokenize=tokenize)


def make_chrf(tokenize: str, is_lowercase: bool = False) -> CHRF:
    """Return sacreBLEU's chrF, which needs no tokenizer."""
    from sacrebleu.metrics import CHRF

    return CHRF(lowercase=is_lowercase)


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


def check_tokenizer(name: str, flag: str = "--bleu-tokenize") -> None:
    """Raise ValueError for a tokenizer that sacreBLEU does not have, or that does not work here."""
    from sacrebleu.metrics import BLEU

    if name not in BLEU.TOKENIZERS:
        raise ValueError(f"{flag} {name}: sacreBLEU has {', '.join(BLEU.TOKENIZERS)}")
    try:
        BLEU(tokenize=name)
    except (ImportError, OSError, RuntimeError) as error:  # not installed; no network
        reason = " ".join(str(error).split())
        raise ValueError(f"{flag} {name} does not work here: {reason}") from error


# ------------------------------------------------------------------------------------- The table

LOSSES = ("nats", "bits_per_byte")
"""Shown in every table."""

METRICS = {
    "nats": Metric(
        label="loss", unit="nats per token", digits=3, better="lower", is_teacher_forced=True,
        ratio=("nats", "n_tokens", 1.0),
    ),
    "bits_per_byte": Metric(
        label="loss", unit="bits per byte", digits=3, better="lower", is_teacher_forced=True,
        ratio=("nats", "n_bytes", 1 / math.log(2)),
    ),
    "perplexity": Metric(
        label="perplexity", unit="per token", better="lower", is_teacher_forced=True,
        compute=perplexity,
    ),
    "token_accuracy": Metric(
        label="next-token accuracy", unit="%", is_teacher_forced=True, is_percent=True,
        ratio=("n_correct", "n_tokens", 100.0),
    ),
    "source_gain": Metric(
        label="gain from the source", unit="nats per token", digits=3, is_teacher_forced=True,
        compute=source_gain,
    ),
    "exact_match": Metric(
        label="exact match", unit="%", is_percent=True, interval="Wilson",
        ratio=("exact_match", None, 100.0),
    ),
    "accuracy": Metric(
        label="symbol accuracy", unit="%", is_percent=True, ratio=("n_same", "n_places", 100.0)
    ),
    "bleu": Metric(
        label="BLEU", is_percent=True, sacrebleu=make_bleu, score_from_stats=bleu_of_counts
    ),
    "chrf": Metric(
        label="chrF", is_percent=True, sacrebleu=make_chrf, score_from_stats=chrf_of_counts
    ),
    "length_ratio": Metric(
        label="Length ratio", digits=3, better=None, interval=None, compute=length_ratio
    ),
    "chance_bleu": Metric(label="BLEU by chance", interval=None, compute=chance_bleu),
    "baseline": Metric(label="baseline", unit="%", interval=None, compute=mean_baseline),
}  # fmt: skip
"""Metrics by their field names in records. Without a free-running search, a target is an exact
match if each of its tokens was the most likely one: greedy search would write it."""


def metric_of(key: str) -> Metric:
    """Return a metric; one that is not in the table is labelled by its key."""
    return METRICS.get(key) or Metric(label=key)


def sacrebleu_metrics(tokenize: str, is_lowercase: bool = False) -> dict[str, BLEU | CHRF]:
    """Return sacreBLEU's objects for its metrics in the table."""
    makers = {key: metric.sacrebleu for key, metric in METRICS.items() if metric.sacrebleu}
    return {key: make(tokenize, is_lowercase) for key, make in makers.items()}


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
        scores = {key: METRICS[key].score(each, own_groups) for key, each in own.items()}
        part = Part([rows[i] for i in indices], tokenize, own, scores)
        others = {key: metric.compute(part) for key, metric in METRICS.items() if metric.compute}
        found = others | scores
        return {key: each for key in METRICS if (each := found.get(key))}

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


def interval_methods(keys: Iterable[str]) -> dict[str, str]:
    """Return metric -> the method of its interval."""
    return {key: method for key in keys if (method := metric_of(key).interval)}


def sacrebleu_signatures(tokenize: str = "13a") -> dict[str, str]:
    """Return the signatures of sacreBLEU's metrics."""
    signature_of = {}
    for key, metric in sacrebleu_metrics(tokenize).items():
        metric.corpus_score(["a"], [["a"]])
        signature_of[key] = str(metric.get_signature())
    return signature_of

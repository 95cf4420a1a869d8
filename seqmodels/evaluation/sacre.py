"""sacreBLEU's metrics, computed from its own counts, with intervals; its tokenizers. No torch."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sacrebleu.metrics import BLEU, CHRF

from seqmodels.evaluation.intervals import Interval, Score, interval


class SacreMetric(NamedTuple):
    """One of sacreBLEU's metrics."""

    make: Callable[..., Any]
    """make(tokenize, is_lowercase=False, references=None) returns sacreBLEU's metric object."""
    from_counts: Score
    """Computes the score from summed counts as sacreBLEU does, for many resamples at once."""
    is_percent: bool = True
    """Whether the score is at most 100; one such as TER has no upper bound."""

    def score(
        self, metric: Any, counts: np.ndarray, groups: Sequence[Hashable] | None = None
    ) -> Interval:
        """Return the score of `metric`, an object from `make`, with its interval from counts."""
        value = float(metric._compute_score_from_stats(list(counts.sum(0))).score)
        return {**interval(counts, self.from_counts, groups, self.is_percent), "value": value}


def count(metric: Any, hyps: Sequence[str], refs: Sequence[Sequence[str]] | None) -> np.ndarray:
    """Return the counts of a sacreBLEU metric, one row per sentence; scores depend on their sums.

    Without `refs`, the references are those with which the metric was made.
    """
    return np.array(metric._extract_corpus_statistics(hyps, refs), dtype=np.float64)


def bleu(sums: np.ndarray) -> np.ndarray:
    """Return BLEU from sacreBLEU's counts, as its compute_bleu does, for many resamples at once.

    The counts are hypothesis tokens, reference tokens, matching n-grams and hypothesis n-grams.
    """
    n_hyp, n_ref, right, written = sums[..., 0], sums[..., 1], sums[..., 2:6], sums[..., 6:10]
    smooth = 0.5 ** np.cumsum(right == 0, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(right > 0, right, smooth) / written
        brevity = np.where(n_hyp < n_ref, 1 - n_ref / n_hyp, 0)
        score = 100 * np.exp(brevity + np.log(precision).mean(-1))
    return np.where(right.any(-1) & written.all(-1), score, 0.0)


def chrf(sums: np.ndarray) -> np.ndarray:
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


def make_bleu(
    tokenize: str, is_lowercase: bool = False, references: Sequence[Sequence[str]] | None = None
) -> BLEU:
    """Return sacreBLEU's BLEU, without its warning about texts that look tokenized."""
    return BLEU(lowercase=is_lowercase, force=True, tokenize=tokenize, references=references)


def make_chrf(
    tokenize: str, is_lowercase: bool = False, references: Sequence[Sequence[str]] | None = None
) -> CHRF:
    """Return sacreBLEU's chrF, which needs no tokenizer."""
    return CHRF(lowercase=is_lowercase, references=references)


UNSPACED = {
    **dict.fromkeys(("zh", "zho", "chi", "cmn", "yue"), "zh"),
    **dict.fromkeys(("ja", "jpn"), "ja-mecab"),
    **dict.fromkeys(("ko", "kor"), "ko-mecab"),
    **dict.fromkeys(("th", "tha", "my", "mya", "bur", "km", "khm", "lo", "lao"), "flores200"),
    **dict.fromkeys(("bo", "bod", "tib", "dz", "dzo"), "flores200"),
}
"""sacreBLEU's tokenizers for languages written without spaces, or not as 13a expects."""


def tokenizer_for(language: str) -> str:
    """Return the name of sacreBLEU's tokenizer for a language; "char" if it does not work here."""
    name = UNSPACED.get(re.split(r"[-_]", language.lower())[0], "13a")
    try:
        check_tokenizer(name)
    except ValueError:
        return "char"
    return name


def check_tokenizer(name: str) -> None:
    """Raise ValueError for a tokenizer that sacreBLEU does not have, or that does not work here."""
    if name not in BLEU.TOKENIZERS:
        known = ", ".join(BLEU.TOKENIZERS)
        raise ValueError(f"--bleu-tokenize {name}: sacreBLEU has {known}")
    try:
        BLEU(tokenize=name)
    except (ImportError, OSError, RuntimeError) as error:  # not installed; no network
        why = str(error).strip().splitlines()[0]
        raise ValueError(f"--bleu-tokenize {name} does not work here: {why}") from error

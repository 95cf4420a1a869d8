"""Scores of rows, overall and by length, with 95 % intervals. No torch.

A row holds what one test example gave; every score is computed from rows alone, so the JSONL
beside a record is enough to compute them again. Rows that share a `group` share a text: they are
drawn together. A score is a function of sums over rows; its interval is the BCa bootstrap's (Efron
1987) over groups, with levels widened for few of them (Hesterberg 2015). A share of rows that are
right or wrong, each on its own, gets Wilson's interval (1927).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU, CHRF

N_BOOTSTRAP = 1000
FEWEST = 10
"""Groups, at least, for an interval."""
NORMAL = NormalDist()
Z = NORMAL.inv_cdf(0.975)

Row = dict[str, Any]
Interval = dict[str, Any]
Score = Callable[[np.ndarray], np.ndarray]
"""A score from sums of columns: (..., columns) -> (...)."""

# ------------------------------------------------------------------------------------- Intervals


def resample(columns: np.ndarray) -> np.ndarray:
    """Return the columns' sums over N_BOOTSTRAP draws of rows; the same draws for every score."""
    rng, n = np.random.default_rng(1), len(columns)
    most = max(1, 2**22 // n)  # draws at a time, because of their memory
    sums = []
    for start in range(0, N_BOOTSTRAP, most):
        draw = np.arange(min(most, N_BOOTSTRAP - start))
        rows = rng.integers(n, size=(len(draw), n)) + n * draw[:, None]
        times = np.bincount(rows.ravel(), minlength=n * len(draw)).reshape(len(draw), n)
        sums.append(times @ columns)
    return np.concatenate(sums)


def student(df: int) -> float:
    """Return the 97.5 % point of Student's t (Fisher's expansion; to 0.001 from 9 degrees on)."""
    powers = [
        (Z**3 + Z) / 4,
        (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96,
        (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384,
    ]
    return Z + sum(term / df**k for k, term in enumerate(powers, 1))


def wilson(share: float, n: float) -> tuple[float, float]:
    """Return Wilson's interval of a share of n that are right or wrong."""
    middle, half = share + Z**2 / (2 * n), Z * math.sqrt(share * (1 - share) / n + (Z / n) ** 2 / 4)
    low, high = ((middle + side * half) / (1 + Z**2 / n) for side in (-1, 1))
    return max(low, 0.0), min(high, 1.0)


def by_group(columns: np.ndarray, groups: Sequence[Hashable] | None) -> np.ndarray:
    """Return the sums of each group's rows; without groups each row is one."""
    if groups is None:
        return columns
    places: dict[Hashable, int] = {}
    place = [places.setdefault(group, len(places)) for group in groups]
    sums = np.zeros((len(places), columns.shape[1]))
    np.add.at(sums, place, columns)
    return sums


def interval(
    columns: np.ndarray,
    score: Score,
    groups: Sequence[Hashable] | None = None,
    is_percent: bool = False,
    is_yes_no: bool = False,
) -> Interval:
    """Return a score of the columns' sums with its interval; none below FEWEST groups.

    A percentage that is the same in all draws, such as 100 % of everything, would get an interval
    of no width; it gets Wilson's for as many yes or no answers as there are groups. `is_yes_no`: a
    row is right or wrong; where each is a group of its own, Wilson's interval is taken.
    """
    sums = by_group(columns, groups)
    total = sums.sum(0, keepdims=True)
    value, n = score(total).item(), len(sums)
    if n < FEWEST:
        return {"value": value, "low": None, "high": None}
    if is_yes_no and n == len(columns):
        low, high = (100 * end for end in wilson(value / 100, n))
        return {"value": value, "low": low, "high": high}
    drawn, without = score(resample(sums)), score(total - sums)
    if is_percent and np.ptp(drawn) == 0:
        low, high = (100 * end for end in wilson(value / 100, n))
        return {"value": value, "low": low, "high": high}
    below = float(np.mean(drawn < value) + np.mean(drawn == value) / 2)
    bias = NORMAL.inv_cdf(min(max(below, 0.5 / N_BOOTSTRAP), 1 - 0.5 / N_BOOTSTRAP))
    pull = without.mean() - without
    skew = (pull**3).sum() / (6 * (pull**2).sum() ** 1.5 or 1.0)
    wide = student(n - 1) * math.sqrt(n / (n - 1))
    shifted = [bias + side * wide for side in (-1, 1)]
    levels = [NORMAL.cdf(bias + z / (1 - skew * z)) for z in shifted]
    low, high = np.quantile(drawn, levels)
    return {"value": value, "low": float(low), "high": float(high)}


# ---------------------------------------------------------------------------------------- Scores


def ratio(
    rows: Sequence[Row],
    above: Callable[[Row], float],
    below: Callable[[Row], float],
    scale: float,
    **kind: bool,
) -> Interval:
    """Return scale × Σ above / Σ below with its interval (`kind`: see interval)."""
    pairs = np.array([(above(row), below(row)) for row in rows], dtype=np.float64)

    def score(sums: np.ndarray) -> np.ndarray:
        return scale * sums[..., 0] / sums[..., 1]

    return interval(pairs, score, groups_of(rows), **kind)


def groups_of(rows: Sequence[Row]) -> list[Hashable] | None:
    """Return each row's group, if they have any."""
    return [row["group"] for row in rows] if "group" in rows[0] else None


def count(
    metric: BLEU | CHRF, hyps: Sequence[str], refs: Sequence[Sequence[str]] | None
) -> np.ndarray:
    """Return sacreBLEU's counts, a row per sentence: a score is one of their sums.

    Without `refs` those count with which the metric was made.
    """
    return np.array(metric._extract_corpus_statistics(hyps, refs), dtype=np.float64)


def bleu(sums: np.ndarray) -> np.ndarray:
    """Return BLEU from sacreBLEU's counts, as its compute_bleu does, many draws at once.

    The counts are tokens written, tokens of the reference, n-grams right and n-grams written.
    """
    n_hyp, n_ref, right, written = sums[..., 0], sums[..., 1], sums[..., 2:6], sums[..., 6:10]
    smooth = 0.5 ** np.cumsum(right == 0, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(right > 0, right, smooth) / written
        brevity = np.where(n_hyp < n_ref, 1 - n_ref / n_hyp, 0)
        score = 100 * np.exp(brevity + np.log(precision).mean(-1))
    return np.where(right.any(-1) & written.all(-1), score, 0.0)


def chrf(sums: np.ndarray) -> np.ndarray:
    """Return chrF from sacreBLEU's counts, as its _compute_f_score does, many draws at once."""
    n_hyp, n_ref, n_same = np.moveaxis(sums.reshape(*sums.shape[:-1], -1, 3), -1, 0)
    both = (n_hyp > 0) & (n_ref > 0)
    n_orders = np.maximum(both.sum(-1), 1)
    precision, recall = (
        np.divide(n_same, n, out=np.zeros_like(n), where=both).sum(-1) / n_orders
        for n in (n_hyp, n_ref)
    )
    below = 4 * precision + recall
    return 100 * np.divide(5 * precision * recall, below, out=np.zeros_like(below), where=below > 0)


def sacre(
    metric: BLEU | CHRF, counts: np.ndarray, groups: Sequence[Hashable] | None = None
) -> Interval:
    """Return sacreBLEU's score with its interval."""
    value = float(metric._compute_score_from_stats(list(counts.sum(0))).score)
    score = bleu if isinstance(metric, BLEU) else chrf
    return {**interval(counts, score, groups, is_percent=True), "value": value}


def partners(lengths: Sequence[int]) -> list[int]:
    """Return for each of at least two rows another one of like length.

    Neighbours by length swap; the last three, where they are odd, go round. Of rows of one length,
    those that stand far apart are as likely to swap as any.
    """
    n = len(lengths)
    order = np.lexsort((np.random.default_rng(1).permutation(n), np.array(lengths)))
    swapped = np.arange(n) ^ 1
    if n % 2:
        swapped[-3:] = np.roll(np.arange(n)[-3:], 1)
    found = np.empty(n, dtype=int)
    found[order] = order[swapped]
    return found.tolist()


def scores(rows: Sequence[Row], tokenize: str = "13a") -> dict[str, Interval]:
    """Return every score that the rows allow; `tokenize` is sacreBLEU's tokenizer for BLEU.

    source_gain: nats per token that are saved by a row's own source against another row's.
    chance_bleu: what the references score where each is taken for another row's; without interval.
    baseline (%): what is right, on average, without what the test asks for; without interval.

    Teacher-forced: nats per token, bits_per_byte, token_accuracy (%). Free-running, where the rows
    hold a `hyp`: bleu, chrf, accuracy (% of places right), exact (% of targets right),
    length_ratio (of what was written to the references, in BLEU's tokens). Without a `hyp`, exact
    counts the targets whose every token was the likeliest: what greedy search writes.
    """

    def share(above: str, below: Callable[[Row], float], **kind: bool) -> Interval:
        return ratio(rows, lambda row: row[above], below, 100.0, is_percent=True, **kind)

    def nats(below: str, scale: float) -> Interval:
        return ratio(rows, lambda row: row["nats"], lambda row: row[below], scale)

    result = {
        "nats": nats("n_tokens", 1.0),
        "bits_per_byte": nats("n_bytes", 1 / math.log(2)),
        "token_accuracy": share("n_right", lambda row: row["n_tokens"]),
        "exact": share("exact", lambda row: 1.0, is_yes_no=True),
    }
    if shuffled := [row for row in rows if "nats_shuffled" in row]:
        result["source_gain"] = ratio(
            shuffled,
            lambda row: row["nats_shuffled"] - row["nats"],
            lambda row: row["n_tokens"],
            1.0,
        )
    if "baseline" in rows[0]:
        result["baseline"] = alone(100 * float(np.mean([row["baseline"] for row in rows])))
    if "hyp" in rows[0]:
        result["accuracy"] = share("n_same", lambda row: row["n_places"])
        result |= text_scores(rows, tokenize)
    return result


def text_scores(rows: Sequence[Row], tokenize: str) -> dict[str, Interval]:
    """Return the scores of what was written, as texts."""
    result = {}
    hyps, refs = [row["hyp"] for row in rows], [[row["ref"] for row in rows]]
    for name, metric in (("bleu", BLEU(force=True, tokenize=tokenize)), ("chrf", CHRF())):
        counts = count(metric, hyps, refs)
        result[name] = sacre(metric, counts, groups_of(rows))
        if name == "bleu":
            written, true, *_ = counts.sum(0)
            result["length_ratio"] = alone(float(written / max(true, 1)))
            if len(rows) > 1:
                others = [refs[0][i] for i in partners([len(ref) for ref in refs[0]])]
                result["chance_bleu"] = alone(metric.corpus_score(others, refs).score)
    return result


def methods(names: Iterable[str]) -> dict[str, str]:
    """Return how each score's interval was computed, in a few words."""
    return {
        name: "Wilson" if name == "exact" else "BCa bootstrap"
        for name in names
        if name not in ("length_ratio", "chance_bleu", "baseline")
    }


UNSPACED = {
    **dict.fromkeys(("zh", "zho", "chi", "cmn", "yue"), "zh"),
    **dict.fromkeys(("ja", "jpn"), "ja-mecab"),
    **dict.fromkeys(("ko", "kor"), "ko-mecab"),
    **dict.fromkeys(("th", "tha", "my", "mya", "bur", "km", "khm", "lo", "lao"), "flores200"),
    **dict.fromkeys(("bo", "bod", "tib", "dz", "dzo"), "flores200"),
}
"""sacreBLEU's tokenizers for languages whose words are not set apart, or not as 13a expects."""


def tokenizer_for(language: str) -> str:
    """Return the name of sacreBLEU's tokenizer for a target language; "char" where it lacks it."""
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


def alone(value: float) -> Interval:
    """Return a value without an interval."""
    return {"value": value, "low": None, "high": None}


def signatures(tokenize: str = "13a") -> dict[str, str]:
    """Return sacreBLEU's signatures of the two scores."""
    found = {}
    for name, metric in (("bleu", BLEU(force=True, tokenize=tokenize)), ("chrf", CHRF())):
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

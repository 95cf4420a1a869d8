"""Scores over whole test sets: teacher-forced and free-running, overall and by length.

A row holds what one test example gave; every score is computed from rows alone, so the JSONL
beside a record is enough to compute them again. Intervals are 95 % bootstrap intervals over rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sacrebleu.metrics import BLEU, CHRF

from seqmodels.batches import Example, by_length, collate
from seqmodels.decode import beam, greedy
from seqmodels.interface import EOS, PAD, SequenceModel

N_BOOTSTRAP = 1000
BATCH_TOKENS = 6000

Row = dict[str, Any]
Interval = dict[str, float]


@torch.inference_mode()
def teacher_forced(
    model: SequenceModel, examples: Sequence[Example], device: str = "cpu"
) -> list[Row]:
    """Return nats, tokens and right tokens of each example, every token given the true ones."""
    model.eval()
    rows: list[Row] = [{} for _ in examples]
    for run in by_length(examples, BATCH_TOKENS):
        batch = collate([examples[i] for i in run], device)
        logits = model(batch.src, batch.src_mask, batch.tgt_in)
        real = batch.tgt_out != PAD
        nats = F.cross_entropy(logits.transpose(1, 2), batch.tgt_out, reduction="none") * real
        right = (logits.argmax(-1) == batch.tgt_out) & real
        columns = nats.sum(1).tolist(), real.sum(1).tolist(), right.sum(1).tolist()
        for i, *values in zip(run, *columns, strict=True):
            rows[i] = dict(zip(("nats", "n_tokens", "n_right"), values, strict=True))
    return rows


def free_running(
    model: SequenceModel, examples: Sequence[Example], width: int, device: str = "cpu"
) -> list[list[int]]:
    """Write each target from its source alone: greedily, or with a beam if `width` > 1.

    A target may be twice as long as its source, and ten tokens.
    """
    model.eval()
    written: list[list[int]] = [[] for _ in examples]
    for run in by_length(examples, BATCH_TOKENS // width):
        batch = collate([examples[i] for i in run], device)
        n_source = batch.src.shape[1]
        max_len = min(2 * n_source + 10, model.max_target(n_source))
        if width == 1:
            out = greedy(model, batch.src, batch.src_mask, max_len)
        else:
            out = beam(model, batch.src, batch.src_mask, max_len, width)
        for i, tokens in zip(run, out, strict=True):
            written[i] = tokens[: 2 * len(examples[i].src) + 10]
    return written


def compare_tokens(hyp: Sequence[int], tgt: Sequence[int]) -> Row:
    """Return whether a written target is the true one, and at how many of its places."""
    ref = [token for token in tgt if token != EOS]
    n_same = sum(h == r for h, r in zip(hyp, ref, strict=False))
    return {"n_same": n_same, "n_places": max(len(hyp), len(ref)), "exact": list(hyp) == ref}


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


def sacre(metric: BLEU | CHRF, rows: Sequence[Row]) -> Interval:
    """Return sacreBLEU's score with its bootstrap interval.

    Its own bootstrap fails on chrF where some draws score nothing: a mean of float and float32.
    """
    hyps, refs = [row["hyp"] for row in rows], [[row["ref"] for row in rows]]
    value = metric.corpus_score(hyps, refs).score
    counts = resample(np.array(metric._extract_corpus_statistics(hyps, refs), dtype=np.float64))
    drawn = [metric._compute_score_from_stats(list(sums)).score for sums in counts]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return {"value": float(value), "low": float(low), "high": float(high)}


def scores(rows: Sequence[Row]) -> dict[str, Interval]:
    """Return every score that the rows allow.

    Teacher-forced: nats per token, bits_per_byte, token_accuracy (%). Free-running, where the rows
    hold a `hyp`: bleu, chrf, accuracy (% of places right), exact (% of targets right). Without a
    `hyp`, exact counts the targets whose every token was the likeliest: what greedy search writes.
    """
    result = {
        "nats": ratio(rows, "nats", lambda row: row["n_tokens"], 1.0),
        "bits_per_byte": ratio(rows, "nats", lambda row: row["n_bytes"], 1 / math.log(2)),
        "token_accuracy": ratio(rows, "n_right", lambda row: row["n_tokens"], 100.0),
        "exact": ratio(rows, "exact", lambda row: 1.0, 100.0),
    }
    if "hyp" in rows[0]:
        result["accuracy"] = ratio(rows, "n_same", lambda row: row["n_places"], 100.0)
        result["bleu"] = sacre(BLEU(), rows)
        result["chrf"] = sacre(CHRF(), rows)
    return result


def signatures() -> dict[str, str]:
    """Return sacreBLEU's signatures of the two scores."""
    found = {}
    for name, metric in (("bleu", BLEU()), ("chrf", CHRF())):
        metric.corpus_score(["a"], [["a"]])
        found[name] = str(metric.get_signature())
    return found


def by_bin(rows: Sequence[Row], bins: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Return the scores of each bin (low ≤ x ≤ high) with its count; empty bins are left out."""
    table = []
    for low, high in bins:
        inside = [row for row in rows if low <= row["x"] <= high]
        if inside:
            table.append({"low": low, "high": high, "n": len(inside), **scores(inside)})
    return table


@torch.inference_mode()
def state_bytes(model: SequenceModel, device: str = "cpu") -> list[tuple[int, int]]:
    """Return the size of what `encode` hands over, in bytes, for sources of 8, 16, … 256 tokens."""
    sizes = []
    for n in (8, 16, 32, 64, 128, 256):
        if model.max_target(n) > 0:
            src = torch.full((1, n), EOS, device=device)
            state = model.encode(src, torch.ones_like(src, dtype=torch.bool))
            sizes.append((n, sum(tensor.nbytes for tensor in state)))
    return sizes

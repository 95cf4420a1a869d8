"""Attention of trained runs over the source, head by head, packed for a page."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from seqmodels.comparison.trained import TrainedRun, load
from seqmodels.data.batches import Example, collate

PARTS, PARTS_OF_HEAD = 20_000, 200
"""A weight is kept as a whole number of such parts: in two bytes, or in one for a single head."""
REST = 1e-3
"""Weight off the source from which a map has a column for it: GPT also attends to the target."""


def maps_of(path: Path, texts: Sequence[tuple[str, str]]) -> list[dict[str, Any] | None]:
    """Return the maps of a run for each (source, hypothesis); None for an empty hypothesis.

    An empty list if its weights are missing, or if it attends to nothing.
    """
    if not path.with_suffix(".safetensors").exists():
        return []
    run = load(path)
    if not run.model.src_attentions:
        return []
    return [map_of(run, source, target) for source, target in texts]


@torch.inference_mode()
def map_of(run: TrainedRun, source: str, target: str) -> dict[str, Any] | None:
    """Return how each target token attends to the source: by `align`, then layer by layer."""
    tgt = run.encode(target)
    if not tgt:
        return None
    src = run.encode_source(source)
    batch = collate([Example(src, tgt)])
    where = batch.src, batch.src_mask, batch.tgt_in
    heads = run.model.attention_weights(*where)[0]  # (L, H, T, S)
    weights = torch.cat([run.model.align(*where), heads.flatten(0, 1)]).numpy()
    names = run.tokenizer.tokens
    columns = names(src)
    rest = 1 - weights.sum(-1, keepdims=True)
    if rest.max() > REST:
        weights, columns = np.concatenate([weights, rest.clip(0)], -1), [*columns, ""]
    return {
        "src": columns,
        "tgt": names(tgt),
        "layers": heads.shape[0],
        "heads": heads.shape[1],
        "align": packed(in_parts(weights[0], PARTS).astype("<u2")),
        "weights": packed(in_parts(weights[1:], PARTS_OF_HEAD).astype("u1")),
    }


def in_parts(weights: np.ndarray, n: int) -> np.ndarray:
    """Return distributions over the last axis as whole numbers of parts that sum to n.

    Each is rounded down, or up where the remainder is among the largest.
    """
    exact = n * weights / weights.sum(-1, keepdims=True)
    down = np.floor(exact)
    order = np.argsort(np.argsort(down - exact, -1, kind="stable"), -1)  # rank of the remainder
    return down + (order < n - down.sum(-1, keepdims=True))


def packed(parts: np.ndarray) -> str:
    """Return integers as base64 of their gzipped bytes, in little-endian order."""
    return base64.b64encode(gzip.compress(parts.tobytes(), mtime=0)).decode()


def chosen(x: Sequence[int], buckets: Sequence[tuple[int, int]], n: int) -> list[int]:
    """Return up to n examples, as evenly from the buckets as they hold them, in order."""
    inside = [[i for i, at in enumerate(x) if low <= at <= high] for low, high in buckets]
    found: list[int] = []
    for rank in range(max(map(len, inside), default=0)):
        found += [bucket[rank] for bucket in inside if rank < len(bucket)]
    return sorted(found[:n])

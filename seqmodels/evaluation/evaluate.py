"""Evaluate a model on a whole test set, one row per example: teacher-forced and free-running."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F

from seqmodels.data.batches import Example, batches_by_length, collate
from seqmodels.evaluation.intervals import Row
from seqmodels.interface import EOS, PAD, SequenceModel, device_of
from seqmodels.models.cache import tensors_of
from seqmodels.search import LENGTH_PENALTY, beam, greedy
from seqmodels.utils.terminal import SILENT, ProgressBar

BATCH_TOKENS = 6000


@torch.no_grad()  # inference mode would spoil the buffers of weights that are shared out
def score_teacher_forced(
    model: SequenceModel,
    examples: Sequence[Example],
    phase: str = "teacher-forced",
    bar: ProgressBar = SILENT,
) -> list[Row]:
    """Return the nats, tokens and correct tokens of each example, given the true prefix."""
    model.eval()
    rows: dict[int, Row] = {}
    for indices in bar.track(phase, batches_by_length(examples, BATCH_TOKENS)):
        batch = collate([examples[i] for i in indices], device_of(model))
        logits = model(batch.src, batch.src_mask, batch.tgt_in)
        real = batch.tgt_out != PAD
        nats = F.cross_entropy(logits.transpose(1, 2), batch.tgt_out, reduction="none") * real
        correct = (logits.argmax(-1) == batch.tgt_out) & real
        columns = nats.sum(1).tolist(), real.sum(1).tolist(), correct.sum(1).tolist()
        for i, *values in zip(indices, *columns, strict=True):
            rows[i] = dict(zip(("nats", "n_tokens", "n_correct"), values, strict=True))
    return [rows[i] for i in range(len(examples))]


def generate_targets(
    model: SequenceModel,
    examples: Sequence[Example],
    width: int,
    bar: ProgressBar = SILENT,
    length_penalty: float = LENGTH_PENALTY,
) -> list[list[int]]:
    """Generate each target from its source only: greedily, or with a beam if `width` > 1.

    The length limit depends on a target's own source, not on its batch.
    """
    search = greedy if width == 1 else partial(beam, width=width, length_penalty=length_penalty)
    model.eval()
    generated: dict[int, list[int]] = {}
    lots = batches_by_length(examples, BATCH_TOKENS // width) if examples else []
    for indices in bar.track("search", lots):
        batch = collate([examples[i] for i in indices], device_of(model))
        lengths = [len(examples[i].src) for i in indices]
        max_len = torch.tensor([min(2 * n + 10, model.max_target(n)) for n in lengths])
        generated |= zip(indices, search(model, batch.src, batch.src_mask, max_len), strict=True)
    return [generated[i] for i in range(len(examples))]


def compare_tokens(hyp: Sequence[int], tgt: Sequence[int]) -> Row:
    """Count the positions at which a generated target equals the true one."""
    ref = [token for token in tgt if token != EOS]
    n_same = sum(h == r for h, r in zip(hyp, ref, strict=False))
    return {"n_same": n_same, "n_places": max(len(hyp), len(ref)), "exact_match": list(hyp) == ref}


@torch.inference_mode()
def measure_cache_bytes(model: SequenceModel) -> list[tuple[int, int]]:
    """Return (n, bytes of the state that `encode` returns) for n = 8, 16, … 256 source tokens."""
    sizes = []
    for n in (8, 16, 32, 64, 128, 256):
        if model.max_target(n) > 0:
            src = torch.full((1, n), EOS, device=device_of(model))
            state = model.encode(src, torch.ones_like(src, dtype=torch.bool))
            sizes.append((n, sum(tensor.nbytes for tensor in tensors_of(state))))
    return sizes

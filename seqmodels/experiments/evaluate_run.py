"""Measure a trained model on a task: rows and scores, an alignment, operations of training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from seqmodels.data.batches import Example, longest, training_batches
from seqmodels.evaluation.evaluate import (
    align_target,
    compare_tokens,
    generate_targets,
    score_teacher_forced,
)
from seqmodels.evaluation.intervals import Row
from seqmodels.evaluation.metrics import compute_scores_by_bucket, pair_by_length
from seqmodels.experiments.task import Task, TestSet
from seqmodels.interface import BOS, EOS, PAD, Batch, SequenceModel, device_of
from seqmodels.training.config import TrainConfig
from seqmodels.training.loop import loss_of
from seqmodels.utils.progress import SILENT, StatusFile


def score_test_set(
    model: SequenceModel, task: Task, test: TestSet, status: StatusFile = SILENT
) -> tuple[list[Row], dict[str, Any]]:
    """Return a test set's rows and its entry in the record."""
    model = test.adapt(model, status) if test.adapt else model
    beam = test.beam or task.beam
    rows = build_rows(model, task, test, beam, status)
    overall, buckets = compute_scores_by_bucket(rows, test.buckets, task.bleu_tokenize)
    entry = {
        "name": test.name,
        "axis": test.axis,
        "kind": test.kind,
        "unit": test.unit,
        "primary_metric": test.primary_metric,
        **({"beam": beam} if test.is_generated else {}),
        "max_train_length": test.max_train_length,
        "noun": test.noun,
        "grouped_by": test.grouped_by or None,
        "baseline": test.baseline_name or None,
        "overall": overall,
        "buckets": buckets,
    }
    return rows, entry


def build_rows(
    model: SequenceModel,
    task: Task,
    test: TestSet,
    beam: int,
    status: StatusFile = SILENT,
) -> list[Row]:
    """Return a row per example: its texts, losses and, if generated, the hypothesis."""
    rows = score_teacher_forced(model, test.examples, status=status)
    free = None
    if test.is_generated:
        free = generate_targets(model, test.examples, beam, status)
    for i, (row, example) in enumerate(zip(rows, test.examples, strict=True)):
        tgt = example.scored()
        src, ref = task.tokenizer.decode(example.src), task.tokenizer.decode(tgt)
        n_bytes = task.tokenizer.n_bytes(tgt)
        if test.texts:
            src, ref = test.texts[i]
            n_bytes = len(ref.encode())
        n_bytes += EOS in tgt  # the end of a text counts as one byte
        row |= {"set": test.name, "x": test.x[i], "n_bytes": n_bytes, "src": src, "ref": ref}
        if test.groups is not None:
            row["group"] = test.groups[i]
        if test.baseline is not None:
            row["baseline"] = test.baseline[i]
        if free is None:
            row["exact_match"] = row["n_correct"] == row["n_tokens"]
        else:
            row |= {"hyp": task.tokenizer.decode(free[i])} | compare_tokens(free[i], example.tgt)
    for i, nats in shuffled_sources(model, test.examples, status).items():
        rows[i]["nats_shuffled"] = nats
    return rows


def shuffled_sources(
    model: SequenceModel, examples: Sequence[Example], status: StatusFile = SILENT
) -> dict[int, float]:
    """Return the nats of each target given the source of another example of similar length.

    Examples whose source is BOS alone are left out.
    """
    real = []
    if longest(examples)[0] > 1:
        real = [i for i, example in enumerate(examples) if list(example.src) != [BOS]]
    if len(real) < 2:
        return {}
    own = [examples[i] for i in real]
    swapped = [
        example._replace(src=own[j].src)
        for example, j in zip(own, pair_by_length([len(e.src) for e in own]), strict=True)
    ]
    rows = score_teacher_forced(model, swapped, "sources shuffled", status)
    return {i: row["nats"] for i, row in zip(real, rows, strict=True)}


def example_alignment(model: SequenceModel, task: Task) -> dict[str, Any] | None:
    """Return the attention weights for the shown example's reference target, if there are any."""
    if task.alignment_example is None or not model.cross_attentions:
        return None
    example, links = task.alignment_example
    alpha = align_target(model, example)
    tgt = [token for token in example.tgt if token != EOS]
    return {
        "src": task.tokenizer.tokens(example.src),
        "tgt": task.tokenizer.tokens(tgt),
        "alpha": [[round(a, 4) for a in row] for row in alpha],
        "gold": links,
    }


N_BATCHES, N_ROWS = 4, 4
"""How many batches are counted, and how many rows of each: more give the same within 2 %."""


def flops_per_token(model: SequenceModel, examples: Sequence[Example], cfg: TrainConfig) -> float:
    """Return the operations of one forward and backward pass of training, per target token.

    They are those of the matrix products in some rows of the first batches, two for a
    multiplication and an addition; sums over vectors and activations are left out, as usual. The
    model's gradients are dropped.
    """
    n_flops = n_tokens = 0
    cfg = replace(cfg, precision="float32", source_loss=0.0)
    for batch in islice(training_batches(examples, cfg.batch_tokens, cfg.seed), N_BATCHES):
        every = -(-len(batch.src) // N_ROWS)  # rows are sorted by length, padded to the longest
        rows = Batch(*(tensor[::every].to(device_of(model)) for tensor in batch))
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
            loss_of(model, cfg, rows).backward()
        n_flops += counter.get_total_flops()
        n_tokens += int((rows.tgt_out != PAD).sum())
    model.zero_grad()
    return n_flops / n_tokens

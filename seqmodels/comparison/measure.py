"""Measure a trained model on a task's test sets: a row per example, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from seqmodels.comparison.task import Task, TestSet
from seqmodels.data.batches import Example, collate, lengths
from seqmodels.evaluation.evaluate import compare_tokens, free_running, teacher_forced
from seqmodels.evaluation.intervals import Row
from seqmodels.evaluation.metrics import partners, scores_by_bucket
from seqmodels.interface import BOS, EOS, SequenceModel
from seqmodels.utils.progress import SILENT, StatusFile


def evaluate_all(
    model: SequenceModel, task: Task, device: str, status: StatusFile = SILENT
) -> tuple[list[Row], list[dict[str, Any]]]:
    """Return the rows of all test sets, and their entries in the record."""
    rows, tests = [], []
    for test in task.tests:
        status.detail = f"test set {test.name}"
        test_rows, scored = evaluate(model, task, test, device, status)
        rows += test_rows
        tests.append(scored)
    status.detail = ""
    return rows, tests


def evaluate(
    model: SequenceModel, task: Task, test: TestSet, device: str, status: StatusFile = SILENT
) -> tuple[list[Row], dict[str, Any]]:
    """Return a test set's rows and its entry in the record."""
    beam = test.beam or task.beam
    rows = build_rows(model, task, test, beam, device, status)
    overall, buckets = scores_by_bucket(rows, test.buckets, task.bleu_tokenize)
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
    device: str,
    status: StatusFile = SILENT,
) -> list[Row]:
    """Return a row per example: its texts, losses and, if generated, the hypothesis."""
    rows = teacher_forced(model, test.examples, device, status=status)
    free = None
    if test.is_generated:
        free = free_running(model, test.examples, beam, device, status)
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
    for i, nats in shuffled_sources(model, test.examples, device, status).items():
        rows[i]["nats_shuffled"] = nats
    return rows


def shuffled_sources(
    model: SequenceModel, examples: Sequence[Example], device: str, status: StatusFile = SILENT
) -> dict[int, float]:
    """Return the nats of each target given the source of another example of similar length.

    Examples whose source is BOS alone are left out.
    """
    real = []
    if int(lengths(examples)[:, 0].max()) > 1:
        real = [i for i, example in enumerate(examples) if list(example.src) != [BOS]]
    if len(real) < 2:
        return {}
    own = [examples[i] for i in real]
    swapped = [
        example._replace(src=own[j].src)
        for example, j in zip(own, partners([len(e.src) for e in own]), strict=True)
    ]
    rows = teacher_forced(model, swapped, device, "sources shuffled", status)
    return {i: row["nats"] for i, row in zip(real, rows, strict=True)}


def example_alignment(model: SequenceModel, task: Task, device: str) -> dict[str, Any] | None:
    """Return the attention weights for the shown example's reference target."""
    if task.alignment_example is None:
        return None
    example, links = task.alignment_example
    batch = collate([example], device)
    if not model.src_attentions:
        return None
    with torch.inference_mode():
        alpha = model.align(batch.src, batch.src_mask, batch.tgt_in)[0]
    tgt = [token for token in example.tgt if token != EOS]
    return {
        "src": task.tokenizer.tokens(example.src),
        "tgt": task.tokenizer.tokens(tgt),
        "alpha": [[round(a, 4) for a in row] for row in alpha[: len(tgt)].tolist()],
        "gold": links,
    }

"""Batches ready to be trained on: dealt to the processes in shards, on the model's device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from seqmodels.data.batches import Example, batch_indices, collate
from seqmodels.interface import PAD, Batch
from seqmodels.training.config import TrainConfig
from seqmodels.utils.world import world


class Shard(NamedTuple):
    """A share of a batch's rows, on the model's device."""

    number: int
    rows: Batch
    n_targets: list[int]
    """Scored target tokens of each row."""


class PreparedBatch(NamedTuple):
    """A batch that is ready to be trained on."""

    shards: list[Shard]
    """Those of this process."""
    n_targets: int
    """Scored target tokens of the whole batch."""
    n_rows: int
    """Rows of the whole batch."""
    lines: Sequence[int] = ()
    """Lines of its examples in the training data, for messages."""
    next_place: tuple[int, int] = 0, 0
    """Epoch and number of the batch after it."""


def prepared_batches(
    examples: Sequence[Example], cfg: TrainConfig, device: torch.device, epoch: int, number: int
) -> Iterator[PreparedBatch]:
    """Yield batches without end, beginning with this one of this epoch."""
    for place in batch_indices(examples, cfg.batch_tokens, cfg.seed, epoch, number):
        rows = [examples[i] for i in place.rows]
        lines = [row.line or i + 1 for row, i in zip(rows, place.rows, strict=True)]
        prepared = prepare(collate(rows), cfg.shards, device)
        yield prepared._replace(lines=lines, next_place=(place.epoch, place.batch + 1))


def prepare(batch: Batch, n_shards: int, device: torch.device) -> PreparedBatch:
    """Cut a batch into shards, and move those of this process to the device."""
    shards = []
    for i in world().my_shard(range(n_shards)):
        rows = take_rows(batch, i, n_shards) if n_shards > 1 else batch
        shards.append(Shard(i, to_device(rows, device), count_targets(rows)))
    return PreparedBatch(shards, sum(count_targets(batch)), len(batch.src))


def take_rows(batch: Batch, first: int, step: int) -> Batch:
    """Return every step-th row, without the columns that only other rows need."""
    src, src_mask, tgt_in, tgt_out = (tensor[first::step] for tensor in batch)
    n_src, n_tgt = (int(real.any(0).sum()) for real in (src_mask, tgt_in != PAD))
    return Batch(src[:, :n_src], src_mask[:, :n_src], tgt_in[:, :n_tgt], tgt_out[:, :n_tgt])


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Return a batch on a device; a GPU copies it when it comes to it."""
    if device.type == "cuda" and not batch.src.is_cuda:
        batch = Batch(*(tensor.contiguous().pin_memory() for tensor in batch))
    return Batch(*(tensor.to(device, non_blocking=True) for tensor in batch))


def count_targets(batch: Batch) -> list[int]:
    """Return the number of scored target tokens of each row."""
    return (batch.tgt_out != PAD).sum(1).tolist()


def split(shard: Shard, n_parts: int) -> Iterator[tuple[Batch, int]]:
    """Yield a shard's rows in pieces that have targets, each with the number of these."""
    start = 0
    for piece in map(Batch._make, zip(*(t.chunk(n_parts) for t in shard.rows), strict=True)):
        end = start + len(piece.src)
        if n := sum(shard.n_targets[start:end]):
            yield piece, n
        start = end

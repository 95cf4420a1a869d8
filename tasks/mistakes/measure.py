"""Measure what tells a mistake: the loss if the future or the padding is another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from seqmodels.data.batches import Example
from seqmodels.experiments.task import Rows
from seqmodels.interface import PAD, SequenceModel
from seqmodels.search import unroll

from ..analyses import batches_of

N_PADS = 20
"""Pads that are added to each source."""


@torch.no_grad()
def measure_losses(model: SequenceModel, _: SequenceModel, examples: Sequence[Example]) -> Rows:
    """Return nats per token, in three ways.

    They are the pass that training takes, the true words one by one as search takes its own, and
    N_PADS more pads behind each source: of a sound model, the logits are the same.
    """
    model.eval()
    totals: dict[str, float] = defaultdict(float)
    n_tokens = sum(len(example.tgt) for example in examples)
    for _indices, batch in batches_of(model, examples):
        padded = F.pad(batch.src, (0, N_PADS), value=PAD)
        ways = {
            "at once": model(batch.src, batch.src_mask, batch.tgt_in),
            "by steps": unroll(model, model.encode(batch.src, batch.src_mask), batch.tgt_in)[0],
            "padded": model(padded, padded != PAD, batch.tgt_in),
        }
        for way, logits in ways.items():
            totals[way] += F.cross_entropy(
                logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD, reduction="sum"
            ).item()
    return [{"way": way, "nats": nats / n_tokens} for way, nats in totals.items()]

"""Count the floating-point operations of training, to compare models at equal compute."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from seqmodels.data.batches import Example, training_batches
from seqmodels.interface import PAD, Batch, SequenceModel
from seqmodels.training.config import TrainConfig
from seqmodels.training.loop import loss_of

N_BATCHES, N_ROWS = 4, 4
"""How many batches are counted, and how many rows of each: more give the same within 2 %."""


def flops_per_token(model: SequenceModel, examples: Sequence[Example], cfg: TrainConfig) -> float:
    """Return the operations of one forward and backward pass, per target token.

    They are those of the matrix products in some rows of the first batches, two for a
    multiplication and an addition; sums over vectors and activations are left out, as usual. The
    model's gradients are dropped.
    """
    n_flops = n_tokens = 0
    device = next(model.parameters()).device
    for batch in islice(training_batches(examples, cfg.batch_tokens, cfg.seed), N_BATCHES):
        every = -(-len(batch.src) // N_ROWS)  # rows are sorted by length, padded to the longest
        rows = Batch(*(tensor[::every].to(device) for tensor in batch))
        with FlopCounterMode(display=False) as counted, sdpa_kernel(SDPBackend.MATH):
            loss_of(model, rows).backward()
        n_flops += counted.get_total_flops()
        n_tokens += int((rows.tgt_out != PAD).sum())
    model.zero_grad()
    return n_flops / n_tokens

"""Compile the forward pass of a training step, once for batches of all shapes."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch._dynamo
import torch._inductor.config
from torch import Tensor
from torch._dynamo.exc import FailOnRecompileLimitHit, RecompileError, TorchDynamoException

from seqmodels.interface import EOS, PAD, Batch, SequenceModel
from seqmodels.training.trainer import loss_of

SHAPES = (5, 7, 9), (4, 8, 6)
"""Rows, source and target tokens of two batches; equal ones would be taken to be equal always."""
MAX_GRAPHS = 64
"""Graphs at most: batches of one row, and sources as long as targets, have their own."""


def compiled(model: SequenceModel, backend: str = "inductor") -> Callable[..., Tensor]:
    """Return a compiled `loss_of` for this model.

    Raises ValueError for a model that cannot be compiled as a whole, or only for each length anew.
    """
    torch._dynamo.reset()
    check_compiles(model)
    torch._dynamo.reset()
    torch._dynamo.config.recompile_limit = MAX_GRAPHS
    torch._inductor.config.fallback_random = True  # dropout draws what it draws without
    return torch.compile(loss_of, dynamic=True, fullgraph=True, backend=backend)


def check_compiles(model: SequenceModel) -> None:
    """Trace two tiny batches; raise ValueError if the second one cannot use the first one's graph.

    No random number is drawn.
    """
    trace = torch.compile(loss_of, dynamic=True, fullgraph=True, backend="eager")
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    try:
        trace(model, batch_of(*SHAPES[0], device))
        with torch._dynamo.config.patch(error_on_recompile=True):
            trace(model, batch_of(*SHAPES[1], device))
    except (RecompileError, FailOnRecompileLimitHit):
        raise ValueError(
            "--compile: this model has a loop over time, so that it would be compiled anew for "
            "each length of its texts; train it without --compile"
        ) from None
    except TorchDynamoException as error:
        why = str(error).partition("\n")[0]
        raise ValueError(
            f"--compile: torch cannot compile this model ({why}); train it without --compile"
        ) from None
    finally:
        model.train(was_training)
        torch._dynamo.reset()


def batch_of(n_rows: int, n_src: int, n_tgt: int, device: torch.device) -> Batch:
    """Return a batch of EOS alone, of this shape."""
    src, tgt = (torch.full((n_rows, n), EOS, device=device) for n in (n_src, n_tgt))
    return Batch(src, src != PAD, tgt, tgt)

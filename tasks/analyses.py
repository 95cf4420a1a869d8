"""What several tasks use to look into trained models: batches, and calls of modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from torch import nn

from seqmodels.data.batches import Example, batches_by_length, collate
from seqmodels.evaluation.evaluate import BATCH_TOKENS
from seqmodels.interface import Batch, SequenceModel, device_of


def batch_of(model: SequenceModel, examples: Sequence[Example]) -> Batch:
    """Collate examples on the model's device."""
    return collate(examples, device_of(model))


def batches_of(model: SequenceModel, examples: Sequence[Example]) -> Iterator[tuple[Any, Batch]]:
    """Yield batches of examples of similar lengths: their indices, and the batch."""
    for indices in batches_by_length(examples, BATCH_TOKENS):
        yield indices, batch_of(model, [examples[i] for i in indices])


@contextmanager
def watch(modules: Iterable[nn.Module]) -> Iterator[list[list[tuple[Any, Any]]]]:
    """Collect the arguments and the output of each call of these modules inside the context."""
    calls: list[list[tuple[Any, Any]]] = []
    with ExitStack() as hooks:
        for module in modules:
            own: list[tuple[Any, Any]] = []
            calls.append(own)
            note = partial(lambda own, _, args, out: own.append((args, out)), own)
            hooks.enter_context(module.register_forward_hook(note))
        yield calls

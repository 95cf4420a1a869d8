"""A training that takes no time: its settings, its sentences, and how it ends."""

import itertools
import random
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from seqmodels.data.batches import Example
from seqmodels.interface import EOS
from seqmodels.training import loop
from seqmodels.training.checkpoint import Checkpoints
from seqmodels.training.config import TrainConfig
from seqmodels.training.trainer import Trainer

V = 11
"""Tokens in the vocabulary of all tiny models."""
CFG = TrainConfig(tokens=600, lr=1e-2, batch_tokens=60, n_validations=3)


def draw_examples(n: int, longest: int, seed: int = 1) -> list[Example]:
    """Draw sources of skewed lengths, and targets about as long."""
    rng = random.Random(seed)

    def one() -> Example:
        n_src = min(longest, max(1, round(rng.lognormvariate(2.7, 0.6))))
        n_tgt = min(longest, max(1, round(n_src * rng.uniform(0.8, 1.3))))
        src, tgt = ([rng.randrange(4, V) for _ in range(k)] for k in (n_src, n_tgt - 1))
        return Example(src, [*tgt, EOS])

    return [one() for _ in range(n)]


def examples(n: int = 60) -> list[Example]:
    """Draw sources of up to six letters, each to be copied."""
    rng = random.Random(1)
    texts = [[rng.randrange(4, V) for _ in range(rng.randint(1, 6))] for _ in range(n)]
    return [Example(text, [*text, EOS], line=i) for i, text in enumerate(texts, 1)]


class Calling(Checkpoints):
    """Checkpoints that call functions, and write nothing."""

    def __init__(self, save: Any = lambda: None, is_due: Any = lambda: False):
        self.call_save, self.call_is_due = save, is_due

    def is_due(self) -> bool:
        return self.call_is_due()

    def save(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        self.call_save()


def finish(one: Trainer, **how: Any) -> dict[str, Any]:
    """Train to the end; return weights, and the curve without its seconds."""
    curve = loop.train(one, examples()[10:], examples()[:10], Calling(**how))
    points = [{k: v for k, v in point.items() if k != "seconds"} for point in curve]
    return {"weights": {k: v.clone() for k, v in one.model.state_dict().items()}, "curve": points}


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Compare bits."""
    assert one["curve"] == other["curve"]
    assert one["weights"].keys() == other["weights"].keys()
    assert all(torch.equal(one["weights"][k], other["weights"][k]) for k in one["weights"])


@contextmanager
def stopped_after(n_steps: int) -> Iterator[None]:
    """Send Ctrl-C after so many steps of whatever is trained here, and expect it to arrive."""
    training_step, steps = loop.training_step, itertools.count(1)

    def step(*given: Any) -> None:
        training_step(*given)
        if next(steps) == n_steps:
            signal.raise_signal(signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "training_step", step)
        with pytest.raises(KeyboardInterrupt):
            yield

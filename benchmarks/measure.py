"""Take turns: time the contestants round by round, so that the machine's moods hit all alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from seqmodels.interface import PAD, Batch

Work = Callable[[], float]
"""Do a fixed piece of work; return how many units it was."""

RATE = 1e-4
"""Learning rate of everyone: speed does not depend on it, and no weight runs away."""


class Effort(NamedTuple):
    """How long is measured: turns of everyone, and how many seconds one takes at least."""

    rounds: int
    seconds: float


class Size(NamedTuple):
    """How much is measured."""

    seconds: float
    n_pairs: int
    """Sentence pairs of the English–German grammar, of 4 to 40 words."""
    width: int
    """Width of all but the GPT, which is half as wide again."""
    n_layers: int
    """Layers and heads of the GPT; the Transformer has half as many layers on each side."""
    block: int
    """Bytes in a row of the GPT's training text."""
    batch_tokens: int
    n_batches: int
    """Training batches; a turn goes through all of them, as often as it takes."""
    n_sentences: int
    n_written: int
    """Tokens that are written for each sentence where a step is profiled."""
    test_step: int
    """Of the 34 batches of the translation task's test sentences, every so-manyth is translated."""
    n_sampled: int
    lengths: tuple[int, ...]
    """Tokens of source and of target, for the growth with length."""
    rows: tuple[int, ...]
    widths: tuple[int, ...]
    n_peak: int
    """Side of the square matrices whose product measures the machine."""


SIZES = {
    "smoke": Size(0.0, 100, 16, 2, 16, 64, 2, 4, 3, 34, 4, (8, 16), (1, 2), (16, 32), n_peak=64),
    "full": Size(
        *(2.0, 4_000, 256, 6, 256, 1500, 8, 64, 24, 11, 128),
        lengths=(8, 16, 32, 64, 128, 256, 512, 1024, 2048),
        rows=(1, 2, 4, 8, 16, 32, 64),
        widths=(64, 128, 256, 512),
        n_peak=2048,
    ),
}


class Spread(NamedTuple):
    """The median of all rounds, the lowest and the highest."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Return median, lowest and highest."""
    return Spread(statistics.median(values), min(values), max(values))


def ratio(ours: Sequence[float], peer: Sequence[float]) -> Spread:
    """Return the spread of the ratios, each of two turns of the same round."""
    return spread([a / b for a, b in zip(ours, peer, strict=True)])


def pace(work: Work, seconds: float) -> float:
    """Repeat the work for at least so many seconds; return units per second."""
    done, since = 0.0, time.perf_counter()
    while True:
        done += work()
        if (elapsed := time.perf_counter() - since) >= seconds:
            return done / elapsed


def alternate(works: Mapping[str, Work], effort: Effort) -> dict[str, list[float]]:
    """Warm everyone up, then give each a turn, round after round; return the rates of all turns."""
    for work in works.values():
        pace(work, effort.seconds / 4)
    gc.collect()
    rates: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(effort.rounds):
        for name, work in works.items():
            rates[name].append(pace(work, effort.seconds))
    return rates


def contest(sides: Mapping[str, Callable[[], Work]], effort: Effort) -> dict[str, Any]:
    """Build all sides and let them take turns; return all rates, and who was not there and why."""
    works: dict[str, Work] = {}
    skipped: dict[str, str] = {}
    for name, build in sides.items():
        torch.manual_seed(1)
        try:
            works[name] = build()
        except ImportError as error:
            skipped[name] = str(error)
    return {"rates": alternate(works, effort), "skipped": skipped}


def training(update: Callable[[Batch], object], batches: Sequence[Batch]) -> Work:
    """Return the work of one update for each batch, counted in real target tokens."""
    n_tokens = sum(int((batch.tgt_out != PAD).sum()) for batch in batches)

    def work() -> float:
        for batch in batches:
            update(batch)
        return n_tokens

    return work

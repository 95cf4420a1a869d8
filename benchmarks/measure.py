"""Time all sides in turns, round by round, so that noise on the machine affects them equally."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from seqmodels.interface import PAD, Batch

Work = Callable[[], float]
"""Do a fixed amount of work; return how many units it was."""

RATE = 1e-4
"""Learning rate for all sides: speed does not depend on it, and at this one nothing diverges."""


class Effort(NamedTuple):
    """How long to measure: the number of rounds, and the minimum seconds per turn."""

    rounds: int
    seconds: float


class Size(NamedTuple):
    """The sizes of the workloads."""

    seconds: float
    n_pairs: int
    """Sentence pairs from the English–German grammar, 4 to 40 words long."""
    width: int
    """Width of all models except GPT, which is 1.5 times as wide."""
    n_layers: int
    """Layers and heads of GPT; the Transformer has half as many layers on each side."""
    block: int
    """Bytes per row of GPT's training text."""
    batch_tokens: int
    n_batches: int
    """Training batches; a turn cycles through all of them until its time is up."""
    n_sentences: int
    n_written: int
    """Tokens generated per sentence when profiling a decoding step."""
    test_step: int
    """Stride over the 34 batches of the translation task's test sentences."""
    n_sampled: int
    lengths: tuple[int, ...]
    """Source and target tokens, for growth with length."""
    rows: tuple[int, ...]
    widths: tuple[int, ...]
    n_peak: int
    """Side of the square matrices whose product measures the machine's peak."""


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
    """Return the spread of the per-round ratios."""
    return spread([a / b for a, b in zip(ours, peer, strict=True)])


def pace(work: Work, seconds: float) -> float:
    """Repeat the work for at least `seconds`; return units per second."""
    done, since = 0.0, time.perf_counter()
    while True:
        done += work()
        if (elapsed := time.perf_counter() - since) >= seconds:
            return done / elapsed


def alternate(works: Mapping[str, Work], effort: Effort) -> dict[str, list[float]]:
    """Warm up all sides, then give each a turn per round; return the rates of all turns."""
    for work in works.values():
        pace(work, effort.seconds / 4)
    gc.collect()
    rates: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(effort.rounds):
        for name, work in works.items():
            rates[name].append(pace(work, effort.seconds))
    return rates


def contest(sides: Mapping[str, Callable[[], Work]], effort: Effort) -> dict[str, Any]:
    """Build all sides and time them in turns; return all rates, and why sides were skipped."""
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
    """Return work that makes one update per batch, counted in real target tokens."""
    n_tokens = sum(int((batch.tgt_out != PAD).sum()) for batch in batches)

    def work() -> float:
        for batch in batches:
            update(batch)
        return n_tokens

    return work

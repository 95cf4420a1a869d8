"""The order of batches of a corpus whose order does not fit into memory."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from toy_training import draw_examples

from seqmodels.data import batches
from seqmodels.data.batches import Example, LazyExamples, batch_ends


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> list[Example]:
    """Return examples that are many: several pools of several blocks, the last ones not full."""
    monkeypatch.setattr(batches, "LARGE", 1_000)
    monkeypatch.setattr(batches, "BLOCK", 64)
    monkeypatch.setattr(batches, "POOLED", 4)
    return draw_examples(1_500, 40)


def drawn(examples: list[Example], seed: int = 7, epoch: int = 0) -> list[list[int]]:
    """Return an epoch's batches."""
    return [*batches.shuffled_batches(examples, 300, seed, epoch)]


@pytest.mark.parametrize("batch_tokens", [1, 7, 40, 300, 5_000])
@pytest.mark.parametrize("seed", range(8))
def test_batches_end_where_rows_fill_them(batch_tokens: int, seed: int) -> None:
    """Keeps out a count of batches that differs from those that are cut row by row."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, (3, 50)[seed % 2], rng.integers(1, 400))
    runs: list[list[int]] = [[]]
    for size in sorted(sizes.tolist()):
        if runs[-1] and size * (len(runs[-1]) + 1) > batch_tokens:
            runs.append([])
        runs[-1].append(size)
    assert batch_ends(sizes, batch_tokens) == np.cumsum([*map(len, runs)]).tolist()


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_holds_every_example_once(many: list[Example], epoch: int) -> None:
    """Keeps out a last block that is dropped, batches over budget, and lengths that are mixed."""
    runs = drawn(many, epoch=epoch)
    assert sorted(i for run in runs for i in run) == [*range(len(many))]
    sizes = batches.lengths(many).max(1)
    assert all(len(run) * sizes[run].max() <= 300 or len(run) == 1 for run in runs)
    n_padded = sum(len(run) * int(sizes[run].max()) for run in runs)
    assert n_padded / sizes.sum() < 1.2
    assert np.corrcoef(np.arange(len(runs)), [sizes[run].max() for run in runs])[0, 1] < 0.3


def test_order_is_a_function_of_seed_and_epoch(many: list[Example]) -> None:
    """Keeps out a seed or an epoch that is not used, and blocks that always meet."""
    first = drawn(many)
    assert first == drawn(many)
    members = {frozenset(run) for run in first}
    for other in (drawn(many, seed=8), drawn(many, epoch=1)):
        assert len(members & {frozenset(run) for run in other}) < 0.05 * len(first)
        together, others = ({tuple(sorted({i // 64 for i in run})) for run in runs}
                            for runs in (first, other))  # fmt: skip
        assert len(together & others) < 0.2 * len(together)
    assert max(first[0]) - min(first[0]) > 256  # from blocks all over the corpus


def test_the_order_is_pinned(many: list[Example]) -> None:
    """Keeps out another order on another day: a resumed run would leave examples out."""
    assert drawn(many)[3] == [576, 1009, 960, 595, 963, 813, 593]
    assert drawn(many)[6] == [621, 1049, 1027, 818, 980, 786, 1077]


def test_a_walk_is_resumed_anywhere(many: list[Example]) -> None:
    """Keeps out a resumed run that repeats batches, leaves some out, or counts them anew."""
    walked = [*islice(batches.batch_indices(many, 300, 7), 500)]
    assert walked[-1].epoch >= 2
    for n in (0, 1, 37, 150, 151, 499):
        draw = walked[n]
        resumed = batches.batch_indices(many, 300, 7, draw.epoch, draw.batch)
        assert [*islice(resumed, 500 - n)] == walked[n:]
        assert batches.place_of(many, 300, 7, n + 1) == (draw.epoch, draw.batch + 1)
    n_first = sum(draw.epoch == 0 for draw in walked)
    assert batches.batch_indices(many, 300, 7, 0, n_first).__next__() == walked[n_first]


def test_a_small_corpus_is_resumed_as_well() -> None:
    """Keeps out another place for a run of few examples that is trained further."""
    few = draw_examples(40, 9)
    for n, draw in enumerate(islice(batches.batch_indices(few, 60, 7), 50), 1):
        assert batches.place_of(few, 60, 7, n) == (draw.epoch, draw.batch + 1)


# ---------------------------------------------------------------------------------- a billion

ROOT = Path(__file__).parents[1]
N = 10**9


class Formula(LazyExamples):
    """A billion examples, whose lengths are numbers from a formula."""

    def lengths_between(self, start: int, end: int) -> np.ndarray:
        """Return the lengths of some examples."""
        mixed = np.arange(start, end, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return (1 + (mixed[:, None] >> np.array([40, 50], np.uint64)) % np.uint64(60)).astype(int)

    def __len__(self) -> int:
        return N

    def at(self, i: int) -> Example:
        """Return an example; only type checks ask for one."""
        return Example([4], [5])


PROGRAM = """
import json, sys, time
import psutil
from seqmodels.data import batches
from test_block_order import Formula
n, since = int(sys.argv[1]), time.monotonic()
draw = next(batches.batch_indices(Formula(), 4096, 7, 0, n))
memory = psutil.Process().memory_info().rss
print(json.dumps([time.monotonic() - since, memory, draw.epoch, draw.batch, draw.rows]))
"""


def measured(n: int) -> tuple[float, float, list[int]]:
    """Return the seconds to the n-th batch of a billion examples, the memory, and the batch."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(n)], cwd=ROOT, capture_output=True, text=True,
        check=True, env={"PYTHONPATH": f"{ROOT}:{Path(__file__).parent}", "PATH": ""},
    )  # fmt: skip
    seconds, n_bytes, epoch, batch, rows = json.loads(done.stdout)
    assert (epoch, batch) == (0, n)
    return seconds, n_bytes, rows


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 10**6])
def test_a_billion_examples_start_at_once(n: int) -> None:
    """Keeps out a start, or a resumption, that reads an index of a billion examples."""
    seconds, n_bytes, rows = measured(n)
    assert len(rows) > 60
    assert seconds < 20  # 0.1 and 7 s on a core of its own
    assert n_bytes < 1e9


@pytest.mark.slow
def test_a_billion_examples_are_resumed_where_a_walk_comes() -> None:
    """Keeps out another batch than that which 100,000 batches lead to."""
    walk = islice(batches.batch_indices(Formula(), 4096, 7), 10**5, None)
    assert measured(10**5)[2] == next(walk).rows
    assert batches.place_of(Formula(), 4096, 7, 10**5) == (0, 10**5)

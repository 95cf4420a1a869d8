"""Windows of running text: contexts and continuations, and blocks that are scored whole."""

import os
import pickle
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from seqmodels import BOS
from seqmodels.data import SPLITS, batches
from seqmodels.utils import files
from tasks.next_token import windows as cut


def write(folder: Path, tokens: list[int]) -> batches.TokenStream:
    folder.mkdir()
    np.array(tokens, np.uint16).tofile(folder / "x.ids")
    files.write(folder / "made.json", '{"dtype": "uint16"}')
    return batches.TokenStream(folder, "x")


def test_windows_are_consecutive(tmp_path: Path) -> None:
    ids = write(tmp_path / "ids", [4 + i % 251 for i in range(5_000)])
    windows = cut.ContextWindows(ids, range(40, 4_960, 7), 8, context=40, seed=1)
    sizes = [len(e.src) if e.src != [BOS] else 0 for e in windows]
    for start, example, size in zip(windows.starts, windows, sizes, strict=True):
        context = example.src if size else []
        assert [*context, *example.tgt] == ids.slice(start - size, start + 8)
        assert not example.unscored
    assert set(sizes) == set(range(41))
    for low, high in ((0, 0), (1, 8), (9, 16), (17, 32), (33, 40)):  # short ones as often as long
        assert 0.15 < sum(low <= size <= high for size in sizes) / len(sizes) < 0.25
    assert batches.lengths(windows).tolist() == [[max(size, 1), 8] for size in sizes]
    other = cut.ContextWindows(ids, windows.starts, 8, context=40, seed=2)
    assert [len(e.src) for e in other] != [len(e.src) for e in windows]
    # pinned by stored records
    few = cut.ContextWindows(ids, range(40, 136, 8), 8, context=40, seed=1)
    assert few.contexts.tolist() == [11, 15, 21, 36, 0, 0, 38, 37, 1, 1, 39, 15]
    for longest, lengths in ((0, [0]), (8, [0, 8]), (100, [0, 8, 16, 32, 64, 100])):
        assert cut.context_lengths(longest) == lengths
    blocks = cut.ContextWindows(ids, range(0, 4_000), 8)
    for lazy in (windows, blocks, cut.Blocks(ids, 9)):
        assert [*pickle.loads(pickle.dumps(lazy))][::99] == [*lazy][::99]  # as workers get them


@pytest.mark.parametrize("n", [1, 7, 8, 9, 40, 41])
@pytest.mark.parametrize("block", [1, 8, 40])
def test_every_token_is_scored_once(n: int, block: int, tmp_path: Path) -> None:
    ids = write(tmp_path / "ids", [*range(4, 4 + n)])
    blocks = cut.Blocks(ids, block)
    assert [token for example in blocks for token in example.scored()] == [*range(4, 4 + n)]
    for example in blocks:
        last = example.tgt[-1]
        assert example.tgt == [*range(last - len(example.tgt) + 1, last + 1)]  # consecutive
        assert len(example.tgt) == min(block, n)  # the last one also has all that is before it
        assert example.src == [BOS]
    assert batches.lengths(blocks).tolist() == [[len(e.src), len(e.tgt)] for e in blocks]
    half = cut.Blocks(ids, block, n=n // 2)
    assert [token for e in half for token in e.scored()] == [*range(4, 4 + n // 2)] or n == 1


@pytest.mark.parametrize("n", [64, 95, 96])
def test_the_last_window_ends_with_the_text(n: int, tmp_path: Path) -> None:
    ids, counts = write(tmp_path / "ids", [*range(4, 4 + n)]), {f"n_tokens_{s}": n for s in SPLITS}
    ready: Any = SimpleNamespace(data=counts | {"name": "x"}, **dict.fromkeys(SPLITS, ids))
    targets = [ids.slice(i, i + 32) for i in ((32, 64) if n == 96 else (32,))]
    assert [example.tgt for example in cut.continuations(ready, 8).train] == targets


def test_a_long_text_takes_little_memory(tmp_path: Path) -> None:
    n = 2**24
    write(tmp_path / "x", [])
    os.truncate(tmp_path / "x" / "x.ids", 2 * n)
    tracemalloc.start()
    try:
        stream = batches.TokenStream(tmp_path / "x", "x")
        windows = cut.ContextWindows(stream, range(0, n - 63, 64), 64)
        rows = next(batches.shuffled_batches(windows, 768, seed=1, epoch=0))
        assert len([windows[i] for i in rows]) == 12
        assert tracemalloc.get_traced_memory()[1] < 100 * len(windows)
    finally:
        tracemalloc.stop()

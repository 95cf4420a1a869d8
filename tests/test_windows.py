"""Windows of running text: contexts, targets and blocks."""

import os
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from seqmodels import BOS
from seqmodels.data import batches
from seqmodels.data.batches import LINE_EVERY, ContextWindows, SlidingWindow, TokenStream
from seqmodels.evaluation import evaluate
from seqmodels.utils import files


def write(folder: Path, tokens: list[int]) -> TokenStream:
    """Put tokens on disk."""
    folder.mkdir()
    np.array(tokens, np.uint16).tofile(folder / "x.ids")
    np.zeros(-(-len(tokens) // LINE_EVERY), np.int64).tofile(folder / "x.lines")
    files.write(folder / "made.json", '{"dtype": "uint16"}')
    return TokenStream(folder, "x")


def test_windows_are_consecutive(tmp_path: Path) -> None:
    """Keeps out a gap between context and target, contexts of one length, seeds without effect."""
    ids = write(tmp_path / "ids", [4 + i % 251 for i in range(5_000)])
    windows = ContextWindows(ids, range(40, 4_960, 7), 8, context=40, seed=1)
    sizes = [len(e.src) if e.src != [BOS] else 0 for e in windows]
    for start, example, size in zip(windows.starts, windows, sizes, strict=True):
        context = example.src if size else []
        assert [*context, *example.tgt] == ids.slice(start - size, start + 8)
        assert not example.unscored
    assert set(sizes) == set(range(41))
    for low, high in ((0, 0), (1, 8), (9, 16), (17, 32), (33, 40)):  # short ones as often as long
        assert 0.15 < sum(low <= size <= high for size in sizes) / len(sizes) < 0.25
    assert batches.lengths(windows).tolist() == [[max(size, 1), 8] for size in sizes]
    assert batches.lengths(windows, 3, 6).tolist() == [[max(s, 1), 8] for s in sizes[3:6]]
    other = ContextWindows(ids, windows.starts, 8, context=40, seed=2)
    assert [len(e.src) for e in other] != [len(e.src) for e in windows]
    few = ContextWindows(ids, range(40, 136, 8), 8, context=40, seed=1)  # pinned by stored records
    assert few.contexts.tolist() == [11, 15, 21, 36, 0, 0, 38, 37, 1, 1, 39, 15]
    for lazy in (windows, ContextWindows(ids, range(0, 4_000), 8), SlidingWindow(ids, 9, 4)):
        assert [*pickle.loads(pickle.dumps(lazy))][::99] == [*lazy][::99]  # as workers get them


def test_contexts_double() -> None:
    """Keeps out a point twice, and one that is longer than asked."""
    assert batches.context_lengths(0) == [0]
    assert batches.context_lengths(8) == [0, 8]
    assert batches.context_lengths(100) == [0, 8, 16, 32, 64, 100]
    assert batches.context_lengths(128) == [0, 8, 16, 32, 64, 128]


@pytest.mark.parametrize("n", [1, 7, 8, 9, 40, 41])
@pytest.mark.parametrize(("block", "stride"), [(8, 8), (8, 3), (1, 1), (40, 40)])
def test_every_token_is_scored_once(n: int, block: int, stride: int, tmp_path: Path) -> None:
    """Keeps out tokens that are counted twice, or never: at the beginning and the end above all."""
    ids = write(tmp_path / "ids", [*range(4, 4 + n)])
    blocks = SlidingWindow(ids, block, stride)
    assert [token for example in blocks for token in example.scored()] == [*range(4, 4 + n)]
    for i, example in enumerate(blocks):
        last = example.tgt[-1]
        assert example.tgt == [*range(last - len(example.tgt) + 1, last + 1)]  # consecutive
        assert 1 <= len(example.scored()) <= (stride if i else block)
        assert len(example.tgt) == min(block, n)  # the last one also has all that is before it
        assert example.src == [BOS]
    assert batches.lengths(blocks).tolist() == [[len(e.src), len(e.tgt)] for e in blocks]
    half = SlidingWindow(ids, block, stride, n=n // 2)
    assert [token for e in half for token in e.scored()] == [*range(4, 4 + n // 2)] or n == 1


def test_strides_are_as_good_as_a_naive_loop(tiny, tmp_path: Path) -> None:
    """Keeps out a sum that is not the text's: each token after the block - 1 before it."""
    tokens = torch.randint(4, 11, (30,)).tolist()
    ids, model, block = write(tmp_path / "ids", tokens), tiny("gpt"), 6
    bos = torch.tensor([[BOS]])
    expected = 0.0
    for i, token in enumerate(tokens):
        before = tokens[max(0, i - block + 1) : i]
        logits = model(bos, bos > 0, torch.tensor([[BOS, *before]]))
        expected -= F.log_softmax(logits[0, -1], -1)[token].item()
    rows = evaluate.score_teacher_forced(model, SlidingWindow(ids, block, 1))
    assert sum(row["nats"] for row in rows) == pytest.approx(expected)
    assert sum(row["n_tokens"] for row in rows) == len(tokens)


def test_a_long_text_takes_little_memory(tmp_path: Path) -> None:
    """Keeps out windows that are all made, or a text that is all read, before the first batch."""
    n = 2**28
    write(tmp_path / "x", [])
    for kind, n_bytes in (("ids", 2 * n), ("lines", 8 * n // LINE_EVERY)):
        os.truncate(tmp_path / "x" / f"x.{kind}", n_bytes)
    tracemalloc.start()
    try:
        stream = TokenStream(tmp_path / "x", "x")
        windows = ContextWindows(stream, range(0, n - 63, 64), 64)
        rows = next(batches.shuffled_batches(windows, 768, seed=1, epoch=0))
        assert len([windows[i] for i in rows]) == 12
        assert tracemalloc.get_traced_memory()[1] < n
    finally:
        tracemalloc.stop()

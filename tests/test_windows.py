"""Windows of running text: its tokens on disk, cut into contexts, targets and blocks."""

from __future__ import annotations

import os
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from seqmodels import BOS
from seqmodels.data import batches, readers, tokenizers
from seqmodels.data.batches import LINE_EVERY, ContextWindows, Example, SlidingWindow, TokenStream
from seqmodels.data.corpus import SPLITS, read_text_corpus
from seqmodels.data.prepare import prepare_text, text_summary
from seqmodels.data.presets import MADE
from seqmodels.evaluation import evaluate
from seqmodels.interface import UNK
from seqmodels.utils import files

pytestmark = pytest.mark.usefixtures("cached")


# ----------------------------------------------------------------------------------------- Tokens


def write(folder: Path, tokens: list[int]) -> TokenStream:
    """Put tokens on disk."""
    folder.mkdir()
    np.array(tokens, np.uint16).tofile(folder / "x.ids")
    np.zeros(-(-len(tokens) // LINE_EVERY), np.int64).tofile(folder / "x.lines")
    files.write(folder / MADE, '{"dtype": "uint16"}')
    return TokenStream(folder, "x")


def test_tokens_are_the_whole_text(tmp_path: Path) -> None:
    """Keeps out tokens that are lost between pieces, or that overflow their bytes on disk."""
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{i} said, and went.\n" for i in range(400)))
    opened = read_text_corpus([path])
    for size in (260, 300, 600):
        ready = prepare_text(opened, "bpe", size, log=lambda line: None)
        for split in SPLITS:
            ids: TokenStream = getattr(ready, split)
            assert ready.tokenizer.decode(ids.slice(0, len(ids))) == "".join(opened.splits[split]())
            assert len(ids) == ready.data[f"n_tokens_{split}"]
    assert ready.train.ids.dtype == np.uint16


def test_every_token_has_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a message about a line that no one finds, across pieces of any size."""
    said = "".join(f"{i} said,\n\nand went.\n" for i in range(400))
    (tmp_path / "a.txt").write_text(said)
    for i, size in enumerate((3, 31, 32, 33, 5_000_000)):
        monkeypatch.setattr(readers, "CHUNK_BYTES", size)
        ids = prepare_text(read_text_corpus([tmp_path / "a.txt"]), "bytes", 300 + i, print).train
        written = tokenizers.Bytes().decode(ids.slice(0, len(ids)))
        assert said.startswith(written)
        for j in range(0, len(ids), 97):
            line = 1 + written[:j].count("\n")
            assert line - written[max(0, j - LINE_EVERY) : j].count("\n") <= ids.line(j) <= line


def test_unknown_words_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a perplexity that is low because half of the words are ⁇, in silence."""
    said = "".join(f"{'common' if i % 4 else f'word{i}'} " for i in range(4_000))
    (tmp_path / "a.txt").write_text(said)
    monkeypatch.setattr(
        tokenizers, "make", lambda kind, lines, size: tokenizers.Words.train(lines, 2)
    )
    ready = prepare_text(read_text_corpus([tmp_path / "a.txt"]), "words", 99, log=lambda line: None)
    assert ready.data["n_unknown_test"] == ready.test.slice(0, 9_999).count(UNK) == 50
    assert "  50 tokens of test are unknown: 25.13%, read as ⁇" in text_summary(ready.data)


def test_an_empty_split(tmp_path: Path) -> None:
    """Keeps out a division by zero where a split holds nothing."""
    (tmp_path / "a.txt").write_text("abc")
    with pytest.raises(ValueError, match=r"^a\.txt has no text in valid, or only white "):
        prepare_text(read_text_corpus([tmp_path / "a.txt"]), "bytes", 300, log=lambda line: None)


# ---------------------------------------------------------------------------------------- Windows


def test_windows_are_consecutive(tmp_path: Path) -> None:
    """Keeps out a gap between context and target, contexts of one length, seeds without effect."""
    ids = write(tmp_path / "ids", [4 + i % 251 for i in range(5_000)])
    windows = ContextWindows(ids, range(40, 4_960, 7), 8, context=40, seed=1)
    sizes = [len(e.src) if e.src != [BOS] else 0 for e in windows]
    for start, example, size in zip(windows.starts, windows, sizes, strict=True):
        read = example.src if size else []
        assert [*read, *example.tgt] == ids.slice(start - size, start + 8)
        assert not example.unscored
    assert set(sizes) == set(range(41))
    for low, high in ((0, 0), (1, 8), (9, 16), (17, 32), (33, 40)):  # short ones as often as long
        assert 0.15 < sum(low <= size <= high for size in sizes) / len(sizes) < 0.25
    assert batches.lengths(windows).tolist() == [[max(size, 1), 8] for size in sizes]
    other = ContextWindows(ids, windows.starts, 8, context=40, seed=2)
    assert [len(e.src) for e in other] != [len(e.src) for e in windows]
    for kept in (windows, ContextWindows(ids, range(0, 4_000), 8), SlidingWindow(ids, 9, 4)):
        assert [*pickle.loads(pickle.dumps(kept))][::99] == [*kept][::99]  # as workers get them


def test_blocks_have_no_context(tmp_path: Path) -> None:
    """Keeps out a source in plain language modelling."""
    ids = write(tmp_path / "ids", [4 + i % 251 for i in range(5_000)])
    windows = ContextWindows(ids, range(0, 4_937, 3), 64)
    assert batches.lengths(windows).tolist() == [[1, 64]] * len(windows)
    for i, example in enumerate(windows):
        assert example == Example([BOS], ids.slice(3 * i, 3 * i + 64))


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 40, 41])
@pytest.mark.parametrize(("block", "stride"), [(8, 8), (8, 1), (8, 3), (8, 7), (1, 1), (40, 40)])
def test_every_token_is_scored_once(n: int, block: int, stride: int, tmp_path: Path) -> None:
    """Keeps out tokens that are counted twice, or never: at the beginning and the end above all."""
    ids = write(tmp_path / "ids", [*range(4, 4 + n)])
    whole = SlidingWindow(ids, block, stride)
    assert [token for example in whole for token in example.scored()] == [*range(4, 4 + n)]
    assert all(example.scored() and example.src == [BOS] for example in whole)
    for i, example in enumerate(whole):
        last = example.tgt[-1]
        assert example.tgt == [*range(last - len(example.tgt) + 1, last + 1)]  # consecutive
        assert len(example.scored()) <= (stride if i else block)
        assert len(example.tgt) == min(block, n)  # the last one, too, has all that is before it
    assert batches.lengths(whole).tolist() == [[len(e.src), len(e.tgt)] for e in whole]


def test_strides_are_as_good_as_a_naive_loop(tiny, name: str, tmp_path: Path) -> None:
    """Keeps out a sum that is not the text's: each token after the block - 1 before it."""
    tokens = torch.randint(4, 11, (30,)).tolist()
    ids, model, block = write(tmp_path / "ids", tokens), tiny(name), 6
    expected = 0.0
    for i, token in enumerate(tokens):
        before = tokens[max(0, i - block + 1) : i]
        logits = model(
            torch.tensor([[BOS]]), torch.tensor([[True]]), torch.tensor([[BOS, *before]])
        )
        expected -= F.log_softmax(logits[0, -1], -1)[token].item()
    rows = evaluate.teacher_forced(model, SlidingWindow(ids, block, 1))
    assert sum(row["nats"] for row in rows) == pytest.approx(expected)
    assert sum(row["n_tokens"] for row in rows) == len(tokens)
    once = evaluate.teacher_forced(model, SlidingWindow(ids, 30, 30))
    src = torch.tensor([[BOS]])
    logits = model(src, src > 0, torch.tensor([[BOS, *tokens[:-1]]]))
    nats = F.cross_entropy(logits[0], torch.tensor(tokens), reduction="sum").item()
    assert once[0]["nats"] == pytest.approx(nats)


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

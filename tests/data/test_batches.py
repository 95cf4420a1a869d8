"""Batches: their order, their budget, their tensors; and windows of running text."""

import pickle
import random
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import draw_examples

from seqmodels import BOS, EOS, PAD
from seqmodels.data import batches
from seqmodels.data.batches import Example, collate, shuffled_batches
from seqmodels.evaluation import evaluate
from seqmodels.utils import files

BUDGET = 300


@pytest.fixture(params=["whole", "in sections"])
def examples(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[Example]:
    """Return examples for an order of one section, or of several."""
    if request.param == "in sections":
        monkeypatch.setattr(batches, "SECTION", 400)
    return draw_examples(1_500, 40)


def draw(examples: Sequence[Example], seed: int = 7, epoch: int = 0) -> list[list[int]]:
    return [*shuffled_batches(examples, BUDGET, seed, epoch)]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(sizes=st.lists(st.integers(1, 50), min_size=1), budget=st.sampled_from([1, 7, 40, 300]))
def test_batches_end_where_rows_fill_them(sizes: list[int], budget: int) -> None:
    rows: list[list[int]] = [[]]
    for length in sorted(sizes):
        if rows[-1] and length * (len(rows[-1]) + 1) > budget:
            rows.append([])
        rows[-1].append(length)
    drawn = [Example([4] * size, [EOS]) for size in sizes]
    cut = batches.batches_by_length(drawn, budget)
    assert [[sizes[i] for i in batch] for batch in cut] == rows


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_holds_every_example_once(examples: list[Example], epoch: int) -> None:
    examples = [*examples, Example([4] * 400, [EOS])]  # too long for any batch but its own
    sizes = [max(len(e.src), len(e.tgt)) for e in examples]
    for drawn in (draw(examples, epoch=epoch), batches.batches_by_length(examples, BUDGET)):
        assert sorted(i for rows in drawn for i in rows) == [*range(len(examples))]
        assert [len(examples) - 1] in drawn
        padded = [len(rows) * max(sizes[i] for i in rows) for rows in drawn]
        assert sorted(padded)[-2] <= BUDGET < sorted(padded)[-1]
        assert sum(padded) / sum(sizes) < 1.25
        assert np.mean(padded) > 0.6 * BUDGET


def test_order_is_a_function_of_seed_and_epoch(examples: list[Example]) -> None:
    first = draw(examples)
    random.seed(5)
    torch.manual_seed(5)
    np.random.seed(5)
    assert draw(examples) == first
    members = {frozenset(rows) for rows in first}
    for other in (draw(examples, seed=8), draw(examples, epoch=1)):
        assert len(members & {frozenset(rows) for rows in other}) < 0.05 * len(first)
        members |= {frozenset(rows) for rows in other}
    early = {i for rows in first[: len(first) // 3] for i in rows}
    assert min(early) < 150  # from all over the corpus
    assert max(early) > 1_350
    lengths = [len(examples[rows[0]].src) for rows in first]
    assert abs(np.corrcoef(np.arange(len(lengths)), lengths)[0, 1]) < 0.3  # not by length


def test_an_order_is_resumed_anywhere(examples: list[Example]) -> None:
    drawn = [*islice(batches.batch_indices(examples, BUDGET, 7), 250)]
    n_first = sum(epoch == 0 for epoch, _, _ in drawn)
    assert (drawn[-1][0], drawn[n_first][:2]) == (2, (1, 0))
    assert [rows for _, _, rows in drawn[:n_first]] == draw(examples)
    for n in (0, 1, 37, n_first - 1, n_first, 249):
        resumed = batches.batch_indices(examples, BUDGET, 7, *drawn[n][:2])
        assert [*islice(resumed, 250 - n)] == drawn[n:]
    assert next(batches.batch_indices(examples, BUDGET, 7, 0, n_first)) == drawn[n_first]


def test_collate(tiny: Tiny) -> None:
    asked = Example([4, 5], [6, 7, 8], frozenset({0, 1}))
    batch = collate([asked, Example([9, 5, 4], [8, EOS]), Example([9], [4, 5, 6, 7])])
    assert batch.src.tolist() == [[4, 5, PAD], [9, 5, 4], [9, PAD, PAD]]
    assert batch.src_mask.tolist() == [[True, True, False], [True] * 3, [True, False, False]]
    assert batch.tgt_in.tolist() == [[BOS, 6, 7, PAD], [BOS, 8, PAD, PAD], [BOS, 4, 5, 6]]
    assert batch.tgt_out.tolist() == [[PAD, PAD, 8, PAD], [8, EOS, PAD, PAD], [4, 5, 6, 7]]
    model = tiny("gpt")
    assert {part.device.type for part in collate([asked], "meta")} == {"meta"}
    (row,) = evaluate.score_teacher_forced(model, [asked])
    src = torch.tensor([[4, 5]])
    with torch.no_grad():
        logits = model(src, src > 0, torch.tensor([[BOS, 6, 7]]))
    assert (row["n_tokens"], asked.scored()) == (1, [8])
    assert row["nats"] == pytest.approx(-logits.log_softmax(-1)[0, 2, 8].item())


# ------------------------------------------------------------------------------------------ On disk
def write_examples(folder: Path, examples: list[Example]) -> batches.TokenizedPairs:
    folder.mkdir(exist_ok=True)
    np.array([i for e in examples for i in e.src], np.uint32).tofile(folder / "x.src")
    np.array([i for e in examples for i in e.tgt], np.uint32).tofile(folder / "x.tgt")
    ends = batches.lengths(examples).cumsum(0)
    np.concatenate([np.zeros((1, 2), np.int64), ends]).tofile(folder / "x.ends")
    files.write(folder / "made.json", '{"dtype": "uint32"}')
    return batches.TokenizedPairs(folder, "x")


def test_examples_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = [Example([5, 6], [7, EOS]), Example([8], [9, 10, EOS])]
    examples += [Example([200_019], [EOS]), Example([4], [5])]
    examples += [Example([6, 7, 8, 9], [5, EOS])]
    mapped = write_examples(tmp_path / "x", examples)
    assert list(mapped) == examples
    assert (mapped[-1], mapped[1:]) == (examples[-1], examples[1:])
    with pytest.raises(IndexError):
        mapped[5]
    assert mapped.lengths().tolist() == [[len(e.src), len(e.tgt)] for e in examples]
    assert batches.longest(mapped) == batches.longest(examples) == (4, 3)
    assert list(pickle.loads(pickle.dumps(mapped))) == examples
    assert len(pickle.dumps(mapped)) < 500
    draw = np.random.default_rng(1).integers
    many = [Example([4] * draw(1, 20), [5] * draw(1, 20)) for i in range(500)]
    order = list(batches.shuffled_batches(many, 100, 1, 2))
    assert list(batches.shuffled_batches(write_examples(tmp_path / "y", many), 100, 1, 2)) == order

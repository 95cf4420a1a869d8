"""Batches: their order, their budget, and what is in them."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from conftest import Tiny
from torch.testing import assert_close
from toy_training import draw_examples

from seqmodels import BOS, EOS, PAD
from seqmodels.data import batches
from seqmodels.data.batches import Example, collate
from seqmodels.evaluation import evaluate


@pytest.fixture(scope="module")
def mixed() -> list[Example]:
    """Draw a realistic mix of lengths."""
    return draw_examples(4000, 80)


def size(example: Example) -> int:
    """Return the longer side."""
    return max(len(example.src), len(example.tgt))


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_holds_every_example_once(mixed: list[Example], epoch: int) -> None:
    """Keeps out a last batch that is dropped, and an example that is drawn twice."""
    for drawn in (
        list(batches.shuffled_batches(mixed, 1500, 1, epoch)),
        batches.batches_by_length(mixed, 1500),
    ):
        assert sorted(i for run in drawn for i in run) == list(range(len(mixed)))
        assert all(drawn)


def test_order_is_a_function_of_seed_and_epoch(mixed: list[Example]) -> None:
    """Keeps out an order that depends on what was drawn before, here or elsewhere."""
    third = list(batches.shuffled_batches(mixed, 1500, 7, 3))
    random.seed(5)
    torch.manual_seed(5)
    earlier = [list(batches.shuffled_batches(mixed, 1500, 7, epoch)) for epoch in range(3)]
    assert list(batches.shuffled_batches(mixed, 1500, 7, 3)) == third
    stream = itertools.islice(
        batches.training_batches(mixed, 1500, 7), sum(map(len, earlier)), None
    )
    for run, batch in zip(third[:20], stream, strict=False):
        assert_close(batch, collate([mixed[i] for i in run]))


def test_no_two_epochs_are_alike(mixed: list[Example]) -> None:
    """Keeps out a seed or an epoch that is not used, and batches that only change places."""
    drawn = [list(batches.shuffled_batches(mixed, 1500, *key)) for key in ((1, 0), (1, 1), (2, 0))]
    members = [{frozenset(run) for run in runs} for runs in drawn]
    for one, other in itertools.combinations(members, 2):
        assert len(one & other) < 0.05 * len(one)


def test_the_order_is_pinned() -> None:
    """Keeps out a change of order that nobody meant: stored records could not be made again."""
    examples = [Example([4] * n, [5] * n) for n in (3, 1, 4, 1, 5, 9, 2, 6, 5, 3)]
    assert list(batches.shuffled_batches(examples, 12, 1, 0)) == [
        [7],
        [3, 1, 6, 9],
        [5],
        [0, 2],
        [8, 4],
    ]
    assert batches.batches_by_length(examples, 12) == [[1, 3, 6, 0], [9, 2], [4, 8], [7], [5]]


@pytest.mark.parametrize(("epoch", "batch"), [(0, 0), (0, 2), (1, 1)])
def test_draws_go_on_anywhere(epoch: int, batch: int) -> None:
    """Keeps out a resumed run that repeats batches, leaves some out, or counts them anew."""
    examples = draw_examples(30, 9)
    runs = [list(batches.shuffled_batches(examples, 100, 7, i)) for i in range(4)]
    drawn = [(i, j, rows) for i, epoch in enumerate(runs) for j, rows in enumerate(epoch)]
    expected = [draw for draw in drawn if draw[:2] >= (epoch, batch)]
    assert len(expected) > 6
    found = batches.batch_indices(examples, 100, 7, epoch, batch)
    assert [tuple(next(found)) for _ in expected] == expected


def test_batches_keep_to_their_budget(mixed: list[Example]) -> None:
    """Keeps out a batch that is larger than memory allows, unless one example alone is."""
    longest = Example([4] * 2000, [EOS])
    for drawn in (
        list(batches.shuffled_batches([*mixed, longest], 1500, 1, 0)),
        batches.batches_by_length([*mixed, longest], 1500),
    ):
        sizes = [len(run) * max(size([*mixed, longest][i]) for i in run) for run in drawn]
        assert sorted(sizes)[-2:] == [max(s for s in sizes if s <= 1500), 2000]
        assert [len(mixed)] in drawn


def test_batches_are_filled(mixed: list[Example]) -> None:
    """Keeps out padding that is paid for: at most 10 % pads, batches at least 3/4 full."""
    runs = list(batches.shuffled_batches(mixed, 1500, 1, 0))
    n_pads = n_all = 0
    for run in runs:
        batch = collate([mixed[i] for i in run])
        for tensor in (batch.src, batch.tgt_out):
            n_pads += int((tensor == PAD).sum())
            n_all += tensor.numel()
    assert n_pads / n_all <= 0.10
    assert n_all / 2 / len(runs) >= 0.75 * 1500


def test_collate_shifts_by_one() -> None:
    """Keeps out a model that sees the token that it must say, and an EOS that is made up."""
    ended, cut = Example([4, 5, 6], [7, 8, EOS]), Example([9], [4, 5, 6, 7])
    batch = collate([ended, cut])
    assert batch.src.tolist() == [[4, 5, 6], [9, PAD, PAD]]
    assert batch.src_mask.tolist() == [[True] * 3, [True, False, False]]
    assert batch.tgt_in.tolist() == [[BOS, 7, 8, PAD], [BOS, 4, 5, 6]]
    assert batch.tgt_out.tolist() == [[7, 8, EOS, PAD], [4, 5, 6, 7]]


def test_what_is_given_is_not_scored(tiny: Tiny) -> None:
    """Keeps out keys of a question in the loss, or missing from what the model reads."""
    asked = Example([4, 5], [6, 7, 8], frozenset({0, 1}))
    batch = collate([asked, Example([4], [5, EOS])])
    assert batch.tgt_in.tolist() == [[BOS, 6, 7], [BOS, 5, PAD]]
    assert batch.tgt_out.tolist() == [[PAD, PAD, 8], [5, EOS, PAD]]
    model = tiny("gpt")
    (row,) = evaluate.teacher_forced(model, [asked])
    src = torch.tensor([[4, 5]])
    with torch.no_grad():
        logits = model(src, src > 0, torch.tensor([[BOS, 6, 7]]))
    assert (row["n_tokens"], asked.scored()) == (1, [8])
    assert row["nats"] == pytest.approx(-logits.log_softmax(-1)[0, 2, 8].item())

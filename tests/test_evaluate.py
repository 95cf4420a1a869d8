"""Evaluation: teacher-forced and free-running rows, and the size of the State."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
import torch
from conftest import GROWING, Tiny, V, n_positions
from toy_training import draw_examples

from seqmodels import BOS, EOS, search
from seqmodels.data.batches import Example, collate
from seqmodels.evaluation import evaluate


@torch.no_grad()
def test_teacher_forced_is_a_sum_over_tokens(name: str, tiny: Tiny) -> None:
    """Keeps out rows in the order of the batches, pads that are scored, and a lost EOS."""
    model, examples = tiny(name), draw_examples(12, 12)
    for row, example in zip(evaluate.teacher_forced(model, examples), examples, strict=True):
        src = torch.tensor([list(example.src)])
        state = model.encode(src, torch.ones_like(src).bool())
        nats, n_right = 0.0, 0
        for before, token in itertools.pairwise([BOS, *example.tgt]):
            logits, state = model.step(torch.tensor([before]), state)
            nats -= logits.log_softmax(-1)[0, token].item()
            n_right += logits.argmax().item() == token
        assert row["nats"] == pytest.approx(nats)
        assert (row["n_tokens"], row["n_correct"]) == (len(example.tgt), n_right)


def test_free_running_keeps_the_order(name: str, tiny: Tiny) -> None:
    """Keeps out hypotheses beside the wrong sources: batches are by length, rows are not."""
    model, examples = tiny(name), draw_examples(12, 9)
    for width in (1, 2):
        found = evaluate.free_running(model, examples, width)
        for example, written in zip(examples, found, strict=True):
            src, src_mask, *_ = collate([example])
            max_len = min(2 * len(example.src) + 10, model.max_target(len(example.src)))
            assert search.beam(model, src, src_mask, max_len, width) == [written]


def test_texts_are_written_without_dropout(name: str, fresh: Tiny) -> None:
    """Keeps out a search in the mode in which the training left the model."""
    model, examples = fresh(name, dropout=0.5), draw_examples(6, 9)
    expected = evaluate.free_running(model, examples, 1)
    assert evaluate.free_running(model.train(), examples, 1) == expected
    assert not model.training


@pytest.mark.parametrize("width", [1, 4])
def test_a_text_does_not_depend_on_its_neighbours(name: str, width: int, tiny: Tiny) -> None:
    """Keeps out a limit that is the batch's: a beam that may go on longer ends elsewhere.

    EOS is unlikely, so that texts come to their limits; GPT's end at its last position. The
    smaller the weights, the closer are the beams.
    """
    model = tiny(name, **n_positions(name, 20))
    rng = random.Random(3)
    sources = [[rng.randrange(4, V) for _ in range(1 + rng.randrange(7))] for _ in range(16)]
    examples = [Example(src, [EOS]) for src in sources]
    for std in (0.15, 0.3):
        torch.manual_seed(20140603)
        for p in model.parameters():
            torch.nn.init.normal_(p, std=std)
        together = evaluate.free_running(model, examples, width)
        assert together == [evaluate.free_running(model, [one], width)[0] for one in examples]


@pytest.mark.parametrize(
    ("hyp", "tgt", "n_same", "n_places", "exact"),
    [
        ([4, 5, 6], [4, 5, 6, EOS], 3, 3, True),
        ([4, 6, 5], [4, 5, 6, EOS], 1, 3, False),
        ([4, 5, 6, 7], [4, 5, 6, EOS], 3, 4, False),
        ([4], [4, 5, 6, EOS], 1, 3, False),
        ([], [4, EOS], 0, 1, False),
    ],
)
def test_places_are_compared(
    hyp: list[int], tgt: list[int], n_same: int, n_places: int, exact: bool
) -> None:
    """Keeps out full marks for a text that is too long or too short."""
    row = {"n_same": n_same, "n_places": n_places, "exact_match": exact}
    assert evaluate.compare_tokens(hyp, tgt) == row


def test_the_state_grows_as_the_papers_say(name: str, fresh: Tiny) -> None:
    """Keeps out a size of State that is not the one handed over: flat, or linear in S."""
    sizes = evaluate.cache_bytes(fresh(name, **n_positions(name, 300)))
    S, n_bytes = map(np.array, zip(*sizes, strict=True))
    assert S.tolist() == [8, 16, 32, 64, 128, 256]
    slopes = np.diff(n_bytes) / np.diff(S)
    assert np.ptp(slopes) == 0.0
    assert (slopes > 0).all() if name in GROWING else (slopes == 0).all()


def test_the_state_is_in_bytes(fresh: Tiny) -> None:
    """Keeps out a size in numbers: c and the decoder's state, 16 wide, 4 bytes each."""
    assert evaluate.cache_bytes(fresh("rnn_encdec"))[0] == (8, 2 * 16 * 4)


def test_the_state_ends_with_the_positions(fresh: Tiny) -> None:
    """Keeps out an error for a GPT that cannot read 256 tokens."""
    assert [n for n, _ in evaluate.cache_bytes(fresh("gpt", n_positions=32))] == [8, 16]

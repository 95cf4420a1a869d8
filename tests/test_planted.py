"""Planted: what bugs that lived showed, small effects at which no other file looks."""

from __future__ import annotations

from pathlib import Path

import torch
from conftest import Tiny
from test_running import write

from seqmodels import EOS, batches, decode, evaluate
from seqmodels.batches import Example
from seqmodels.windows import Windows


def test_examples_longer_than_a_pool_are_drawn() -> None:
    """Keeps out an error where one example is longer than fifty batches."""
    examples = [Example([4] * 3_000, [EOS])] * 2
    assert sorted(batches.shuffled(examples, 10, 1, 0)) == [[0], [1]]


def test_a_state_is_measured_up_to_the_last_position(fresh: Tiny) -> None:
    """Keeps out a length that is left out although one token could be written after it."""
    assert [n for n, _ in evaluate.state_bytes(fresh("gpt", n_positions=9))] == [8]


def test_a_gpu_is_asked_now_and_then() -> None:
    """Keeps out a search that waits for a GPU at every token, or that never asks who is done."""
    gpu = torch.device("cuda")
    assert [t for t in range(1, 50) if decode.is_due(t, gpu)] == [16, 32, 48]
    assert all(decode.is_due(t, torch.device("cpu")) for t in range(1, 50))


def test_the_windows_of_a_seed_are_pinned(tmp_path: Path) -> None:
    """Keeps out another draw of contexts: stored records could not be made again."""
    ids = write(tmp_path / "ids", [*range(4, 200)])
    windows = Windows(ids, range(40, 136, 8), 8, context=40, seed=1)
    assert windows.contexts.tolist() == PINNED


PINNED = [19, 40, 30, 40, 1, 5, 40, 38, 40, 40, 40, 40]

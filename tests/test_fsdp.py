"""A model whose weights are shared out: the same training, in half the memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conftest import Tiny
from test_world import run, torchrun

from seqmodels.training.fsdp import units

Found = dict[str, Any]


@pytest.fixture(scope="module")
def on_two(tmp_path_factory: pytest.TempPathFactory) -> list[Found]:
    """Return what each of two processes finds with fully_sharded.py."""
    out = tmp_path_factory.mktemp("two")
    done = run([*torchrun(2), "tests/fully_sharded.py", str(out)])
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    return [torch.load(out / f"{rank}.pt") for rank in (0, 1)]


def test_the_losses_are_the_same(name: str, on_two: list[Found]) -> None:
    """Keeps out gradients that are averaged, lost or clipped by pieces, over 12 steps."""
    for found in (there["twelve_steps"] for there in on_two):
        for sharded, whole in zip(
            found[f"ShardedTrainer/{name}"], found[f"Trainer/{name}"], strict=True
        ):
            assert len(whole) == 12
            assert sharded == pytest.approx(whole, rel=1e-5)
        assert max(found[f"Trainer/{name}"][1]) > 0.2  # some were clipped


def test_validation_is_the_same(on_two: list[Found]) -> None:
    """Keeps out a process that waits for another's batch, and a batch that is counted twice."""
    for found in (there["validated"] for there in on_two):
        assert found["ShardedTrainer"] == pytest.approx(found["Trainer"], rel=1e-5)


def test_each_process_holds_half(on_two: list[Found]) -> None:
    """Keeps out weights or moments that every process has whole."""
    for found in (there["held_bytes"] for there in on_two):
        assert found["ShardedTrainer"] == pytest.approx(found["Trainer"] / 2, rel=0.05)


def test_a_process_without_rows_takes_part(on_two: list[Found]) -> None:
    """Keeps out a wait without end, and rows that count twice."""
    for found in (there["few_rows"] for there in on_two):
        assert found["ShardedTrainer"] == pytest.approx(found["Trainer"], rel=1e-5)


UNITS = {
    "rnn_encdec": [],
    "lstm_seq2seq": [f"{side}.layers.{i}" for side in ("decoder", "encoder") for i in (1, 0)],
    "transformer": [
        *(f"decoder.{i}.src_attention.W_{part}" for i in (0, 1) for part in "kv"),
        *(f"{side}.{i}" for side in ("decoder", "encoder") for i in (1, 0)),
    ],
    "gpt": ["decoder.1", "decoder.0"],
}


@pytest.mark.parametrize("name", UNITS)
def test_what_is_gathered_by_itself(name: str, tiny: Tiny) -> None:
    """Keeps out weights that are needed while their block is not at work, or once a token."""
    model = tiny(name)
    names = {module: name for name, module in model.named_modules()}
    before = torch.get_rng_state()
    assert [names[unit] for unit in units(model)] == UNITS[name]
    assert torch.equal(torch.get_rng_state(), before)
    assert not any(module._forward_pre_hooks for module in model.modules())

"""Checkpoints and weights: damage, full disks, and pickles, which are never read."""

from __future__ import annotations

import json
import os
import pickle
import random
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import Tiny
from toy_task import contents
from toy_training import CFG, examples

from seqmodels import build
from seqmodels.comparison import trained
from seqmodels.data import tokenizers
from seqmodels.data.batches import collate
from seqmodels.records import record
from seqmodels.report import reading
from seqmodels.training import checkpoint, loop
from seqmodels.training.checkpoint import Checkpoints
from seqmodels.training.trainer import Trainer
from seqmodels.utils import files

ROOT = Path(__file__).parents[1]


# ------------------------------------------------------------------------------------------ Weights


# -------------------------------------------------------------------------------------- Checkpoints


@pytest.fixture
def two(tmp_path: Path, fresh: Tiny) -> Checkpoints:
    """Write four checkpoints of a toy run, of which two remain."""
    checkpoints, trainer = Checkpoints(tmp_path / "gpt-seed1.json"), Trainer(fresh("gpt"), CFG)
    for _ in range(4):
        loop.training_step(trainer, trainer.prepare(collate(examples()[:8])))
        checkpoints.save(trainer.tensors(), trainer.state())
    assert [checkpoints.number(path) for path in checkpoints.paths()] == [4, 3]
    return checkpoints


@pytest.mark.parametrize(("cost_s", "pause_s"), [(0.1, 30.0), (0.5, 50.0)])
def test_checkpoints_are_written_now_and_then(
    cost_s: float, pause_s: float, tmp_path: Path, fresh: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a disk that is written to all the time, and more than 1 % of the time for it."""
    clock, write = [100.0], files.write

    def write_slowly(path: Path, content: bytes) -> Path:
        clock[0] += cost_s
        return write(path, content)

    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(files, "write", write_slowly)
    checkpoints, trainer = Checkpoints(tmp_path / "gpt-seed1.json"), Trainer(fresh("gpt"), CFG)
    checkpoints.save(trainer.tensors(), trainer.state())
    for pause, is_due in ((pause_s - 1, False), (1.1, True)):
        clock[0] += pause
        assert checkpoints.is_due() == is_due


def test_after_damage_the_previous_one_is_read(two: Checkpoints) -> None:
    """Keeps out weights that a disk or a torn write has changed; the damaged file goes first."""
    rng, (newest, previous) = random.Random(1), two.paths()
    content = newest.read_bytes()
    damaged = [content[: rng.randrange(len(content))] for _ in range(10)]
    for _ in range(40):
        flipped = bytearray(content)
        flipped[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        damaged.append(bytes(flipped))
    for bad in damaged:
        newest.write_bytes(bad)
        lines: list[str] = []
        saved = two.latest(lines.append)
        assert saved is not None
        assert saved.state["progress"]["step"] == 3
        assert len(lines) == 1
        assert newest.name in lines[0]
    two.save(saved.tensors, saved.state)
    assert previous in two.paths()
    assert newest not in two.paths()
    assert len(two.paths()) == 2


def test_checkpoints_of_other_runs_are_not_read(two: Checkpoints) -> None:
    """Keeps out seed 11 resuming from seed 1, and a name with a dot that matches anything."""
    for name in ("gpt-seed11", "xgpt-seed1", "gpt_seed1", "gpt-seed"):
        assert Checkpoints(two.folder / f"{name}.json").latest() is None


# ----------------------------------------------------------------------------------------- The disk


def test_a_full_disk(two: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a torn file in place of a whole one, and an error that is not reported."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    saved, figure = two.latest(), two.folder / "a.svg"
    files.write(figure, "whole")
    before = contents(two.folder)
    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(files.WriteError, match="No space left on device"):
        two.save(saved.tensors, saved.state)
    with pytest.raises(files.WriteError, match="No space left on device"):
        files.write(figure, "torn")
    assert contents(two.folder) == before


# ------------------------------------------------------------------------------------------ Pickles


class Payload:
    """Create a folder when it is unpickled."""

    folder: Path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(Payload.folder),)


def test_no_pickle_is_read(two: Checkpoints, tmp_path: Path) -> None:
    """Keeps out code that a stranger's run folder brings along, in any of its files."""
    Payload.folder = tmp_path / "executed"
    run = two.folder / "gpt-seed1"
    saved = record.load(ROOT / "results" / "translation-grammar" / "gpt-seed1.json")
    run.with_suffix(".json").write_text(json.dumps(saved | {"weights_sha256": None}))
    model = build("gpt", **saved["model_config"])
    checkpoint.save_weights(run.with_suffix(".safetensors"), model.state_dict())
    words = [f"w{i}" for i in range(saved["model_config"]["vocab_size"] - tokenizers.N_SPECIALS)]
    tokenizers.Words(words).save(two.folder / "tokenizer.json")

    def read_all() -> None:
        trained.load(run)
        reading.load_records(two.folder)
        lines: list[str] = []
        assert two.latest(lines.append) is not None
        if lines:
            raise ValueError(lines[0])

    read_all()
    for name in ("gpt-seed1.json", "gpt-seed1.safetensors", "tokenizer.json", two.paths()[0].name):
        path = two.folder / name
        content = path.read_bytes()
        for write in (
            lambda path: torch.save(Payload(), path),
            lambda path: path.write_bytes(pickle.dumps(Payload())),
        ):
            write(path)
            with pytest.raises(ValueError, match=re.escape(name)):
                read_all()
        path.write_bytes(content)
    assert not Payload.folder.exists()

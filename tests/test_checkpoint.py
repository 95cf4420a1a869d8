"""Checkpoints and weights: damage, full disks, and pickles, which are never read."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TINY, Pairs, Tiny, V
from matplotlib.figure import Figure
from toy_training import CFG, examples

from seqmodels import build
from seqmodels.comparison import trained
from seqmodels.data import tokenizers
from seqmodels.data.batches import collate
from seqmodels.records import record
from seqmodels.report import reading, style
from seqmodels.training import checkpoint, loop
from seqmodels.training.checkpoint import Checkpoints
from seqmodels.training.trainer import Trainer
from seqmodels.utils import files

ROOT = Path(__file__).parents[1]


# ------------------------------------------------------------------------------------------ Weights


def entry(name: str) -> dict[str, Any]:
    """Return the part of a record that describes the tiny model."""
    return {"model": name, "model_config": {"vocab_size": V, **TINY[name]}}


def test_weights_come_back(name: str, fresh: Tiny, pairs: Pairs, tmp_path: Path) -> None:
    """Keeps out a parameter that is not saved, and dropout in a model that was loaded."""
    model, path = fresh(name), tmp_path / "run.safetensors"
    checkpoint.save_weights(path, model.state_dict())
    loaded = trained.load_model(entry(name), path)
    assert not loaded.training
    assert torch.equal(model(*pairs), loaded(*pairs))


def test_weights_must_fit_their_record(fresh: Tiny, tmp_path: Path) -> None:
    """Keeps out a traceback for missing, foreign or broken weights, and one flipped bit in use."""
    path, unknown_size = tmp_path / "run.safetensors", {"vocab_size": V, "n_wings": 2}
    with pytest.raises(ValueError, match="are missing"):
        trained.load_model(entry("gpt"), path)
    checkpoint.save_weights(path, fresh("bahdanau").state_dict())
    with pytest.raises(ValueError, match="does not match its record"):
        trained.load_model(entry("gpt"), path)
    sha256 = checkpoint.save_weights(path, fresh("gpt").state_dict())
    with pytest.raises(ValueError, match="does not match its record"):
        trained.load_model({"model": "gpt", "model_config": unknown_size}, path)
    trained.load_model(entry("gpt") | {"weights_sha256": sha256}, path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged or belongs to another run"):
        trained.load_model(entry("gpt") | {"weights_sha256": sha256}, path)
    trained.load_model(entry("gpt") | {"weights_sha256": None}, path)
    path.write_bytes(content[:100])
    with pytest.raises(ValueError, match="does not match its record"):
        trained.load_model(entry("gpt"), path)


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


@pytest.mark.parametrize(("write_s", "due_s"), [(5.0, 500.0), (0.1, 30.0)])
def test_checkpoints_cost_little(
    write_s: float, due_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a slow disk and a run that only writes, and a fast disk without an interval."""
    clock = itertools.count(0.0, write_s)  # advances at each reading
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: next(clock))
    checkpoints = Checkpoints(tmp_path / "run.json", every_s=30.0)
    checkpoints.save({"x": torch.zeros(3)}, {})
    assert checkpoints.due == pytest.approx(2 * write_s + due_s)


# ----------------------------------------------------------------------------------------- The disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of six megabytes, where that is allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk(small_disk: Path, two: Checkpoints) -> None:
    """Keeps out a torn file in place of a whole one, and an error that is not reported."""
    checkpoints, saved = Checkpoints(small_disk / "gpt-seed1.json"), two.latest()
    assert saved is not None
    figure = Figure()
    figure.add_subplot().plot(np.sin(np.arange(20_000)))
    writers = [
        lambda: checkpoints.save(saved.tensors, saved.state),
        lambda: style.save(figure, small_disk / "a.svg"),
    ]
    for write in writers:
        write()
    before = {path.name: path.read_bytes() for path in small_disk.iterdir()}
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free - 8_192))
    for write in writers:
        with pytest.raises(files.WriteError, match="No space left on device"):
            write()
    ballast.unlink()
    assert {path.name: path.read_bytes() for path in small_disk.iterdir()} == before
    with pytest.raises(files.WriteError, match="No such file or directory"):
        files.write(small_disk / "removed" / "a.svg", "")


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

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
from tools.survival import command

ROOT = Path(__file__).parents[1]


# ------------------------------------------------------------------------------------------ weights


def entry(name: str) -> dict[str, Any]:
    """Return what a record says of the tiny model."""
    return {"model": name, "model_config": {"vocab_size": V, **TINY[name]}}


def test_weights_come_back(name: str, fresh: Tiny, pairs: Pairs, tmp_path: Path) -> None:
    """Keeps out a parameter that is not saved, and dropout in a model that was read."""
    model, path = fresh(name), tmp_path / "run.safetensors"
    checkpoint.save_weights(path, model.state_dict())
    again = trained.load_model(entry(name), path)
    assert not again.training
    assert torch.equal(model(*pairs), again(*pairs))
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_weights_must_be_there_and_fit(fresh: Tiny, tmp_path: Path) -> None:
    """Keeps out a traceback for results without weights, for others' weights, for a broken file."""
    path = tmp_path / "run.safetensors"
    with pytest.raises(ValueError, match="are missing; train it again"):
        trained.load_model(entry("gpt"), path)
    checkpoint.save_weights(path, fresh("bahdanau").state_dict())
    with pytest.raises(ValueError, match="does not match its record"):
        trained.load_model(entry("gpt"), path)
    checkpoint.save_weights(path, fresh("gpt").state_dict())
    with pytest.raises(ValueError, match="does not match its record"):
        trained.load_model({**entry("gpt"), "model_config": {"vocab_size": V, "n_wings": 2}}, path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="does not match its record"):
        trained.load_model(entry("gpt"), path)


def test_weights_have_the_checksum_of_their_record(fresh: Tiny, tmp_path: Path) -> None:
    """Keeps out one flipped bit that is translated with; a record without a checksum is taken."""
    path = tmp_path / "run.safetensors"
    signed = entry("gpt") | {
        "weights_sha256": checkpoint.save_weights(path, fresh("gpt").state_dict())
    }
    trained.load_model(signed, path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"is damaged or belongs to another run: its SHA-256"):
        trained.load_model(signed, path)
    trained.load_model(entry("gpt") | {"weights_sha256": None}, path)


# -------------------------------------------------------------------------------------- checkpoints


@pytest.fixture
def two(tmp_path: Path, fresh: Tiny) -> Checkpoints:
    """Write two checkpoints of a toy run."""
    kept, one = Checkpoints(tmp_path / "gpt-seed1.json"), Trainer(fresh("gpt"), CFG)
    for _ in range(4):
        loop.training_step(one, one.prepare(collate(examples()[:8])))
        kept.save(one.tensors(), one.state())
    assert [kept.number(path) for path in kept.paths()] == [4, 3]
    return kept


def test_damage_is_told_and_the_one_before_is_used(two: Checkpoints) -> None:
    """Keeps out weights that a disk, or a torn write, has changed: 200 bits, 50 lengths."""
    rng, newest = random.Random(1), two.paths()[0]
    good, n_found, n_recovered = newest.read_bytes(), 0, 0
    damaged = []
    for _ in range(200):
        flipped = bytearray(good)
        flipped[rng.randrange(len(good))] ^= 1 << rng.randrange(8)
        damaged.append(bytes(flipped))
    damaged += [good[: rng.randrange(len(good))] for _ in range(50)]
    for content in damaged:
        newest.write_bytes(content)
        told: list[str] = []
        there = two.latest(told.append)
        n_found += len(told) == 1 and newest.name in told[0] and "damaged" in told[0]
        n_recovered += there is not None and there.state["progress"]["step"] == 3
    assert (n_found, n_recovered) == (250, 250)


def test_a_damaged_one_is_written_over(two: Checkpoints, fresh: Tiny) -> None:
    """Keeps out a bad file that is kept in place of the good one."""
    bad, good = two.paths()
    bad.write_bytes(b"")
    again = Checkpoints(two.folder / "gpt-seed1.json")
    there, one = again.latest(lambda line: None), Trainer(fresh("gpt"), CFG)
    assert there is not None
    again.save(one.tensors(), one.state())
    assert good in again.paths()
    assert bad not in again.paths()
    assert len(again.paths()) == 2


def test_other_runs_checkpoints_are_not_taken(two: Checkpoints) -> None:
    """Keeps out seed 1 going on from seed 11, and a name with a dot that matches anything."""
    for name in ("gpt-seed11", "xgpt-seed1", "gpt_seed1"):
        assert Checkpoints(two.folder / f"{name}.json").latest() is None


def test_checkpoints_cost_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a disk that is slow and a run that does nothing but write."""
    clock = itertools.count(0.0, 5.0)  # every look at the clock is five seconds later
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: next(clock))
    kept = Checkpoints(tmp_path / "run.json", every_s=30.0)
    kept.save({"x": torch.zeros(3)}, {})
    assert kept.due - 10.0 >= 5.0 / checkpoint.MAX_TIME_SHARE


# ----------------------------------------------------------------------------------------- the disk


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


def fill(disk: Path, free: int) -> Path:
    """Leave so many bytes free."""
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(max(0, shutil.disk_usage(disk).free - free)))
    return ballast


@pytest.mark.parametrize("what", ["checkpoint", "record", "figure"])
def test_a_full_disk(what: str, small_disk: Path, two: Checkpoints) -> None:
    """Keeps out a torn file where there was a whole one, and a fault that is not said."""
    path = small_disk / {"checkpoint": "a", "record": "gpt-seed1.json", "figure": "a.svg"}[what]
    kept = Checkpoints(small_disk / "gpt-seed1.json")
    state = two.latest()
    assert state is not None

    def put() -> None:
        if what == "checkpoint":
            kept.save(state.tensors, state.state)
        elif what == "record":
            files.write(path, "x" * 200_000)
        else:
            figure = Figure()
            figure.add_subplot().plot(np.sin(np.arange(20_000)))
            style.save(figure, path)

    put()
    before = {p.name: p.read_bytes() for p in small_disk.iterdir()}
    ballast = fill(small_disk, 8_192)
    with pytest.raises(files.WriteError, match=r"could not be written: No space left on device"):
        put()
    ballast.unlink()
    assert {p.name: p.read_bytes() for p in small_disk.iterdir()} == before
    put()


@pytest.mark.slow
def test_a_full_disk_in_a_comparison(small_disk: Path) -> None:
    """Keeps out more than one line, exit code 0, and a run that does not go on afterwards."""
    argv = command(small_disk, ["rnn_encdec"], 2_000)
    argv[argv.index("--checkpoint-every") + 1] = "0.2"
    ballast = fill(small_disk, 100_000)
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "No space left on device" in done.stderr
    assert not list(small_disk.glob(".*.part"))
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=200m", str(small_disk)], check=True)
    subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    assert (small_disk / "rnn_encdec-seed1.json").exists()


def test_a_lost_folder_is_said(tmp_path: Path, fresh: Tiny) -> None:
    """Keeps out a traceback where someone removes the folder of a run."""
    out = tmp_path / "out"
    out.mkdir()
    kept, one = Checkpoints(out / "gpt-seed1.json"), Trainer(fresh("gpt"), CFG)
    out.rmdir()
    with pytest.raises(files.WriteError, match="could not be written: No such file or directory"):
        kept.save(one.tensors(), one.state())


# ------------------------------------------------------------------------------------------ pickles


class Planted:
    """Run code when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(Planted.marker),)

    marker: Path


@pytest.mark.parametrize("kind", ["pickle", "old pickle", "torch"])
def test_no_pickle_is_read(kind: str, two: Checkpoints, tmp_path: Path) -> None:
    """Keeps out code that a stranger's run folder brings along, in any of its files."""
    Planted.marker = tmp_path / "executed"
    run = two.folder / "gpt-seed1"
    made = record.load(ROOT / "results" / "translation-grammar" / "gpt-seed1.json")
    run.with_suffix(".json").write_text(json.dumps(made | {"weights_sha256": None}))
    model = build("gpt", **made["model_config"])
    checkpoint.save_weights(run.with_suffix(".safetensors"), model.state_dict())
    words = [f"w{i}" for i in range(made["model_config"]["vocab_size"] - tokenizers.N_SPECIALS)]
    tokenizers.Words(words).save(two.folder / "tokenizer.json")
    newest = two.paths()[0].name

    def read_all() -> None:
        trained.load(run)
        reading.load_records(two.folder)
        told: list[str] = []
        assert two.latest(told.append) is not None
        if told:
            raise ValueError(told[0])

    read_all()
    for name in ("gpt-seed1.json", "gpt-seed1.safetensors", "tokenizer.json", newest):
        good = (two.folder / name).read_bytes()
        if kind == "torch":
            torch.save(Planted(), two.folder / name)
        else:
            protocol = 0 if kind == "old pickle" else 4
            (two.folder / name).write_bytes(pickle.dumps(Planted(), protocol=protocol))
        with pytest.raises(ValueError, match=re.escape(name)):
            read_all()
        (two.folder / name).write_bytes(good)
    read_all()
    assert not Planted.marker.exists()

"""Checkpoints: interrupted equals uninterrupted; damaged files, full disks, and no pickles."""

import itertools
import json
import os
import re
import signal
import stat
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import safetensors.torch
import torch
from conftest import TINY, Tiny
from toys import CFG, V, assert_same, contents, finish, options, stopped_after, toy

from seqmodels import build
from seqmodels.experiments.launch import compare
from seqmodels.records import io as record
from seqmodels.training import checkpoint, config, loop
from seqmodels.training.checkpoint import SUFFIX, Checkpoint
from seqmodels.training.trainer import Trainer
from seqmodels.utils import files

pytestmark = pytest.mark.usefixtures("undrawn", "few_draws")


def begin(name: str, cfg: config.TrainConfig = CFG) -> Trainer:
    """Return a trainer of a tiny model with dropout, always with the same weights."""
    torch.manual_seed(7)
    return Trainer(build(name, V, **TINY[name] | {"dropout": 0.2}).train(), cfg)


def restore(saved: Trainer, cfg: config.TrainConfig = CFG) -> Trainer:
    """Return another trainer of GPT, restored from one that was interrupted."""
    tensors, progress = saved.tensors(), json.loads(json.dumps(asdict(saved.progress)))
    torch.manual_seed(99)
    trainer = begin("gpt", cfg)
    trainer.restore(tensors, progress)
    return trainer


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_interrupted_equals_uninterrupted(name: str, optimizer: Any, tmp_path: Path) -> None:
    cfg, checkpoint = replace(CFG, optimizer=optimizer), Checkpoint(tmp_path / "run.json")
    whole = finish(begin(name, cfg))
    for n_steps in (2, 7, None):
        torch.manual_seed(99)
        trainer = begin(name, cfg)
        if checkpoint.path.exists():
            tensors, state = checkpoint.load()
            trainer.restore(tensors, state["progress"])

        def cut_power(trainer: Trainer = trainer, n_steps: int | None = n_steps) -> bool:
            if trainer.progress.step == n_steps:
                checkpoint.save(trainer.tensors(), asdict(trainer.progress))
                raise OSError("the power fails")
            return False

        if n_steps:
            with pytest.raises(OSError, match="power"):
                finish(trainer, is_due=cut_power)
    assert trainer.progress.step == 7
    assert_same(finish(trainer), whole)


@pytest.mark.parametrize(("owner", "method", "n_points"), [
    (loop, "validate", 1), (Trainer, "add_point", 2), (loop, "backward", 1),
])  # fmt: skip
def test_a_step_is_taken_whole_before_a_stop(
    owner: Any, method: str, n_points: int, monkeypatch: Any
) -> None:
    cfg = replace(CFG, n_validations=1_000)  # after each step
    whole, trainer, saved_steps = finish(begin("gpt", cfg)), begin("gpt", cfg), []
    original, calls = getattr(owner, method), itertools.count(1)

    def stopped(*given: Any) -> Any:
        if next(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return original(*given)

    def save() -> None:
        signal.raise_signal(signal.SIGINT)  # as a pool's processes are sent, when one has ended
        saved_steps.append(trainer.progress.step)

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, stopped)
        with pytest.raises(KeyboardInterrupt):
            finish(trainer, save=save)
    assert (saved_steps, trainer.progress.batch) == ([2], 2)
    assert {float(s["step"]) for s in trainer.optimizers[0].state.values()} == {2}
    assert len(trainer.progress.curve) == n_points
    assert_same(finish(restore(trainer, cfg)), whole)


def test_a_run_saves_when_due_and_at_its_end() -> None:
    trainer, saved_steps, smallest = begin("gpt"), [], []

    def is_due() -> bool:
        smallest.append(float(torch.tensor(1e-39) / 2))
        return trainer.progress.step % 3 == 0

    finish(trainer, save=lambda: saved_steps.append(trainer.progress.step), is_due=is_due)
    n = trainer.progress.step
    assert saved_steps == [*range(3, n + 1, 3), n]
    assert not any(smallest)
    assert torch.tensor(1e-39) / 2 > 0


# ------------------------------------------------------------------------------------- A comparison
@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """Stop a toy comparison after two steps of its model; return the folder."""
    with stopped_after(2):
        compare(toy(), options(tmp_path, models=["gpt"]))
    assert [path.name for path in tmp_path.glob("gpt-seed1.*")] == [f"gpt-seed1{SUFFIX}"]
    return tmp_path


def test_the_same_command_resumes_as_the_run_began(stopped: Path, capsys: Any) -> None:
    before = contents(stopped)
    for changes, given, match in (
        ({}, {"set": [("lr", 0.5)]}, r"lr was 0\.01, is 0\.5.*--fresh"),
        ({"data": {"name": "letters", "sha256": "1" * 64}}, {}, r"data\.sha256 was 0+, is 1+"),
        ({}, {"precision": "bfloat16"}, "precision was float32, is bfloat16"),
    ):
        with pytest.raises(ValueError, match=match):
            compare(toy(**changes), options(stopped, models=["gpt"], **given))
    assert contents(stopped) == before
    (stopped / ".gpt-seed1.json.0123abcd.part").write_text("{")
    path, given = stopped / f"gpt-seed1{SUFFIX}", options(stopped, models=["gpt"])
    content = path.read_bytes()
    compare(toy(), given)
    out = capsys.readouterr().out
    (line,) = [row for row in out.splitlines() if "resumed after" in row]
    assert re.fullmatch(r"gpt, seed 1: step 2: resumed after \d+ of 200 tokens", line)
    saved = record.load(stopped / "gpt-seed1.json")
    assert [(event.step, event.kind) for event in saved.events] == [(2, "resumed")]
    assert saved.train_config["precision"] == "float32"
    path.write_bytes(content)  # as a kill between the record and its removal leaves it
    compare(toy(), given)
    assert not [*stopped.glob(f"*{SUFFIX}"), *stopped.glob(".*.part")]


def test_fresh_starts_again_and_deletes_no_other_run(stopped: Path, capsys: Any) -> None:
    (stopped / "lstm_seq2seq-seed2.safetensors").write_bytes(b"another")
    for _ in range(2):  # after a checkpoint, and after a record
        compare(toy(), options(stopped, models=["gpt"], set=[("lr", 0.5)], fresh=True))
        assert "training on 200 tokens" in capsys.readouterr().out
    assert record.load(stopped / "gpt-seed1.json").train_config.lr == 0.5
    assert (stopped / "lstm_seq2seq-seed2.safetensors").read_bytes() == b"another"


# ------------------------------------------------------------------------------- Files on the disk
@pytest.fixture
def saved(tmp_path: Path, fresh: Tiny) -> Checkpoint:
    """Write the checkpoint of a toy run."""
    checkpoint, trainer = Checkpoint(tmp_path / "gpt-seed1.json"), Trainer(fresh("gpt"), CFG)
    checkpoint.save(trainer.tensors(), asdict(trainer.progress))
    return checkpoint


def test_checkpoints_take_at_most_one_percent_of_the_time(
    tmp_path: Path, fresh: Tiny, monkeypatch: Any
) -> None:
    clock, write = SimpleNamespace(now_s=100.0, cost_s=0.0), files.write

    def write_slowly(path: Path, content: bytes) -> Path:
        clock.now_s += clock.cost_s
        return write(path, content)

    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    monkeypatch.setattr(files, "write", write_slowly)
    one, trainer = Checkpoint(tmp_path / "gpt-seed1.json"), Trainer(fresh("gpt"), CFG)
    for cost_s, pause_s in ((0.0, 30.0), (0.1, 30.0), (0.5, 50.0)):
        clock.cost_s = cost_s
        if cost_s:  # also the first one is due after a while
            one.save(trainer.tensors(), asdict(trainer.progress))
        for pause, is_due in ((pause_s - 1, False), (1.1, True)):
            clock.now_s += pause
            assert one.is_due() == is_due


def test_a_damaged_checkpoint_is_named(stopped: Path) -> None:
    path, given = stopped / f"gpt-seed1{SUFFIX}", options(stopped, models=["gpt"])
    foreign = safetensors.torch.save({"a": torch.zeros(1)})
    others = safetensors.torch.save({"a": torch.zeros(1)}, {"seqmodels": "{"})
    pickled = b"csys\nexit\n(S'a pickle was read'\ntR."
    for bad in (pickled, path.read_bytes()[:-7], b"", foreign, others):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=rf"{path.name} is damaged .*--fresh"):
            compare(toy(), given)
    compare(toy(), replace(given, fresh=True))


def test_a_full_disk_leaves_the_earlier_file(saved: Checkpoint, monkeypatch: Any) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    (tensors, state), folder = saved.load(), saved.path.parent
    files.write(folder / "a.svg", "whole")
    before = contents(folder)
    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        saved.save(tensors, state["progress"])
    with pytest.raises(OSError, match="No space left on device"):
        files.write(folder / "a.svg", "torn")
    assert contents(folder) == before


def test_content_is_on_the_disk_before_its_name(tmp_path: Path, monkeypatch: Any) -> None:
    flushed, fsync = [], os.fsync

    def watch(handle: int) -> None:
        flushed.append((stat.S_ISDIR(os.fstat(handle).st_mode), (tmp_path / "a").exists()))
        fsync(handle)

    monkeypatch.setattr(files.os, "fsync", watch)
    n_open = len(os.listdir("/proc/self/fd"))
    files.write(tmp_path / "a", "ä")
    assert flushed == [(False, False)]
    assert len(os.listdir("/proc/self/fd")) == n_open
    assert contents(tmp_path) == {"a": "ä".encode()}

"""Checkpoints: interrupted equals uninterrupted; damage, full disks, and pickles, never read."""

import itertools
import json
import os
import random
import re
import signal
import stat
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import TINY, Tiny
from toys import CFG, V, assert_same, contents, examples, finish, options, stopped_after, toy

from seqmodels import build
from seqmodels.data.batches import collate
from seqmodels.experiments.launch import compare
from seqmodels.records import io as record
from seqmodels.training import checkpoint, config, loop
from seqmodels.training.checkpoint import Checkpoints
from seqmodels.training.trainer import Trainer
from seqmodels.utils import files

pytestmark = pytest.mark.usefixtures("undrawn", "few_draws")


def begin(name: str, cfg: config.TrainConfig = CFG) -> Trainer:
    """Return a trainer of a tiny model with dropout, always with the same weights."""
    torch.manual_seed(7)
    return Trainer(build(name, V, **TINY[name] | {"dropout": 0.2}).train(), cfg)


def restore(saved: Trainer, cfg: config.TrainConfig = CFG) -> Trainer:
    """Return another trainer of GPT, restored from one that was interrupted."""
    tensors, state = saved.tensors(), json.loads(json.dumps(saved.state()))
    torch.manual_seed(99)
    trainer = begin("gpt", cfg)
    trainer.restore(tensors, state)
    return trainer


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_interrupted_equals_uninterrupted(name: str, optimizer: Any, tmp_path: Path) -> None:
    cfg, checkpoints = replace(CFG, optimizer=optimizer), Checkpoints(tmp_path / "run.json")
    whole = finish(begin(name, cfg))
    for n_steps in (2, 7, None):
        torch.manual_seed(99)
        trainer = begin(name, cfg)
        if saved := checkpoints.latest():
            trainer.restore(saved.tensors, saved.state)

        def cut_power(trainer: Trainer = trainer, n_steps: int | None = n_steps) -> bool:
            if trainer.progress.step == n_steps:
                checkpoints.save(trainer.tensors(), trainer.state())
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

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, stopped)
        with pytest.raises(KeyboardInterrupt):
            finish(trainer, save=lambda: saved_steps.append(trainer.progress.step))
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


def test_a_checkpoint_that_does_not_match_is_refused() -> None:
    trainer = begin("gpt")
    trainer.add_point({"valid_nats": 1.0})
    loop.training_step(trainer, trainer.prepare(collate(examples()[:5])))
    tensors, state = trainer.tensors(), trainer.state()
    begin("gpt").restore(tensors, state)
    for key, tensor, message in (
        ("best/norm.bias", torch.ones(16).double(), "norm.bias is torch.float64"),
        ("model/norm.bias", torch.ones(15), r"norm.bias is torch.float32 \[15\], expected"),
        ("model/other", torch.ones(16), "other is torch.float32 .* expected missing"),
    ):
        with pytest.raises(ValueError, match=message):
            begin("gpt").restore(tensors | {key: tensor}, state)
    state["progress"]["n_parts"] = 1  # of an earlier version
    begin("gpt").restore(tensors, state)
    with pytest.raises(ValueError, match=r"norm\.bias is missing"):
        begin("gpt").restore({k: t for k, t in tensors.items() if k != "model/norm.bias"}, state)


# ------------------------------------------------------------------------------------- A comparison
@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """Stop a toy comparison after two steps of its model; return the folder."""
    with stopped_after(2):
        compare(toy(), options(tmp_path, models=["gpt"]))
    (path,) = tmp_path.glob("gpt-seed1.*")
    assert path in Checkpoints(tmp_path / "gpt-seed1.json").paths()
    return tmp_path


def test_the_same_command_resumes_as_the_run_began(stopped: Path, capsys: Any) -> None:
    before = contents(stopped)
    for changes, given, match in (
        ({}, {"lr": 0.5}, r"lr was 0\.01, is 0\.5.*--fresh"),
        ({"data": {"name": "letters", "sha256": "1" * 64}}, {}, r"data\.sha256 was 0+, is 1+"),
        ({"n_parameters": 300_000}, {}, "d_model was "),
        ({}, {"precision": "bfloat16"}, "precision was float32, is bfloat16"),
    ):
        with pytest.raises(ValueError, match=match):
            compare(toy(**changes), options(stopped, models=["gpt"], **given))
    assert contents(stopped) == before
    (stopped / ".gpt-seed1.json.0123abcd.part").write_text("{")
    (checkpoint,) = stopped.glob("*.checkpoint-*")
    content, given = checkpoint.read_bytes(), options(stopped, models=["gpt"])
    compare(toy(), given)
    out = capsys.readouterr().out
    (line,) = [row for row in out.splitlines() if "resumed after" in row]
    assert re.fullmatch(r"gpt, seed 1: step 2: resumed after \d+ of 200 tokens", line)
    saved = record.load(stopped / "gpt-seed1.json")
    assert [(event.step, event.kind) for event in saved.events] == [(2, "resumed")]
    assert saved.train_config["precision"] == "float32"
    checkpoint.write_bytes(content)  # as a kill between the record and its removal leaves it
    compare(toy(), given)
    assert not [*stopped.glob("*.checkpoint-*"), *stopped.glob(".*.part")]


def test_fresh_starts_again_and_deletes_no_other_run(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (stopped / "lstm_seq2seq-seed2.safetensors").write_bytes(b"another")
    for _ in range(2):  # after a checkpoint, and after a record
        compare(toy(), options(stopped, models=["gpt"], lr=0.5, fresh=True))
        assert "training on 200 tokens" in capsys.readouterr().out
    assert record.load(stopped / "gpt-seed1.json").train_config.lr == 0.5
    assert (stopped / "lstm_seq2seq-seed2.safetensors").read_bytes() == b"another"


# ------------------------------------------------------------------------------- Files on the disk
@pytest.fixture
def two(tmp_path: Path, fresh: Tiny) -> Checkpoints:
    """Write four checkpoints of a toy run, of which two remain."""
    checkpoints, trainer = Checkpoints(tmp_path / "gpt-seed1.json"), Trainer(fresh("gpt"), CFG)
    for _ in range(4):
        loop.training_step(trainer, trainer.prepare(collate(examples()[:8])))
        checkpoints.save(trainer.tensors(), trainer.state())
    assert [checkpoints.number(path) for path in checkpoints.paths()] == [4, 3]
    return checkpoints


def test_checkpoints_take_at_most_one_percent_of_the_time(
    tmp_path: Path, fresh: Tiny, monkeypatch: Any
) -> None:
    clock, write = SimpleNamespace(now_s=100.0, cost_s=0.0), files.write

    def write_slowly(path: Path, content: bytes) -> Path:
        clock.now_s += clock.cost_s
        return write(path, content)

    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    monkeypatch.setattr(files, "write", write_slowly)
    checkpoints, trainer = Checkpoints(tmp_path / "gpt-seed1.json"), Trainer(fresh("gpt"), CFG)
    for cost_s, pause_s in ((0.0, 30.0), (0.1, 30.0), (0.5, 50.0)):
        clock.cost_s = cost_s
        if cost_s:  # also the first one is due after a while
            checkpoints.save(trainer.tensors(), trainer.state())
        for pause, is_due in ((pause_s - 1, False), (1.1, True)):
            clock.now_s += pause
            assert checkpoints.is_due() == is_due


def test_after_damage_the_previous_one_is_read(two: Checkpoints, monkeypatch: Any) -> None:
    rng, (newest, previous) = random.Random(1), two.paths()
    content = newest.read_bytes()
    damaged = [b"csys\nexit\n(S'a pickle was read'\ntR."]
    damaged += [content[: rng.randrange(len(content))] for _ in range(10)]
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
    monkeypatch.setattr(checkpoint, "SCHEMA", "seqmodels.checkpoint/2")
    assert two.latest(lines.append) is None
    assert "this version reads seqmodels.checkpoint/2" in lines[-1]


def test_checkpoints_of_other_runs_are_not_read(two: Checkpoints) -> None:
    for name in ("gpt-seed11", "xgpt-seed1", "gpt_seed1", "gpt-seed"):
        assert Checkpoints(two.folder / f"{name}.json").latest() is None


def test_a_full_disk_leaves_the_earlier_file(
    two: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    saved, figure = two.latest(), two.folder / "a.svg"
    files.write(figure, "whole")
    before = contents(two.folder)
    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        two.save(saved.tensors, saved.state)
    with pytest.raises(OSError, match="No space left on device"):
        files.write(figure, "torn")
    assert contents(two.folder) == before


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

"""Interrupted equals uninterrupted, for a training and for a comparison."""

from __future__ import annotations

import itertools
import json
import random
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import DECODER_ONLY, Tiny
from toy_task import flags, toy
from toy_training import CFG, assert_same, finish

from seqmodels.comparison import compare
from seqmodels.evaluation import intervals
from seqmodels.records import record
from seqmodels.training import loop
from seqmodels.training.checkpoint import Checkpoints
from seqmodels.training.trainer import PreparedBatch, Trainer
from seqmodels.utils import files


class PowerCutError(Exception):
    """The power fails."""


@pytest.mark.parametrize("n_steps", [1, 4, 9])
def test_interrupted_is_uninterrupted(name: str, n_steps: int, fresh: Tiny, tmp_path: Path) -> None:
    """Keeps out lost moments of AdamW, dropout drawn anew, batches twice, and a lost best."""
    sizes = {"dropout": 0.2} if name in ("transformer", *DECODER_ONLY) else {}
    start = {k: v.clone() for k, v in fresh(name, **sizes).state_dict().items()}

    def begun() -> Trainer:
        model = fresh(name, **sizes)
        model.load_state_dict(start)
        return Trainer(model, CFG)

    whole = finish(begun())
    kept, one = Checkpoints(tmp_path / "run.json"), begun()
    steps = itertools.count(1)

    def cut() -> bool:
        if next(steps) == n_steps:
            kept.save(one.tensors(), one.state())
            raise PowerCutError
        return False

    with pytest.raises(PowerCutError):
        finish(one, is_due=cut)
    torch.manual_seed(99)  # other draws in between
    random.seed(99)
    np.random.seed(99)
    there, other = kept.latest(), begun()
    assert there is not None
    other.restore(there.tensors, there.state)
    assert other.progress.step == n_steps
    assert_same(finish(other), whole)


def test_a_signal_in_validation_costs_nothing(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a point of the curve that is measured twice, or a step that is taken twice."""
    model = fresh("gpt")
    start = {k: v.clone() for k, v in model.state_dict().items()}
    whole = finish(Trainer(model, CFG))
    model.load_state_dict(start)
    one, saved = Trainer(model, CFG), []
    validate, calls = loop.validate, itertools.count(1)

    def interrupted(*given: Any) -> dict[str, float]:
        if next(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return validate(*given)

    def save() -> None:
        tensors = {k: v.clone() for k, v in one.tensors().items()}
        saved.append((tensors, json.loads(json.dumps(one.state()))))

    monkeypatch.setattr(loop, "validate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        finish(one, save=save)
    other = Trainer(fresh("gpt"), CFG)
    other.restore(*saved[-1])
    assert len(other.progress.curve) == 1
    assert_same(finish(other), whole)


def test_a_point_is_not_added_twice(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a second point after the same step: more points than steps are due."""
    model, cfg = fresh("gpt"), replace(CFG, n_validations=1_000)
    start = {k: v.clone() for k, v in model.state_dict().items()}
    whole = finish(Trainer(model, cfg))
    model.load_state_dict(start)
    one, add_point = Trainer(model, cfg), Trainer.add_point

    def signalled(self: Trainer, scores: dict[str, float]) -> None:
        if self.progress.step == 2:
            signal.raise_signal(signal.SIGINT)
        add_point(self, scores)

    monkeypatch.setattr(Trainer, "add_point", signalled)
    with pytest.raises(KeyboardInterrupt):
        finish(one)
    monkeypatch.setattr(Trainer, "add_point", add_point)
    assert [point["step"] for point in one.progress.curve] == [1, 2]
    other = Trainer(fresh("gpt"), cfg)
    other.restore(one.tensors(), json.loads(json.dumps(one.state())))
    assert_same(finish(other), whole)


def test_a_step_is_taken_whole(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out weights of one step with the count of another: the signal comes in mid-step."""
    one, seen = Trainer(fresh("gpt"), CFG), []
    backward = loop.backward

    def signalled(trainer: Trainer, batch: PreparedBatch) -> torch.Tensor:
        signal.raise_signal(signal.SIGINT)
        return backward(trainer, batch)

    monkeypatch.setattr(loop, "backward", signalled)
    with pytest.raises(KeyboardInterrupt):
        finish(one, save=lambda: seen.append((one.progress.step, one.progress.batch)))
    assert seen == [(1, 1)]
    assert {float(s["step"]) for s in one.optimizer.state.values()} == {1.0}


def test_a_step_that_fails_is_not_counted(
    name: str, fresh: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out half a step in a checkpoint: counted before its update, or its dropout drawn."""
    start = {k: v.clone() for k, v in fresh(name).state_dict().items()}

    def begun() -> Trainer:
        model = fresh(name, dropout=0.2)
        model.load_state_dict(start)
        return Trainer(model, CFG)

    whole, one, steps = finish(begun()), begun(), itertools.count(1)
    backward = loop.backward

    def failing(trainer: Trainer, batch: PreparedBatch) -> torch.Tensor:
        loss = backward(trainer, batch)
        if next(steps) == 4:
            raise KeyboardInterrupt
        return loss

    monkeypatch.setattr(loop, "backward", failing)
    with pytest.raises(KeyboardInterrupt):
        finish(one)
    monkeypatch.undo()
    tensors, state = one.tensors(), json.loads(json.dumps(one.state()))
    assert (one.progress.step, one.progress.batch) == (3, 3)
    torch.manual_seed(99)
    other = begun()
    other.restore(tensors, state)
    assert_same(finish(other), whole)


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"progress": {"step": -1}}, "step: Input should be greater than or equal to 0"),
        ({"progress": {"steps": 1}}, "progress steps"),
        ({"progress": {"tokens": "1"}}, "tokens: Input should be a valid integer"),
        ({"progress": None}, "Input should be"),
        ({"generators": {}}, "invalid state of a random generator"),
        ({"generators": {"torch": "zz"}}, "invalid state of a random generator"),
    ],
)
def test_a_foreign_state_is_refused(changed: dict[str, Any], fault: str, fresh: Tiny) -> None:
    """Keeps out a run that goes on from nonsense."""
    one = Trainer(fresh("gpt"), CFG)
    finish(one)
    with pytest.raises(ValueError, match=fault):
        Trainer(fresh("gpt"), CFG).restore(one.tensors(), one.state() | changed)


def test_weights_of_another_shape_are_named(fresh: Tiny) -> None:
    """Keeps out a traceback, or moments of one model under the weights of another."""
    one = Trainer(fresh("gpt"), CFG)
    finish(one)
    with pytest.raises(
        ValueError, match=r"decoder\.0\.ff\.0\.bias is torch\.float32 \[64\], expected"
    ):
        Trainer(fresh("gpt", d_model=32), CFG).restore(one.tensors(), one.state())
    tensors = one.tensors()
    del tensors["exp_avg/norm.bias"]
    with pytest.raises(ValueError, match=r"norm\.bias is missing"):
        Trainer(fresh("gpt"), CFG).restore(tensors, one.state())


# ------------------------------------------------------------------------------------- a comparison


@pytest.fixture
def stopped(tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stop a toy comparison after two steps of its first model."""
    monkeypatch.setattr(intervals, "N_BOOTSTRAP", 20)
    learn, steps = loop.training_step, itertools.count(1)

    def learn_two(self: Trainer, *given: Any) -> None:
        learn(self, *given)
        if next(steps) == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(loop, "training_step", learn_two)
    with pytest.raises(KeyboardInterrupt):
        compare.compare(toy(), flags(tmp_path, models=["gpt"]))
    monkeypatch.setattr(loop, "training_step", learn)
    assert [path.name for path in tmp_path.glob("gpt-seed1.*")] == [
        Checkpoints(tmp_path / "gpt-seed1.json").paths()[0].name
    ]
    return tmp_path


def test_the_same_command_goes_on(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keeps out a run that begins again, and checkpoints that stay when all is recorded."""
    compare.compare(toy(), flags(stopped, models=["gpt"]))
    assert "gpt, seed 1: step 2: resumed after " in capsys.readouterr().out
    (event,) = record.load(stopped / "gpt-seed1.json")["events"]
    assert (event["step"], event["kind"]) == (2, "resumed")
    assert not list(stopped.glob("*.checkpoint-*"))


@pytest.mark.parametrize(
    ("changes", "given", "fault"),
    [
        ({}, {"lr": 0.5}, r"lr was 0\.01, is 0\.5"),
        ({"data": {"name": "letters", "sha256": "1" * 64}}, {}, r"data\.sha256 was 0+, is 1+"),
        ({"n_parameters": 300_000}, {}, "d_model was "),
    ],
)
def test_a_run_does_not_go_on_with_other_settings(
    changes: dict[str, Any], given: dict[str, Any], fault: str, stopped: Path
) -> None:
    """Keeps out one run that is made of two; what differs is named."""
    before = {path.name: path.read_bytes() for path in stopped.iterdir() if path.name != files.LOCK}
    with pytest.raises(ValueError, match=f"{fault}.*start again with --fresh"):
        compare.compare(toy(**changes), flags(stopped, models=["gpt"], **given))
    after = {path.name: path.read_bytes() for path in stopped.iterdir() if path.name != files.LOCK}
    assert after == before


def test_fresh_begins_again(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keeps out a switch that does nothing, and one that takes other runs along."""
    (stopped / "lstm_seq2seq-seed2.safetensors").write_bytes(b"another")
    compare.compare(toy(), flags(stopped, models=["gpt"], lr=0.5, fresh=True))
    out = capsys.readouterr().out
    assert "resumed" not in out
    assert "training on 200 tokens" in out
    assert record.load(stopped / "gpt-seed1.json")["train_config"]["lr"] == 0.5
    assert (stopped / "lstm_seq2seq-seed2.safetensors").read_bytes() == b"another"
    compare.compare(toy(), flags(stopped, models=["gpt"], lr=0.5, fresh=True))
    assert "training on 200 tokens" in capsys.readouterr().out


def test_a_folder_in_use_is_left_alone(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a second comparison that trains into the folder of the first."""
    monkeypatch.setattr(files, "GRACE_S", 0.1)
    held = files.Lock(stopped)
    with pytest.raises(ValueError, match="in use by process"):
        compare.compare(toy(), flags(stopped, models=["gpt"]))
    held.release()


def test_the_precision_stays(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a run that cannot go on because the machine measures itself otherwise today."""
    monkeypatch.setattr(compare, "fastest_precision", lambda device: "bfloat16")
    compare.compare(toy(), flags(stopped, models=["gpt"], precision="auto"))
    made = record.load(stopped / "gpt-seed1.json")
    assert made["train_config"]["precision"] == "float32"


def test_what_a_killed_process_was_writing_is_swept(stopped: Path) -> None:
    """Keeps out a folder that fills with halves of files."""
    (stopped / ".gpt-seed1.json.0123abcd.part").write_text("{")
    compare.compare(toy(), flags(stopped, models=["gpt"]))
    assert not list(stopped.glob(".*.part"))


def test_what_a_recorded_run_has_left_is_swept(stopped: Path) -> None:
    """Keeps out checkpoints for ever: a kill may come between the record and their removal."""
    (path,) = stopped.glob("*.checkpoint-*")
    content = path.read_bytes()
    compare.compare(toy(), flags(stopped, models=["gpt"]))
    path.write_bytes(content)
    compare.compare(toy(), flags(stopped, models=["gpt"]))
    assert not list(stopped.glob("*.checkpoint-*"))


def test_damage_is_told_when_a_run_goes_on(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out silence on a checkpoint that is damaged; with none left the run begins again."""
    (path,) = stopped.glob("*.checkpoint-*")
    path.write_bytes(path.read_bytes()[:-1])
    compare.compare(toy(), flags(stopped, models=["gpt"]))
    out = capsys.readouterr().out
    assert f"{path} is damaged" in out
    assert "training on 200 tokens" in out

"""A finished run that is trained further with a larger budget."""

from __future__ import annotations

import hashlib
import itertools
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from toy_task import contents, flags, toy

from seqmodels.comparison import compare, runs
from seqmodels.comparison.task import Task
from seqmodels.data.batches import batch_indices
from seqmodels.evaluation import intervals
from seqmodels.records import record
from seqmodels.report import figures
from seqmodels.report.reading import format_subtitle
from seqmodels.training import loop
from seqmodels.training.config import TrainConfig
from seqmodels.training.trainer import PreparedBatch, Trainer
from seqmodels.utils import files


@pytest.fixture
def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Finish a toy run of 200 tokens."""
    monkeypatch.setattr(figures, "plot_folder", lambda *_, **__: [])
    monkeypatch.setattr(intervals, "N_BOOTSTRAP", 20)
    compare.compare(toy(), flags(tmp_path, models=["gpt"]))
    return tmp_path


def longer(tokens: int) -> Task:
    """Return the toy task with another budget."""
    return toy(training={**toy().training, "tokens": tokens})


def test_a_finished_run_is_trained_further(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out other weights than the kept ones, the old schedule's end, and data seen before."""
    path, weights = finished / "gpt-seed1.json", finished / "gpt-seed1.safetensors"
    old, kept = record.load(path), safetensors.torch.load_file(weights)
    batches, began, rates = [], [], []
    learn, update = loop.training_step, loop.optimizer_step

    def watch(self: Trainer, batch: PreparedBatch) -> None:
        began.append({k: v.clone() for k, v in self.model.state_dict().items()})
        assert began[1:] or not self.optimizer.state
        batches.append([line - 1 for line in batch.lines])
        learn(self, batch)

    monkeypatch.setattr(loop, "training_step", watch)

    def listen(self: Trainer, batch: PreparedBatch, rate: float) -> float:
        rates.append(rate)
        return update(self, batch, rate)

    monkeypatch.setattr(loop, "optimizer_step", listen)
    compare.compare(longer(600), flags(finished, models=["gpt"]))
    out, new = capsys.readouterr().out, record.load(path)
    n = old["curve"][-1]["tokens"]
    assert f"trained further after {n} tokens, with a new schedule" in out
    assert f"training on {600 - n} tokens" in out
    assert all(torch.equal(began[0][name], tensor) for name, tensor in kept.items())
    cfg = TrainConfig(lr=1e-2, **longer(600).training)
    order = batch_indices(longer(600).train, cfg.batch_tokens, cfg.seed)
    every = [draw.rows for draw in itertools.islice(order, new["curve"][-1]["step"])]
    assert batches == every[old["curve"][-1]["step"] :] != []
    assert rates[0] < max(rates) / 5
    assert rates[-1] < max(rates) / 2
    assert max(rates) <= cfg.lr
    assert new["curve"][: len(old["curve"])] == old["curve"]
    assert len(new["curve"]) == len(old["curve"]) + cfg.n_validations
    assert new["curve"][-1]["tokens"] >= 600
    assert new["train_config"]["tokens"] == 600
    assert new["continued"] == {"tokens": n, "weights_sha256": old["weights_sha256"]}
    assert new["weights_sha256"] == hashlib.sha256(weights.read_bytes()).hexdigest()
    assert new["train_s"] > old["train_s"]
    assert "trained further" in format_subtitle([new])
    assert not list(finished.glob("*.checkpoint-*"))
    compare.compare(longer(600), flags(finished, models=["gpt"]))
    assert "recorded in" in capsys.readouterr().out


def test_training_further_survives_a_stop(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a finished run that is lost, or other bits, when its continuation is stopped."""
    whole = finished.with_name("whole")
    shutil.copytree(finished, whole, ignore=shutil.ignore_patterns(files.LOCK))
    compare.compare(longer(600), flags(whole, models=["gpt"]))
    before = contents(finished)
    learn, steps = loop.training_step, itertools.count(1)

    def learn_two(self: Trainer, *given: Any) -> None:
        learn(self, *given)
        if next(steps) == 2:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "training_step", learn_two)
        with pytest.raises(KeyboardInterrupt):
            compare.compare(longer(600), flags(finished, models=["gpt"]))
    stopped = contents(finished)
    assert {name: stopped.get(name) for name in before} == before
    assert len(stopped) == len(before) + 1
    for tokens in (200, 400):
        with pytest.raises(ValueError, match=r"being trained further; --tokens 600 resumes, --fre"):
            compare.compare(longer(tokens), flags(finished, models=["gpt"]))
    assert contents(finished) == stopped

    def fail(*_: Any) -> None:
        raise ValueError("a fault in evaluation")

    with monkeypatch.context() as patch:
        patch.setattr(runs, "evaluate", fail)
        with pytest.raises(ValueError, match="a fault in evaluation"):
            compare.compare(longer(600), flags(finished, models=["gpt"]))
    after = contents(finished)
    assert {name: after.get(name) for name in before} == before
    compare.compare(longer(600), flags(finished, models=["gpt"]))
    made, straight = (record.load(folder / "gpt-seed1.json") for folder in (finished, whole))
    assert made["continued"] == straight["continued"]
    assert made["weights_sha256"] == straight["weights_sha256"]


def test_a_run_is_not_trained_less(finished: Path) -> None:
    """Keeps out a record that is replaced by one of a smaller budget, and weights made up."""
    before = contents(finished)
    with pytest.raises(ValueError, match=r"was trained on 200 tokens, more than the 100 requested; "
                                         r"--fresh starts again"):  # fmt: skip
        compare.compare(longer(100), flags(finished, models=["gpt"]))
    with pytest.raises(ValueError, match=r"lr was 0\.01, is 0\.5"):
        compare.compare(longer(400), flags(finished, models=["gpt"], lr=0.5))
    assert contents(finished) == before
    (finished / "gpt-seed1.safetensors").unlink()
    with pytest.raises(ValueError, match=r"safetensors is missing, so .* cannot be trained furth"):
        compare.compare(longer(400), flags(finished, models=["gpt"]))

"""Curves for TensorBoard: those of the record, whole after an interruption, and optional."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from toy_task import flags, toy

from seqmodels.comparison import compare
from seqmodels.evaluation import intervals
from seqmodels.report import figures
from seqmodels.training import loop
from seqmodels.training.tensorboard import Curves
from seqmodels.training.trainer import Trainer

TRAINING = {"tokens": 3_000, "batch_tokens": 100, "n_validations": 4}

Curve = dict[int, float]


def compared(out: Path, **changes: Any) -> None:
    """Run the toy comparison of a model with curves."""
    given = {"models": ["gpt"], "tensorboard": True, "checkpoint_every": 1e-6} | changes
    compare.compare(toy(training=TRAINING), flags(out, **given))


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no figures."""
    monkeypatch.setattr(intervals, "N_BOOTSTRAP", 20)
    monkeypatch.setattr(figures, "plot_folder", lambda *_, **__: [])


def drawn(out: Path, run: str = "gpt-seed1") -> dict[str, Curve]:
    """Return what TensorBoard shows of a run, without speed, and that no step is there twice."""
    events = EventAccumulator(str(out / "tensorboard" / run), {"scalars": 0})
    events.Reload()
    found = {}
    for name in events.Tags()["scalars"]:
        points = [(point.step, point.value) for point in events.Scalars(name)]
        assert len({step for step, _ in points}) == len(points), name
        found[name] = dict(points)
    assert min(found.pop("training/tokens per second").values()) > 0
    return found


def test_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out curves that are not those of the training, and rates of another step."""
    losses, step = [], loop.optimizer_step
    rates = []

    def seen(trainer: Trainer, batch: Any, lr: float) -> float:
        losses.append(step(trainer, batch, lr))
        rates.append(lr)
        return losses[-1]

    monkeypatch.setattr(loop, "optimizer_step", seen)
    compared(tmp_path)
    record, found = json.loads((tmp_path / "gpt-seed1.json").read_text()), drawn(tmp_path)
    for name, key in (("loss/valid (nats per token)", "nats"), ("accuracy/valid (%)", "accuracy")):
        curve = {point["step"]: point[f"valid_{key}"] for point in record["curve"]}
        assert found[name] == pytest.approx(curve)
    means = {n: fmean(losses[n - 10 : n]) for n in range(10, len(losses) + 1, 10)}
    assert found["loss/train (nats per token)"] == pytest.approx(means)
    wanted = {n: rate for n, rate in enumerate(rates) if n and n % 10 == 0}
    shown = found["training/learning rate"]
    assert {n: shown[n] for n in wanted} == pytest.approx(wanted)
    assert len({*shown.values()}) == len(shown) > 3


@pytest.mark.parametrize("place", ["draw", "validate", "training_step"])
def test_stopped_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Keeps out curves with a gap, or with steps that were taken twice.

    A signal in mid-step is heard after it.
    """
    compared(tmp_path / "whole")
    owner = Curves if place == "draw" else loop
    original, calls = getattr(owner, place), iter(range(1, 10_000))
    stops = {"draw": (12, 41), "validate": (2, 4), "training_step": (12, 41)}[place]

    def stopped(*args: Any) -> Any:
        if place != "training_step" and next(calls) in stops:
            raise KeyboardInterrupt
        done = original(*args)
        if place == "training_step" and next(calls) in stops:
            signal.raise_signal(signal.SIGINT)
        return done

    monkeypatch.setattr(owner, place, stopped)
    for _ in stops:
        with pytest.raises(KeyboardInterrupt):
            compared(tmp_path / "stopped")
    compared(tmp_path / "stopped")
    assert drawn(tmp_path / "stopped") == drawn(tmp_path / "whole")


def test_trained_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out curves that lose their beginning when a run goes on."""
    compared(tmp_path)
    before = drawn(tmp_path)["loss/valid (nats per token)"]
    monkeypatch.setitem(TRAINING, "tokens", 4_000)
    compared(tmp_path)
    after = drawn(tmp_path)["loss/valid (nats per token)"]
    assert before.items() <= after.items()
    assert len(after) == 2 * len(before)


def test_only_if_asked_for(tmp_path: Path) -> None:
    """Keeps out files that nobody wants, and curves of runs that start again."""
    compared(tmp_path, tensorboard=False)
    assert not (tmp_path / "tensorboard").exists()
    compared(tmp_path, fresh=True)
    first = {*(tmp_path / "tensorboard").rglob("events*")}
    assert len(first) == 1
    compared(tmp_path, fresh=True)
    assert not first & {*(tmp_path / "tensorboard").rglob("events*")}
    drawn(tmp_path)


def test_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a traceback after the first step, where the package is missing."""
    monkeypatch.setattr(compare, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install tensorboard"):
        compared(tmp_path / "out")
    assert not (tmp_path / "out").exists()

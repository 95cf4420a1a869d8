"""Interrupted equals uninterrupted, and no fault of disk, memory or data costs finished work."""

from __future__ import annotations

import itertools
import json
import math
import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Tiny, V
from matplotlib.figure import Figure
from test_harness import flags, toy

from seqmodels import Batch, SequenceModel, build
from seqmodels.comparison import compare, trained
from seqmodels.data import tokenizers
from seqmodels.data.batches import Example, collate
from seqmodels.evaluation import metrics
from seqmodels.interface import EOS, PAD
from seqmodels.records import record
from seqmodels.report import reading, style
from seqmodels.training import checkpoint, loop, trainer
from seqmodels.training.checkpoint import Checkpoints
from seqmodels.training.trainer import TrainConfig, Trainer
from seqmodels.utils import files, lock
from tools.survival import PHASES, command, survive

ROOT = Path(__file__).parents[1]
CFG = TrainConfig(tokens=600, rate=1e-2, batch_tokens=60, n_validations=3)


def examples(n: int = 60) -> list[Example]:
    """Draw sources of up to six letters, each to be copied."""
    rng = random.Random(1)
    texts = [[rng.randrange(4, V) for _ in range(rng.randint(1, 6))] for _ in range(n)]
    return [Example(text, [*text, EOS], line=i) for i, text in enumerate(texts, 1)]


def finish(one: Trainer, **how: Any) -> dict[str, Any]:
    """Train to the end; return weights, and the curve without its seconds."""
    curve = loop.train(one, examples()[10:], examples()[:10], **how)
    points = [{k: v for k, v in point.items() if k != "seconds"} for point in curve]
    return {"weights": {k: v.clone() for k, v in one.model.state_dict().items()}, "curve": points}


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Compare bits."""
    assert one["curve"] == other["curve"]
    assert one["weights"].keys() == other["weights"].keys()
    assert all(torch.equal(one["weights"][k], other["weights"][k]) for k in one["weights"])


# ---------------------------------------------------------------------------------------- resume


class PowerCutError(Exception):
    """The power fails."""


@pytest.mark.parametrize("n_steps", [1, 4, 9])
def test_interrupted_is_uninterrupted(name: str, n_steps: int, fresh: Tiny, tmp_path: Path) -> None:
    """Keeps out lost moments of AdamW, dropout drawn anew, batches twice, and a lost best."""
    sizes = {"dropout": 0.2} if name in ("transformer", "gpt") else {}
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
    there, other = kept.newest(), begun()
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


def test_a_step_is_taken_whole(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out weights of one step with the count of another: the signal comes in mid-step."""
    one, seen = Trainer(fresh("gpt"), CFG), []
    backward = Trainer.backward

    def signalled(self: Trainer, batch: Batch) -> float:
        signal.raise_signal(signal.SIGINT)
        return backward(self, batch)

    monkeypatch.setattr(Trainer, "backward", signalled)
    with pytest.raises(KeyboardInterrupt):
        finish(one, save=lambda: seen.append((one.progress.step, one.progress.batch)))
    assert seen == [(1, 1)]
    assert {float(s["step"]) for s in one.optimiser.state.values()} == {1.0}


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
    backward = Trainer.backward

    def failing(self: Trainer, batch: Batch) -> float:
        loss = backward(self, batch)
        if next(steps) == 4:
            raise KeyboardInterrupt
        return loss

    monkeypatch.setattr(Trainer, "backward", failing)
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
        ({"progress": {"steps": 1}}, "unknown field steps"),
        ({"progress": {"tokens": "1"}}, "tokens: Input should be a valid integer"),
        ({"progress": None}, "Input should be"),
        ({"generators": {}}, "no state of a random generator"),
        ({"generators": {"torch": "zz"}}, "no state of a random generator"),
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
        ValueError, match=r"decoder\.0\.ff\.0\.bias is torch\.float32 \[64\], to be"
    ):
        Trainer(fresh("gpt", d_model=32), CFG).restore(one.tensors(), one.state())
    tensors = one.tensors()
    del tensors["exp_avg/norm.bias"]
    with pytest.raises(ValueError, match=r"norm\.bias is missing"):
        Trainer(fresh("gpt"), CFG).restore(tensors, one.state())


# ----------------------------------------------------------------------------------- checkpoints


@pytest.fixture
def two(tmp_path: Path, fresh: Tiny) -> Checkpoints:
    """Write two checkpoints of a toy run."""
    kept, one = Checkpoints(tmp_path / "gpt-seed1.json"), Trainer(fresh("gpt"), CFG)
    for _ in range(4):
        one.training_step(collate(examples()[:8]), range(8))
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
        there = two.newest(told.append)
        n_found += len(told) == 1 and newest.name in told[0] and "damaged" in told[0]
        n_recovered += there is not None and there.state["progress"]["step"] == 3
    assert (n_found, n_recovered) == (250, 250)


def test_a_damaged_one_is_written_over(two: Checkpoints, fresh: Tiny) -> None:
    """Keeps out a bad file that is kept in place of the good one."""
    bad, good = two.paths()
    bad.write_bytes(b"")
    again = Checkpoints(two.folder / "gpt-seed1.json")
    there, one = again.newest(lambda line: None), Trainer(fresh("gpt"), CFG)
    assert there is not None
    again.save(one.tensors(), one.state())
    assert good in again.paths()
    assert bad not in again.paths()
    assert len(again.paths()) == 2


def test_other_runs_checkpoints_are_not_taken(two: Checkpoints) -> None:
    """Keeps out seed 1 going on from seed 11, and a name with a dot that matches anything."""
    for name in ("gpt-seed11", "xgpt-seed1", "gpt_seed1"):
        assert Checkpoints(two.folder / f"{name}.json").newest() is None


def test_checkpoints_cost_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a disk that is slow and a run that does nothing but write."""
    clock = itertools.count(0.0, 5.0)  # every look at the clock is five seconds later
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: next(clock))
    kept = Checkpoints(tmp_path / "run.json", every_s=30.0)
    kept.save({"x": torch.zeros(3)}, {})
    assert kept.due - 10.0 >= 5.0 / checkpoint.SHARE


# ------------------------------------------------------------------------------- kills, signals


@pytest.mark.slow
def test_kills_leave_no_trace(tmp_path: Path) -> None:
    """Keeps out any trace of a kill -9, in each phase; `python -m tools.survival` does more."""
    n, kills = survive(len(PHASES), ["lstm_seq2seq", "gpt"], 3_000, 1, tmp_path)
    assert n >= 1
    assert kills == dict.fromkeys(PHASES, 1)


def busy() -> float:
    """Return how many times longer work takes now than where nothing else runs."""
    since, spent = time.monotonic(), time.thread_time()
    while time.thread_time() - spent < 0.2:
        pass
    return (time.monotonic() - since) / 0.2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["INT", "TERM", "HUP"],
)
@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_signal_stops_within_five_seconds(
    number: signal.Signals, code: int, threads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a stop without a checkpoint, a traceback, and a process that trains on."""
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    argv = command(tmp_path, ["gpt", "bahdanau"], 10_000_000)
    argv[argv.index("--checkpoint-every") + 1] = "1000"
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        argv, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        try:
            assert "training on 10,000,000 tokens" in program.stdout.readline()
            time.sleep(1.0)
            since = time.monotonic()
            program.send_signal(number)
            _, err = program.communicate(timeout=60)
        finally:
            program.kill()
    took = time.monotonic() - since
    assert program.returncode == code
    assert err == "translation: stopped; the same command goes on from where it was\n"
    assert took < 5.0 * busy()
    assert list(tmp_path.glob("*.checkpoint-000001-*"))
    assert not list(tmp_path.glob(".*.part"))


def test_a_folder_has_one_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out two processes that write over each other; the owner is named."""
    monkeypatch.setattr(lock, "GRACE_S", 0.1)
    held = lock.Lock(tmp_path)
    with pytest.raises(ValueError, match=rf"is in use by process {os.getpid()} on .* since 20"):
        lock.Lock(tmp_path)
    held.release()
    lock.Lock(tmp_path).release()


# ------------------------------------------------------------------------------------- the disk


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
    state = two.newest()
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


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Keeps out a folder of a stranger's by which a file elsewhere is written over."""
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "run"
    elsewhere.write_text("mine")
    folder.mkdir()
    for name in ("tables.md", lock.LOCK):
        (folder / name).symlink_to(elsewhere)
    files.write(folder / "tables.md", "theirs")
    with pytest.raises(ValueError, match="cannot be written to"):
        lock.Lock(folder)
    assert elsewhere.read_text() == "mine"


# ------------------------------------------------------------------------------------- pickles


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
    checkpoint.save(run.with_suffix(".safetensors"), model.state_dict())
    words = [f"w{i}" for i in range(made["model_config"]["vocab_size"] - tokenizers.N_SPECIALS)]
    tokenizers.Words(words).save(two.folder / "tokenizer.json")
    newest = two.paths()[0].name

    def read_all() -> None:
        trained.load(run)
        reading.load_records(two.folder)
        told: list[str] = []
        assert two.newest(told.append) is not None
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


# --------------------------------------------------------------------------- training goes wrong


def lost(monkeypatch: pytest.MonkeyPatch, steps: set[int]) -> None:
    """Have the loss be infinite at some steps."""
    loss_of, step = trainer.loss_of, itertools.count(1)

    def sometimes(*given: Any) -> torch.Tensor:
        return loss_of(*given) * (math.inf if next(step) in steps else 1.0)

    monkeypatch.setattr(trainer, "loss_of", sometimes)


def test_a_batch_without_a_finite_loss_is_skipped(
    fresh: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out weights of NaN, and a message that does not say which sentences it was."""
    one, told = Trainer(fresh("gpt"), CFG), []
    one.log = told.append
    lost(monkeypatch, {3})
    finish(one)
    assert one.progress.n_skipped == 1
    (line,) = told
    assert "step 3: batch skipped: no finite loss or gradient; lines " in line
    lines = [int(n) for n in re.findall(r"\d+", line.partition("; lines ")[2])]
    assert 1 <= min(lines) <= max(lines) <= 60
    assert one.progress.events == [{"step": 3, "kind": "skipped", "what": line.partition(": ")[2]}]
    assert all(p.isfinite().all() for p in one.model.parameters())


def test_a_gradient_that_is_not_finite_changes_nothing(fresh: Tiny) -> None:
    """Keeps out a step by infinity: the loss is finite, its gradient is not."""
    one = Trainer(fresh("gpt"), CFG)
    before = {k: v.clone() for k, v in one.model.state_dict().items()}
    one.model.norm.bias.register_hook(lambda grad: grad * math.inf)
    assert math.isnan(one.optimizer_step(collate(examples()[:4]), 1e-2))
    assert all(torch.equal(before[k], v) for k, v in one.model.state_dict().items())


def test_too_many_skips_end_the_run(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a run that skips all of its data and is then recorded."""
    one, saved = Trainer(fresh("gpt"), CFG), []
    one.log = lambda line: None
    lost(monkeypatch, set(range(2, 99)))
    with pytest.raises(ValueError, match=r"the loss is lost at step 12: .*lines .*; lower rate"):
        finish(one, save=lambda: saved.append(one.progress.step))
    assert one.progress.n_skipped == trainer.MOST_SKIPPED + 1
    assert not saved


def test_a_spike_is_told(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out silence on a loss that leaps, and an alarm for every bad batch."""
    one, told = Trainer(fresh("gpt"), CFG), []
    one.log = told.append
    rng = random.Random(1)
    usual = [rng.gauss(2.0, 0.2) for _ in range(300)]
    for i, loss in enumerate([*usual, 9.0, *usual[:50]]):
        monkeypatch.setattr(one, "optimizer_step", lambda *_, loss=loss: loss)
        one.training_step(collate(examples()[:2]), [i, i + 1])
    (line,) = told
    assert line.startswith("step 301: loss 9, usually 2")
    assert "lines 300, 301 of the training data" in line


class FullError(RuntimeError):
    """What torch says when a processor's memory is full."""


FULL = [
    "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried …",
    "could not create a primitive",
]


@pytest.mark.parametrize("said", FULL)
@pytest.mark.parametrize("n_rows_that_fit", [9, 4, 1])
def test_memory_that_is_short_halves_the_batch(
    said: str, n_rows_that_fit: int, name: str, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out another gradient than the whole batch's: pieces count by their tokens."""
    batch = collate(examples()[:9])
    whole, parted = (Trainer(tiny(name), CFG) for _ in range(2))
    parted.model.load_state_dict(whole.model.state_dict())
    told: list[str] = []
    parted.log = told.append
    wanted, loss_of = whole.backward(batch), trainer.loss_of

    def short(model: SequenceModel, part: Batch, *rest: Any) -> torch.Tensor:
        if len(part.src) > n_rows_that_fit:
            raise FullError(said)
        return loss_of(model, part, *rest)

    monkeypatch.setattr(trainer, "loss_of", short)
    assert parted.backward(batch) == pytest.approx(wanted)
    for p, q in zip(whole.model.parameters(), parted.model.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)
    n_parts = {9: 1, 4: 4, 1: 16}[n_rows_that_fit]
    assert parted.progress.n_parts == n_parts
    assert len(told) == int(math.log2(n_parts))


def test_a_piece_without_targets_counts_nothing(name: str, tiny: Tiny) -> None:
    """Keeps out 0 × NaN: a batch is lost because one half of it has nothing to score."""
    batch = collate(examples()[:8])
    batch.tgt_out[4:] = PAD
    whole, halved = (Trainer(tiny(name), CFG) for _ in range(2))
    halved.model.load_state_dict(whole.model.state_dict())
    halved.progress.n_parts = 2
    assert halved.backward(batch) == pytest.approx(whole.backward(batch))
    for p, q in zip(whole.model.parameters(), halved.model.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)
    batch.tgt_out[:] = PAD
    assert math.isnan(whole.optimizer_step(batch, 1e-2))


def test_no_memory_at_all_is_said(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out an endless halving."""

    def full(*_: Any) -> torch.Tensor:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(trainer, "loss_of", full)
    one = Trainer(fresh("gpt"), CFG)
    one.log = lambda line: None
    with pytest.raises(ValueError, match="out of memory with one sentence at a time"):
        one.optimizer_step(collate(examples()[:5]), 1e-2)


def test_other_errors_are_no_lack_of_memory(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a bug that is tried again with smaller batches."""

    def wrong(*_: Any) -> torch.Tensor:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(trainer, "loss_of", wrong)
    with pytest.raises(RuntimeError, match="mat1"):
        Trainer(fresh("gpt"), CFG).optimizer_step(collate(examples()[:5]), 1e-2)


# ------------------------------------------------------------------------------- a comparison


@pytest.fixture
def stopped(tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stop a toy comparison after two steps of its first model."""
    monkeypatch.setattr(metrics, "N_BOOTSTRAP", 20)
    learn, steps = Trainer.training_step, itertools.count(1)

    def learn_two(self: Trainer, *given: Any) -> None:
        learn(self, *given)
        if next(steps) == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Trainer, "training_step", learn_two)
    with pytest.raises(KeyboardInterrupt):
        compare.compare(toy(), flags(tmp_path, models=["gpt"]))
    monkeypatch.setattr(Trainer, "training_step", learn)
    assert [path.name for path in tmp_path.glob("gpt-seed1.*")] == [
        Checkpoints(tmp_path / "gpt-seed1.json").paths()[0].name
    ]
    return tmp_path


def test_the_same_command_goes_on(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keeps out a run that begins again, and checkpoints that stay when all is recorded."""
    compare.compare(toy(), flags(stopped, models=["gpt"]))
    assert "gpt, seed 1: step 2: goes on after " in capsys.readouterr().out
    (event,) = record.load(stopped / "gpt-seed1.json")["events"]
    assert (event["step"], event["kind"]) == (2, "resumed")
    assert not list(stopped.glob("*.checkpoint-*"))


@pytest.mark.parametrize(
    ("changes", "given", "fault"),
    [
        ({}, {"rate": 0.5}, r"rate was 0\.01, is 0\.5"),
        ({"data": {"name": "letters", "sha256": "1" * 64}}, {}, r"data\.sha256 was 0+, is 1+"),
        ({"n_parameters": 300_000}, {}, "d_model was "),
    ],
)
def test_a_run_does_not_go_on_with_other_settings(
    changes: dict[str, Any], given: dict[str, Any], fault: str, stopped: Path
) -> None:
    """Keeps out one run that is made of two; what differs is named."""
    before = {path.name: path.read_bytes() for path in stopped.iterdir() if path.name != lock.LOCK}
    with pytest.raises(ValueError, match=f"{fault}.*begin again with --fresh"):
        compare.compare(toy(**changes), flags(stopped, models=["gpt"], **given))
    after = {path.name: path.read_bytes() for path in stopped.iterdir() if path.name != lock.LOCK}
    assert after == before


def test_fresh_begins_again(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keeps out a switch that does nothing, and one that takes other runs along."""
    (stopped / "lstm_seq2seq-seed2.safetensors").write_bytes(b"another")
    compare.compare(toy(), flags(stopped, models=["gpt"], rate=0.5, fresh=True))
    out = capsys.readouterr().out
    assert "goes on" not in out
    assert "training on 200 tokens" in out
    assert record.load(stopped / "gpt-seed1.json")["train_config"]["rate"] == 0.5
    assert (stopped / "lstm_seq2seq-seed2.safetensors").read_bytes() == b"another"
    compare.compare(toy(), flags(stopped, models=["gpt"], rate=0.5, fresh=True))
    assert "training on 200 tokens" in capsys.readouterr().out


def test_a_folder_in_use_is_left_alone(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a second comparison that trains into the folder of the first."""
    monkeypatch.setattr(lock, "GRACE_S", 0.1)
    held = lock.Lock(stopped)
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

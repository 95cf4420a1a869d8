"""A model whose weights are shared out: the same training, in half the memory."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import fully_sharded
import pytest
import torch
from conftest import Tiny
from test_world import COMMAND, ROOT, environment, kill_a_worker, run, torchrun
from toy_task import flags, same, toy
from toy_training import CFG

from seqmodels.comparison import compare
from seqmodels.site import unfinished
from seqmodels.training.checkpoint import STATE, load, read
from seqmodels.training.fsdp import units
from seqmodels.training.sharded_checkpoint import ShardedCheckpoints, tensor_files
from seqmodels.training.trainer import Trainer
from seqmodels.utils.files import WriteError
from tools.survival import results

Found = dict[str, Any]
FED = fully_sharded.FED


@pytest.fixture(scope="module")
def on_two(tmp_path_factory: pytest.TempPathFactory) -> list[Found]:
    """Return what each of two processes finds with fully_sharded.py."""
    out = tmp_path_factory.mktemp("two")
    done = run([*torchrun(2), "tests/fully_sharded.py", str(out)])
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    found: list[Found] = [torch.load(out / f"{rank}.pt") for rank in (0, 1)]
    found[0]["out"] = out
    return found


def test_the_losses_are_the_same(name: str, on_two: list[Found]) -> None:
    """Keeps out gradients that are averaged, lost or clipped by pieces, over 12 steps."""
    for found in (there["twelve_steps"] for there in on_two):
        for sharded, whole in zip(
            found[f"ShardedTrainer/{name}"], found[f"Trainer/{name}"], strict=True
        ):
            assert len(whole) == 12
            assert sharded == pytest.approx(whole, rel=1e-5)
        assert max(found[f"Trainer/{name}"][1]) > 0.2  # some were clipped


def test_a_stack_that_goes_by_tokens_learns_the_same(on_two: list[Found]) -> None:
    """Keeps out weights that are gathered for each token, or not at all."""
    for found in (there["twelve_steps"] for there in on_two):
        sharded, whole = (found[f"{kind}/{FED}"] for kind in ("ShardedTrainer", "Trainer"))
        assert sharded[0] == pytest.approx(whole[0], rel=1e-5)


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
    "lstm_seq2seq_dot_fed": ["encoder.layers.1", "encoder.layers.0"],  # its decoder goes by tokens
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


# ------------------------------------------------------------------------------------ Checkpoints


def test_a_signal_to_one_process_stops_all(on_two: list[Found]) -> None:
    """Keeps out a process that stops alone, or without a checkpoint."""
    assert [found["stopped"] for found in on_two] == [{"code": 143, "steps": 8}] * 2
    (path,) = on_two[0]["out"].glob("copy/*.checkpoint-*")
    assert read(path).state["progress"]["step"] == 8


def test_stopped_is_not_stopped(on_two: list[Found]) -> None:
    """Keeps out lost moments, a lost best, and any other bit that a resumed run has not."""
    out = on_two[0]["out"]
    assert results(out / "stopped") == results(out / "whole")
    made = json.loads((out / "stopped" / "transformer-seed1.json").read_text())
    assert "resumed" in {event["kind"] for event in made["events"]}
    assert made["provenance"]["fsdp"]
    assert "fsdp" not in made["train_config"]
    assert not [*(out / "stopped").glob("*.checkpoint-*")]
    model = load(made, out / "stopped" / "transformer-seed1.safetensors")
    assert not any(type(p).__name__ == "DTensor" for p in model.parameters())


def test_a_stopped_run_is_resumed_as_it_began(on_two: list[Found]) -> None:
    """Keeps out a checkpoint that is passed over, and a run that begins again for it."""
    task = toy(recipes=fully_sharded.RECIPES, training=fully_sharded.TRAINING)
    copy = on_two[0]["out"] / "copy"
    with pytest.raises(ValueError, match="was written with --fsdp; resume with it"):
        compare.compare(task, flags(copy, shards=2, models=["transformer"]))
    (run,) = unfinished.find(copy)
    whole = json.loads((on_two[0]["out"] / "whole" / "transformer-seed1.json").read_text())
    assert run["n_parameters"] == whole["n_parameters"]
    assert [p["valid_nats"] for p in run["curve"]] == [
        p["valid_nats"] for p in whole["curve"][: len(run["curve"])]
    ]


def test_a_finished_run_is_trained_further(
    on_two: list[Found], tmp_path: Path, undrawn: None
) -> None:
    """Keeps out weights that are drawn anew, and pieces in the wrong place."""
    shutil.copytree(on_two[0]["out"] / "whole", tmp_path, dirs_exist_ok=True)
    fully_sharded.compared(tmp_path, 1_200, is_fsdp=False)
    sharded, whole = (
        json.loads((folder / "transformer-seed1.json").read_text())["curve"]
        for folder in (on_two[0]["out"] / "further", tmp_path)
    )
    assert [point["tokens"] for point in sharded] == [point["tokens"] for point in whole]
    losses = ([point["valid_nats"] for point in curve] for curve in (sharded, whole))
    assert next(losses) == pytest.approx(next(losses), rel=1e-5)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
@pytest.mark.parametrize("damage", ["tensors", "state", "missing"])
def test_a_damaged_folder_is_passed_over(damage: str, fresh: Tiny, tmp_path: Path) -> None:
    """Keeps out torn weights, and the loss of what was saved before them."""
    one = Trainer(fresh("gpt"), CFG)
    kept = ShardedCheckpoints(tmp_path / "gpt-seed1.json", 30.0, one.model)
    for step in (1, 2, 3):
        one.progress.step = step
        kept.save(one.tensors(), one.state())
    latest, previous = kept.paths()
    file = latest / STATE if damage == "state" else tensor_files(latest)[0]
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    if damage == "missing":
        file.unlink()
    said: list[str] = []
    found = kept.agreed(said.append)
    assert found is not None
    assert found.path == previous
    assert found.state["progress"]["step"] == 2
    assert same(found.tensors, one.tensors())
    assert "going back to the previous checkpoint" in said[0]
    kept.remove()
    assert not [*tmp_path.iterdir()]


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_full_disk_is_said(fresh: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a traceback, and the loss of the checkpoint before."""
    one = Trainer(fresh("gpt"), CFG)
    kept = ShardedCheckpoints(tmp_path / "gpt-seed1.json", 30.0, one.model)
    kept.save(one.tensors(), one.state())

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("torch.distributed.checkpoint.filesystem.os.fsync", full)
    with pytest.raises(WriteError, match="No space left on device; the previous one is kept"):
        kept.save(one.tensors(), one.state())
    monkeypatch.undo()
    assert kept.agreed(print) is not None


def test_lack_of_memory_ends_all(on_two: list[Found]) -> None:
    """Keeps out a process that waits for one that has no memory."""
    first, second = (found["lost"]["said"] for found in on_two)
    assert "another process of this training has ended" in first
    assert "out of memory, and with --fsdp a batch cannot be halved" in second


@pytest.mark.slow
def test_killed_workers_leave_no_trace(tmp_path: Path) -> None:
    """Keeps out an update that is lost or taken twice where torchrun starts the processes anew."""
    command, rng, n_kills = [*COMMAND[:-1], "--fsdp", "--out"], random.Random(1), 0
    done = run([*torchrun(2), *command, str(tmp_path / "whole")])
    assert done.returncode == 0, done.stderr
    argv = [*torchrun(2, "--max-restarts=20"), *command, str(tmp_path / "killed")]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(argv, cwd=ROOT, env=environment(), **quiet) as program:
        while n_kills < 3 and kill_a_worker(program, tmp_path / "killed", rng):
            n_kills += 1
        assert program.wait() == 0
    assert n_kills
    assert results(tmp_path / "killed") == results(tmp_path / "whole")

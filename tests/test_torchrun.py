"""One model on several processes: the same result as on one, and nothing lost with a process."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import worker
from conftest import ROOT, Tiny, n_positions
from toys import CFG, draw_examples, flags, toy

from seqmodels import Batch
from seqmodels.comparison import compare
from seqmodels.data.batches import collate
from seqmodels.training import loop
from seqmodels.training.trainer import Trainer, take_rows
from seqmodels.utils.world import World
from tools.survival import results


def torchrun(n: int, *flags: str) -> list[str]:
    """Return the beginning of a command on n processes."""
    program = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*program, f"--nproc-per-node={n}", *flags]


def environment() -> dict[str, str]:
    """Return the environment of the processes: a thread each."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}


def run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command with a time limit: processes can wait for others."""
    pipes: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 600}
    return subprocess.run(argv, cwd=ROOT, env=environment(), check=False, **pipes)


@pytest.fixture(scope="module")
def on_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of everything that the worker computes, on two processes."""
    out = tmp_path_factory.mktemp("two")
    run_worker(out, "train", "step_without_memory")
    return out


def run_worker(out: Path, *names: str) -> None:
    """Run the worker on two processes."""
    process = run([*torchrun(2), "tests/worker.py", str(out), *names])
    assert process.returncode == 0, process.stderr


def gradient(trainer: Trainer, batch: Batch) -> torch.Tensor:
    """Return the gradient of the mean loss as one vector."""
    loop.backward(trainer, trainer.prepare(batch))
    return torch.cat([p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None])


def test_shares_add_up_to_the_batch(name: str, fresh: Tiny) -> None:
    """Keeps out the mean of the shares' means, and lost rows: 3, 2, 2, 2; 1 or 0."""
    model = fresh(name, **n_positions(name, 64))
    batch, second = collate(draw_examples(9, 20)), collate(draw_examples(9, 20)[1::4])
    assert all(map(torch.equal, take_rows(batch, 1, 4), second))  # without columns of pads alone
    whole, *shared = (gradient(Trainer(model, replace(CFG, shards=n)), batch) for n in (1, 4, 12))
    assert all((share - whole).norm() < 1e-6 * whole.norm() for share in shared)


def test_a_share_has_random_numbers_of_its_own(fresh: Tiny, monkeypatch: Any) -> None:
    """Keeps out one dropout for all shares, steps or seeds, and one that depends on the past."""
    draws, loss_of = list[float](), loop.loss_of

    def draw(*given: Any) -> torch.Tensor:
        draws.append(float(torch.rand(())))
        return loss_of(*given)

    monkeypatch.setattr(loop, "loss_of", draw)
    for seed, step in ((1, 0), (1, 0), (1, 1), (2, 0)):
        torch.manual_seed(len(draws))
        trainer = Trainer(fresh("gpt"), replace(CFG, seed=seed, shards=2))
        trainer.progress.step = step
        loop.backward(trainer, trainer.prepare(collate(draw_examples(8, 9))))
    assert draws[:2] == draws[2:4]
    assert len(set(draws)) == 6


def test_processes_have_equal_shares() -> None:
    """Keeps out a share that nobody trains on, and a wait for a batch that another lacks."""
    World(0, 2).check_shards(4)
    with pytest.raises(ValueError, match="--shards 3 is not a multiple of the 2 processes"):
        World(0, 2).check_shards(3)
    assert [*World(1, 3).my_shard(range(8))] == [1, 4, 7]
    for n in range(7):
        shares = [World(rank, 3).round_robin(range(n)) for rank in range(3)]
        assert len({len(items) for items in shares}) == 1
        assert {i for items in shares for i in items} == {*range(n)}


def test_processes_do_not_change_the_result(on_two: Path) -> None:
    """Keeps out any dependence on how many processes share the work, in float64, 20 steps."""
    whole, shared = worker.train(1), worker.train(4)
    first, last = (torch.load(on_two / f"train-{rank}.pt") for rank in (0, 1))
    assert first.keys() == last.keys() == whole.keys()
    for name, tensor in whole.items():
        assert torch.equal(first[name], last[name])
        for other in (shared, first):
            torch.testing.assert_close(other[name], tensor, rtol=0, atol=1e-9)
    assert not torch.equal(first["losses"], whole["losses"])  # in another order of sums


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_two_processes_give_the_same_files(tmp_path: Path, tmp_path_factory: Any) -> None:
    """Keeps out a bit that differs, in float32 with dropout, and shares in some runs alone."""
    worker.compare_toys(tmp_path, shards=2)
    on_two = tmp_path_factory.mktemp("compared")
    run_worker(on_two, "compare")
    assert results(on_two) == results(tmp_path)
    record = json.loads((on_two / "gpt-seed1.json").read_text())
    assert record["provenance"]["processes"] == record["train_config"]["shards"] == 2
    for shards in (1, 4):
        with pytest.raises(ValueError, match=f"shards was 2, is {shards}"):
            compare.compare(toy(), flags(tmp_path, models=["rnn_encdec"], shards=shards))


def test_lack_of_memory_is_shared(on_two: Path) -> None:
    """Keeps out pieces in one process alone, and a gradient without what did not fit."""
    alone = worker.step_without_memory()
    first, second = (torch.load(on_two / f"step_without_memory-{rank}.pt") for rank in (0, 1))
    assert int(first["n_parts"]) == 2
    for key, tensor in first.items():
        assert torch.equal(tensor, second[key])
        torch.testing.assert_close(tensor, alone[key], rtol=0, atol=1e-9)


@pytest.mark.slow
def test_an_error_is_printed_once(tmp_path: Path) -> None:
    """Keeps out as many messages as processes, and one that waits for one that has ended."""
    (tmp_path / "gpt-seed1.json").write_text("{")
    process = run([*torchrun(2), "tests/worker.py", str(tmp_path), "compare"])
    assert process.returncode == 1
    assert process.stderr.count("gpt-seed1.json") == 1, process.stderr
    assert "worker: " in process.stderr
    assert "(process 1)" not in process.stderr


@pytest.mark.slow
def test_a_killed_worker_leaves_no_trace(tmp_path: Path) -> None:
    """Keeps out an update that is lost or taken twice where torchrun starts the processes anew."""
    argv = [
        "-m", "tasks.translation", "--size", "smoke", "--device", "cpu", "--precision", "float32",
        "--shards", "2", "--models", "gpt", "--tokens", "12_000", "--checkpoint-every", "0.2",
    ]  # fmt: skip
    out, whole = tmp_path / "killed", tmp_path / "whole"
    process = run([sys.executable, *argv, "--out", str(whole)])
    assert process.returncode == 0, process.stderr
    command = [*torchrun(2, "--max-restarts=3"), *argv, "--out", str(out)]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE) as program:
        while not list(out.glob("*.checkpoint-*.safetensors")):
            assert program.poll() is None
            time.sleep(0.01)
        workers = psutil.Process(program.pid).children()
        next(w for w in workers if "tasks.translation" in w.cmdline()).kill()
        program.communicate(timeout=300)
    assert program.returncode == 0
    assert results(out) == results(whole)
    events = json.loads((out / "gpt-seed1.json").read_text())["events"]
    assert "resumed" in [event["kind"] for event in events]

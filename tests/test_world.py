"""One model on several processes: the same result as on one, and nothing lost with a process."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import sharded
import torch
from conftest import Tiny, n_positions
from toy_task import flags, toy
from toy_training import CFG, draw_examples

from seqmodels import MODELS, Batch
from seqmodels.comparison import compare
from seqmodels.data.batches import collate
from seqmodels.training import loop
from seqmodels.training.trainer import Trainer, take_rows
from seqmodels.utils.world import World
from tools.survival import results

ROOT = Path(__file__).parents[1]


def torchrun(n: int, *flags: str) -> list[str]:
    """Return the beginning of a command on n processes."""
    program = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*program, f"--nproc-per-node={n}", *flags]


def environment() -> dict[str, str]:
    """Return the environment of the processes: a thread each."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}


def run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, but no longer than any takes: processes can wait for others."""
    how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 900}
    return subprocess.run(argv, cwd=ROOT, env=environment(), check=False, **how)


@pytest.fixture(scope="module")
def on_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of everything that sharded.py does, on two processes."""
    return started(2, tmp_path_factory.mktemp("two"), "trained", "short_of_memory", "compared")


def started(n: int, out: Path, *names: str) -> Path:
    """Do something of sharded.py on n processes; return the folder."""
    out.mkdir(exist_ok=True)
    begin = torchrun(n) if n > 1 else [sys.executable]
    done = run([*begin, "tests/sharded.py", str(out), *names])
    assert done.returncode == 0, done.stderr
    return out


# ------------------------------------------------------------------------------------- Gradients


def gradient(trainer: Trainer, batch: Batch) -> torch.Tensor:
    """Return the gradient of the mean loss as one vector."""
    loop.backward(trainer, trainer.prepare(batch))
    return torch.cat([p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None])


@pytest.mark.parametrize("shards", [2, 4])
def test_shares_add_up_to_the_batch(
    name: str, shards: int, fresh: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out the mean of the shares' means, which this test can tell from the batch's."""
    model = fresh(name, **n_positions(name, 64))
    batch, trainer = collate(draw_examples(13, 20)), Trainer(model, replace(CFG))
    whole = gradient(trainer, batch)
    object.__setattr__(trainer.cfg, "shards", shards)
    assert (gradient(trainer, batch) - whole).norm() < 1e-6 * whole.norm()
    n_targets, split = trainer.prepare(batch).n_targets, loop.split
    monkeypatch.setattr(
        loop, "split", lambda *given: ((piece, n_targets / shards) for piece, _ in split(*given))
    )
    assert (gradient(trainer, batch) - whole).norm() > 1e-4 * whole.norm()


def test_every_row_is_in_one_share() -> None:
    """Keeps out a row that is lost, or a column that is."""
    examples = draw_examples(13, 20)
    for shards in (2, 4, 20):
        for i in range(shards):
            part = take_rows(collate(examples), i, shards)
            if mine := examples[i::shards]:
                for found, true in zip(part, collate(mine), strict=True):
                    assert torch.equal(found, true)
            else:
                assert not len(part.src)


def test_a_share_has_numbers_of_its_own(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out one dropout for all shares or steps, and one that depends on what came before."""
    trainer = Trainer(fresh("gpt", dropout=0.5).train(), replace(CFG))
    object.__setattr__(trainer.cfg, "shards", 2)
    batch, drawn, loss_of = (
        trainer.prepare(collate(draw_examples(8, 9))),
        list[float](),
        loop.loss_of,
    )

    def draw(*given: Any) -> torch.Tensor:
        drawn.append(float(torch.rand(())))
        return loss_of(*given)

    monkeypatch.setattr(loop, "loss_of", draw)
    for step in (0, 0, 1):
        torch.manual_seed(len(drawn))
        trainer.progress.step = step
        loop.backward(trainer, batch)
    assert drawn[:2] == drawn[2:4]
    assert len(set(drawn)) == 4


# -------------------------------------------------------------------------------- Some processes


def test_alone_nothing_is_asked() -> None:
    """Keeps out a process that waits for others where there are none."""
    one = World()
    assert one.is_first
    assert one.my_shard([1, 2, 3]) == [1, 2, 3]
    assert [one.is_any(is_true) for is_true in (False, True)] == [False, True]
    assert one.on_rank0(lambda: 3) == one.broadcast_from_rank0(lambda: 3) == 3
    assert one.gather({1: "a"}) == {1: "a"}
    assert [*World(1, 3).my_shard(range(8))] == [1, 4, 7]


def test_shares_are_dealt_evenly() -> None:
    """Keeps out a share that no process trains on."""
    World().check_shards(3)
    World(0, 2).check_shards(4)
    with pytest.raises(ValueError, match="--shards 3 is not a multiple of the 2 processes"):
        World(0, 2).check_shards(3)


def test_each_process_gets_as_many() -> None:
    """Keeps out a process that waits for a batch that another one does not have."""
    for n in range(7):
        dealt = [World(rank, 3).round_robin(range(n)) for rank in range(3)]
        assert len({len(items) for items in dealt}) == 1
        assert {i for items in dealt for i in items} == {*range(n)}


def test_processes_do_not_change_the_result(on_two: Path, tmp_path: Path) -> None:
    """Keeps out any dependence on how many processes share the work, in float64, 30 steps."""
    one, four = tmp_path / "1", tmp_path / "4"
    started(1, one, "trained", "unsharded")
    started(4, four, "trained")
    whole = torch.load(one / "unsharded-0.pt")
    for folder in (one, on_two, four):
        found = torch.load(folder / "trained-0.pt")
        assert found.keys() == whole.keys()
        for name, tensor in whole.items():
            torch.testing.assert_close(found[name], tensor, rtol=0, atol=1e-9)
        assert not torch.equal(found["gpt/losses"], whole["gpt/losses"])  # shared all the same
    last = torch.load(four / "trained-3.pt")
    assert all(torch.equal(found[name], tensor) for name, tensor in last.items())


def test_two_processes_give_the_same_files(on_two: Path, tmp_path: Path, undrawn: None) -> None:
    """Keeps out a bit that differs: weights, curves and hypotheses, in float32, with dropout."""
    for shards in (1, 2):
        (tmp_path / str(shards)).mkdir()
        sharded.compared(tmp_path / str(shards), shards)
    whole, one = results(tmp_path / "1"), results(tmp_path / "2")
    assert len(one) == 4 * len(MODELS)
    assert results(on_two) == one
    for name in MODELS:
        weights = f"{name}-seed1.safetensors"
        assert whole[weights] != one[weights]
    record = json.loads((on_two / "gpt-seed1.json").read_text())
    assert record["provenance"]["processes"] == record["train_config"]["shards"] == 2


def test_shards_are_a_setting(tmp_path: Path, undrawn: None) -> None:
    """Keeps out a folder in which some runs were trained in shares and some were not."""
    compare.compare(toy(), flags(tmp_path, models=["gpt"], shards=2))
    for shards in (1, 4):
        with pytest.raises(ValueError, match=f"shards was 2, is {shards}"):
            compare.compare(toy(), flags(tmp_path, models=["bahdanau"], shards=shards))


def test_lack_of_memory_is_shared(on_two: Path) -> None:
    """Keeps out pieces in one process alone, and a gradient without what did not fit."""
    one = sharded.short_of_memory()
    first, second = (torch.load(on_two / f"short_of_memory-{rank}.pt") for rank in (0, 1))
    assert int(first["n_parts"]) == 2
    for key, tensor in first.items():
        assert torch.equal(tensor, second[key])
        torch.testing.assert_close(tensor, one[key], rtol=0, atol=1e-9)


def test_an_error_is_said_once(tmp_path: Path) -> None:
    """Keeps out as many messages as processes, and one that waits for one that has ended."""
    (tmp_path / "gpt-seed1.json").write_text("{")
    done = run([*torchrun(2), "tests/sharded.py", str(tmp_path), "compared"])
    assert done.returncode == 1
    assert done.stderr.count("gpt-seed1.json") == 1, done.stderr
    assert "sharded: " in done.stderr
    assert "(process 1)" not in done.stderr


COMMAND = [
    "-m", "tasks.translation", "--size", "smoke", "--device", "cpu", "--precision", "float32",
    "--shards", "2", "--models", "gpt", "--tokens", "40_000", "--checkpoint-every", "0.2", "--out",
]  # fmt: skip


def kill_a_worker(program: Any, out: Path, rng: random.Random) -> bool:
    """Kill one of the processes after a checkpoint; return False if the program ended first."""
    before = {path.name for path in out.glob("*.checkpoint-*")}
    while program.poll() is None:
        if {path.name for path in out.glob("*.checkpoint-*")} - before:
            time.sleep(rng.uniform(0, 0.7))
            workers = []
            with suppress(psutil.NoSuchProcess):  # or a zombie, as torchrun starts another
                workers = [
                    child for child in psutil.Process(program.pid).children()
                    if "tasks.translation" in child.cmdline()
                ]  # fmt: skip
            if len(workers) == 2:
                workers[rng.randrange(2)].send_signal(signal.SIGKILL)
                return True
        time.sleep(0.01)
    return False


@pytest.mark.slow
def test_killed_workers_leave_no_trace(tmp_path: Path) -> None:
    """Keeps out an update that is lost or taken twice where torchrun starts the processes anew."""
    done = run([sys.executable, *COMMAND, str(tmp_path / "whole")])
    assert done.returncode == 0, done.stderr
    out, rng, n_kills = tmp_path / "killed", random.Random(1), 0
    while n_kills < 10:
        shutil.rmtree(out, ignore_errors=True)
        argv = [*torchrun(2, "--max-restarts=20"), *COMMAND, str(out)]
        with subprocess.Popen(
            argv, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as program:
            n_here = 0
            while n_here < 5 and kill_a_worker(program, out, rng):
                n_here += 1
            assert program.wait() == 0
        assert n_here, "the training ended before a kill"
        n_kills += n_here
        assert results(out) == results(tmp_path / "whole")
        events = json.loads((out / "gpt-seed1.json").read_text())["events"]
        assert [event["kind"] for event in events].count("resumed") >= 1

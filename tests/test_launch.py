"""Runs that an executor carries out: the same files, whatever is lost on the way; locks; status."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from checks import check_one_line
from conftest import Call
from toy_task import flags, results, toy

from seqmodels.cli.status import table
from seqmodels.comparison import compare, launch, launchers, runs
from seqmodels.records import record
from seqmodels.training import loop
from seqmodels.training.trainer import Trainer
from seqmodels.utils import files, progress
from tasks.recall import __main__ as recall

PAIR = ["rnn_encdec", "gpt"]
NAMES = [f"{name}-seed1" for name in PAIR]


class InTurn(Executor):
    """Carries out tasks when they are submitted; the first ones are lost after some steps."""

    def __init__(self, n_lost: int = 0, lose: Callable[[], None] = lambda: None):
        self.n_lost, self.lose, self.n = n_lost, lose, 0

    def submit(self, task: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return a future that is done."""
        future: Future[Any] = Future()
        self.n += 1
        if self.n <= self.n_lost:
            self.lose()
            future.set_exception(launch.RunLostError("lost with its machine"))
        else:
            future.set_result(task(*args, **kwargs))
        return future


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what two models make of the toy task on this machine."""
    out = tmp_path_factory.mktemp("local")
    compare.compare(toy(), flags(out, models=PAIR))
    return results(out)


@pytest.mark.usefixtures("undrawn")
def test_any_executor_makes_the_same(local: dict[str, Any], tmp_path: Path) -> None:
    """Keeps out runs that disturb each other's random numbers, and files left in the folder."""
    with ThreadPoolExecutor(2) as pool:
        compare.compare(toy(), flags(tmp_path, models=PAIR), pool)
    assert results(tmp_path) == local
    hidden = [path.name for path in tmp_path.glob(".*")]
    assert hidden == []


@pytest.mark.usefixtures("undrawn")
def test_what_is_lost_is_taken_up_again(
    local: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out a comparison that ends with the first machine that does."""
    executor = InTurn(3)
    compare.compare(toy(), flags(tmp_path, models=PAIR), executor)
    assert executor.n == 2 + 3
    assert results(tmp_path) == local
    assert capsys.readouterr().out.count("lost with its machine; it is submitted again") == 3


@pytest.mark.usefixtures("undrawn")
def test_runs_at_once_share_the_threads(
    local: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out processes that leave cores idle, or compete for them."""
    monkeypatch.setattr(launch.torch, "get_num_threads", lambda: 4)
    compare.compare(toy(), flags(tmp_path, models=PAIR))
    for name in NAMES:
        assert record.load(tmp_path / f"{name}.json")["provenance"]["threads"] == 2
    assert results(tmp_path).keys() == local.keys()


def test_a_run_is_not_taken_up_without_end(tmp_path: Path) -> None:
    """Keeps out a run that kills every machine in turn."""
    executor = InTurn(100)
    with pytest.raises(ValueError, match="gpt, seed 1: lost with its machine, for the 6th time"):
        compare.compare(toy(), flags(tmp_path, models=["gpt"]), executor)
    assert executor.n == launch.MAX_LOSSES + 1


@pytest.mark.usefixtures("undrawn")
def test_a_failure_elsewhere_costs_no_other_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out an error that ends the comparison, or that nobody is told of."""
    step = loop.training_step

    def fail(self: Trainer, *given: Any) -> None:
        if type(self.model).__module__.endswith("gpt"):
            raise ValueError("the loss is not finite")
        step(self, *given)

    monkeypatch.setattr(loop, "training_step", fail)
    with pytest.raises(ValueError, match=r"^gpt, seed 1: the loss is not finite$"):
        compare.compare(toy(), flags(tmp_path, models=PAIR), InTurn())
    assert (tmp_path / "rnn_encdec-seed1.json").exists()
    assert (known := progress.read_status(tmp_path / "gpt-seed1.json"))
    assert (known.state, known.note) == ("failed", "the loss is not finite")
    assert "failed" in table(tmp_path)
    assert "the loss is not finite" in table(tmp_path)


def test_a_folder_that_is_not_shared(tmp_path: Path) -> None:
    """Keeps out a traceback from another machine, and hours of training for no folder."""
    ((run, _),) = compare.plan(tmp_path, "cpu", toy(), flags(tmp_path, models=["gpt"]))
    moved = run._replace(path=tmp_path / "missing" / "gpt-seed1.json")
    done, why = launch.elsewhere(moved, 1)
    assert done is None
    assert f"does not exist for {files.owner()}; --out must be on a disk" in why
    done, why = launch.elsewhere(run._replace(device="cuda"), 1)
    assert done is None
    assert why == f"there is no CUDA device for {files.owner()}"


# -------------------------------------------------------------------------------------------- Locks


def test_a_run_has_one_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a command that writes into a run which another machine still trains.

    What that one is writing is not swept either.
    """
    monkeypatch.setattr(files, "GRACE_S", 0.1)
    held = files.Lock(tmp_path, ".gpt-seed1.lock")
    part = tmp_path / ".gpt-seed1.json.0123abcd.part"
    part.write_text("{")
    with pytest.raises(ValueError, match=r"gpt-seed1 is in use by process \d+ on"):
        compare.compare(toy(), flags(tmp_path, models=["rnn_encdec"]))
    assert part.exists()
    held.release()
    assert not list(tmp_path.glob("*.lock"))


@pytest.mark.usefixtures("undrawn")
def test_a_run_is_locked_by_whoever_trains_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a lock that is never taken, or released before the record is written."""
    seen, save = [], runs.record.save

    def watch(path: Path, *given: Any) -> None:
        seen.append(files.is_held(path.parent, f".{path.stem}{files.LOCK}"))
        save(path, *given)

    monkeypatch.setattr(record, "save", watch)
    compare.compare(toy(), flags(tmp_path, models=["gpt"]), InTurn())
    assert seen == [True]


@pytest.mark.usefixtures("undrawn")
def test_what_another_has_recorded_is_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a second training after the lock of a machine that was only cut off."""
    ((run, _),) = compare.plan(tmp_path, "cpu", toy(), flags(tmp_path, models=["gpt"]))
    made = runs.run_one(run)
    monkeypatch.setattr(runs, "train_run", lambda *_: pytest.fail("trained again"))
    assert runs.run_one(run)["weights_sha256"] == made["weights_sha256"]


def test_a_lock_passes_to_who_waits_for_it(tmp_path: Path) -> None:
    """Keeps out two owners, one of whom has locked a file that its former owner deleted."""
    first = files.Lock(tmp_path)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(files.Lock, tmp_path, patience_s=60.0)
        time.sleep(0.2)
        assert not waiting.done()
        first.release()
        second = waiting.result()
        assert files.is_held(tmp_path, files.LOCK)
        thread.submit(second.release).result()
    assert not files.is_held(tmp_path, files.LOCK)
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------- Status


@pytest.mark.usefixtures("undrawn")
def test_status_while_runs_are_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a state that nobody would know a run by, or one of the run before."""
    monkeypatch.setattr(progress, "WRITE_EVERY_S", 0.0)
    seen, n_tokens, step = [], list[int](), loop.training_step

    def watch(self: Trainer, *given: Any) -> None:
        n_tokens.append(self.progress.tokens)  # as reported before the step
        step(self, *given)
        seen.append(table(tmp_path))

    monkeypatch.setattr(loop, "training_step", watch)
    compare.compare(toy(), flags(tmp_path, models=PAIR))
    head, first, second, _, counts = seen[2].splitlines()
    assert head.split() == ["run", "state", "tokens", "loss", "or", "score", "where"]
    assert first == "gpt, seed 1         waiting   0 of 200"
    assert second.startswith("rnn_encdec, seed 1  training  ")
    assert f"  {n_tokens[2]:,} of 200 " in second
    assert n_tokens[2] > 0
    assert "train " in second
    assert f"process {os.getpid()} on " in second
    assert counts == "1 waiting, 1 running"
    assert "recorded  " in seen[-1]
    after = table(tmp_path).splitlines()
    assert after[-1] == "2 recorded"
    made = record.load(tmp_path / "gpt-seed1.json")
    accuracy = made["tests"][0]["overall"]["accuracy"]["value"]
    assert after[1].split()[3:5] == ["recorded", f"{made['curve'][-1]['tokens']:,}"]
    assert after[1].endswith(f"  symbol accuracy {accuracy:.1f} %")


def test_status_of_what_was_stopped_or_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a run that seems to be trained although its process has ended."""
    step = loop.training_step

    def stop(self: Trainer, *given: Any) -> None:
        step(self, *given)
        if self.progress.step == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "training_step", stop)
    with pytest.raises(KeyboardInterrupt):
        compare.compare(toy(), flags(tmp_path, models=["gpt"]))
    assert progress.read_status(tmp_path / "gpt-seed1.json") is None
    assert table(tmp_path).splitlines()[-1] == "1 stopped"
    assert " of 200" in table(tmp_path)
    left = progress.StatusFile(tmp_path / "gpt-seed1.json", "gpt, seed 1", 200)
    left.write(state="running", phase="training")  # as a kill leaves it
    assert table(tmp_path).splitlines()[-1] == "1 stopped"
    left.write(state="waiting")
    assert table(tmp_path).splitlines()[-1] == "1 stopped"


def test_a_status_that_is_none(tmp_path: Path) -> None:
    """Keeps out a traceback at what a stranger has put there, and at an empty folder."""
    with pytest.raises(ValueError, match="has no runs; name the --out folder"):
        table(tmp_path)
    path = progress.status_path(tmp_path / "gpt-seed1.json")
    for content in ("{", "[]", '{"run": 1}', '{"run": "x", "state": "flying"}'):
        path.write_text(content)
        assert progress.read_status(tmp_path / "gpt-seed1.json") is None
        assert table(tmp_path).splitlines()[-1] == "1 stopped"


# -------------------------------------------------------------------------------------------- Flags


@pytest.mark.parametrize(("name", "package"), [("ray", "ray"), ("slurm", "submitit")])
def test_a_missing_extra_is_named(
    name: str, package: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a traceback where the extra is not installed."""
    monkeypatch.setitem(sys.modules, package, None)
    result = call(recall, "--size", "smoke", "--launcher", name, "--out", tmp_path)
    check_one_line(result, f"{package} is not installed; pip install {package}")


def test_an_address_needs_ray(call: Call) -> None:
    """Keeps out a flag that is silently ignored."""
    check_one_line(call(recall, "--address", "head:6379"), "--address needs --launcher ray")


@pytest.mark.parametrize(
    ("choice", "n_gpus", "device"),
    [("auto", 2, "cuda"), ("auto", 0, "cpu"), ("cpu", 2, "cpu"), ("cuda", 0, "cuda")],
)
def test_what_is_asked_of_ray(
    choice: str, n_gpus: int, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a cluster that is not the one named, and runs that share a core or a GPU."""
    ray = mock.MagicMock()
    ray.is_initialized.return_value = False
    ray.cluster_resources.return_value = {"CPU": 8, "GPU": n_gpus}
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    args = flags(tmp_path, device=choice, launcher="ray", address="head:6379")
    with launchers.launched(args) as launcher:
        assert launcher is not None
        assert launcher.device == device
        launcher.submit(print)
    assert ray.init.call_args.args == ("head:6379",)
    asked = ray.remote.return_value.options.call_args.kwargs
    assert asked == {"max_retries": 0, "num_cpus": 3, "num_gpus": int(device == "cuda")}


@pytest.mark.parametrize(("choice", "n_gpus"), [("auto", 0), ("cpu", 0), ("cuda", 1)])
def test_what_is_asked_of_slurm(
    choice: str, n_gpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out jobs without a GPU or a core of their own, and job files among the records."""
    submitit = mock.MagicMock()
    monkeypatch.setitem(sys.modules, "submitit", submitit)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path))
    launcher = launchers.SlurmLauncher(choice)
    launcher.shutdown()
    assert submitit.AutoExecutor.call_args.args == (tmp_path / "jobs", "slurm")
    asked = submitit.AutoExecutor.return_value.update_parameters.call_args.kwargs
    assert (asked["cpus_per_task"], asked["gpus_per_node"]) == (3, n_gpus)


def test_a_dry_run_for_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keeps out a forecast for the cores of the machine on which the command was typed."""
    compare.compare(toy(), flags(tmp_path, models=PAIR, launcher="ray", dry_run=True))
    assert "To train: 2 runs, one after the other, " in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_a_cluster_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a precision that follows from the machine on which the command was typed."""
    monkeypatch.setattr(compare, "fastest_precision", lambda device: pytest.fail("measured"))
    for device, precision in (("cpu", "float32"), ("cuda", "bfloat16")):
        args = flags(tmp_path, models=["gpt"], precision="auto", launcher="ray")
        ((run, _),) = compare.plan(tmp_path, device, toy(), args)
        assert run.cfg.precision == precision
